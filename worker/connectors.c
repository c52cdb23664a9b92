/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/connectors.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/worker.h"

enum {
    BUCKET_COUNT = 1024,
    MAX_VERSIONS = 4096,
    ROWS_A_READ = 16, /* as the statement says */
    REFRESH_EVERY_MS = 30000,
    REFRESH_APART_MS = 50,
    RETRY_MS = 250
};

/* One version. manifest NULL: it is there but does not load here. */
struct version {
    struct version *next_by_digest;
    struct version *next_by_name;
    int64_t number; /* grows with each version that is added */
    uint8_t digest[SHA256_SIZE];
    struct manifest *manifest;
};

struct connectors {
    struct worker *worker;
    struct version *by_digest[BUCKET_COUNT];
    struct version *by_name[BUCKET_COUNT]; /* newest first */
    size_t count;
    struct loop_timer *soon;  /* asked for */
    struct loop_timer *every; /* in any case */
    int64_t read_since_us;    /* start of the last refresh that was completed */
    int64_t reading_since_us; /* of the one under way; 0: none */
    bool is_wanted;           /* asked for again while one was under way */
    bool is_full_told;
    struct job_list waiting;
};

static void read_rows(struct connectors *connectors);

/* -- the tables ------------------------------------------------------------ */

static size_t digest_bucket(const uint8_t *digest)
{
    return (((size_t)digest[0] << 8) | digest[1]) % BUCKET_COUNT;
}

static size_t name_bucket(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    }
    return hash % BUCKET_COUNT;
}

static struct version *find_digest(
    const struct connectors *connectors, const uint8_t *digest)
{
    struct version *at = connectors->by_digest[digest_bucket(digest)];
    while (at != NULL && memcmp(at->digest, digest, SHA256_SIZE) != 0) {
        at = at->next_by_digest;
    }
    return at;
}

static enum lookup not_found(struct connectors *connectors, int64_t asked_us)
{
    if (connectors->read_since_us >= asked_us) {
        return LOOKUP_NONE;
    }
    connectors_refresh(connectors);
    return LOOKUP_WAIT;
}

enum lookup connectors_find(struct connectors *connectors, const char *name,
    int64_t asked_us, struct manifest **manifest)
{
    struct version *at = connectors->by_name[name_bucket(name)];
    for (; at != NULL; at = at->next_by_name) {
        if (strcmp(manifest_name(at->manifest), name) == 0) {
            *manifest = at->manifest;
            return LOOKUP_FOUND;
        }
    }
    return not_found(connectors, asked_us);
}

enum lookup connectors_find_digest(struct connectors *connectors,
    const uint8_t *digest, int64_t asked_us, struct manifest **manifest)
{
    const struct version *version = find_digest(connectors, digest);
    if (version == NULL) {
        return not_found(connectors, asked_us);
    }
    *manifest = version->manifest;
    return version->manifest == NULL ? LOOKUP_NONE : LOOKUP_FOUND;
}

static void log_refused(struct span name, const struct fault *fault)
{
    char shown[RECORD_MAX_NAME + 1] = "";
    if (name_is_valid(name)) {
        memcpy(shown, name.ptr, name.len);
        shown[name.len] = '\0';
    }
    LOG(ERROR, "manifest_refused",
        (&(struct log_fields){
            .connector = shown, .name1 = "pointer", .value1 = fault->pointer}),
        "this version is not used: %s", fault->detail);
}

static void add_version(
    struct connectors *connectors, const PGresult *rows, int row)
{
    struct fault fault = FAULT_INIT;
    struct version *version = mem_zalloc(1, sizeof(*version));
    version->number = pg_get_int(rows, row, 0);
    memcpy(version->digest, pg_get_bytes(rows, row, 2).ptr, SHA256_SIZE);
    version->manifest = manifest_load(pg_get_bytes(rows, row, 3), &fault);

    struct version **link =
        &connectors->by_digest[digest_bucket(version->digest)];
    version->next_by_digest = *link;
    *link = version;
    connectors->count++;
    if (version->manifest == NULL) {
        log_refused(pg_get_bytes(rows, row, 1), &fault);
        return;
    }
    link = &connectors->by_name[name_bucket(manifest_name(version->manifest))];
    while (*link != NULL && (*link)->number > version->number) {
        link = &(*link)->next_by_name;
    }
    version->next_by_name = *link;
    *link = version;
}

/* -- reading --------------------------------------------------------------- */

static void resume_waiting(struct connectors *connectors)
{
    struct job_list ready = connectors->waiting;
    struct job *job = NULL;
    connectors->waiting = (struct job_list){0};
    while ((job = job_list_pop(&ready)) != NULL) {
        job->resume(job->resume_owner, job);
    }
}

static void end_refresh(struct connectors *connectors)
{
    connectors->read_since_us = connectors->reading_since_us;
    connectors->reading_since_us = 0;
    if (connectors->is_wanted) {
        connectors->is_wanted = false;
        connectors_refresh(connectors);
    }
    resume_waiting(connectors);
}

static bool is_full(struct connectors *connectors)
{
    if (connectors->count < MAX_VERSIONS) {
        return false;
    }
    if (!connectors->is_full_told) {
        connectors->is_full_told = true;
        LOG(ERROR, "connectors_full", NULL,
            "more than %d connector versions: newer ones are not read",
            MAX_VERSIONS);
    }
    return true;
}

static void on_rows(void *arg, const struct pg_outcome *outcome)
{
    struct connectors *connectors = arg;
    if (connectors->worker->is_closing) {
        return;
    }
    if (outcome->end != PG_DONE) {
        connectors->reading_since_us = 0;
        loop_timer_start(connectors->soon, RETRY_MS, 0);
        return;
    }
    const PGresult *rows = outcome->results[0];
    for (int i = 0; i < pg_rows(rows); i++) {
        const struct span digest = pg_get_bytes(rows, i, 2);
        if (digest.len == SHA256_SIZE &&
            find_digest(connectors, (const uint8_t *)digest.ptr) == NULL) {
            add_version(connectors, rows, i);
        }
    }
    if (pg_rows(rows) == ROWS_A_READ && !is_full(connectors)) {
        read_rows(connectors);
        return;
    }
    end_refresh(connectors);
}

static void read_rows(struct connectors *connectors)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_array_begin(&params, PG_BYTEA);
    for (size_t i = 0; i < BUCKET_COUNT; i++) {
        const struct version *at = connectors->by_digest[i];
        for (; at != NULL; at = at->next_by_digest) {
            pg_array_bytes(
                &params, (struct span){(const char *)at->digest, SHA256_SIZE});
        }
    }
    pg_array_end(&params);
    pg_run(connectors->worker->settle_db, SQL_WORKER_CONNECTORS, &params,
        on_rows, connectors);
    pg_params_fini(&params);
}

static void on_soon(void *owner)
{
    struct connectors *connectors = owner;
    if (connectors->reading_since_us != 0) {
        connectors->is_wanted = true;
        return;
    }
    connectors->reading_since_us = now_mono_us();
    read_rows(connectors);
}

void connectors_refresh(struct connectors *connectors)
{
    if (connectors->reading_since_us != 0) {
        connectors->is_wanted = true;
    } else if (!loop_timer_is_active(connectors->soon)) {
        const int64_t since_us = now_mono_us() - connectors->read_since_us;
        const int64_t wait_ms = REFRESH_APART_MS - since_us / US_PER_MS;
        loop_timer_start(connectors->soon, wait_ms > 0 ? wait_ms : 0, 0);
    }
}

static void on_every(void *owner)
{
    connectors_refresh(owner);
}

/* -- waiting jobs ---------------------------------------------------------- */

void connectors_wait(struct connectors *connectors, struct job *job)
{
    job_list_push(&connectors->waiting, job);
}

struct job *connectors_give_up(struct connectors *connectors)
{
    return job_list_pop(&connectors->waiting);
}

bool connectors_is_loaded(const struct connectors *connectors)
{
    return connectors->read_since_us != 0;
}

/* -- life ------------------------------------------------------------------ */

struct connectors *connectors_open(struct worker *worker)
{
    struct connectors *connectors = mem_zalloc(1, sizeof(*connectors));
    connectors->worker = worker;
    connectors->soon = loop_timer_new(worker->loop, on_soon, connectors);
    connectors->every = loop_timer_new(worker->loop, on_every, connectors);
    loop_timer_start(connectors->every, REFRESH_EVERY_MS, REFRESH_EVERY_MS);
    connectors_refresh(connectors);
    return connectors;
}

void connectors_close(struct connectors *connectors)
{
    if (connectors == NULL) {
        return;
    }
    loop_timer_free(connectors->soon);
    loop_timer_free(connectors->every);
    for (size_t i = 0; i < BUCKET_COUNT; i++) {
        while (connectors->by_digest[i] != NULL) {
            struct version *version = connectors->by_digest[i];
            connectors->by_digest[i] = version->next_by_digest;
            manifest_free(version->manifest);
            free(version);
        }
    }
    free(connectors);
}
