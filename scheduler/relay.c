/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/relay_private.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"

enum {
    BACKOFF_MIN_MS = 100,
    BACKOFF_MAX_MS = 5000,
    REFUSED_MS = 10000,
    LANES_BUSY_MS = 20,
    CLOSE_MS = 5000,
    PING_EVERY_MS = 3000,
    BATCH_MAX_BYTES = 64 << 20
};

static const char *const phase_names[RELAY_PHASE_COUNT] = {
    [RELAY_DOWN] = "the relay is not connected",
    [RELAY_FOLLOWING] = "the relay follows",
    [RELAY_CHECKING] = "the relay is starting",
    [RELAY_STARTING] = "the relay is reading back what was published",
    [RELAY_COMPARING] = "the relay is comparing what was published",
    [RELAY_TAILING] = "the relay publishes",
    [RELAY_STOPPED] = "the relay has stopped",
};

/* A dead client shows within seconds, a frozen one in fifteen (a living one
 * pings), so that its lock is free again. */
static const char session_sql[] =
    "select set_config('client_connection_check_interval', '1s', false),"
    " set_config('tcp_keepalives_idle', '3', false),"
    " set_config('tcp_keepalives_interval', '1', false),"
    " set_config('tcp_keepalives_count', '3', false),"
    " set_config('idle_session_timeout', '15s', false)";

void relay_stats_init(struct relay_stats *stats)
{
    *stats = (struct relay_stats){
        .is_leader = metric_gauge("actionist_relay_is_leader",
            "Whether this scheduler publishes outcomes.", NULL),
        .is_alarmed = metric_gauge("actionist_relay_is_alarmed",
            "Whether something keeps the relay from publishing.", NULL),
        .published = metric_counter(
            "actionist_relay_outcomes_total", "Outcomes published.", NULL),
        .transactions = metric_counter("actionist_relay_transactions_total",
            "Kafka transactions committed.", NULL),
        .low = metric_gauge("actionist_relay_low_seq",
            "Every outcome up to this number is published.", NULL),
        .high = metric_gauge(
            "actionist_relay_high_seq", "The highest number read.", NULL),
        .gaps = metric_gauge("actionist_relay_gaps",
            "Numbers below the highest that may still be filled.", NULL),
        .gaps_waited = metric_counter("actionist_relay_gaps_waited_total",
            "Polls of a gap that its writer had not decided yet.", NULL),
        .gaps_dead = metric_counter("actionist_relay_gaps_dead_total",
            "Gaps proven to stay empty.", NULL),
        .skipped = metric_counter("actionist_relay_skipped_total",
            "Rows that the read-back found in the topic.", NULL),
        .fenced = metric_counter("actionist_relay_fenced_total",
            "Starts made necessary by another relay.", NULL),
        .doubts = metric_counter("actionist_relay_doubts_total",
            "Starts made necessary by any doubt.", NULL),
        .duplicates = metric_counter("actionist_relay_duplicates_total",
            "Outcomes that the read-back found more than once.", NULL),
        .below_watermark =
            metric_counter("actionist_relay_below_watermark_total",
                "Rows published although the watermark had passed them.", NULL),
        .cut = metric_counter("actionist_relay_cut_total",
            "Outcomes published without their result, which did not fit.",
            NULL),
    };
}

void relay_set_phase(struct relay *relay, enum relay_phase phase)
{
    relay->phase = phase;
    metric_set(
        relay->stats.is_leader, NULL, phase == RELAY_TAILING ? 1.0 : 0.0);
}

/* -- the way back -------------------------------------------------------------------- */

/* What belongs to the loop. The batch and the start may be the thread's. */
static void go_down(struct relay *relay)
{
    relay_set_phase(relay, RELAY_DOWN);
    relay->is_start_given = false;
    relay->is_polling = false;
    relay->is_saving = false;
    relay->is_dirty = false;
    loop_timer_stop(relay->timer);
    lanes_drop(relay->lanes);
}

static void finish_stop(struct relay *relay)
{
    go_down(relay);
    relay_set_phase(relay, RELAY_STOPPED);
    if (relay->on_stopped != NULL) {
        const loop_fn done = relay->on_stopped;
        relay->on_stopped = NULL;
        done(relay->stop_owner);
    }
}

static int64_t next_backoff_ms(struct relay *relay, enum err_class class)
{
    if (class == ERR_FATAL || class == ERR_PERMANENT) {
        return REFUSED_MS;
    }
    const int64_t wait_ms = relay->backoff_ms;
    relay->backoff_ms =
        wait_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : wait_ms * 2;
    return wait_ms;
}

static void count_doubt(struct relay *relay, const struct err *err)
{
    const bool is_fenced =
        err->code != NULL && strcmp(err->code, "LANE_FENCED") == 0;
    LOG(ERROR, is_fenced ? "relay_fenced" : "relay_restarts",
        (&(struct log_fields){.err = err}), "%s", phase_names[relay->phase]);
    metric_add(relay->stats.doubts, NULL, 1.0);
    if (is_fenced) {
        metric_add(relay->stats.fenced, NULL, 1.0);
    }
}

void relay_restart(struct relay *relay, const struct err *err)
{
    count_doubt(relay, err);
    relay->alarm = *err;
    metric_set(relay->stats.is_alarmed, NULL, 1.0);
    relay->not_before_us =
        now_mono_us() + next_backoff_ms(relay, err->class) * US_PER_MS;
    go_down(relay);
    if (relay->is_stopping) {
        finish_stop(relay);
        return;
    }
    pg_reset(relay->pg); /* gives the lock up, and forgets every bound */
}

void relay_clear_alarm(struct relay *relay)
{
    if (relay->alarm.class != ERR_NONE) {
        relay->alarm = (struct err)ERR_INIT;
        metric_set(relay->stats.is_alarmed, NULL, 0.0);
        LOG(INFO, "relay_recovered", NULL, "what was wrong is over");
    }
}

bool relay_takes(struct relay *relay, enum relay_phase phase,
    const struct pg_outcome *outcome, const char *what)
{
    if (relay->phase != phase) {
        return false; /* of a session that was given up */
    }
    if (outcome->end == PG_DONE) {
        return true;
    }
    struct err err = *outcome->err;
    (void)err_wrap(&err, "%s", what);
    /* A statement that fails now may succeed later. */
    err.class = ERR_TRANSIENT;
    relay_restart(relay, &err);
    return false;
}

/* -- connection and timer -------------------------------------------------------------- */

static void begin(struct relay *relay)
{
    const int64_t wait_us = relay->not_before_us - now_mono_us();
    if (wait_us > 0) {
        loop_timer_start(relay->timer, wait_us / US_PER_MS + 1, 0);
        return;
    }
    leader_follow(relay);
}

static void on_state(void *owner, bool is_up, const struct err *err)
{
    struct relay *relay = owner;
    if (relay->phase == RELAY_STOPPED) {
        return;
    }
    if (!is_up) {
        if (relay->phase >= RELAY_CHECKING && !relay->is_stopping) {
            count_doubt(relay, err); /* the lock was lost with the session */
        }
        go_down(relay);
        if (relay->is_stopping) {
            finish_stop(relay);
        }
        return;
    }
    begin(relay);
}

static void on_timer(void *owner)
{
    struct relay *relay = owner;
    switch (relay->phase) {
    case RELAY_DOWN:
        if (pg_is_up(relay->pg)) {
            begin(relay);
        }
        break;
    case RELAY_FOLLOWING:
        leader_follow(relay);
        break;
    case RELAY_STARTING:
        relay_begin_lanes(relay);
        break;
    case RELAY_TAILING:
        relay_tail_step(relay);
        break;
    case RELAY_CHECKING:
    case RELAY_COMPARING:
    case RELAY_STOPPED:
    case RELAY_PHASE_COUNT:
        break;
    }
}

static void on_ping(void *arg, const struct pg_outcome *outcome)
{
    (void)arg; /* a lost connection is told by its state */
    (void)outcome;
}

/* While Kafka is waited for, the session must not look frozen. */
static void ping(void *owner)
{
    struct relay *relay = owner;
    if (pg_is_up(relay->pg) && pg_queued(relay->pg) == 0) {
        pg_run(relay->pg, SQL_RELAY_XMIN, NULL, on_ping, relay);
    }
}

/* -- the lanes ------------------------------------------------------------------------- */

void relay_begin_lanes(struct relay *relay)
{
    relay_set_phase(relay, RELAY_STARTING);
    if (lanes_is_busy(relay->lanes)) {
        loop_timer_start(relay->timer, LANES_BUSY_MS, 0);
        return;
    }
    positions_copy(&relay->start.positions, &relay->checkpoint.positions);
    relay->is_start_given = true;
    lanes_start(relay->lanes, &relay->start);
}

static void on_started(void *owner, const struct err *err)
{
    struct relay *relay = owner;
    if (!relay->is_start_given) {
        return; /* of a start that was given up */
    }
    relay->is_start_given = false;
    if (err != NULL) {
        relay_restart(relay, err);
        return;
    }
    LOG(INFO, "relay_read_back",
        (&(struct log_fields){.number_name = "records",
            .number = (long long)relay->start.found_count}),
        "both lanes are ours, the topic is read back");
    relay_compare(relay);
}

/* -- opening and closing --------------------------------------------------------------- */

struct relay *relay_open(struct loop *loop, const struct conf *conf)
{
    static const struct lanes_events events = {
        .on_started = on_started, .on_published = relay_on_published};
    struct relay *relay = mem_zalloc(1, sizeof(*relay));
    relay->loop = loop;
    relay->conf = conf;
    relay->shard = (int)conf_int(conf, "scheduler.relay_shard");
    relay->backoff_ms = BACKOFF_MIN_MS;
    relay->timer = loop_timer_new(loop, on_timer, relay);
    relay->pinger = loop_timer_new(loop, ping, relay);
    loop_timer_start(relay->pinger, PING_EVERY_MS, PING_EVERY_MS);
    pg_params_init(&relay->params);
    relay_stats_init(&relay->stats);
    checkpoint_init(&relay->checkpoint);
    lane_start_init(&relay->start);
    relay_core_init(&relay->core);
    lane_batch_init(&relay->batch, BATCH_MAX_BYTES);
    positions_init(&relay->delivered);
    relay->lanes = lanes_open(loop, conf, relay->shard, &events, relay);
    relay->pg = pg_open(
        loop, &(struct pg_options){.conninfo = conf_text(conf, "postgres"),
                  .name = "actionist-scheduler relay",
                  .statements = SQL_RELAY,
                  .statement_count = SQL_RELAY_COUNT,
                  .are_plans_pinned = true,
                  .session_sql = session_sql,
                  .on_state = on_state,
                  .owner = relay});
    return relay;
}

void relay_stop(struct relay *relay, loop_fn done, void *owner)
{
    relay->is_stopping = true;
    relay->on_stopped = done;
    relay->stop_owner = owner;
    if (relay->phase != RELAY_TAILING) {
        finish_stop(relay);
    } else if (!relay->is_polling) {
        relay_tail_step(relay);
    }
}

void relay_stopped(struct relay *relay)
{
    finish_stop(relay);
}

bool relay_close(struct relay *relay)
{
    relay_set_phase(relay, RELAY_STOPPED);
    loop_timer_free(relay->timer);
    loop_timer_free(relay->pinger);
    relay->timer = NULL;
    relay->pinger = NULL;
    pg_close(relay->pg);
    if (!lanes_close(relay->lanes, CLOSE_MS)) {
        return false;
    }
    pg_params_fini(&relay->params);
    checkpoint_fini(&relay->checkpoint);
    lane_start_fini(&relay->start);
    relay_core_fini(&relay->core);
    lane_batch_fini(&relay->batch);
    positions_fini(&relay->delivered);
    free(relay);
    return true;
}

bool relay_is_leader(const struct relay *relay)
{
    return relay->phase == RELAY_TAILING;
}

bool relay_is_healthy(const struct relay *relay, const char **why)
{
    *why = relay->alarm.class != ERR_NONE ? relay->alarm.msg
                                          : phase_names[relay->phase];
    return relay->alarm.class == ERR_NONE &&
           (relay->phase == RELAY_FOLLOWING || relay->phase == RELAY_TAILING);
}
