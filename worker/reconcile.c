/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row may be unknown only for a moment: its claim has committed and the
 * answer is still on its way to us. So a row is brought back only when two
 * looks in a row found it, and no claim or take that was under way at the
 * first one still is.
 */
#include "worker/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/claim.h"
#include "worker/revive.h"
#include "worker/take.h"
#include "worker/worker.h"

enum { EVERY_MS = 3000, RETRY_MS = 200, MAX_SUSPECTS = 2000 };

struct suspect {
    uint8_t id[UUID_SIZE];
    int attempt_no;
};

struct reconcile {
    struct worker *worker;
    struct loop_timer *every;
    struct loop_timer *soon;
    struct suspect *suspects; /* of the last look, sorted by id */
    size_t suspect_count;
    int64_t looked_us; /* when the last look was sent */
    int64_t looking_us;
    bool is_looking;
    uint8_t (*wanted)[UUID_SIZE]; /* to be loaded */
    size_t wanted_count;
    size_t loading_count; /* the first of them, under way */
};

/* -- loading --------------------------------------------------------------- */

static void load(struct reconcile *reconcile);

static void drop_loaded(struct reconcile *reconcile)
{
    reconcile->wanted_count -= reconcile->loading_count;
    memmove(reconcile->wanted, reconcile->wanted + reconcile->loading_count,
        reconcile->wanted_count * UUID_SIZE);
    reconcile->loading_count = 0;
}

static void on_loaded(void *arg, const struct pg_outcome *outcome)
{
    struct reconcile *reconcile = arg;
    struct worker *worker = reconcile->worker;
    if (worker->is_closing) {
        return;
    }
    if (outcome->end != PG_DONE) {
        reconcile->loading_count = 0;
        loop_timer_start(reconcile->soon, RETRY_MS, 0);
        return;
    }
    drop_loaded(reconcile);
    const PGresult *rows = outcome->results[0];
    for (int i = 0; i < pg_rows(rows); i++) {
        if (jobs_find(&worker->jobs, pg_get_uuid(rows, i, LIVE_ID)) == NULL) {
            metric_add(worker->stats.adopted, NULL, 1);
            revive_row(worker, rows, i);
        }
    }
    if (reconcile->wanted_count > 0) {
        load(reconcile);
    }
}

static void load(struct reconcile *reconcile)
{
    struct pg_params params;
    const size_t count = reconcile->wanted_count < WORKER_BATCH
                             ? reconcile->wanted_count
                             : WORKER_BATCH;
    pg_params_init(&params);
    pg_array_begin(&params, PG_UUID);
    for (size_t i = 0; i < count; i++) {
        pg_array_bytes(&params,
            (struct span){(const char *)reconcile->wanted[i], UUID_SIZE});
    }
    pg_array_end(&params);
    pg_param_uuid(&params, reconcile->worker->boot_id);
    reconcile->loading_count = count;
    pg_run(reconcile->worker->settle_db, SQL_WORKER_LOAD, &params, on_loaded,
        reconcile);
    pg_params_fini(&params);
}

static void on_soon(void *owner)
{
    struct reconcile *reconcile = owner;
    if (reconcile->loading_count == 0 && reconcile->wanted_count > 0) {
        load(reconcile);
    }
}

void reconcile_adopt(struct reconcile *reconcile, const uint8_t *id)
{
    /* What does not fit is found by a later look. */
    if (reconcile->wanted_count == MAX_SUSPECTS) {
        return;
    }
    memcpy(reconcile->wanted[reconcile->wanted_count], id, UUID_SIZE);
    reconcile->wanted_count++;
    if (!loop_timer_is_active(reconcile->soon)) {
        loop_timer_start(reconcile->soon, 0, 0);
    }
}

/* -- looking --------------------------------------------------------------- */

static int compare_suspects(const void *left, const void *right)
{
    const struct suspect *a = left;
    const struct suspect *b = right;
    return memcmp(a->id, b->id, UUID_SIZE);
}

static bool was_suspect(
    const struct reconcile *reconcile, const struct suspect *suspect)
{
    if (reconcile->suspect_count == 0) {
        return false;
    }
    const struct suspect *found = bsearch(suspect, reconcile->suspects,
        reconcile->suspect_count, sizeof(*suspect), compare_suspects);
    return found != NULL && found->attempt_no == suspect->attempt_no;
}

static bool is_older(int64_t since_us, int64_t look_us)
{
    return since_us != 0 && since_us <= look_us;
}

/* Whether something that was sent before the last look is still under way. */
static bool is_answer_due(const struct reconcile *reconcile)
{
    const struct worker *worker = reconcile->worker;
    return is_older(claim_since_us(worker->claim), reconcile->looked_us) ||
           is_older(take_since_us(worker->take), reconcile->looked_us);
}

static void compare(struct reconcile *reconcile, const PGresult *rows)
{
    struct worker *worker = reconcile->worker;
    const bool may_adopt =
        reconcile->looked_us != 0 && !is_answer_due(reconcile);
    struct suspect *suspects = mem_alloc(MAX_SUSPECTS * sizeof(struct suspect));
    size_t count = 0;
    for (int i = 0; i < pg_rows(rows) && count < MAX_SUSPECTS; i++) {
        struct suspect suspect = {.attempt_no = (int)pg_get_int(rows, i, 1)};
        memcpy(suspect.id, pg_get_uuid(rows, i, 0), UUID_SIZE);
        if (jobs_find(&worker->jobs, suspect.id) != NULL) {
            continue;
        }
        if (may_adopt && was_suspect(reconcile, &suspect)) {
            reconcile_adopt(reconcile, suspect.id);
        }
        suspects[count] = suspect;
        count++;
    }
    if (count > 1) {
        qsort(suspects, count, sizeof(*suspects), compare_suspects);
    }
    free(reconcile->suspects);
    reconcile->suspects = suspects;
    reconcile->suspect_count = count;
}

static void on_owned(void *arg, const struct pg_outcome *outcome)
{
    struct reconcile *reconcile = arg;
    if (reconcile->worker->is_closing) {
        return;
    }
    reconcile->is_looking = false;
    if (outcome->end == PG_DONE) {
        compare(reconcile, outcome->results[0]);
        reconcile->looked_us = reconcile->looking_us;
    }
}

static void on_every(void *owner)
{
    struct reconcile *reconcile = owner;
    struct worker *worker = reconcile->worker;
    if (reconcile->is_looking || worker->is_draining ||
        !pg_is_up(worker->settle_db)) {
        return;
    }
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, worker->boot_id);
    reconcile->is_looking = true;
    reconcile->looking_us = now_mono_us();
    pg_run(worker->settle_db, SQL_WORKER_OWNED, &params, on_owned, reconcile);
    pg_params_fini(&params);
}

/* -- life ------------------------------------------------------------------ */

struct reconcile *reconcile_open(struct worker *worker)
{
    struct reconcile *reconcile = mem_zalloc(1, sizeof(*reconcile));
    reconcile->worker = worker;
    reconcile->wanted = mem_zalloc(MAX_SUSPECTS, UUID_SIZE);
    reconcile->soon = loop_timer_new(worker->loop, on_soon, reconcile);
    reconcile->every = loop_timer_new(worker->loop, on_every, reconcile);
    loop_timer_start(reconcile->every, EVERY_MS, EVERY_MS);
    return reconcile;
}

void reconcile_close(struct reconcile *reconcile)
{
    if (reconcile == NULL) {
        return;
    }
    loop_timer_free(reconcile->soon);
    loop_timer_free(reconcile->every);
    free(reconcile->suspects);
    free(reconcile->wanted);
    free(reconcile);
}
