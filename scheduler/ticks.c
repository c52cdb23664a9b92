/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ticks.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/time.h"
#include "scheduler/scheduler.h"
#include "schema/schedule_rows.h"
#include "schema/sql_scheduler.h"

enum {
    PAGE_ROWS = 20,
    RESEND_ROWS = 200,
    ENOUGH_QUEUED = 5000, /* records that Kafka has not taken */
    ACK_ROWS = 500,
    TOPIC_SIZE = 256
};
/* Looks come five times a second; what is due before the next one gets a timer
 * of its own. */
#define HORIZON_US (400 * US_PER_MS)
/* Older ones are somebody's who died. */
#define LEFT_BEHIND_US (5 * US_PER_S)

/* A record that Kafka has not acknowledged yet, or has, and its firing still
 * has to go. */
struct firing {
    struct ticks *ticks;
    struct firing *next;
    uint8_t schedule_id[UUID_SIZE];
    int64_t tick_us;
};

struct ticks {
    struct scheduler *scheduler;
    struct loop_timer *timer;
    char topic[TOPIC_SIZE];
    struct pg_params params;
    struct buf record;
    struct schedule_plan plan;
    bool is_busy; /* from a reading of what is due to its last firing */
    PGresult *page;
    int row; /* of the page */
    bool is_resending;
    bool is_acking;
    int64_t in_flight;
    struct firing *acked; /* to be deleted */
    struct firing *acking;
    struct metric *fired;
    struct metric *missed;
    struct metric *resent;
    struct metric *failed;
};

static void ack(struct ticks *ticks);

/* -- publishing ------------------------------------------------------------ */

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    struct firing *firing = arg;
    struct ticks *ticks = firing->ticks;
    (void)partition;
    (void)offset;
    ticks->in_flight--;
    if (delivery != KAFKA_DELIVERED) {
        metric_add(ticks->failed, "publish", 1.0);
        LOG(WARN, "firing_not_published", (&(struct log_fields){.err = err}),
            "will be published again");
        free(firing);
        return;
    }
    firing->next = ticks->acked;
    ticks->acked = firing;
    ack(ticks);
}

static void publish(struct ticks *ticks, const PGresult *rows, int row)
{
    struct err err = ERR_INIT;
    struct firing *firing = mem_zalloc(1, sizeof(*firing));
    firing->ticks = ticks;
    memcpy(firing->schedule_id, pg_get_uuid(rows, row, FIRING_SCHEDULE),
        UUID_SIZE);
    firing->tick_us = pg_get_time(rows, row, FIRING_TICK);
    ticks->in_flight++;
    if (kafka_produce(ticks->scheduler->producer, ticks->topic, -1,
            pg_get_bytes(rows, row, FIRING_TENANT),
            pg_get_bytes(rows, row, FIRING_REQUEST), NULL, 0, on_delivered,
            firing, &err) != 0) {
        on_delivered(firing, KAFKA_NOT_DELIVERED, -1, -1, &err);
    }
}

static void free_list(struct firing *at)
{
    while (at != NULL) {
        struct firing *next = at->next;
        free(at);
        at = next;
    }
}

static void on_acked(void *arg, const struct pg_outcome *outcome)
{
    struct ticks *ticks = arg;
    ticks->is_acking = false;
    free_list(ticks->acking);
    ticks->acking = NULL;
    if (outcome->end != PG_DONE) {
        /* Their firings are published once more, and then deleted. */
        metric_add(ticks->failed, "delete", 1.0);
        return;
    }
    ack(ticks);
}

/* Deletes what Kafka has. */
static void ack(struct ticks *ticks)
{
    if (ticks->is_acking || ticks->acked == NULL ||
        ticks->scheduler->is_stopping) {
        return;
    }
    struct firing *last = ticks->acked;
    for (int i = 1; i < ACK_ROWS && last->next != NULL; i++) {
        last = last->next;
    }
    ticks->acking = ticks->acked;
    ticks->acked = last->next;
    last->next = NULL;
    pg_params_clear(&ticks->params);
    pg_array_begin(&ticks->params, PG_UUID);
    for (const struct firing *at = ticks->acking; at != NULL; at = at->next) {
        pg_array_bytes(&ticks->params,
            (struct span){(const char *)at->schedule_id, UUID_SIZE});
    }
    pg_array_end(&ticks->params);
    pg_array_begin(&ticks->params, PG_TIMESTAMPTZ);
    for (const struct firing *at = ticks->acking; at != NULL; at = at->next) {
        pg_array_time(&ticks->params, at->tick_us);
    }
    pg_array_end(&ticks->params);
    ticks->is_acking = true;
    pg_run(ticks->scheduler->work, SQL_WORK_FIRED, &ticks->params, on_acked,
        ticks);
}

/* -- what was left behind -------------------------------------------------- */

static void on_left(void *arg, const struct pg_outcome *outcome)
{
    struct ticks *ticks = arg;
    ticks->is_resending = false;
    if (outcome->end != PG_DONE || ticks->scheduler->is_stopping) {
        return; /* the next look comes soon */
    }
    const PGresult *rows = outcome->results[0];
    for (int row = 0; row < pg_rows(rows); row++) {
        if (!pg_get_bool(rows, row, FIRING_IS_ENDED)) {
            metric_add(ticks->resent, NULL, 1.0);
            publish(ticks, rows, row);
            continue;
        }
        struct firing *firing = mem_zalloc(1, sizeof(*firing));
        firing->ticks = ticks;
        memcpy(firing->schedule_id, pg_get_uuid(rows, row, FIRING_SCHEDULE),
            UUID_SIZE);
        firing->tick_us = pg_get_time(rows, row, FIRING_TICK);
        firing->next = ticks->acked;
        ticks->acked = firing;
    }
    ack(ticks);
}

static void resend(struct ticks *ticks)
{
    ticks->is_resending = true;
    pg_params_clear(&ticks->params);
    pg_param_int8(&ticks->params, LEFT_BEHIND_US);
    pg_param_int4(&ticks->params, RESEND_ROWS);
    pg_run(ticks->scheduler->work, SQL_WORK_FIRINGS, &ticks->params, on_left,
        ticks);
}

/* -- firing ---------------------------------------------------------------- */

static void read_page(
    struct ticks *ticks, int64_t after_us, const uint8_t after_id[UUID_SIZE]);
static void take_row(struct ticks *ticks);

static void end_page(struct ticks *ticks)
{
    PQclear(ticks->page);
    ticks->page = NULL;
    ticks->is_busy = false;
}

static void on_fired(void *arg, const struct pg_outcome *outcome)
{
    struct ticks *ticks = arg;
    if (outcome->end != PG_DONE) {
        /* In doubt as well: a firing that was written is found later. */
        metric_add(ticks->failed, "fire", 1.0);
        LOG(WARN, "fire_failed", (&(struct log_fields){.err = outcome->err}),
            "will be tried again");
        if (outcome->err->class == ERR_PERMANENT) {
            ticks->row++; /* does not stop what is behind it */
            take_row(ticks);
        } else {
            end_page(ticks);
        }
        return;
    }
    const PGresult *rows = outcome->results[0];
    for (int row = 0; row < pg_rows(rows); row++) {
        publish(ticks, rows, row);
    }
    if (pg_rows(rows) > 0) {
        metric_add(ticks->fired, NULL, (double)pg_rows(rows));
        metric_add(ticks->missed, NULL, (double)ticks->plan.missed);
    }
    ticks->row++;
    take_row(ticks);
}

static void put_time_or_null(
    struct pg_params *params, bool is_there, int64_t at_us)
{
    if (is_there) {
        pg_param_time(params, at_us);
    } else {
        pg_param_null(params);
    }
}

/* The id that the claim will give the action of a request. */
static void put_action_ids(struct ticks *ticks, const struct schedule *schedule,
    const char *tenant, const uint8_t *id)
{
    pg_array_begin(&ticks->params, PG_UUID);
    for (size_t i = 0; i < ticks->plan.count; i++) {
        uint8_t action[UUID_SIZE];
        schedule_action_id(
            schedule, tenant, id, ticks->plan.ticks_us[i], action);
        pg_array_bytes(
            &ticks->params, (struct span){(const char *)action, UUID_SIZE});
    }
    pg_array_end(&ticks->params);
}

static void put_requests(struct ticks *ticks, const struct schedule *schedule,
    const char *tenant, const uint8_t *id)
{
    pg_array_begin(&ticks->params, PG_BYTEA);
    for (size_t i = 0; i < ticks->plan.count; i++) {
        buf_clear(&ticks->record);
        schedule_put_record(
            &ticks->record, schedule, tenant, id, ticks->plan.ticks_us[i]);
        pg_array_bytes(&ticks->params, buf_span(&ticks->record));
    }
    pg_array_end(&ticks->params);
}

static void fire(struct ticks *ticks, const struct schedule *schedule)
{
    const struct schedule_plan *plan = &ticks->plan;
    const uint8_t *id = pg_get_uuid(ticks->page, ticks->row, SCHEDULE_ID);
    char *tenant =
        span_dup(pg_get_bytes(ticks->page, ticks->row, SCHEDULE_TENANT));
    pg_params_clear(&ticks->params);
    pg_param_uuid(&ticks->params, id);
    pg_param_time(
        &ticks->params, pg_get_time(ticks->page, ticks->row, SCHEDULE_NEXT_AT));
    put_time_or_null(&ticks->params, plan->has_next, plan->next_us);
    pg_param_int8(&ticks->params, plan->missed);
    pg_array_begin(&ticks->params, PG_TIMESTAMPTZ);
    for (size_t i = 0; i < plan->count; i++) {
        pg_array_time(&ticks->params, plan->ticks_us[i]);
    }
    pg_array_end(&ticks->params);
    put_action_ids(ticks, schedule, tenant, id);
    put_requests(ticks, schedule, tenant, id);
    pg_run(
        ticks->scheduler->work, SQL_WORK_FIRE, &ticks->params, on_fired, ticks);
    free(tenant);
}

/* What cannot be read or has no zone here is left to others, and to later;
 * it does not stop what is behind it. */
static void complain(struct ticks *ticks, const struct fault *fault)
{
    char *tenant =
        span_dup(pg_get_bytes(ticks->page, ticks->row, SCHEDULE_TENANT));
    char *name = span_dup(pg_get_bytes(ticks->page, ticks->row, SCHEDULE_NAME));
    metric_add(ticks->failed, "plan", 1.0);
    LOG(ERROR, "schedule_unusable",
        (&(struct log_fields){
            .tenant = tenant, .name1 = "schedule", .value1 = name}),
        "cannot say when it fires: %s", fault->detail);
    free(name);
    free(tenant);
}

/* Fires the next row of the page that can be; at its end reads another one. */
static void take_row(struct ticks *ticks)
{
    const int count = pg_rows(ticks->page);
    for (; ticks->row < count && !ticks->scheduler->is_stopping; ticks->row++) {
        struct schedule schedule;
        struct fault fault = FAULT_INIT;
        struct zone *zone = NULL;
        const bool is_usable =
            schedule_of_row(ticks->page, ticks->row, &schedule, &fault) == 0 &&
            schedule_open_zone(&schedule, &zone, &fault) == 0;
        if (is_usable) {
            schedule_make_plan(&schedule, zone,
                pg_get_time(ticks->page, ticks->row, SCHEDULE_NEXT_AT),
                pg_get_time(ticks->page, ticks->row, SCHEDULE_NOW),
                &ticks->plan);
            fire(ticks, &schedule);
        } else {
            complain(ticks, &fault);
        }
        zone_free(zone);
        if (is_usable) {
            return;
        }
    }
    if (count < PAGE_ROWS || ticks->scheduler->is_stopping) {
        end_page(ticks);
        return;
    }
    uint8_t id[UUID_SIZE];
    const int64_t at_us = pg_get_time(ticks->page, count - 1, SCHEDULE_NEXT_AT);
    memcpy(id, pg_get_uuid(ticks->page, count - 1, SCHEDULE_ID), UUID_SIZE);
    PQclear(ticks->page);
    ticks->page = NULL;
    read_page(ticks, at_us, id);
}

static void on_page(void *arg, const struct pg_outcome *outcome)
{
    struct ticks *ticks = arg;
    if (outcome->end != PG_DONE || ticks->scheduler->is_stopping) {
        end_page(ticks);
        return;
    }
    /* The rows are needed longer than this callback lasts. */
    ticks->page =
        PQcopyResult(outcome->results[0], PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
    if (ticks->page == NULL) {
        abort(); /* no memory */
    }
    ticks->row = 0;
    take_row(ticks);
}

static void read_page(
    struct ticks *ticks, int64_t after_us, const uint8_t after_id[UUID_SIZE])
{
    pg_params_clear(&ticks->params);
    pg_param_time(&ticks->params, after_us);
    pg_param_uuid(&ticks->params, after_id);
    pg_param_int4(&ticks->params, PAGE_ROWS);
    pg_run(ticks->scheduler->work, SQL_WORK_SCHEDULES_DUE, &ticks->params,
        on_page, ticks);
}

static void run(void *owner)
{
    static const uint8_t first[UUID_SIZE] = {0};
    struct ticks *ticks = owner;
    if (ticks->is_busy || ticks->scheduler->is_stopping ||
        kafka_producer_queued(ticks->scheduler->producer) >= ENOUGH_QUEUED) {
        return;
    }
    ticks->is_busy = true;
    read_page(ticks, 0, first);
}

void ticks_look(struct ticks *ticks, int64_t next_us, int64_t firing_us)
{
    if (next_us <= 0) {
        run(ticks);
    } else if (next_us <= HORIZON_US && !ticks->is_busy) {
        loop_timer_start(ticks->timer, next_us / US_PER_MS + 1, 0);
    }
    if (firing_us > LEFT_BEHIND_US && ticks->in_flight == 0 &&
        !ticks->is_resending && !ticks->is_acking && ticks->acked == NULL) {
        resend(ticks);
    }
    ack(ticks);
}

/* -- life ------------------------------------------------------------------ */

struct ticks *ticks_open(struct scheduler *scheduler)
{
    struct ticks *ticks = mem_zalloc(1, sizeof(*ticks));
    ticks->scheduler = scheduler;
    ticks->timer = loop_timer_new(&scheduler->loop, run, ticks);
    kafka_topic_name(scheduler->conf, "actions", ticks->topic);
    kafka_producer_prepare(scheduler->producer, ticks->topic);
    pg_params_init(&ticks->params);
    buf_init(&ticks->record, RECORD_MAX_BYTES);
    ticks->fired = metric_counter("actionist_schedule_fired_total",
        "Ticks of schedules that became action requests.", NULL);
    ticks->missed = metric_counter("actionist_schedule_missed_total",
        "Ticks that nobody was there for and that do not fire.", NULL);
    ticks->resent = metric_counter("actionist_schedule_resent_total",
        "Firings published again, because whoever wrote them did not end.",
        NULL);
    ticks->failed = metric_counter("actionist_schedule_failed_total",
        "Steps of firing that failed.", "step");
    return ticks;
}

void ticks_close(struct ticks *ticks)
{
    if (ticks != NULL) {
        loop_timer_free(ticks->timer);
        PQclear(ticks->page);
        free_list(ticks->acked);
        free_list(ticks->acking);
        pg_params_fini(&ticks->params);
        buf_fini(&ticks->record);
        free(ticks);
    }
}
