/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/pulse.h"

#include <stdlib.h>

#include "common/log.h"
#include "scheduler/clock_moves.h"
#include "scheduler/dispatch.h"
#include "scheduler/due.h"
#include "scheduler/held.h"
#include "scheduler/scheduler.h"
#include "scheduler/sweep.h"
#include "scheduler/ticks.h"
#include "schema/sql_scheduler.h"

/* Three are just longer than WATCH_GONE_US, so a death waits no longer. */
enum { LOOK_EVERY_MS = 170 };

struct pulse {
    struct scheduler *scheduler;
    struct pg *pg;
    struct loop_timer *timer;
    bool is_looking;
    int64_t before_us; /* when the look began */
};

static void show_clock(const struct pulse *pulse, const PGresult *rows)
{
    clock_moves_look(pulse->scheduler->clock_moves,
        &(struct dbclock_look){
            .before_us = pulse->before_us,
            .after_us = now_mono_us(),
            .wall_us = pg_get_time(rows, 0, PULSE_CLOCK),
            .moved_us = pg_get_int(rows, 0, PULSE_MOVED_US),
        });
}

static void on_look(void *arg, const struct pg_outcome *outcome)
{
    struct pulse *pulse = arg;
    struct scheduler *scheduler = pulse->scheduler;
    pulse->is_looking = false;
    if (scheduler->is_stopping) {
        return;
    }
    if (outcome->end != PG_DONE) {
        LOG(WARN, "pulse_failed", (&(struct log_fields){.err = outcome->err}),
            "the next one follows");
        return;
    }
    const PGresult *rows = outcome->results[0];
    if (pg_rows(rows) == 0 || !pg_is_up(scheduler->work)) {
        return;
    }
    show_clock(pulse, rows);
    dispatch_look(scheduler->dispatch, pg_get_int(rows, 0, PULSE_UNTAKEN),
        pg_get_int(rows, 0, PULSE_UNTAKEN_AGE_US));
    due_look(scheduler->due, pg_get_int(rows, 0, PULSE_NEXT_DUE_US));
    if (pg_get_bool(rows, 0, PULSE_HAS_HELD)) {
        held_look(scheduler->held);
    }
    ticks_look(scheduler->ticks, pg_get_int(rows, 0, PULSE_NEXT_TICK_US),
        pg_get_int(rows, 0, PULSE_FIRING_AGE_US));
    sweep_look(scheduler->sweep, rows);
}

static void look(void *owner)
{
    struct pulse *pulse = owner;
    if (pg_is_up(pulse->pg) && !pulse->is_looking) {
        pulse->is_looking = true;
        pulse->before_us = now_mono_us();
        pg_run(pulse->pg, SQL_PULSE_LOOK, NULL, on_look, pulse);
    }
}

static void on_state(void *owner, bool is_up, const struct err *err)
{
    struct pulse *pulse = owner;
    (void)err; /* pg has logged it */
    if (is_up) {
        sweep_forget(pulse->scheduler->sweep);
    }
}

struct pulse *pulse_open(struct scheduler *scheduler)
{
    struct pulse *pulse = mem_zalloc(1, sizeof(*pulse));
    pulse->scheduler = scheduler;
    pulse->timer = loop_timer_new(&scheduler->loop, look, pulse);
    loop_timer_start(pulse->timer, 0, LOOK_EVERY_MS);
    pulse->pg = pg_open(&scheduler->loop,
        &(struct pg_options){.conninfo = conf_text(scheduler->conf, "postgres"),
            .name = "actionist-scheduler pulse",
            .statements = SQL_PULSE,
            .statement_count = SQL_PULSE_COUNT,
            .are_plans_pinned = true,
            .on_state = on_state,
            .owner = pulse});
    return pulse;
}

void pulse_close(struct pulse *pulse)
{
    if (pulse != NULL) {
        loop_timer_free(pulse->timer);
        pulse->timer = NULL;
        pg_close(pulse->pg);
        free(pulse);
    }
}

bool pulse_is_up(const struct pulse *pulse)
{
    return pg_is_up(pulse->pg);
}
