/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/mappings.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/worker.h"

enum { REFRESH_EVERY_MS = 30000, REFRESH_APART_MS = 50, RETRY_MS = 250 };

struct mapped_source {
    char tenant[RECORD_MAX_NAME + 1];
    char source[RECORD_MAX_NAME + 1];
    struct mapping *mapping; /* owned; NULL: it does not load here */
};

struct mappings {
    struct worker *worker;
    void (*on_read)(void *owner);
    void *owner;
    struct loop_timer *soon;      /* asked for */
    struct loop_timer *every;     /* in any case */
    struct mapped_source *sorted; /* owned; by tenant and source */
    size_t count;
    int64_t rows; /* what the table's counts were when it was read */
    int64_t versions;
    int64_t next_rows;
    int64_t next_versions;
    int64_t read_since_us;    /* start of the last reading that ended well */
    int64_t reading_since_us; /* of the one under way; 0: none */
    bool is_wanted;           /* asked for again while one was under way */
};

/* -- the table ------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct mapped_source *left = a;
    const struct mapped_source *right = b;
    const int order = strcmp(left->tenant, right->tenant);
    return order != 0 ? order : strcmp(left->source, right->source);
}

static void free_all(struct mapped_source *sorted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mapping_free(sorted[i].mapping);
    }
    free(sorted);
}

static bool take_row(
    struct mapped_source *mapped, const PGresult *rows, int row)
{
    struct fault fault = FAULT_INIT;
    const struct span tenant = pg_get_bytes(rows, row, MAPPING_TENANT);
    const struct span source = pg_get_bytes(rows, row, MAPPING_SOURCE);
    if (!name_is_valid(tenant) || !name_is_valid(source)) {
        return false;
    }
    memcpy(mapped->tenant, tenant.ptr, tenant.len);
    memcpy(mapped->source, source.ptr, source.len);
    mapped->mapping =
        mapping_load(pg_get_bytes(rows, row, MAPPING_TEXT), &fault);
    if (mapped->mapping == NULL) {
        LOG(ERROR, "mapping_refused",
            (&(struct log_fields){.tenant = mapped->tenant,
                .name1 = "source",
                .value1 = mapped->source}),
            "deliveries of this source become no actions: %s %s", fault.pointer,
            fault.detail);
    }
    return true;
}

static void take_rows(struct mappings *mappings, const PGresult *rows)
{
    const size_t max = (size_t)pg_rows(rows);
    struct mapped_source *sorted = mem_zalloc(max + 1, sizeof(*sorted));
    size_t count = 0;
    for (int row = 0; row < pg_rows(rows); row++) {
        count += take_row(&sorted[count], rows, row) ? 1 : 0;
    }
    qsort(sorted, count, sizeof(*sorted), compare);
    free_all(mappings->sorted, mappings->count);
    mappings->sorted = sorted;
    mappings->count = count;
    mappings->rows = mappings->next_rows;
    mappings->versions = mappings->next_versions;
    if (max == SQL_WORKER_MAPPINGS_ROWS) {
        LOG(ERROR, "mappings_full", NULL,
            "too many mapped sources: those behind the first are not read");
    }
}

/* -- reading --------------------------------------------------------------- */

static void end_reading(struct mappings *mappings)
{
    mappings->read_since_us = mappings->reading_since_us;
    mappings->reading_since_us = 0;
    if (mappings->is_wanted) {
        mappings->is_wanted = false;
        mappings_refresh(mappings);
    }
    mappings->on_read(mappings->owner);
}

static bool is_failed(
    struct mappings *mappings, const struct pg_outcome *outcome)
{
    if (outcome->end == PG_DONE) {
        return false;
    }
    mappings->reading_since_us = 0;
    loop_timer_start(mappings->soon, RETRY_MS, 0);
    return true;
}

static void on_rows(void *arg, const struct pg_outcome *outcome)
{
    struct mappings *mappings = arg;
    if (!mappings->worker->is_closing && !is_failed(mappings, outcome)) {
        take_rows(mappings, outcome->results[0]);
        end_reading(mappings);
    }
}

static void on_counts(void *arg, const struct pg_outcome *outcome)
{
    struct mappings *mappings = arg;
    if (mappings->worker->is_closing || is_failed(mappings, outcome)) {
        return;
    }
    mappings->next_rows = pg_get_int(outcome->results[0], 0, 0);
    mappings->next_versions = pg_get_int(outcome->results[0], 0, 1);
    if (mappings->sorted != NULL && mappings->next_rows == mappings->rows &&
        mappings->next_versions == mappings->versions) {
        end_reading(mappings);
        return;
    }
    pg_run(mappings->worker->settle_db, SQL_WORKER_MAPPINGS, NULL, on_rows,
        mappings);
}

static void on_soon(void *owner)
{
    struct mappings *mappings = owner;
    if (mappings->reading_since_us != 0) {
        mappings->is_wanted = true;
        return;
    }
    mappings->reading_since_us = now_mono_us();
    pg_run(mappings->worker->settle_db, SQL_WORKER_MAPPING_COUNTS, NULL,
        on_counts, mappings);
}

void mappings_refresh(struct mappings *mappings)
{
    if (mappings->reading_since_us != 0) {
        mappings->is_wanted = true;
    } else if (!loop_timer_is_active(mappings->soon)) {
        const int64_t since_us = now_mono_us() - mappings->read_since_us;
        const int64_t wait_ms = REFRESH_APART_MS - since_us / US_PER_MS;
        loop_timer_start(mappings->soon, wait_ms > 0 ? wait_ms : 0, 0);
    }
}

enum mapped mappings_find(struct mappings *mappings, const char *tenant,
    const char *source, int64_t asked_us, const struct mapping **mapping)
{
    struct mapped_source wanted = {.mapping = NULL};
    (void)snprintf(wanted.tenant, sizeof(wanted.tenant), "%s", tenant);
    (void)snprintf(wanted.source, sizeof(wanted.source), "%s", source);
    const struct mapped_source *found =
        mappings->count == 0 ? NULL
                             : bsearch(&wanted, mappings->sorted,
                                   mappings->count, sizeof(wanted), compare);
    if (found != NULL) {
        *mapping = found->mapping;
        return MAPPED_YES;
    }
    if (mappings->read_since_us >= asked_us) {
        return MAPPED_NO;
    }
    mappings_refresh(mappings);
    return MAPPED_WAIT;
}

/* -- life ------------------------------------------------------------------ */

static void on_every(void *owner)
{
    mappings_refresh(owner);
}

struct mappings *mappings_open(
    struct worker *worker, void (*on_read)(void *owner), void *owner)
{
    struct mappings *mappings = mem_zalloc(1, sizeof(*mappings));
    mappings->worker = worker;
    mappings->on_read = on_read;
    mappings->owner = owner;
    mappings->soon = loop_timer_new(worker->loop, on_soon, mappings);
    mappings->every = loop_timer_new(worker->loop, on_every, mappings);
    loop_timer_start(mappings->every, REFRESH_EVERY_MS, REFRESH_EVERY_MS);
    mappings_refresh(mappings);
    return mappings;
}

void mappings_close(struct mappings *mappings)
{
    if (mappings == NULL) {
        return;
    }
    loop_timer_free(mappings->soon);
    loop_timer_free(mappings->every);
    free_all(mappings->sorted, mappings->count);
    free(mappings);
}
