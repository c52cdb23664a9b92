/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/upkeep.h"

#include <stdlib.h>

#include "common/log.h"
#include "common/metrics.h"
#include "scheduler/scheduler.h"
#include "schema/sql_scheduler.h"

enum { EVERY_MS = 60000, FIRST_MS = 1000, PURGE_ROWS = 1000 };

struct upkeep {
    struct scheduler *scheduler;
    struct loop_timer *timer;
    struct pg_params params;
    bool is_busy;
    struct metric *partitions;
    struct metric *dropped; /* of the ledger */
    struct metric *hooks_dropped;
    struct metric *purged;
    struct metric *xmin_lag;
    struct metric *failed;
};

static void complain(
    struct upkeep *upkeep, const struct err *err, const char *what)
{
    metric_add(upkeep->failed, what, 1.0);
    LOG(WARN, "upkeep_failed",
        (&(struct log_fields){.err = err, .name1 = "task", .value1 = what}),
        "will be tried again in a minute");
}

static void on_lag(void *arg, const struct pg_outcome *outcome)
{
    struct upkeep *upkeep = arg;
    upkeep->is_busy = false;
    if (outcome->end != PG_DONE) {
        complain(upkeep, outcome->err, "xmin");
        return;
    }
    metric_set(
        upkeep->xmin_lag, NULL, (double)pg_get_int(outcome->results[0], 0, 0));
}

static void purge(struct upkeep *upkeep);

static void on_purged(void *arg, const struct pg_outcome *outcome)
{
    struct upkeep *upkeep = arg;
    struct pg *work = upkeep->scheduler->work;
    if (outcome->end != PG_DONE) {
        complain(upkeep, outcome->err, "reservations");
    } else {
        const int64_t rows = pg_affected(outcome->results[0]);
        metric_add(upkeep->purged, NULL, (double)rows);
        if (rows == PURGE_ROWS && !upkeep->scheduler->is_stopping) {
            purge(upkeep);
            return;
        }
    }
    pg_run(work, SQL_WORK_XMIN_LAG, NULL, on_lag, upkeep);
}

static void purge(struct upkeep *upkeep)
{
    pg_params_clear(&upkeep->params);
    pg_param_int4(&upkeep->params, PURGE_ROWS);
    pg_run(upkeep->scheduler->work, SQL_WORK_PURGE_RESERVATIONS,
        &upkeep->params, on_purged, upkeep);
}

static void on_webhooks_dropped(void *arg, const struct pg_outcome *outcome)
{
    struct upkeep *upkeep = arg;
    if (outcome->end != PG_DONE) {
        complain(upkeep, outcome->err, "webhooks");
    } else {
        metric_add(upkeep->hooks_dropped, NULL,
            (double)pg_get_int(outcome->results[0], 0, 0));
    }
    purge(upkeep);
}

static void on_dropped(void *arg, const struct pg_outcome *outcome)
{
    struct upkeep *upkeep = arg;
    if (outcome->end != PG_DONE) {
        complain(upkeep, outcome->err, "ledger");
    } else if (!pg_is_null(outcome->results[0], 0, 0)) {
        LOG(INFO, "ledger_dropped", NULL,
            "a month of the ledger is over its retention");
        metric_add(upkeep->dropped, NULL, 1.0);
    }
    pg_run(upkeep->scheduler->work, SQL_WORK_DROP_WEBHOOKS, NULL,
        on_webhooks_dropped, upkeep);
}

static void on_partitions(void *arg, const struct pg_outcome *outcome)
{
    struct upkeep *upkeep = arg;
    if (outcome->end != PG_DONE) {
        complain(upkeep, outcome->err, "partitions");
    } else {
        metric_add(upkeep->partitions, NULL,
            (double)pg_get_int(outcome->results[0], 0, 0));
    }
    pg_run(upkeep->scheduler->work, SQL_WORK_DROP_LEDGER, NULL, on_dropped,
        upkeep);
}

static void run(void *owner)
{
    struct upkeep *upkeep = owner;
    if (upkeep->is_busy || upkeep->scheduler->is_stopping ||
        !pg_is_up(upkeep->scheduler->work)) {
        return;
    }
    upkeep->is_busy = true;
    pg_run(upkeep->scheduler->work, SQL_WORK_PARTITIONS, NULL, on_partitions,
        upkeep);
}

struct upkeep *upkeep_open(struct scheduler *scheduler)
{
    struct upkeep *upkeep = mem_zalloc(1, sizeof(*upkeep));
    upkeep->scheduler = scheduler;
    pg_params_init(&upkeep->params);
    upkeep->partitions = metric_counter("actionist_partitions_made_total",
        "Partitions made ahead of need.", NULL);
    upkeep->dropped = metric_counter("actionist_ledger_dropped_total",
        "Months of the ledger that were dropped.", NULL);
    upkeep->hooks_dropped =
        metric_counter("actionist_webhook_partitions_dropped_total",
            "Partitions of webhooks whose retention is over.", NULL);
    upkeep->purged = metric_counter("actionist_reservations_purged_total",
        "Reservations older than 48 h that were deleted.", NULL);
    upkeep->xmin_lag = metric_gauge("actionist_xmin_lag_transactions",
        "Transactions that began after the oldest one still writing, the oldest"
        " snapshot or a replication slot's: none of their garbage goes.",
        NULL);
    upkeep->failed = metric_counter(
        "actionist_upkeep_failed_total", "Upkeep tasks that failed.", "task");
    upkeep->timer = loop_timer_new(&scheduler->loop, run, upkeep);
    loop_timer_start(upkeep->timer, FIRST_MS, EVERY_MS);
    return upkeep;
}

void upkeep_close(struct upkeep *upkeep)
{
    if (upkeep != NULL) {
        loop_timer_free(upkeep->timer);
        pg_params_fini(&upkeep->params);
        free(upkeep);
    }
}
