/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/held.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "scheduler/dispatch.h"
#include "scheduler/ending.h"
#include "scheduler/scheduler.h"
#include "schema/sql_scheduler.h"
#include "schema/state.h"

enum { ROWS = 200 };

struct held {
    struct scheduler *scheduler;
    struct pg_params params;
    bool is_busy;
    struct metric *resumed;
};

static void on_expired(void *arg, const struct pg_outcome *outcome)
{
    struct held *held = arg;
    held->is_busy = false;
    if (outcome->end != PG_DONE) {
        return; /* the next look comes soon */
    }
    const PGresult *rows = outcome->results[0];
    for (int i = 0; i < pg_rows(rows); i++) {
        struct ending_row row = {.attempt_no = (int32_t)pg_get_int(rows, i, 1),
            .calls = (int32_t)pg_get_int(rows, i, 2),
            .status = state_end(STATUS_EXPIRED, pg_get_bool(rows, i, 3)),
            .code = CODE_DEADLINE_PASSED};
        memcpy(row.id, pg_get_uuid(rows, i, 0), UUID_SIZE);
        ending_add(held->scheduler->ending, ENDING_WAITING, &row);
    }
}

static void find_expired(struct held *held)
{
    if (!ending_is_idle(held->scheduler->ending, ENDING_WAITING)) {
        held->is_busy = false;
        return;
    }
    pg_params_clear(&held->params);
    pg_param_int4(&held->params, ROWS);
    pg_run(held->scheduler->work, SQL_WORK_HELD_EXPIRED, &held->params,
        on_expired, held);
}

static void take(struct held *held);

static void on_taken(void *arg, const struct pg_outcome *outcome)
{
    struct held *held = arg;
    if (outcome->end != PG_DONE) {
        LOG(WARN, "resume_failed", (&(struct log_fields){.err = outcome->err}),
            "will be tried again");
        held->is_busy = false;
        return;
    }
    const PGresult *rows = outcome->results[0];
    metric_add(held->resumed, NULL, (double)pg_rows(rows));
    dispatch_send(held->scheduler->dispatch, rows);
    if (pg_rows(rows) > 0 && !held->scheduler->is_stopping) {
        take(held);
    } else {
        find_expired(held);
    }
}

static void take(struct held *held)
{
    if (dispatch_is_full(held->scheduler->dispatch)) {
        find_expired(held);
        return;
    }
    pg_params_clear(&held->params);
    pg_param_int4(&held->params, ROWS);
    pg_run(held->scheduler->work, SQL_WORK_HELD_TAKE, &held->params, on_taken,
        held);
}

void held_look(struct held *held)
{
    if (held->is_busy || held->scheduler->is_stopping ||
        !pg_is_up(held->scheduler->work)) {
        return;
    }
    held->is_busy = true;
    take(held);
}

struct held *held_open(struct scheduler *scheduler)
{
    struct held *held = mem_zalloc(1, sizeof(*held));
    held->scheduler = scheduler;
    pg_params_init(&held->params);
    held->resumed = metric_counter("actionist_resumed_total",
        "Paused actions that went on after their pause was lifted.", NULL);
    return held;
}

void held_close(struct held *held)
{
    if (held != NULL) {
        pg_params_fini(&held->params);
        free(held);
    }
}
