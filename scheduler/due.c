/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/due.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/time.h"
#include "scheduler/clock_moves.h"
#include "scheduler/dispatch.h"
#include "scheduler/ending.h"
#include "scheduler/scheduler.h"
#include "schema/sql_scheduler.h"
#include "schema/state.h"

enum {
    TAKE_ROWS = 200,
    EXPIRED_ROWS = 200,
    AGAIN_MS = 5,
    TRIES = 3 /* of a take that came a little early */
};
/* Looks come six times a second; what is due before the next one gets a timer
 * of its own. */
#define HORIZON_US (400 * US_PER_MS)

struct due {
    struct scheduler *scheduler;
    struct loop_timer *timer;
    struct pg_params params;
    bool is_busy;
    bool has_taken; /* since the last look at what is due next */
    int tries;      /* left, when a row is expected */
    struct metric *taken;
    struct metric *held;
};

static void take(void *owner);

struct due *due_open(struct scheduler *scheduler)
{
    struct due *due = mem_zalloc(1, sizeof(*due));
    due->scheduler = scheduler;
    due->timer = loop_timer_new(&scheduler->loop, take, due);
    pg_params_init(&due->params);
    due->taken = metric_counter("actionist_due_rows_total",
        "Waiting actions that became live again.", NULL);
    due->held = metric_counter("actionist_due_held_total",
        "Times that due actions were held back, because enough waits for "
        "workers already.",
        NULL);
    return due;
}

void due_close(struct due *due)
{
    if (due != NULL) {
        loop_timer_free(due->timer);
        pg_params_fini(&due->params);
        free(due);
    }
}

/* -- those that are too late ----------------------------------------------------------------- */

static void on_expired(void *arg, const struct pg_outcome *outcome)
{
    struct due *due = arg;
    due->is_busy = false;
    if (outcome->end != PG_DONE) {
        return;
    }
    const PGresult *rows = outcome->results[0];
    for (int i = 0; i < pg_rows(rows); i++) {
        struct ending_row row = {.attempt_no = (int32_t)pg_get_int(rows, i, 1),
            .calls = (int32_t)pg_get_int(rows, i, 2),
            .status = state_end(STATUS_EXPIRED, pg_get_bool(rows, i, 3)),
            .code = CODE_DEADLINE_PASSED};
        memcpy(row.id, pg_get_uuid(rows, i, 0), UUID_SIZE);
        ending_add(due->scheduler->ending, ENDING_WAITING, &row);
    }
}

static void find_expired(struct due *due)
{
    if (!ending_is_idle(due->scheduler->ending, ENDING_WAITING)) {
        return;
    }
    due->is_busy = true;
    pg_params_clear(&due->params);
    pg_param_int4(&due->params, EXPIRED_ROWS);
    pg_run(due->scheduler->work, SQL_WORK_DUE_EXPIRED, &due->params, on_expired,
        due);
}

/* -- those that run again -------------------------------------------------------------------- */

static void on_next(void *arg, const struct pg_outcome *outcome)
{
    struct due *due = arg;
    due->is_busy = false;
    if (outcome->end == PG_DONE) {
        due_look(due, pg_get_int(outcome->results[0], 0, 0));
    }
}

/* What was taken is out of the way: something else may be due before the next
 * look of the pulse. */
static void find_next(struct due *due)
{
    due->is_busy = true;
    due->has_taken = false;
    pg_run(due->scheduler->work, SQL_WORK_DUE_NEXT, NULL, on_next, due);
}

static void on_taken(void *arg, const struct pg_outcome *outcome)
{
    struct due *due = arg;
    due->is_busy = false;
    if (outcome->end != PG_DONE) {
        LOG(WARN, "due_failed", (&(struct log_fields){.err = outcome->err}),
            "will be tried again");
        return;
    }
    const PGresult *rows = outcome->results[0];
    metric_add(due->taken, NULL, (double)pg_rows(rows));
    dispatch_send(due->scheduler->dispatch, rows);
    if (pg_rows(rows) > 0) {
        due->has_taken = true;
        due->tries = 0;
        take(due);
    } else if (due->has_taken) {
        find_next(due);
    } else if (due->tries > 0) {
        due->tries--;
        loop_timer_start(due->timer, AGAIN_MS, 0);
    } else {
        find_expired(due);
    }
}

static void take(void *owner)
{
    struct due *due = owner;
    if (due->is_busy || due->scheduler->is_stopping) {
        return;
    }
    if (dispatch_is_full(due->scheduler->dispatch)) {
        metric_add(due->held, NULL, 1.0);
        return;
    }
    due->is_busy = true;
    pg_params_clear(&due->params);
    pg_param_int4(&due->params, TAKE_ROWS);
    pg_param_time(
        &due->params, clock_moves_trusted_us(due->scheduler->clock_moves));
    pg_run(
        due->scheduler->work, SQL_WORK_DUE_TAKE, &due->params, on_taken, due);
}

void due_look(struct due *due, int64_t next_us)
{
    if (next_us > HORIZON_US || due->is_busy) {
        return;
    }
    if (next_us <= 0) {
        due->tries = 0;
        take(due);
        return;
    }
    due->tries = TRIES;
    loop_timer_start(due->timer, next_us / US_PER_MS + 1, 0);
}
