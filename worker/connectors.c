/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/connectors.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "schema/connector_cache.h"
#include "schema/sql_worker.h"
#include "worker/worker.h"

enum { REFRESH_EVERY_MS = 30000, REFRESH_APART_MS = 50, RETRY_MS = 250 };

struct connectors {
    struct worker *worker;
    struct connector_cache *cache;
    struct loop_timer *soon;  /* asked for */
    struct loop_timer *every; /* in any case */
    int64_t read_since_us;    /* start of the last refresh that was completed */
    int64_t reading_since_us; /* of the one under way; 0: none */
    bool is_wanted;           /* asked for again while one was under way */
    bool is_full_told;
    struct job_list waiting;
};

static void read_rows(struct connectors *connectors);

/* -- the cache ------------------------------------------------------------- */

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
    *manifest = connector_cache_find(connectors->cache, name);
    return *manifest != NULL ? LOOKUP_FOUND : not_found(connectors, asked_us);
}

enum lookup connectors_find_digest(struct connectors *connectors,
    const uint8_t *digest, int64_t asked_us, struct manifest **manifest)
{
    if (!connector_cache_find_digest(connectors->cache, digest, manifest)) {
        return not_found(connectors, asked_us);
    }
    return *manifest == NULL ? LOOKUP_NONE : LOOKUP_FOUND;
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
    const struct span digest = pg_get_bytes(rows, row, CONNECTOR_CACHE_DIGEST);
    if (digest.len == SHA256_SIZE &&
        connector_cache_add(connectors->cache,
            pg_get_int(rows, row, CONNECTOR_CACHE_NUMBER),
            (const uint8_t *)digest.ptr,
            pg_get_bytes(rows, row, CONNECTOR_CACHE_MANIFEST), &fault) != 0) {
        log_refused(pg_get_bytes(rows, row, CONNECTOR_CACHE_NAME), &fault);
    }
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
    if (!connector_cache_is_full(connectors->cache)) {
        return false;
    }
    if (!connectors->is_full_told) {
        connectors->is_full_told = true;
        LOG(ERROR, "connectors_full", NULL,
            "too many versions of connectors: newer ones are not read");
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
    for (int row = 0; row < pg_rows(rows); row++) {
        add_version(connectors, rows, row);
    }
    if (pg_rows(rows) == CONNECTOR_CACHE_ROWS && !is_full(connectors)) {
        read_rows(connectors);
        return;
    }
    end_refresh(connectors);
}

static void read_rows(struct connectors *connectors)
{
    struct pg_params params;
    pg_params_init(&params);
    connector_cache_put_known(connectors->cache, &params);
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
    connectors->cache = connector_cache_new();
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
    connector_cache_free(connectors->cache);
    free(connectors);
}
