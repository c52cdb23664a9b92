/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/clock_moves.h"

#include <stdlib.h>

#include "common/log.h"
#include "common/metrics.h"
#include "scheduler/scheduler.h"
#include "schema/sql_scheduler.h"

/* A million rows take half a minute. */
enum { DEADLINE_MS = 600000 };

struct clock_moves {
    struct scheduler *scheduler;
    struct dbclock dbclock;
    struct pg *pg; /* NULL before the first step */
    struct dbclock_step step;
    bool is_moving;
    struct metric *steps;
    struct metric *rows;
};

struct clock_moves *clock_moves_open(struct scheduler *scheduler)
{
    struct clock_moves *moves = mem_zalloc(1, sizeof(*moves));
    moves->scheduler = scheduler;
    moves->steps = metric_counter("actionist_clock_steps_total",
        "Steps of the database's clock that this scheduler has made up for.",
        "direction");
    moves->rows = metric_counter("actionist_clock_moved_rows_total",
        "Waiting actions that were moved with the database's clock.", NULL);
    return moves;
}

void clock_moves_close(struct clock_moves *moves)
{
    if (moves != NULL) {
        pg_close(moves->pg);
        free(moves);
    }
}

/* -- the move ---------------------------------------------------------------------------- */

/* Whatever the end: the next look shows whether it was made. */
static void on_moved(void *arg, const struct pg_outcome *outcome)
{
    struct clock_moves *moves = arg;
    moves->is_moving = false;
    if (outcome->end != PG_DONE) {
        LOG(WARN, "clock_move_failed",
            (&(struct log_fields){.err = outcome->err}),
            "what waits stays late until it is moved");
        return;
    }
    if (!pg_get_bool(outcome->results[0], 0, CLOCK_IS_MOVED)) {
        return;
    }
    const int64_t rows = pg_get_int(outcome->results[0], 0, CLOCK_ROWS);
    const int64_t by_ms = moves->step.by_us / US_PER_MS;
    metric_add(moves->steps, by_ms < 0 ? "back" : "ahead", 1.0);
    metric_add(moves->rows, NULL, (double)rows);
    LOG(WARN, "clock_stepped", NULL,
        "the clock of postgres was stepped by %lld ms; %lld waiting actions "
        "were moved with it",
        (long long)by_ms, (long long)rows);
}

static void on_locked(void *arg, const struct pg_outcome *outcome)
{
    struct clock_moves *moves = arg;
    if (outcome->end != PG_DONE || moves->scheduler->is_stopping) {
        moves->is_moving = false; /* the next look says it again */
        return;
    }
    struct pg_params params;
    pg_params_init(&params);
    pg_param_int8(&params, moves->step.moved_us);
    pg_param_int8(&params, moves->step.by_us);
    pg_param_time(&params, moves->step.old_until_us);
    pg_param_time(&params, moves->step.new_until_us);
    pg_run(moves->pg, SQL_CLOCK_MOVE, &params, on_moved, moves);
    pg_params_fini(&params);
}

/* What was being written while the clock was stepped has the old time and may
 * not be committed yet: a lock waits for that, and is let go at once. */
static void begin(struct clock_moves *moves, const struct dbclock_step *step)
{
    if (moves->pg == NULL) {
        moves->pg = pg_open(&moves->scheduler->loop,
            &(struct pg_options){
                .conninfo = conf_text(moves->scheduler->conf, "postgres"),
                .name = "actionist-scheduler clock",
                .statements = SQL_CLOCK,
                .statement_count = SQL_CLOCK_COUNT,
                .deadline_ms = DEADLINE_MS});
    }
    if (moves->is_moving || !pg_is_up(moves->pg)) {
        return;
    }
    moves->is_moving = true;
    moves->step = *step;
    pg_begin(moves->pg);
    pg_step(moves->pg, SQL_CLOCK_PATIENCE, NULL);
    pg_step(moves->pg, SQL_CLOCK_LOCK, NULL);
    pg_commit(moves->pg, on_locked, moves);
}

/* -- the watch --------------------------------------------------------------------------- */

void clock_moves_look(
    struct clock_moves *moves, const struct dbclock_look *look)
{
    struct dbclock_step step;
    if (dbclock_take(&moves->dbclock, look, &step)) {
        begin(moves, &step);
    }
}

int64_t clock_moves_trusted_us(const struct clock_moves *moves)
{
    return dbclock_trusted_us(&moves->dbclock, now_mono_us());
}
