/* SPDX-License-Identifier: Apache-2.0 */
/* What looks mean, one by one; then a fleet of two schedulers whose database's
 * clock is stepped at random: no wait may end early, and none far too late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "scheduler/dbclock.h"

#define OFFSET_US INT64_C(1796000000000000)
#define HOUR_US (3600 * US_PER_S)

/* -- one by one ------------------------------------------------------------ */

/* A look of 2 ms at our now_ms; the database's clock is off by that much. */
static struct dbclock_look make_look(
    int64_t now_ms, int64_t off_us, int64_t moved_us)
{
    const int64_t now_us = now_ms * US_PER_MS;
    return (struct dbclock_look){.before_us = now_us - US_PER_MS,
        .after_us = now_us + US_PER_MS,
        .wall_us = OFFSET_US + now_us + off_us,
        .moved_us = moved_us};
}

static bool take(struct dbclock *dbclock, int64_t now_ms, int64_t off_us,
    int64_t moved_us, struct dbclock_step *step)
{
    const struct dbclock_look look = make_look(now_ms, off_us, moved_us);
    return dbclock_take(dbclock, &look, step);
}

static void looks_that_fit_narrow_the_bounds(void **state)
{
    (void)state;
    struct dbclock dbclock = {0};
    struct dbclock_step step;
    assert_int_equal(dbclock_trusted_us(&dbclock, 1000), 0);
    assert_false(take(&dbclock, 1000, 0, 7, &step));
    assert_int_equal(dbclock.high_us - dbclock.low_us, 2 * US_PER_MS);
    assert_int_equal(dbclock_trusted_us(&dbclock, 1001 * US_PER_MS),
        OFFSET_US + 1000 * US_PER_MS);
    assert_false(take(&dbclock, 1001, 500, 7, &step));
    assert_in_range(dbclock.high_us - dbclock.low_us, 1, 1600);
    /* Clocks drift: no step is seen in 1 ms a second. */
    for (int64_t i = 2; i < 100; i++) {
        assert_false(take(&dbclock, 1000 * i, 1000 * i, 7, &step));
    }
}

static void a_step_ahead_moves_what_is_older(void **state)
{
    (void)state;
    struct dbclock dbclock = {0};
    struct dbclock_step step;
    assert_false(take(&dbclock, 1000, 0, 0, &step));
    const int64_t before_us = dbclock_trusted_us(&dbclock, 2000 * US_PER_MS);
    assert_true(take(&dbclock, 1200, HOUR_US, 0, &step));
    assert_in_range(step.by_us - HOUR_US, 0, 5 * US_PER_MS);
    /* Between what both clocks can have shown. */
    assert_true(step.old_until_us > OFFSET_US + HOUR_US / 2);
    assert_true(step.old_until_us < OFFSET_US + HOUR_US + 999 * US_PER_MS);
    assert_int_equal(step.new_until_us, DBCLOCK_NEVER_US);
    /* Until it is made, nothing more is trusted than before, and it is said
     * again. */
    assert_true(dbclock_trusted_us(&dbclock, 2000 * US_PER_MS) <= before_us);
    assert_true(take(&dbclock, 1400, HOUR_US, 0, &step));
    assert_false(take(&dbclock, 1600, HOUR_US, step.by_us, &step));
    assert_in_range(dbclock_trusted_us(&dbclock, 1600 * US_PER_MS) -
                        (OFFSET_US + HOUR_US + 1598 * US_PER_MS),
        0, 5 * US_PER_MS);
}

static void a_step_back_moves_what_is_surely_older(void **state)
{
    (void)state;
    struct dbclock dbclock = {0};
    struct dbclock_step step;
    assert_false(take(&dbclock, 1000, 0, 0, &step));
    assert_true(take(&dbclock, 1200, -HOUR_US, 0, &step));
    assert_in_range(step.by_us + HOUR_US, 0, 5 * US_PER_MS);
    assert_true(step.old_until_us < OFFSET_US - HOUR_US + 999 * US_PER_MS);
    assert_true(step.new_until_us >= OFFSET_US - HOUR_US + 1200 * US_PER_MS);
    assert_true(step.new_until_us < OFFSET_US + 1000 * US_PER_MS);
    assert_false(take(&dbclock, 1400, -HOUR_US, step.by_us, &step));
}

static void small_steps_move_nothing_at_once(void **state)
{
    (void)state;
    struct dbclock dbclock = {0};
    struct dbclock_step step;
    const int64_t small_us = DBCLOCK_STEP_US / 2;
    assert_false(take(&dbclock, 1000, 0, 0, &step));
    /* Back: followed. */
    assert_false(take(&dbclock, 1100, -small_us, 0, &step));
    /* Ahead: not trusted until it has lasted, or has become large. */
    const int64_t was_us = dbclock_trusted_us(&dbclock, 0);
    assert_false(take(&dbclock, 1200, 0, 0, &step));
    assert_true(dbclock_trusted_us(&dbclock, 0) <= was_us);
    assert_false(take(&dbclock, 6000, 0, 0, &step));
    assert_true(take(&dbclock, 6300, 0, 0, &step));
    assert_in_range(step.by_us, small_us, small_us + 20 * US_PER_MS);
}

static void what_others_moved_is_taken_as_done(void **state)
{
    (void)state;
    struct dbclock dbclock = {0};
    struct dbclock_step step;
    assert_false(take(&dbclock, 1000, 0, 0, &step));
    assert_false(take(&dbclock, 1200, HOUR_US, HOUR_US + 5000, &step));
    assert_false(take(&dbclock, 1400, HOUR_US, HOUR_US + 5000, &step));
    /* Somebody's machine slept: our clocks say that nothing happened. */
    assert_false(take(&dbclock, 1600, HOUR_US, 3 * HOUR_US, &step));
    assert_false(take(&dbclock, 1800, HOUR_US, 3 * HOUR_US, &step));
}

/* -- a fleet --------------------------------------------------------------- */

enum {
    SEEDS = 400,
    ROWS = 150,
    TICK_US = 20000,
    LIVE_S = 60, /* rows are written and clocks stepped for so long */
    END_S = 85,
    SCHEDULERS = 2,
    LOOK_EVERY_US = 170000,
    EARLY = 1000000 /* counts with the moves */
};
/* What a look may take at least, and so what may go unnoticed. */
#define EARLY_US (20 * US_PER_MS)
#define LATE_US (1500 * US_PER_MS)
#define NEAR_STEP_US US_PER_S

struct row {
    int64_t written_us; /* our clock */
    int64_t wait_us;
    int64_t since_us; /* the database's */
    int64_t due_us;
    bool is_taken;
    bool is_near_step;
};

struct one {
    struct dbclock dbclock;
    struct dbclock_look look; /* under way */
    int64_t stamp_at_us;
    int64_t done_at_us; /* 0: none is under way */
    int64_t next_us;
    struct dbclock_step step; /* to be said at move_at_us; 0: none */
    int64_t move_at_us;
};

struct fleet {
    uint64_t seed;
    int64_t now_us;
    int64_t offset_us;
    int64_t moved_us;
    int64_t stepped_us; /* when the clock was stepped last */
    int64_t step_next_us;
    unsigned moves;
    struct row rows[ROWS];
    size_t count;
    struct one all[SCHEDULERS];
    bool is_ceiling_ignored; /* to see that this test can fail */
};

static int64_t draw(struct fleet *fleet, int64_t low, int64_t high)
{
    fleet->seed = fleet->seed * UINT64_C(6364136223846793005) +
                  UINT64_C(1442695040888963407);
    return low + (int64_t)((fleet->seed >> 33) % (uint64_t)(high - low + 1));
}

static void move_rows(struct fleet *fleet, struct one *one)
{
    one->move_at_us = 0;
    if (one->step.moved_us != fleet->moved_us) {
        return; /* somebody else was first */
    }
    const int64_t now_us = fleet->now_us + fleet->offset_us;
    const int64_t new_until_us =
        one->step.new_until_us > now_us ? one->step.new_until_us : now_us;
    fleet->moved_us += one->step.by_us;
    fleet->moves++;
    for (size_t i = 0; i < fleet->count; i++) {
        struct row *row = &fleet->rows[i];
        if (row->since_us <= one->step.old_until_us ||
            row->since_us > new_until_us) {
            row->since_us += one->step.by_us;
            row->due_us += one->step.by_us;
        }
    }
}

static void run_look(struct fleet *fleet, struct one *one)
{
    const int64_t now_us = fleet->now_us;
    if (one->done_at_us == 0 && now_us >= one->next_us) {
        const int64_t trip_us = draw(fleet, 0, 19) == 0
                                    ? draw(fleet, 100000, 400000)
                                    : draw(fleet, 0, 5000);
        one->look.before_us = now_us;
        one->stamp_at_us = now_us + draw(fleet, 0, trip_us);
        one->done_at_us = now_us + trip_us + 1;
        one->next_us = now_us + LOOK_EVERY_US;
        one->look.wall_us = 0;
    }
    if (one->done_at_us != 0 && one->look.wall_us == 0 &&
        now_us >= one->stamp_at_us) {
        one->look.wall_us = now_us + fleet->offset_us;
        one->look.moved_us = fleet->moved_us;
    }
    if (one->done_at_us != 0 && now_us >= one->done_at_us) {
        one->look.after_us = now_us;
        one->done_at_us = 0;
        struct dbclock_step step;
        if (dbclock_take(&one->dbclock, &one->look, &step) &&
            one->move_at_us == 0) {
            one->step = step;
            one->move_at_us = now_us + draw(fleet, 1, 300000);
        }
    }
    if (one->move_at_us != 0 && now_us >= one->move_at_us) {
        move_rows(fleet, one);
    }
}

static void take_due(struct fleet *fleet, const struct one *one, unsigned seed)
{
    int64_t until_us = fleet->now_us + fleet->offset_us;
    const int64_t trusted_us = dbclock_trusted_us(&one->dbclock, fleet->now_us);
    if (trusted_us < until_us && !fleet->is_ceiling_ignored) {
        until_us = trusted_us;
    }
    for (size_t i = 0; i < fleet->count; i++) {
        struct row *row = &fleet->rows[i];
        if (row->is_taken || row->due_us > until_us) {
            continue;
        }
        row->is_taken = true;
        const int64_t late_us = fleet->now_us - row->written_us - row->wait_us;
        if (late_us < -EARLY_US && !fleet->is_ceiling_ignored) {
            fail_msg("seed %u: early by %lld us", seed, (long long)-late_us);
        }
        fleet->moves += late_us < -EARLY_US ? EARLY : 0;
        if (late_us > LATE_US && !row->is_near_step) {
            fail_msg("seed %u: late by %lld us", seed, (long long)late_us);
        }
    }
}

static bool is_near(int64_t one_us, int64_t other_us)
{
    return llabs(one_us - other_us) < NEAR_STEP_US;
}

static void write_row(struct fleet *fleet)
{
    struct row *row = &fleet->rows[fleet->count++];
    *row = (struct row){.written_us = fleet->now_us,
        .wait_us = draw(fleet, 0, 20) * US_PER_S,
        .since_us = fleet->now_us + fleet->offset_us,
        .is_near_step = fleet->now_us - fleet->stepped_us < NEAR_STEP_US};
    row->due_us = row->since_us + row->wait_us;
}

static void step_clock(struct fleet *fleet)
{
    static const int64_t sizes[] = {
        30 * US_PER_MS, 150 * US_PER_MS, 10 * US_PER_S, HOUR_US, 24 * HOUR_US};
    const int64_t size_us =
        sizes[draw(fleet, 0, (int64_t)ARRAY_LEN(sizes) - 1)];
    fleet->offset_us += draw(fleet, 0, 1) == 0 ? size_us : -size_us;
    fleet->stepped_us = fleet->now_us;
    fleet->step_next_us = fleet->now_us + draw(fleet, 2, 8) * US_PER_S;
    const int64_t now_us = fleet->now_us + fleet->offset_us;
    for (size_t i = 0; i < fleet->count; i++) {
        struct row *row = &fleet->rows[i];
        row->is_near_step |= is_near(fleet->now_us, row->written_us) ||
                             is_near(now_us, row->since_us);
    }
}

static unsigned run_fleet(unsigned seed, bool is_ceiling_ignored)
{
    static struct fleet fleet;
    fleet = (struct fleet){.seed = seed,
        .now_us = 100 * US_PER_S,
        .offset_us = OFFSET_US,
        .is_ceiling_ignored = is_ceiling_ignored};
    const int64_t begin_us = fleet.now_us;
    fleet.step_next_us = begin_us + 3 * US_PER_S;
    while (fleet.now_us < begin_us + END_S * US_PER_S) {
        const bool is_live = fleet.now_us < begin_us + LIVE_S * US_PER_S;
        fleet.now_us += draw(&fleet, 1, TICK_US);
        if (is_live && fleet.count < ROWS && draw(&fleet, 0, 35) == 0) {
            write_row(&fleet);
        }
        if (is_live && fleet.now_us >= fleet.step_next_us) {
            step_clock(&fleet);
        }
        for (size_t i = 0; i < SCHEDULERS; i++) {
            run_look(&fleet, &fleet.all[i]);
            take_due(&fleet, &fleet.all[i], seed);
        }
    }
    return fleet.moves;
}

static void no_wait_ends_early_or_far_too_late(void **state)
{
    (void)state;
    unsigned moves = 0;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        moves += run_fleet(seed, false);
    }
    assert_true(moves > SEEDS);
    /* Where nothing but the database's clock is asked, they do. */
    moves = 0;
    for (unsigned seed = 1; seed <= 10; seed++) {
        moves += run_fleet(seed, true);
    }
    assert_true(moves >= EARLY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_that_fit_narrow_the_bounds),
        cmocka_unit_test(a_step_ahead_moves_what_is_older),
        cmocka_unit_test(a_step_back_moves_what_is_surely_older),
        cmocka_unit_test(small_steps_move_nothing_at_once),
        cmocka_unit_test(what_others_moved_is_taken_as_done),
        cmocka_unit_test(no_wait_ends_early_or_far_too_late),
    };
    return cmocka_run_group_tests_name("dbclock", tests, NULL, NULL);
}
