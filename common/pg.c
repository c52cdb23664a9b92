/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: off -> connecting -> setup -> up -> off.
 * Callbacks of the owner run only from deliver(), the last thing each entry
 * from the loop does, and from pg_close(); so they may call anything here.
 */
#include "common/pg.h"

#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/log.h"
#include "common/pg_private.h"
#include "common/time.h"

enum {
    BACKOFF_MIN_MS = 100,
    BACKOFF_MAX_MS = 5000,
    DEFAULT_DEADLINE_MS = 10000,
    /* A query's end and the pipeline's end give one NULL each. */
    MAX_EMPTY_RESULTS = 8
};

static void connect_now(void *owner);
static void on_ready(void *owner, int events);

/* -- errors ---------------------------------------------------------------- */

/* libpq's messages have several lines; ours have one. */
static void one_line(const char *text, char *line, size_t size)
{
    size_t len = 0;
    for (; *text != '\0' && len + 1 < size; text++) {
        const char c = *text == '\n' || *text == '\t' ? ' ' : *text;
        if (c == ' ' && (len == 0 || line[len - 1] == ' ')) {
            continue;
        }
        line[len] = c;
        len++;
    }
    while (len > 0 && line[len - 1] == ' ') {
        len--;
    }
    line[len] = '\0';
}

int pg_conn_error(PGconn *conn, struct err *err)
{
    char line[200];
    one_line(PQerrorMessage(conn), line, sizeof(line));
    return err_set(err, ERR_TRANSIENT, "PG_UNREACHABLE", "%s",
        line[0] == '\0' ? "the connection to postgres was lost" : line);
}

int pg_result_error(const PGresult *result, struct err *err)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    char line[200];
    one_line(
        text == NULL ? PQresultErrorMessage(result) : text, line, sizeof(line));
    if (sqlstate == NULL) {
        return err_set(err, ERR_TRANSIENT, "PG_UNREACHABLE", "%s", line);
    }
    return err_set(err, pg_class_of(sqlstate), "PG_ERROR", "%s (SQLSTATE %s)",
        line, sqlstate);
}

/* -- watching -------------------------------------------------------------- */

static void watch(struct pg *pg, int events)
{
    loop_fd_free(pg->watch);
    pg->watch = loop_fd_new(pg->loop, PQsocket(pg->conn), on_ready, pg);
    loop_fd_want(pg->watch, events);
}

void pg_flush(struct pg *pg)
{
    const int rest = PQflush(pg->conn);
    if (rest < 0) {
        struct err err = ERR_INIT;
        (void)pg_conn_error(pg->conn, &err);
        pg_break(pg, &err);
        return;
    }
    loop_fd_want(pg->watch, rest > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

void pg_arm_deadline(struct pg *pg)
{
    if (pg->sent.head == NULL || loop_timer_is_active(pg->deadline)) {
        return;
    }
    const int64_t rest_us = pg->sent.head->deadline_us - now_mono_us();
    loop_timer_start(
        pg->deadline, rest_us <= 0 ? 0 : rest_us / US_PER_MS + 1, 0);
}

void pg_break(struct pg *pg, const struct err *err)
{
    if (pg->is_broken) {
        return;
    }
    pg->is_broken = true;
    pg->lost = *err;
    loop_timer_start(pg->deliver, 0, 0);
}

/* -- delivering ------------------------------------------------------------ */

static void destroy(struct pg *pg)
{
    free(pg->conninfo);
    free(pg->name);
    free(pg->session_sql);
    free(pg);
}

static void tell_state(struct pg *pg)
{
    const bool is_up = pg_is_up(pg);
    if (is_up == pg->was_told_up || pg->is_closed) {
        return;
    }
    pg->was_told_up = is_up;
    if (pg->options.on_state != NULL) {
        const struct err err = pg->lost;
        pg->options.on_state(pg->options.owner, is_up, is_up ? NULL : &err);
    }
}

/* Gives a broken connection up, then runs what callbacks are due. pg may be
 * gone after. */
static void deliver(struct pg *pg);

/* Between 50 and 100 % of the back-off, so that a fleet does not reconnect in
 * step. */
static int64_t with_jitter(int64_t wait_ms)
{
    uint32_t random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0) {
        random = (uint32_t)now_mono_us();
    }
    return wait_ms / 2 + (int64_t)(random % (uint32_t)(wait_ms / 2 + 1));
}

/* Drops the connection, ends its batches, and plans the next one. */
static void lose(struct pg *pg, const struct err *err)
{
    pg->lost = *err;
    loop_timer_stop(pg->deadline);
    loop_fd_free(pg->watch);
    pg->watch = NULL;
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->is_broken = false;
    pg->backoff_ms *= 2;
    if (pg->state == PG_STATE_UP || pg->backoff_ms < BACKOFF_MIN_MS) {
        pg->backoff_ms = BACKOFF_MIN_MS;
    }
    if (pg->backoff_ms > BACKOFF_MAX_MS) {
        pg->backoff_ms = BACKOFF_MAX_MS;
    }
    LOG(WARN, pg->state == PG_STATE_UP ? "pg_lost" : "pg_connect_failed",
        (&(struct log_fields){
            .err = err, .name1 = "connection", .value1 = pg->name}),
        "will connect again");
    pg->state = PG_STATE_OFF;
    pg_batch_end_all(pg, err);
    loop_timer_start(pg->retry, with_jitter(pg->backoff_ms), 0);
}

static void deliver(struct pg *pg)
{
    pg->hold++;
    if (pg->is_broken) {
        const struct err err = pg->lost;
        lose(pg, &err);
    }
    tell_state(pg);
    if (!pg->is_closed) {
        pg_batch_deliver(pg);
    }
    if (!pg->is_closed) {
        if (pg->finished.head != NULL || pg->is_broken) {
            loop_timer_start(pg->deliver, 0, 0);
        } else {
            loop_timer_stop(pg->deliver);
        }
    }
    pg->hold--;
    if (pg->is_closed && pg->hold == 0) {
        destroy(pg);
    }
}

static void on_deliver(void *owner)
{
    deliver(owner);
}

/* -- connecting ------------------------------------------------------------ */

static void on_notice(void *owner, const char *message)
{
    const struct pg *pg = owner;
    char line[200];
    one_line(message, line, sizeof(line));
    LOG(DEBUG, "pg_notice",
        (&(struct log_fields){.name1 = "connection", .value1 = pg->name}), "%s",
        line);
}

static void fail_connect(struct pg *pg)
{
    struct err err = ERR_INIT;
    if (!pg_conninfo_is_valid(pg->conninfo)) {
        /* libpq would quote the string, which may hold a password. */
        (void)err_set(&err, ERR_FATAL, "PG_CONNINFO",
            "the postgres connection string is not valid");
    } else {
        (void)pg_conn_error(pg->conn, &err);
    }
    lose(pg, &err);
}

static void connect_now(void *owner)
{
    struct pg *pg = owner;
    loop_timer_stop(pg->retry);
    pg->state = PG_STATE_CONNECTING;
    pg->conn = pg_setup_connect(pg->conninfo, pg->name);
    if (pg->conn == NULL) {
        (void)fputs("out of memory\n", stderr);
        abort();
    }
    if (PQstatus(pg->conn) == CONNECTION_BAD) {
        fail_connect(pg);
        return;
    }
    (void)PQsetNoticeProcessor(pg->conn, on_notice, pg);
    loop_timer_start(pg->deadline, pg_setup_deadline_ms(pg), 0);
    watch(pg, UV_WRITABLE);
}

static void begin_setup(struct pg *pg)
{
    struct err err = ERR_INIT;
    pg->state = PG_STATE_SETUP;
    if (pg_setup_send(pg, &err) != 0) {
        lose(pg, &err);
        return;
    }
    watch(pg, UV_READABLE);
    pg_flush(pg);
}

static void poll_connect(struct pg *pg)
{
    /* libpq may close the socket and open another one of the same number. */
    loop_fd_free(pg->watch);
    pg->watch = NULL;
    switch (PQconnectPoll(pg->conn)) {
    case PGRES_POLLING_READING:
        watch(pg, UV_READABLE);
        return;
    case PGRES_POLLING_WRITING:
        watch(pg, UV_WRITABLE);
        return;
    case PGRES_POLLING_OK:
        begin_setup(pg);
        return;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE:
    default:
        fail_connect(pg);
        return;
    }
}

static void take_setup_result(struct pg *pg, PGresult *result)
{
    struct err err = ERR_INIT;
    const int next = pg_setup_take_result(pg, result, &err);
    if (next < 0) {
        pg_break(pg, &err);
    } else if (next > 0) {
        loop_timer_stop(pg->deadline);
        pg->state = PG_STATE_UP;
        pg->backoff_ms = 0;
        LOG(INFO, "pg_connected",
            (&(struct log_fields){.name1 = "connection", .value1 = pg->name}),
            "connected");
    }
}

/* -- exchanging ------------------------------------------------------------ */

static bool awaits_results(const struct pg *pg)
{
    return !pg->is_broken &&
           (pg->state == PG_STATE_SETUP || pg->sent.head != NULL);
}

static void drain(struct pg *pg)
{
    int empty = 0;
    while (awaits_results(pg) && PQisBusy(pg->conn) == 0) {
        PGresult *result = PQgetResult(pg->conn);
        if (result == NULL) {
            empty++;
            if (empty > MAX_EMPTY_RESULTS) {
                struct err err = ERR_INIT;
                (void)err_set(&err, ERR_TRANSIENT, "PG_PROTOCOL",
                    "postgres and libpq disagree about the pipeline");
                pg_break(pg, &err);
            }
            continue;
        }
        empty = 0;
        if (pg->state == PG_STATE_SETUP) {
            take_setup_result(pg, result);
        } else {
            pg_batch_take_result(pg, result);
        }
    }
}

/* Bytes that OpenSSL has read and libpq has not: no event tells of them. */
static bool has_pending_tls(PGconn *conn)
{
    const SSL *ssl = PQsslStruct(conn, "OpenSSL");
    return ssl != NULL && SSL_pending(ssl) > 0;
}

static void exchange(struct pg *pg, int events)
{
    if ((events & UV_WRITABLE) != 0) {
        pg_flush(pg);
    }
    if (events == UV_WRITABLE) {
        return;
    }
    bool is_open = true;
    do {
        is_open = PQconsumeInput(pg->conn) == 1;
        /* Also after a loss: the last results may say why. */
        drain(pg);
    } while (is_open && has_pending_tls(pg->conn));
    if (!is_open) {
        struct err err = ERR_INIT;
        (void)pg_conn_error(pg->conn, &err);
        pg_break(pg, &err);
    }
}

static void on_ready(void *owner, int events)
{
    struct pg *pg = owner;
    if (pg->state == PG_STATE_CONNECTING) {
        poll_connect(pg);
    } else if (pg->state != PG_STATE_OFF) {
        exchange(pg, events);
        pg_arm_deadline(pg);
    }
    deliver(pg);
}

static void on_deadline(void *owner)
{
    struct pg *pg = owner;
    struct err err = ERR_INIT;
    if (pg->state == PG_STATE_UP) {
        if (pg->sent.head == NULL) {
            return;
        }
        if (pg->sent.head->deadline_us > now_mono_us()) {
            pg_arm_deadline(pg);
            return;
        }
        (void)err_set(&err, ERR_TRANSIENT, "PG_TIMEOUT",
            "postgres did not answer within %lld ms",
            (long long)pg->options.deadline_ms);
    } else {
        (void)err_set(&err, ERR_TRANSIENT, "PG_UNREACHABLE",
            "postgres did not take the connection in time");
    }
    pg_break(pg, &err);
    deliver(pg);
}

/* -- opening and closing --------------------------------------------------- */

struct pg *pg_open(struct loop *loop, const struct pg_options *options)
{
    struct pg *pg = mem_zalloc(1, sizeof(*pg));
    pg->loop = loop;
    pg->options = *options;
    pg->conninfo = mem_strdup(options->conninfo);
    pg->name = mem_strdup(options->name);
    if (options->session_sql != NULL) {
        pg->session_sql = mem_strdup(options->session_sql);
    }
    if (pg->options.deadline_ms == 0) {
        pg->options.deadline_ms = DEFAULT_DEADLINE_MS;
    }
    pg->retry = loop_timer_new(loop, connect_now, pg);
    pg->deadline = loop_timer_new(loop, on_deadline, pg);
    pg->deliver = loop_timer_new(loop, on_deliver, pg);
    loop_timer_start(pg->retry, 0, 0);
    return pg;
}

static void end_for_good(struct pg *pg)
{
    struct err err = ERR_INIT;
    (void)err_set(&err, ERR_TRANSIENT, "PG_CLOSED",
        "the connection to postgres was closed");
    loop_fd_free(pg->watch);
    pg->watch = NULL;
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->state = PG_STATE_OFF;
    pg_batch_free(pg->building);
    pg->building = NULL;
    pg_batch_end_all(pg, &err);
    while (pg->finished.head != NULL) {
        pg_batch_deliver(pg);
    }
}

void pg_close(struct pg *pg)
{
    if (pg == NULL || pg->is_closed) {
        return;
    }
    pg->hold++;
    pg->is_closed = true;
    end_for_good(pg);
    loop_timer_free(pg->retry);
    loop_timer_free(pg->deadline);
    loop_timer_free(pg->deliver);
    pg->hold--;
    if (pg->hold == 0) {
        destroy(pg);
    }
}

bool pg_is_up(const struct pg *pg)
{
    return pg->state == PG_STATE_UP && !pg->is_broken;
}

static void lose_at_once(struct pg *pg)
{
    struct err err = ERR_INIT;
    (void)err_set(&err, ERR_TRANSIENT, "PG_RESET",
        "the connection to postgres was reset");
    lose(pg, &err);
}

void pg_reset(struct pg *pg)
{
    if (pg->is_closed) {
        return;
    }
    if (pg->conn != NULL) {
        lose_at_once(pg);
        loop_timer_start(pg->deliver, 0, 0);
    }
    loop_timer_start(pg->retry, 0, 0);
}

size_t pg_queued(const struct pg *pg)
{
    return pg->queued;
}

int pg_backend_pid(const struct pg *pg)
{
    return pg_is_up(pg) ? PQbackendPID(pg->conn) : 0;
}
