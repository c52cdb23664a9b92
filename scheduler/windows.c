/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/windows.h"

#include <stdlib.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/time.h"
#include "scheduler/relay.h"
#include "scheduler/scheduler.h"
#include "schema/sql_scheduler.h"

enum {
    MOST_EVERY_MS = 60000,
    LEAST_EVERY_MS = 500,
    LOOKS_A_WINDOW = 4,
    /* Before a window goes, its actions are looked through once more. */
    DEADLINE_MS = 610000
};
#define SESSION_SQL "set statement_timeout = '10min'"

struct windows {
    struct scheduler *scheduler;
    struct pg *pg;
    struct loop_timer *timer;
    struct pg_params params;
    int64_t window_s;
    int64_t retention_s;
    int64_t *closed; /* that may be old enough; owned */
    int count;
    int next; /* of closed, to be dropped */
    bool is_busy;
    struct metric *rotated;
    struct metric *dropped;
    struct metric *failed;
};

/* -- dropping ------------------------------------------------------------------- */

static void drop_next(struct windows *windows);

/* What could not be done is tried again at the next look. */
static bool is_done(
    struct windows *windows, const struct pg_outcome *outcome, const char *what)
{
    if (outcome->end == PG_DONE) {
        return true;
    }
    windows->is_busy = false;
    if (windows->scheduler->is_stopping) {
        return false;
    }
    metric_add(windows->failed, what, 1);
    LOG(WARN, "window_failed",
        (&(struct log_fields){
            .err = outcome->err, .name1 = "task", .value1 = what}),
        "will be tried again");
    return false;
}

static void on_dropped(void *arg, const struct pg_outcome *outcome)
{
    struct windows *windows = arg;
    if (!is_done(windows, outcome, "drop")) {
        return;
    }
    if (pg_get_bool(outcome->results[0], 0, 0)) {
        metric_add(windows->dropped, NULL, 1);
        LOG(INFO, "window_dropped",
            (&(struct log_fields){.number_name = "window",
                .number = windows->closed[windows->next]}),
            "its keys act again from now on");
    }
    windows->next++;
    drop_next(windows);
}

static void drop_next(struct windows *windows)
{
    if (windows->next == windows->count || windows->scheduler->is_stopping) {
        windows->is_busy = false;
        return;
    }
    pg_params_clear(&windows->params);
    pg_param_int4(&windows->params, (int32_t)windows->closed[windows->next]);
    pg_param_int8(&windows->params, windows->retention_s);
    pg_run(windows->pg, SQL_WINDOW_DROP, &windows->params, on_dropped, windows);
}

static void on_closed(void *arg, const struct pg_outcome *outcome)
{
    struct windows *windows = arg;
    if (!is_done(windows, outcome, "look")) {
        return;
    }
    const PGresult *rows = outcome->results[0];
    windows->count = pg_rows(rows);
    windows->next = 0;
    windows->closed = mem_resize(
        windows->closed, (size_t)windows->count + 1, sizeof(*windows->closed));
    for (int i = 0; i < windows->count; i++) {
        windows->closed[i] = pg_get_int(rows, i, 0);
    }
    drop_next(windows);
}

/* -- rotating -------------------------------------------------------------------- */

static void on_rotated(void *arg, const struct pg_outcome *outcome)
{
    struct windows *windows = arg;
    if (!is_done(windows, outcome, "rotate")) {
        return;
    }
    if (!pg_is_null(outcome->results[0], 0, 0)) {
        metric_add(windows->rotated, NULL, 1);
        LOG(INFO, "window_opened",
            (&(struct log_fields){.number_name = "window",
                .number = pg_get_int(outcome->results[0], 0, 0)}),
            "claims go there from now on");
    }
    pg_params_clear(&windows->params);
    pg_param_int8(&windows->params, windows->retention_s);
    pg_run(
        windows->pg, SQL_WINDOW_CLOSED, &windows->params, on_closed, windows);
}

static void run(void *owner)
{
    struct windows *windows = owner;
    if (windows->is_busy || windows->scheduler->is_stopping ||
        !pg_is_up(windows->pg) || !relay_is_leader(windows->scheduler->relay)) {
        return;
    }
    windows->is_busy = true;
    pg_params_clear(&windows->params);
    pg_param_int8(&windows->params, windows->window_s);
    pg_run(
        windows->pg, SQL_WINDOW_ROTATE, &windows->params, on_rotated, windows);
}

/* -- life -------------------------------------------------------------------------- */

static int64_t every_ms(int64_t window_s)
{
    const int64_t ms = window_s * 1000 / LOOKS_A_WINDOW;
    return ms > MOST_EVERY_MS    ? MOST_EVERY_MS
           : ms < LEAST_EVERY_MS ? LEAST_EVERY_MS
                                 : ms;
}

struct windows *windows_open(struct scheduler *scheduler)
{
    struct windows *windows = mem_zalloc(1, sizeof(*windows));
    windows->scheduler = scheduler;
    windows->window_s = conf_int(scheduler->conf, "scheduler.window_s");
    windows->retention_s = conf_int(scheduler->conf, "scheduler.retention_s");
    pg_params_init(&windows->params);
    windows->rotated = metric_counter(
        "actionist_windows_opened_total", "Idempotency windows opened.", NULL);
    windows->dropped = metric_counter("actionist_windows_dropped_total",
        "Idempotency windows dropped.", NULL);
    windows->failed = metric_counter("actionist_windows_failed_total",
        "Steps of rotating or dropping that failed.", "task");
    windows->pg = pg_open(&scheduler->loop,
        &(struct pg_options){.conninfo = conf_text(scheduler->conf, "postgres"),
            .name = "actionist-scheduler windows",
            .statements = SQL_WINDOW,
            .statement_count = SQL_WINDOW_COUNT,
            .deadline_ms = DEADLINE_MS,
            .session_sql = SESSION_SQL});
    windows->timer = loop_timer_new(&scheduler->loop, run, windows);
    loop_timer_start(
        windows->timer, LEAST_EVERY_MS, every_ms(windows->window_s));
    return windows;
}

void windows_close(struct windows *windows)
{
    if (windows != NULL) {
        loop_timer_free(windows->timer);
        pg_close(windows->pg);
        pg_params_fini(&windows->params);
        free(windows->closed);
        free(windows);
    }
}
