/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/dispatch.h"

#include <stdlib.h>

#include "common/crypt.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/time.h"
#include "scheduler/scheduler.h"
#include "schema/sql_scheduler.h"

enum {
    ENOUGH_QUEUED = 5000,  /* records that Kafka has not taken */
    ENOUGH_UNTAKEN = 5000, /* rows that no worker has taken */
    RESEND_ROWS = 1000,
    TOPIC_SIZE = 256
};
#define STALE_US US_PER_S
#define RESEND_MAX_US (8 * US_PER_S)

struct dispatch {
    struct scheduler *scheduler;
    char topic[TOPIC_SIZE];
    int64_t untaken;
    int64_t resend_us; /* between two resends */
    int64_t resent_us; /* when the last one was */
    bool is_resending;
    struct pg_params params;
    struct metric *sent;
    struct metric *resent;
    struct metric *failed;
    struct metric *waiting;
};

struct dispatch *dispatch_open(struct scheduler *scheduler)
{
    struct dispatch *dispatch = mem_zalloc(1, sizeof(*dispatch));
    dispatch->scheduler = scheduler;
    dispatch->resend_us = STALE_US;
    kafka_topic_name(scheduler->conf, "dispatch", dispatch->topic);
    kafka_producer_prepare(scheduler->producer, dispatch->topic);
    pg_params_init(&dispatch->params);
    dispatch->sent = metric_counter("actionist_dispatch_sent_total",
        "Records sent to the dispatch topic.", NULL);
    dispatch->resent = metric_counter("actionist_dispatch_resent_total",
        "Of these, sent again because nobody took the row.", NULL);
    dispatch->failed = metric_counter("actionist_dispatch_failed_total",
        "Records that Kafka did not take; they are sent again.", NULL);
    dispatch->waiting = metric_gauge("actionist_dispatch_untaken",
        "Live rows that wait for a worker.", NULL);
    return dispatch;
}

void dispatch_close(struct dispatch *dispatch)
{
    if (dispatch != NULL) {
        pg_params_fini(&dispatch->params);
        free(dispatch);
    }
}

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    struct dispatch *dispatch = arg;
    (void)partition;
    (void)offset;
    (void)err;
    metric_add(delivery == KAFKA_DELIVERED ? dispatch->sent : dispatch->failed,
        NULL, 1.0);
}

static void send_row(struct dispatch *dispatch, const PGresult *rows, int row)
{
    char id[UUID_TEXT_SIZE];
    uuid_format(pg_get_uuid(rows, row, 0), id);
    struct buf value;
    buf_init(&value, 256);
    buf_printf(&value, "{\"id\":\"%s\",\"attempt_no\":%lld}", id,
        (long long)pg_get_int(rows, row, 2));
    struct err err = ERR_INIT;
    if (kafka_produce(dispatch->scheduler->producer, dispatch->topic, -1,
            pg_get_bytes(rows, row, 1), buf_span(&value), NULL, 0, on_delivered,
            dispatch, &err) != 0) {
        metric_add(dispatch->failed, NULL, 1.0);
        LOG(WARN, "dispatch_failed", (&(struct log_fields){.err = &err}),
            "will be sent again");
    }
    buf_fini(&value);
}

void dispatch_send(struct dispatch *dispatch, const PGresult *rows)
{
    for (int i = 0; i < pg_rows(rows); i++) {
        send_row(dispatch, rows, i);
    }
}

bool dispatch_is_full(const struct dispatch *dispatch)
{
    return dispatch->untaken >= ENOUGH_UNTAKEN ||
           kafka_producer_queued(dispatch->scheduler->producer) >=
               ENOUGH_QUEUED;
}

/* -- sending again ------------------------------------------------------------------------ */

static void on_untaken(void *arg, const struct pg_outcome *outcome)
{
    struct dispatch *dispatch = arg;
    dispatch->is_resending = false;
    if (outcome->end != PG_DONE) {
        return; /* the next look comes soon */
    }
    dispatch->resent_us = now_mono_us();
    const PGresult *rows = outcome->results[0];
    metric_add(dispatch->resent, NULL, (double)pg_rows(rows));
    dispatch_send(dispatch, rows);
}

void dispatch_look(struct dispatch *dispatch, int64_t untaken, int64_t age_us)
{
    dispatch->untaken = untaken;
    metric_set(dispatch->waiting, NULL, (double)untaken);
    if (untaken == 0 || age_us < STALE_US) {
        dispatch->resend_us = STALE_US;
        return;
    }
    const bool is_due =
        now_mono_us() - dispatch->resent_us >= dispatch->resend_us;
    if (dispatch->is_resending || !is_due ||
        kafka_producer_queued(dispatch->scheduler->producer) >= ENOUGH_QUEUED) {
        return;
    }
    dispatch->is_resending = true;
    if (dispatch->resend_us < RESEND_MAX_US) {
        dispatch->resend_us *= 2;
    }
    pg_params_clear(&dispatch->params);
    pg_param_int8(&dispatch->params, STALE_US);
    pg_param_int4(&dispatch->params, RESEND_ROWS);
    pg_run(dispatch->scheduler->work, SQL_WORK_UNTAKEN, &dispatch->params,
        on_untaken, dispatch);
}
