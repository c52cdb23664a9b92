/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a program at its n-th call of libpq, librdkafka, fork, exec or a local
 * socket. Loaded in front of the libraries (LD_PRELOAD) by the crash harness;
 * the programs are the ones that are shipped.
 *
 *   ACTIONIST_CRASH_PROGRAM  whose calls count: actionist-worker, keeper (what
 *                            a worker forks), spawn (what a keeper forks, until
 *                            its exec), actionist-scheduler, ...
 *   ACTIONIST_CRASH_AT       the call to die at, counted from the start
 *   ACTIONIST_CRASH_PAGE     a file of sizeof(struct page) bytes, shared with
 *                            the harness, which arms it, says where to die,
 *                            and reads from it how far the process came
 *
 * A call counts just before it is made; what sends counts once more when it
 * has returned (".done"); what polls counts once it has found something, so
 * that idling does not count. Calls of libpq are told apart by the statement
 * that their connection was given last. Thread-safe; threads share one count.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Every place that is counted: enumerator and name for the report. */
#define SITES(X)                                                               \
    X(PQconnectdbParams, "PQconnectdbParams")                                  \
    X(PQconnectStartParams, "PQconnectStartParams")                            \
    X(PQconnectPoll, "PQconnectPoll")                                          \
    X(PQexecParams, "PQexecParams")                                            \
    X(PQexecParams_done, "PQexecParams.done")                                  \
    X(PQsendPrepare, "PQsendPrepare")                                          \
    X(PQsendQueryParams, "PQsendQueryParams")                                  \
    X(PQsendQueryPrepared, "PQsendQueryPrepared")                              \
    X(PQpipelineSync, "PQpipelineSync")                                        \
    X(PQflush, "PQflush")                                                      \
    X(PQflush_done, "PQflush.done")                                            \
    X(PQconsumeInput, "PQconsumeInput")                                        \
    X(PQgetResult_done, "PQgetResult.done")                                    \
    X(PQfinish, "PQfinish")                                                    \
    X(rd_kafka_new, "rd_kafka_new")                                            \
    X(rd_kafka_subscribe, "rd_kafka_subscribe")                                \
    X(rd_kafka_assign, "rd_kafka_assign")                                      \
    X(rd_kafka_consumer_poll_done, "rd_kafka_consumer_poll.done")              \
    X(rd_kafka_queue_poll_done, "rd_kafka_queue_poll.done")                    \
    X(rd_kafka_poll_done, "rd_kafka_poll.done")                                \
    X(rd_kafka_produceva, "rd_kafka_produceva")                                \
    X(rd_kafka_offsets_store, "rd_kafka_offsets_store")                        \
    X(rd_kafka_offsets_store_done, "rd_kafka_offsets_store.done")              \
    X(rd_kafka_commit_queue, "rd_kafka_commit_queue")                          \
    X(rd_kafka_pause_partitions, "rd_kafka_pause_partitions")                  \
    X(rd_kafka_resume_partitions, "rd_kafka_resume_partitions")                \
    X(rd_kafka_committed, "rd_kafka_committed")                                \
    X(rd_kafka_metadata, "rd_kafka_metadata")                                  \
    X(rd_kafka_query_watermark_offsets, "rd_kafka_query_watermark_offsets")    \
    X(rd_kafka_init_transactions, "rd_kafka_init_transactions")                \
    X(rd_kafka_init_transactions_done, "rd_kafka_init_transactions.done")      \
    X(rd_kafka_begin_transaction, "rd_kafka_begin_transaction")                \
    X(rd_kafka_send_offsets_to_transaction, "rd_kafka_send_offsets")           \
    X(rd_kafka_send_offsets_done, "rd_kafka_send_offsets.done")                \
    X(rd_kafka_commit_transaction, "rd_kafka_commit_transaction")              \
    X(rd_kafka_commit_transaction_done, "rd_kafka_commit_transaction.done")    \
    X(rd_kafka_destroy, "rd_kafka_destroy")                                    \
    X(rd_kafka_destroy_flags, "rd_kafka_destroy_flags")                        \
    X(fork, "fork")                                                            \
    X(fork_done, "fork.done")                                                  \
    X(execveat, "execveat")                                                    \
    X(send, "send")                                                            \
    X(send_done, "send.done")                                                  \
    X(sendmsg, "sendmsg")                                                      \
    X(sendmsg_done, "sendmsg.done")                                            \
    X(recv_done, "recv.done")                                                  \
    X(recvmsg_done, "recvmsg.done")

enum site {
#define SITE(id, name) SITE_##id,
    SITES(SITE)
#undef SITE
        SITE_COUNT
};

enum {
    LABEL_SIZE = 40,
    NAME_SIZE = 80,
    MAX_PLACES = 256,
    MAX_TRACE = 1 << 16,
    MAX_CONNS = 32,
};

/* Shared with tests/fault/page.py. Outlives the process that is killed. A
 * place is a site with the statement it was about, if any. */
struct page {
    atomic_uint is_armed;       /* calls count while it is not 0 */
    atomic_uint crash_at;       /* the number of the call to die at; 0: none */
    atomic_uint reached;        /* calls counted so far */
    atomic_uint died;           /* 1 + place of the death; 0: alive */
    atomic_uint place_count;    /* those that were seen */
    char crash_name[NAME_SIZE]; /* count calls of this place; empty: all */
    char names[MAX_PLACES][NAME_SIZE];
    uint32_t counts[MAX_PLACES];
    uint8_t trace[MAX_TRACE]; /* the place of call n, for n up to here */
};

/* A connection of libpq and the statement that it was given last. */
struct conn_label {
    const PGconn *conn;
    char text[LABEL_SIZE];
};

/* What a process is decides whether its calls count. */
enum role { ROLE_OTHER, ROLE_PROGRAM, ROLE_WORKER, ROLE_KEEPER, ROLE_SPAWN };

static struct page *page;
static struct page own_page; /* when nobody shares one with us */
static enum role role;
static bool is_target;
static char program[64]; /* ACTIONIST_CRASH_PROGRAM */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* page and labels */
static struct conn_label labels[MAX_CONNS];

static const char *const site_names[SITE_COUNT] = {
#define NAME(id, name) [SITE_##id] = (name),
    SITES(NAME)
#undef NAME
};

static void set_role(enum role now, const char *name)
{
    role = now;
    is_target = strcmp(program, name) == 0;
}

static void map_page(const char *path)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    void *room = fd < 0 ? MAP_FAILED
                        : mmap(NULL, sizeof(struct page),
                              PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (room == MAP_FAILED) {
        (void)fprintf(stderr, "libactionist-crash: %s: %s\n", path,
            strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
        _exit(1);
    }
    (void)close(fd);
    page = room;
}

__attribute__((constructor)) static void start(void)
{
    const char *wanted = getenv("ACTIONIST_CRASH_PROGRAM");
    const char *at = getenv("ACTIONIST_CRASH_AT");
    const char *path = getenv("ACTIONIST_CRASH_PAGE");
    if (wanted == NULL) {
        return;
    }
    page = &own_page;
    if (path != NULL) {
        map_page(path);
    }
    if (at != NULL) {
        atomic_store(&page->crash_at, (unsigned)strtoul(at, NULL, 10));
        atomic_store(&page->is_armed, 1);
    }
    (void)snprintf(program, sizeof(program), "%s", wanted);
    const char *self = program_invocation_short_name;
    set_role(strcmp(self, "actionist-worker") == 0 ? ROLE_WORKER : ROLE_PROGRAM,
        self);
}

/* The index of a name, new or known; the last one stands for all that have
 * no room. Under the lock. */
static unsigned place_find(const char *name)
{
    const unsigned count = atomic_load(&page->place_count);
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(page->names[i], name) == 0) {
            return i;
        }
    }
    if (count == MAX_PLACES) {
        return MAX_PLACES - 1;
    }
    (void)snprintf(page->names[count], NAME_SIZE, "%s", name);
    atomic_store(&page->place_count, count + 1);
    return count;
}

/* Counts one call; true if it is the one to die at. Under the lock. */
static bool count_call(unsigned place)
{
    const unsigned number = atomic_fetch_add(&page->reached, 1) + 1;
    const unsigned of_place = ++page->counts[place];
    if (number <= MAX_TRACE) {
        page->trace[number - 1] = (uint8_t)place;
    }
    const unsigned wanted = atomic_load(&page->crash_at);
    if (page->crash_name[0] == '\0') {
        return number == wanted;
    }
    return of_place == wanted &&
           strcmp(page->names[place], page->crash_name) == 0;
}

/* One call, and the end of the process if it is the one. Keeps errno. */
static void pass_about(enum site site, const char *label)
{
    char name[NAME_SIZE];
    if (!is_target || atomic_load(&page->is_armed) == 0) {
        return;
    }
    const int before = errno;
    (void)snprintf(name, sizeof(name), "%s%s%s", site_names[site],
        label[0] == '\0' ? "" : " ", label);
    (void)pthread_mutex_lock(&lock);
    const unsigned place = place_find(name);
    if (count_call(place)) {
        atomic_store(&page->died, place + 1);
        (void)kill(getpid(), SIGKILL);
    }
    (void)pthread_mutex_unlock(&lock);
    errno = before;
}

static void pass(enum site site)
{
    pass_about(site, "");
}

/* The place of a connection in `labels`, or NULL if there is no room. Under
 * the lock. */
static struct conn_label *label_find(const PGconn *conn)
{
    struct conn_label *spare = NULL;
    for (size_t i = 0; i < MAX_CONNS; i++) {
        if (labels[i].conn == conn) {
            return &labels[i];
        }
        if (labels[i].conn == NULL && spare == NULL) {
            spare = &labels[i];
        }
    }
    return spare;
}

/* Notes what a connection is about; NULL forgets the connection. */
static void label_set(const PGconn *conn, const char *text)
{
    (void)pthread_mutex_lock(&lock);
    struct conn_label *label = label_find(conn);
    if (label != NULL) {
        label->conn = text == NULL ? NULL : conn;
        (void)snprintf(label->text, LABEL_SIZE, "%s", text == NULL ? "" : text);
    }
    (void)pthread_mutex_unlock(&lock);
}

static void pass_conn(enum site site, const PGconn *conn)
{
    char text[LABEL_SIZE] = "";
    (void)pthread_mutex_lock(&lock);
    const struct conn_label *label = label_find(conn);
    if (label != NULL && label->conn == conn) {
        (void)snprintf(text, sizeof(text), "%s", label->text);
    }
    (void)pthread_mutex_unlock(&lock);
    pass_about(site, text);
}

static void pass_if(bool is_counted, enum site site)
{
    if (is_counted) {
        pass(site);
    }
}

/* Keeper and runners are at the other end of local sockets; all others are
 * the libraries' own. */
static bool is_local(int fd)
{
    if (!is_target) {
        return false;
    }
    const int before = errno;
    int domain = 0;
    socklen_t size = sizeof(domain);
    const bool is_it =
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
        domain == AF_UNIX;
    errno = before;
    return is_it;
}

/* Puts the address of the real function into a function pointer, since ISO C
 * has no cast for that. */
static void find_real(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        (void)fprintf(stderr, "libactionist-crash: no function %s\n", name);
        _exit(1);
    }
    memcpy(function, &found, sizeof(found));
}

/* The head of each wrapper: `real` is the function that it stands for. */
#define REAL(name)                                                             \
    __typeof__(&(name)) real = NULL;                                           \
    find_real(#name, (void *)&real)

/* NOLINTBEGIN(bugprone-macro-parentheses): types and lists have none */

/* Counts before. */
#define WRAP(type, name, params, args)                                         \
    type name params                                                           \
    {                                                                          \
        REAL(name);                                                            \
        pass(SITE_##name);                                                     \
        return real args;                                                      \
    }

#define WRAP_VOID(name, params, args)                                          \
    void name params                                                           \
    {                                                                          \
        REAL(name);                                                            \
        pass(SITE_##name);                                                     \
        real args;                                                             \
    }

/* Counts before and after. */
#define WRAP_BOTH(type, name, done, params, args)                              \
    type name params                                                           \
    {                                                                          \
        REAL(name);                                                            \
        pass(SITE_##name);                                                     \
        const type result = real args;                                         \
        pass(SITE_##done);                                                     \
        return result;                                                         \
    }

/* Counts after, unless the answer is `nothing`. */
#define WRAP_FOUND(type, name, nothing, params, args)                          \
    type name params                                                           \
    {                                                                          \
        REAL(name);                                                            \
        const type result = real args;                                         \
        pass_if(result != (nothing), SITE_##name##_done);                      \
        return result;                                                         \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

/* clang-format off: a table */

/* -- libpq ----------------------------------------------------------------- */

typedef PGconn *conn_ptr;
typedef PGresult *result_ptr;

WRAP(conn_ptr, PQconnectdbParams,
    (const char *const *names, const char *const *values, int expand),
    (names, values, expand))
WRAP(conn_ptr, PQconnectStartParams,
    (const char *const *names, const char *const *values, int expand),
    (names, values, expand))
WRAP(PostgresPollingStatusType, PQconnectPoll, (PGconn * db), (db))
WRAP(int, PQsendPrepare,
    (PGconn * db, const char *name, const char *text, int count,
        const Oid *types),
    (db, name, text, count, types))
WRAP(int, PQsendQueryParams,
    (PGconn * db, const char *text, int count, const Oid *types,
        const char *const *values, const int *sizes, const int *formats,
        int format),
    (db, text, count, types, values, sizes, formats, format))

/* clang-format on */

/* Told apart by the first words of the statement, which has no name here. */
PGresult *PQexecParams(PGconn *db, const char *text, int count,
    const Oid *types, const char *const *values, const int *sizes,
    const int *formats, int format)
{
    REAL(PQexecParams);
    char label[LABEL_SIZE] = "";
    memcpy(label, text, strnlen(text, LABEL_SIZE - 1));
    pass_about(SITE_PQexecParams, label);
    PGresult *result =
        real(db, text, count, types, values, sizes, formats, format);
    pass_about(SITE_PQexecParams_done, label);
    return result;
}

int PQsendQueryPrepared(PGconn *db, const char *name, int count,
    const char *const *values, const int *sizes, const int *formats, int format)
{
    REAL(PQsendQueryPrepared);
    if (name[0] != '_') {
        label_set(db, name); /* BEGIN and COMMIT say nothing by themselves */
    }
    pass_about(SITE_PQsendQueryPrepared, name);
    return real(db, name, count, values, sizes, formats, format);
}

int PQpipelineSync(PGconn *db)
{
    REAL(PQpipelineSync);
    pass_conn(SITE_PQpipelineSync, db);
    return real(db);
}

int PQflush(PGconn *db)
{
    REAL(PQflush);
    pass_conn(SITE_PQflush, db);
    const int result = real(db);
    pass_conn(SITE_PQflush_done, db);
    return result;
}

int PQconsumeInput(PGconn *db)
{
    REAL(PQconsumeInput);
    pass_conn(SITE_PQconsumeInput, db);
    return real(db);
}

PGresult *PQgetResult(PGconn *db)
{
    REAL(PQgetResult);
    PGresult *result = real(db);
    if (result != NULL) {
        pass_conn(SITE_PQgetResult_done, db);
    }
    return result;
}

void PQfinish(PGconn *db)
{
    REAL(PQfinish);
    pass_conn(SITE_PQfinish, db);
    label_set(db, NULL);
    real(db);
}

/* clang-format off: a table */

/* -- librdkafka ------------------------------------------------------------ */

typedef rd_kafka_t *client_ptr;
typedef rd_kafka_error_t *error_ptr;
typedef rd_kafka_message_t *message_ptr;
typedef rd_kafka_event_t *event_ptr;

WRAP(client_ptr, rd_kafka_new,
    (rd_kafka_type_t type, rd_kafka_conf_t *conf, char *text, size_t size),
    (type, conf, text, size))
WRAP(rd_kafka_resp_err_t, rd_kafka_subscribe,
    (rd_kafka_t * rk, const rd_kafka_topic_partition_list_t *topics),
    (rk, topics))
WRAP(rd_kafka_resp_err_t, rd_kafka_assign,
    (rd_kafka_t * rk, const rd_kafka_topic_partition_list_t *partitions),
    (rk, partitions))
WRAP_FOUND(message_ptr, rd_kafka_consumer_poll, NULL,
    (rd_kafka_t * rk, int timeout_ms), (rk, timeout_ms))
WRAP_FOUND(event_ptr, rd_kafka_queue_poll, NULL,
    (rd_kafka_queue_t * queue, int timeout_ms), (queue, timeout_ms))
WRAP_FOUND(
    int, rd_kafka_poll, 0, (rd_kafka_t * rk, int timeout_ms), (rk, timeout_ms))
WRAP(error_ptr, rd_kafka_produceva,
    (rd_kafka_t * rk, const rd_kafka_vu_t *parts, size_t count),
    (rk, parts, count))
WRAP_BOTH(rd_kafka_resp_err_t, rd_kafka_offsets_store,
    rd_kafka_offsets_store_done,
    (rd_kafka_t * rk, rd_kafka_topic_partition_list_t *offsets), (rk, offsets))
WRAP(rd_kafka_resp_err_t, rd_kafka_commit_queue,
    (rd_kafka_t * rk, const rd_kafka_topic_partition_list_t *offsets,
        rd_kafka_queue_t *queue,
        void (*done)(rd_kafka_t *, rd_kafka_resp_err_t,
            rd_kafka_topic_partition_list_t *, void *),
        void *owner),
    (rk, offsets, queue, done, owner))
WRAP(rd_kafka_resp_err_t, rd_kafka_pause_partitions,
    (rd_kafka_t * rk, rd_kafka_topic_partition_list_t *partitions),
    (rk, partitions))
WRAP(rd_kafka_resp_err_t, rd_kafka_resume_partitions,
    (rd_kafka_t * rk, rd_kafka_topic_partition_list_t *partitions),
    (rk, partitions))
WRAP(rd_kafka_resp_err_t, rd_kafka_committed,
    (rd_kafka_t * rk, rd_kafka_topic_partition_list_t *partitions,
        int timeout_ms),
    (rk, partitions, timeout_ms))
WRAP(rd_kafka_resp_err_t, rd_kafka_metadata,
    (rd_kafka_t * rk, int all, rd_kafka_topic_t *only,
        const struct rd_kafka_metadata **metadata, int timeout_ms),
    (rk, all, only, metadata, timeout_ms))
WRAP(rd_kafka_resp_err_t, rd_kafka_query_watermark_offsets,
    (rd_kafka_t * rk, const char *topic, int32_t partition, int64_t *low,
        int64_t *high, int timeout_ms),
    (rk, topic, partition, low, high, timeout_ms))
WRAP_BOTH(error_ptr, rd_kafka_init_transactions,
    rd_kafka_init_transactions_done, (rd_kafka_t * rk, int timeout_ms),
    (rk, timeout_ms))
WRAP(error_ptr, rd_kafka_begin_transaction, (rd_kafka_t * rk), (rk))
WRAP_BOTH(error_ptr, rd_kafka_send_offsets_to_transaction,
    rd_kafka_send_offsets_done,
    (rd_kafka_t * rk, const rd_kafka_topic_partition_list_t *offsets,
        const rd_kafka_consumer_group_metadata_t *group, int timeout_ms),
    (rk, offsets, group, timeout_ms))
WRAP_BOTH(error_ptr, rd_kafka_commit_transaction,
    rd_kafka_commit_transaction_done, (rd_kafka_t * rk, int timeout_ms),
    (rk, timeout_ms))
WRAP_VOID(rd_kafka_destroy, (rd_kafka_t * rk), (rk))
WRAP_VOID(rd_kafka_destroy_flags, (rd_kafka_t * rk, int flags), (rk, flags))

/* clang-format on */

/* -- processes and local sockets ------------------------------------------- */

static void become_child(void)
{
    if (role == ROLE_WORKER) {
        set_role(ROLE_KEEPER, "keeper");
    } else if (role == ROLE_KEEPER) {
        set_role(ROLE_SPAWN, "spawn");
    } else {
        set_role(ROLE_OTHER, "");
    }
}

pid_t fork(void)
{
    REAL(fork);
    pass(SITE_fork);
    const pid_t child = real();
    if (child == 0) {
        become_child();
    } else {
        pass(SITE_fork_done);
    }
    return child;
}

int execveat(int dir, const char *path, char *const argv[], char *const envp[],
    int flags)
{
    REAL(execveat);
    pass(SITE_execveat);
    return real(dir, path, argv, envp, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    REAL(send);
    const bool is_counted = is_local(fd);
    pass_if(is_counted, SITE_send);
    const ssize_t sent = real(fd, data, size, flags);
    pass_if(is_counted && sent > 0, SITE_send_done);
    return sent;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(sendmsg);
    const bool is_counted = is_local(fd);
    pass_if(is_counted, SITE_sendmsg);
    const ssize_t sent = real(fd, message, flags);
    pass_if(is_counted && sent > 0, SITE_sendmsg_done);
    return sent;
}

ssize_t recv(int fd, void *room, size_t size, int flags)
{
    REAL(recv);
    const ssize_t got = real(fd, room, size, flags);
    pass_if(got > 0 && is_local(fd), SITE_recv_done);
    return got;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    REAL(recvmsg);
    const ssize_t got = real(fd, message, flags);
    pass_if(got > 0 && is_local(fd), SITE_recvmsg_done);
    return got;
}
