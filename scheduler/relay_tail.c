/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tailing: poll, publish what is new, poll again; one at a time. The checkpoint
 * is taken between two of them, when everything read is also published. If we
 * die after a commit and before a checkpoint, the read-back finds the rest.
 */
#include "common/log.h"
#include "common/time.h"
#include "scheduler/relay_private.h"
#include "schema/outcome.h"

enum {
    POLL_BYTES = 8 << 20,
    POLL_GAPS = 1000,
    POLL_BUSY_MS = 2,
    APART_MIN_MS = 5,
    APART_MAX_MS = 40,
    APART_TIMES = 2, /* as long as a transaction takes */
    POLL_IDLE_MS = 100,
    /* Key, headers and framing of a record. */
    RECORD_OVERHEAD_BYTES = 1024
};
#define BUSY_US US_PER_S
#define SAVE_US (500 * US_PER_MS)

/*
 * A transaction costs the broker and our client as much as hundreds of records:
 * librdkafka 2.0 alone spins for two milliseconds in each. So they begin the
 * farther apart, and carry the more, the longer they take, which tells how busy
 * the machine and the broker are. A single outcome after a pause does not wait.
 */
static int64_t apart_ms(const struct relay *relay)
{
    const int64_t ms = APART_TIMES * relay->took_us / US_PER_MS;
    return ms < APART_MIN_MS   ? APART_MIN_MS
           : ms > APART_MAX_MS ? APART_MAX_MS
                               : ms;
}

static int64_t next_poll_ms(const struct relay *relay)
{
    const int64_t now_us = now_mono_us();
    if (relay->is_full) {
        return 0;
    }
    if (now_us - relay->active_us >= BUSY_US) {
        return POLL_IDLE_MS;
    }
    const int64_t since_ms = (now_us - relay->published_us) / US_PER_MS;
    const int64_t left_ms = apart_ms(relay) - since_ms;
    return left_ms > POLL_BUSY_MS ? left_ms : POLL_BUSY_MS;
}

static void end_poll(struct relay *relay)
{
    relay->is_polling = false;
    if (relay->is_stopping) {
        relay_tail_step(relay);
        return;
    }
    loop_timer_start(relay->timer, next_poll_ms(relay), 0);
}

/* -- checkpoints ------------------------------------------------------------------------- */

static void on_saved(void *arg, const struct pg_outcome *outcome)
{
    struct relay *relay = arg;
    if (!relay_takes(relay, RELAY_TAILING, outcome, "saving the checkpoint")) {
        return;
    }
    relay->is_saving = false;
    if (pg_affected(outcome->results[0]) != 1) {
        struct err err = ERR_INIT;
        (void)err_set(&err, ERR_TRANSIENT, "RELAY_BEHIND",
            "another relay has gone on from here");
        relay_restart(relay, &err);
        return;
    }
    if (relay->is_stopping && !relay->is_polling) {
        relay_tail_step(relay);
    }
}

static void save(struct relay *relay)
{
    /* Records behind the old positions are still needed until each of them
     * has been met in the tail. */
    const struct positions *positions = relay_core_is_caught_up(&relay->core)
                                            ? &relay->delivered
                                            : &relay->checkpoint.positions;
    relay->is_dirty = false;
    relay->is_saving = true;
    pg_params_clear(&relay->params);
    checkpoint_put(&relay->params, relay->shard, &relay->core, positions,
        relay->system, relay->timeline);
    pg_run(
        relay->pg, SQL_RELAY_CHECKPOINT_WRITE, &relay->params, on_saved, relay);
}

static void save_if_due(struct relay *relay)
{
    const bool is_due =
        relay->is_stopping || now_mono_us() - relay->dirty_us >= SAVE_US;
    if (relay->is_dirty && !relay->is_saving && is_due) {
        save(relay);
    }
}

static void touch(struct relay *relay)
{
    if (!relay->is_dirty) {
        relay->is_dirty = true;
        relay->dirty_us = now_mono_us();
    }
}

/* -- publishing --------------------------------------------------------------------------- */

void relay_on_published(void *owner, const struct err *err)
{
    struct relay *relay = owner;
    if (relay->phase != RELAY_TAILING || !relay->is_polling) {
        return; /* of a start that was given up */
    }
    if (err != NULL) {
        relay_restart(relay, err);
        return;
    }
    const struct lane_batch *batch = &relay->batch;
    for (size_t i = 0; i < batch->count; i++) {
        positions_advance(&relay->delivered, batch->rows[i].partition,
            batch->rows[i].offset + 1);
    }
    relay->took_us =
        (3 * relay->took_us + now_mono_us() - relay->published_us) / 4;
    metric_add(relay->stats.published, NULL, (double)batch->count);
    metric_add(relay->stats.transactions, NULL, 1.0);
    relay->backoff_ms = 100;
    relay_clear_alarm(relay);
    end_poll(relay);
}

static void on_replicated(void *arg, const struct pg_outcome *outcome)
{
    struct relay *relay = arg;
    if (relay_takes(relay, RELAY_TAILING, outcome, "the standby")) {
        lanes_publish(relay->lanes, &relay->batch);
    }
}

static void publish(struct relay *relay)
{
    relay->batch.low = relay->core.low;
    relay->published_us = now_mono_us();
    if (relay->has_standby) {
        pg_run(relay->pg, SQL_RELAY_REPLICATED, NULL, on_replicated, relay);
    } else {
        lanes_publish(relay->lanes, &relay->batch);
    }
}

static void add_row(struct relay *relay, const PGresult *rows, int row)
{
    const int64_t seq = pg_get_int(rows, row, RELAY_SEQ);
    const struct span tenant = pg_get_bytes(rows, row, RELAY_TENANT);
    struct span trace = {.ptr = NULL, .len = 0};
    if (!pg_is_null(rows, row, RELAY_TRACEPARENT)) {
        trace = pg_get_bytes(rows, row, RELAY_TRACEPARENT);
    }
    struct span body = pg_get_bytes(rows, row, RELAY_BODY);
    struct buf cut;
    buf_init(&cut, OUTCOME_MAX_BYTES);
    const size_t around = RECORD_OVERHEAD_BYTES + tenant.len + trace.len;
    if (body.len + around > relay->start.max_record_bytes) {
        outcome_put_cut(&cut, body);
        body = buf_span(&cut);
        metric_add(relay->stats.cut, NULL, 1.0);
    }
    if (seq <= relay->start.watermark) {
        metric_add(relay->stats.below_watermark, NULL, 1.0);
        LOG(ERROR, "relay_below_watermark",
            (&(struct log_fields){.number_name = "seq", .number = seq}),
            "the topic's watermark had passed an outcome that is not there");
    }
    lane_batch_add(&relay->batch, seq, pg_get_uuid(rows, row, RELAY_ID), tenant,
        trace, body);
    buf_fini(&cut);
}

/* -- polls -------------------------------------------------------------------------------- */

static int take_rows(struct relay *relay, const PGresult *rows, struct err *err)
{
    const int count = pg_rows(rows);
    lane_batch_clear(&relay->batch);
    relay->is_full =
        count >= (int)conf_int(relay->conf, "scheduler.relay_batch_rows");
    for (int i = 0; i < count; i++) {
        const bool has_body = !pg_is_null(rows, i, RELAY_BODY);
        switch (relay_core_row(
            &relay->core, pg_get_int(rows, i, RELAY_SEQ), has_body)) {
        case RELAY_PUBLISH:
            add_row(relay, rows, i);
            break;
        case RELAY_SKIP:
            metric_add(relay->stats.skipped, NULL, 1.0);
            break;
        case RELAY_LATER:
            relay->is_full = true;
            break;
        case RELAY_TOO_MANY_GAPS:
            return err_set(err, ERR_FATAL, "TOO_MANY_GAPS",
                "over %zu numbers are missing before outcome %lld: was "
                "outcome_seq moved?",
                RELAY_MAX_GAPS, (long long)pg_get_int(rows, i, RELAY_SEQ));
        }
    }
    if (relay->batch.bytes.is_overflowed) {
        return err_set(err, ERR_FATAL, "BATCH_TOO_LARGE",
            "a batch of outcomes is larger than the relay can hold");
    }
    return 0;
}

static void on_bound(void *arg, const struct pg_outcome *outcome)
{
    struct relay *relay = arg;
    if (relay_takes(relay, RELAY_TAILING, outcome, "bounding gaps")) {
        relay_core_bound(&relay->core, pg_get_int(outcome->results[0], 0, 0));
    }
}

static void count_poll(struct relay *relay, const struct relay_poll *poll)
{
    const struct relay_core *core = &relay->core;
    metric_add(relay->stats.gaps_waited, NULL, (double)poll->waiting);
    metric_add(relay->stats.gaps_dead, NULL, (double)poll->dead);
    metric_set(relay->stats.gaps, NULL, (double)core->gap_count);
    metric_set(relay->stats.low, NULL, (double)core->low);
    metric_set(relay->stats.high, NULL, (double)core->high);
}

/* The rows were returned, so an id drawn from now on bounds every new hole. It
 * is answered before the next poll, which goes the same way behind it. */
static void bound_gaps(struct relay *relay)
{
    if (relay_core_wants_bound(&relay->core)) {
        relay->active_us = now_mono_us();
        pg_run(relay->pg, SQL_RELAY_BOUND, NULL, on_bound, relay);
    }
}

static void on_polled(void *arg, const struct pg_outcome *outcome)
{
    struct relay *relay = arg;
    if (!relay_takes(relay, RELAY_TAILING, outcome, "reading outcomes")) {
        return;
    }
    const PGresult *rows = outcome->results[outcome->result_count - 1];
    if (outcome->result_count == 2) {
        relay_core_xmin(&relay->core, pg_get_int(outcome->results[0], 0, 0));
    }
    struct err err = ERR_INIT;
    if (take_rows(relay, rows, &err) != 0) {
        relay_restart(relay, &err);
        return;
    }
    struct relay_poll poll;
    relay_core_end(&relay->core, &poll);
    count_poll(relay, &poll);
    bound_gaps(relay);
    if (pg_rows(rows) > 0 || poll.dead > 0) {
        touch(relay);
    }
    if (relay->batch.count > 0) {
        relay->active_us = now_mono_us();
        publish(relay);
    } else {
        relay_clear_alarm(relay);
        end_poll(relay);
    }
}

static void poll_rows(struct relay *relay)
{
    struct relay_core *core = &relay->core;
    relay->is_polling = true;
    relay_core_begin(core, POLL_GAPS);
    pg_params_clear(&relay->params);
    pg_param_int8(&relay->params, core->high);
    pg_param_int4(&relay->params,
        (int32_t)conf_int(relay->conf, "scheduler.relay_batch_rows"));
    pg_array_begin(&relay->params, PG_INT8);
    for (size_t i = 0; i < core->gap_count; i++) {
        if (core->gaps[i].is_asked) {
            pg_array_int8(&relay->params, core->gaps[i].seq);
        }
    }
    pg_array_end(&relay->params);
    pg_param_int8(&relay->params, POLL_BYTES);
    pg_begin(relay->pg);
    if (core->gap_count > 0) {
        /* Before the rows: each statement has a snapshot of its own. */
        pg_step(relay->pg, SQL_RELAY_XMIN, NULL);
    }
    pg_step(relay->pg, SQL_RELAY_ROWS, &relay->params);
    pg_commit(relay->pg, on_polled, relay);
}

void relay_tail_step(struct relay *relay)
{
    save_if_due(relay);
    if (!relay->is_stopping) {
        poll_rows(relay);
    } else if (!relay->is_saving && !relay->is_dirty) {
        relay_stopped(relay);
    }
}

void relay_tail(struct relay *relay)
{
    relay_set_phase(relay, RELAY_TAILING);
    positions_copy(&relay->delivered, &relay->start.positions);
    relay->is_polling = false;
    relay->is_saving = false;
    /* New positions are worth a checkpoint: the next start is shorter. */
    relay->is_dirty = false;
    touch(relay);
    relay->active_us = now_mono_us();
    relay_tail_step(relay);
}
