/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/time.h"
#include "scheduler/dispatch.h"
#include "scheduler/ending.h"
#include "scheduler/scheduler.h"
#include "scheduler/sweep_watch.h"
#include "schema/sql_scheduler.h"
#include "schema/state.h"

enum { QUEUE_OWNERS = 128, TAKE_ROWS = 500, SERVER_SIZE = 128 };
#define ORPHANS_EVERY_US (2 * US_PER_S)

/* Why an owner's rows are taken. */
enum cause { CAUSE_GONE, CAUSE_LAPSED, CAUSE_ORPHANED };

struct victim {
    uint8_t boot_id[UUID_SIZE];
    enum cause cause;
};

struct sweep {
    struct scheduler *scheduler;
    struct watch watch;
    char server[SERVER_SIZE];
    struct victim queue[QUEUE_OWNERS]; /* the first is under way */
    size_t count;
    bool is_listing; /* orphans are being looked for */
    int64_t listed_us;
    struct pg_params params;
    struct metric *takeovers;
    struct metric *rows;
};

struct sweep *sweep_open(struct scheduler *scheduler)
{
    struct sweep *sweep = mem_zalloc(1, sizeof(*sweep));
    sweep->scheduler = scheduler;
    watch_init(&sweep->watch);
    pg_params_init(&sweep->params);
    sweep->takeovers = metric_counter("actionist_takeovers_total",
        "Workers declared dead, by what proved it.", "cause");
    sweep->rows = metric_counter("actionist_takeover_rows_total",
        "Actions taken over from dead workers, by what became of them.", "end");
    return sweep;
}

void sweep_close(struct sweep *sweep)
{
    if (sweep != NULL) {
        watch_fini(&sweep->watch);
        pg_params_fini(&sweep->params);
        free(sweep);
    }
}

/* -- taking the rows of one owner ------------------------------------------------------------- */

static void take_next(struct sweep *sweep);

static void drop_first(struct sweep *sweep)
{
    sweep->count--;
    memmove(
        sweep->queue, sweep->queue + 1, sweep->count * sizeof(*sweep->queue));
    if (sweep->count > 0) {
        take_next(sweep);
    }
}

static void on_moved(void *arg, const struct pg_outcome *outcome)
{
    struct sweep *sweep = arg;
    if (outcome->end == PG_DONE) {
        const PGresult *rows = outcome->results[0];
        metric_add(sweep->rows, "again", (double)pg_rows(rows));
        dispatch_send(sweep->scheduler->dispatch, rows);
    } else {
        LOG(WARN, "sweep_failed", (&(struct log_fields){.err = outcome->err}),
            "the rows will be found again");
    }
    drop_first(sweep);
}

static struct sweep_facts facts_of(const PGresult *rows, int row)
{
    return (struct sweep_facts){
        .state = (enum live_state)pg_get_int(rows, row, ORPHAN_STATE),
        .effect = (enum effect)pg_get_int(rows, row, ORPHAN_EFFECT),
        .deaths = (int)pg_get_int(rows, row, ORPHAN_DEATHS)};
}

/* Natural and keyed calls start without a word to the database. */
static int32_t calls_lost(const struct sweep_facts *facts)
{
    return facts->state == LIVE_BEGUN || facts->effect != EFFECT_UNSAFE ? 1 : 0;
}

static void end_row(struct sweep *sweep, const PGresult *rows, int row,
    const struct sweep_facts *facts, enum sweep_act act)
{
    const bool is_unknown = state_sweep_is_unknown(
        facts, pg_get_bool(rows, row, ORPHAN_IS_EFFECT_UNKNOWN));
    const bool is_lost = act == SWEEP_INDETERMINATE;
    struct ending_row ending = {
        .attempt_no = (int32_t)pg_get_int(rows, row, ORPHAN_ATTEMPT_NO),
        .calls =
            (int32_t)pg_get_int(rows, row, ORPHAN_CALLS) + calls_lost(facts),
        .status = is_lost ? STATUS_INDETERMINATE
                          : state_end(STATUS_EXHAUSTED, is_unknown),
        .code = is_lost ? CODE_WORKER_LOST : CODE_WORKER_CRASH};
    memcpy(ending.id, pg_get_uuid(rows, row, ORPHAN_ID), UUID_SIZE);
    metric_add(sweep->rows, is_lost ? "indeterminate" : "crashed", 1.0);
    ending_add(sweep->scheduler->ending, ENDING_LIVE, &ending);
}

/* Ends what has to end; returns how many rows, put first in again, may run. */
static int sort_rows(struct sweep *sweep, const PGresult *rows, int *again)
{
    int count = 0;
    for (int i = 0; i < pg_rows(rows); i++) {
        const struct sweep_facts facts = facts_of(rows, i);
        const enum sweep_act act = state_sweep(&facts);
        if (act == SWEEP_RUN_AGAIN) {
            again[count] = i;
            count++;
        } else {
            end_row(sweep, rows, i, &facts, act);
        }
    }
    return count;
}

static void put_notes(struct pg_params *params, const PGresult *rows,
    const int *again, int count, const struct victim *victim)
{
    char boot[UUID_TEXT_SIZE];
    uuid_format(victim->boot_id, boot);
    pg_array_begin(params, PG_BYTEA);
    for (int i = 0; i < count; i++) {
        struct buf note;
        buf_init(&note, 256);
        buf_printf(&note, "{\"worker\":\"%s\",\"deaths\":%lld}", boot,
            (long long)pg_get_int(rows, again[i], ORPHAN_DEATHS) + 1);
        pg_array_bytes(params, buf_span(&note));
        buf_fini(&note);
    }
    pg_array_end(params);
}

static void put_facts(
    struct pg_params *params, const PGresult *rows, const int *again, int count)
{
    pg_array_begin(params, PG_INT2);
    for (int i = 0; i < count; i++) {
        pg_array_int2(
            params, (int16_t)pg_get_int(rows, again[i], ORPHAN_STATE));
    }
    pg_array_end(params);
    pg_array_begin(params, PG_INT4);
    for (int i = 0; i < count; i++) {
        const struct sweep_facts facts = facts_of(rows, again[i]);
        pg_array_int4(params, calls_lost(&facts));
    }
    pg_array_end(params);
    pg_array_begin(params, PG_BOOL);
    for (int i = 0; i < count; i++) {
        const struct sweep_facts facts = facts_of(rows, again[i]);
        pg_array_bool(
            params, state_sweep_is_unknown(&facts,
                        pg_get_bool(rows, again[i], ORPHAN_IS_EFFECT_UNKNOWN)));
    }
    pg_array_end(params);
}

static void move_rows(
    struct sweep *sweep, const PGresult *rows, const int *again, int count)
{
    struct pg_params *params = &sweep->params;
    const struct victim *victim = &sweep->queue[0];
    pg_params_clear(params);
    pg_array_begin(params, PG_UUID);
    for (int i = 0; i < count; i++) {
        pg_array_bytes(params, pg_get_bytes(rows, again[i], ORPHAN_ID));
    }
    pg_array_end(params);
    pg_array_begin(params, PG_INT4);
    for (int i = 0; i < count; i++) {
        pg_array_int4(
            params, (int32_t)pg_get_int(rows, again[i], ORPHAN_ATTEMPT_NO));
    }
    pg_array_end(params);
    put_facts(params, rows, again, count);
    pg_param_uuid(params, victim->boot_id);
    put_notes(params, rows, again, count, victim);
    pg_run(sweep->scheduler->work, SQL_WORK_RUN_AGAIN, params, on_moved, sweep);
}

/* -- declaring it dead -------------------------------------------------------------------------- */

static void count_takeover(struct sweep *sweep, const struct victim *victim)
{
    char boot[UUID_TEXT_SIZE];
    uuid_format(victim->boot_id, boot);
    metric_add(sweep->takeovers,
        victim->cause == CAUSE_GONE ? "presence" : "lease", 1.0);
    LOG(WARN, "takeover",
        (&(struct log_fields){.name1 = "worker", .value1 = boot}),
        "%s; its actions are taken over",
        victim->cause == CAUSE_GONE ? "its presence lock is free"
                                    : "its lease has run out");
}

static void on_read(void *arg, const struct pg_outcome *outcome)
{
    struct sweep *sweep = arg;
    if (outcome->end != PG_DONE) {
        LOG(WARN, "sweep_failed", (&(struct log_fields){.err = outcome->err}),
            "the worker will be judged again");
        drop_first(sweep);
        return;
    }
    if (outcome->result_count == 2 && pg_rows(outcome->results[0]) > 0) {
        count_takeover(sweep, &sweep->queue[0]);
    }
    const PGresult *rows = outcome->results[outcome->result_count - 1];
    int again[TAKE_ROWS];
    const int count = sort_rows(sweep, rows, again);
    if (pg_rows(rows) == TAKE_ROWS) {
        sweep->listed_us = 0; /* there may be more: look again at once */
    }
    if (count == 0) {
        drop_first(sweep);
    } else {
        move_rows(sweep, rows, again, count);
    }
}

/* Marks the first victim and reads its rows, in one transaction. */
static void take_next(struct sweep *sweep)
{
    const struct victim *victim = &sweep->queue[0];
    struct pg *work = sweep->scheduler->work;
    pg_begin(work);
    if (victim->cause != CAUSE_ORPHANED) {
        pg_params_clear(&sweep->params);
        pg_param_uuid(&sweep->params, victim->boot_id);
        pg_param_bool(&sweep->params, victim->cause == CAUSE_LAPSED);
        pg_step(work, SQL_WORK_MARK_DEAD, &sweep->params);
    }
    pg_params_clear(&sweep->params);
    pg_param_uuid(&sweep->params, victim->boot_id);
    pg_param_int4(&sweep->params, TAKE_ROWS);
    pg_step(work, SQL_WORK_ORPHANS_OF, &sweep->params);
    pg_commit(work, on_read, sweep);
}

static void add_victim(
    struct sweep *sweep, const uint8_t *boot_id, enum cause cause)
{
    for (size_t i = 0; i < sweep->count; i++) {
        if (memcmp(sweep->queue[i].boot_id, boot_id, UUID_SIZE) == 0) {
            return;
        }
    }
    if (sweep->count == QUEUE_OWNERS) {
        return; /* the next look finds it again */
    }
    struct victim *victim = &sweep->queue[sweep->count];
    memcpy(victim->boot_id, boot_id, UUID_SIZE);
    victim->cause = cause;
    sweep->count++;
    if (sweep->count == 1) {
        take_next(sweep);
    }
}

/* -- looking ------------------------------------------------------------------------------------- */

static void on_listed(void *arg, const struct pg_outcome *outcome)
{
    struct sweep *sweep = arg;
    sweep->is_listing = false;
    if (outcome->end != PG_DONE) {
        return;
    }
    const PGresult *rows = outcome->results[0];
    for (int i = 0; i < pg_rows(rows); i++) {
        add_victim(sweep, pg_get_uuid(rows, i, 0), CAUSE_ORPHANED);
    }
}

static void list_orphans(struct sweep *sweep)
{
    const int64_t now_us = now_mono_us();
    if (sweep->is_listing || now_us - sweep->listed_us < ORPHANS_EVERY_US) {
        return;
    }
    sweep->is_listing = true;
    sweep->listed_us = now_us;
    pg_run(sweep->scheduler->work, SQL_WORK_ORPHANS, NULL, on_listed, sweep);
}

void sweep_forget(struct sweep *sweep)
{
    sweep->server[0] = '\0';
}

/* Forgets what was seen if another server answers, or a new session asks. */
static void check_server(struct sweep *sweep, struct span name)
{
    if (span_is(name, sweep->server)) {
        return;
    }
    const size_t len = name.len < SERVER_SIZE - 1 ? name.len : SERVER_SIZE - 1;
    memcpy(sweep->server, name.ptr, len);
    sweep->server[len] = '\0';
    watch_restart(&sweep->watch, now_mono_us());
}

void sweep_look(struct sweep *sweep, const PGresult *rows)
{
    check_server(sweep, pg_get_bytes(rows, 0, PULSE_SERVER));
    size_t count = 0;
    struct watch_sight *sights =
        mem_zalloc((size_t)pg_rows(rows), sizeof(*sights));
    for (int i = 0; i < pg_rows(rows) && count < WATCH_MAX_WORKERS; i++) {
        if (!pg_is_null(rows, i, PULSE_BOOT_ID)) {
            memcpy(sights[count].boot_id, pg_get_uuid(rows, i, PULSE_BOOT_ID),
                UUID_SIZE);
            sights[count].is_held = pg_get_bool(rows, i, PULSE_IS_HELD);
            sights[count].is_expired = pg_get_bool(rows, i, PULSE_IS_EXPIRED);
            count++;
        }
    }
    watch_look(&sweep->watch, now_mono_us(), sights, count);
    for (size_t i = 0; i < count; i++) {
        if (sights[i].verdict != WATCH_LEAVE) {
            add_victim(sweep, sights[i].boot_id,
                sights[i].verdict == WATCH_GONE ? CAUSE_GONE : CAUSE_LAPSED);
        }
    }
    free(sights);
    list_orphans(sweep);
}
