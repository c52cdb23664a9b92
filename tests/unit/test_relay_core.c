/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_core against every small history: writers that begin, draw a number
 * and commit or roll back, interleaved in all ways with the polls of a relay.
 * Each committed row must be published exactly once and in the end nothing may
 * be left open. The same search must find each rule's absence, or it proves
 * nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "scheduler/relay_core.h"

enum { MAX_WRITERS = 3, MAX_CHOICES = 64, GAPS_ASKED = 8 };

/* A rule left out. */
enum fault {
    FAULT_NONE,
    FAULT_ROWS_BEFORE_XMIN, /* reads the rows, then xmin */
    FAULT_BOUND_IS_XMAX,    /* highest completed id + 1 instead of a new id */
    FAULT_NO_GAPS           /* reads seq > high only */
};

/* -- a small database -------------------------------------------------------------- */

enum step { STEP_BEGIN, STEP_DRAW, STEP_END, STEP_OVER };

struct writer {
    enum step next;
    int64_t xid;
    int64_t seq;
    bool commits;
    bool is_visible;
};

struct world {
    struct writer writers[MAX_WRITERS];
    int writer_count;
    int64_t next_xid;
    int64_t next_seq;
    int64_t completed_xid;          /* the highest that ended */
    int published[MAX_WRITERS + 1]; /* by seq */
    struct relay_core core;
    int relay_step;
    int64_t xmin;
};

static void step_writer(struct world *world, struct writer *writer)
{
    switch (writer->next) {
    case STEP_BEGIN:
        writer->xid = world->next_xid++;
        writer->next = STEP_DRAW;
        break;
    case STEP_DRAW:
        writer->seq = world->next_seq++;
        writer->next = STEP_END;
        break;
    case STEP_END:
        writer->is_visible = writer->commits;
        if (writer->xid > world->completed_xid) {
            world->completed_xid = writer->xid;
        }
        writer->next = STEP_OVER;
        break;
    case STEP_OVER:
        break;
    }
}

static int64_t read_xmin(const struct world *world)
{
    int64_t xmin = world->next_xid;
    for (int i = 0; i < world->writer_count; i++) {
        const struct writer *writer = &world->writers[i];
        const bool is_running =
            writer->next == STEP_DRAW || writer->next == STEP_END;
        if (is_running && writer->xid < xmin) {
            xmin = writer->xid;
        }
    }
    return xmin;
}

static bool is_visible(const struct world *world, int64_t seq)
{
    for (int i = 0; i < world->writer_count; i++) {
        if (world->writers[i].seq == seq && world->writers[i].is_visible) {
            return true;
        }
    }
    return false;
}

static bool is_asked(const struct world *world, int64_t seq)
{
    for (size_t i = 0; i < world->core.gap_count; i++) {
        if (world->core.gaps[i].seq == seq) {
            return world->core.gaps[i].is_asked;
        }
    }
    return false;
}

/* -- the relay's statements -------------------------------------------------------- */

static void read_rows(struct world *world, enum fault fault)
{
    const int64_t high = world->core.high;
    for (int64_t seq = 1; seq < world->next_seq; seq++) {
        const bool is_wanted =
            seq > high || (fault != FAULT_NO_GAPS && is_asked(world, seq));
        if (is_wanted && is_visible(world, seq) &&
            relay_core_row(&world->core, seq, true) == RELAY_PUBLISH) {
            world->published[seq]++;
        }
    }
}

static void draw_bound(struct world *world, enum fault fault)
{
    if (!relay_core_wants_bound(&world->core)) {
        return;
    }
    if (fault == FAULT_BOUND_IS_XMAX) {
        relay_core_bound(&world->core, world->completed_xid + 1);
        return;
    }
    const int64_t xid = world->next_xid++;
    relay_core_bound(&world->core, xid);
    world->completed_xid = xid;
}

/* A poll is three steps: xmin, rows, bound. */
static void step_relay(struct world *world, enum fault fault)
{
    struct relay_poll poll;
    switch (world->relay_step % 3) {
    case 0:
        relay_core_begin(&world->core, GAPS_ASKED);
        if (fault == FAULT_ROWS_BEFORE_XMIN) {
            read_rows(world, fault);
        } else {
            world->xmin = read_xmin(world);
        }
        break;
    case 1:
        if (fault == FAULT_ROWS_BEFORE_XMIN) {
            world->xmin = read_xmin(world);
        }
        relay_core_xmin(&world->core, world->xmin);
        if (fault != FAULT_ROWS_BEFORE_XMIN) {
            read_rows(world, fault);
        }
        relay_core_end(&world->core, &poll);
        break;
    default:
        draw_bound(world, fault);
        break;
    }
    world->relay_step++;
}

/* -- all schedules ----------------------------------------------------------------- */

struct search {
    int writers;
    int polls; /* while somebody may still write */
    int chosen[MAX_CHOICES];
    int options[MAX_CHOICES];
    int depth; /* of this run */
    int known; /* choices fixed by the last run */
    long broken;
};

static int choose(struct search *search, int options)
{
    const int at = search->depth++;
    assert_true(at < MAX_CHOICES);
    if (at >= search->known) {
        search->chosen[at] = 0;
        search->known = at + 1;
    }
    search->options[at] = options;
    return search->chosen[at];
}

/* The next schedule in order; false after the last. */
static bool advance(struct search *search)
{
    while (search->known > 0) {
        const int last = search->known - 1;
        search->chosen[last]++;
        if (search->chosen[last] < search->options[last]) {
            return true;
        }
        search->known--;
    }
    return false;
}

static void play(struct world *world, struct search *search, enum fault fault)
{
    enum { RELAY = MAX_WRITERS };
    for (;;) {
        int movers[MAX_WRITERS + 1];
        int count = 0;
        for (int i = 0; i < world->writer_count; i++) {
            if (world->writers[i].next != STEP_OVER) {
                movers[count++] = i;
            }
        }
        if (world->relay_step < 3 * search->polls) {
            movers[count++] = RELAY;
        }
        if (count == 0) {
            return;
        }
        const int mover = movers[choose(search, count)];
        if (mover == RELAY) {
            step_relay(world, fault);
        } else {
            step_writer(world, &world->writers[mover]);
        }
    }
}

static bool is_right(const struct world *world)
{
    for (int i = 0; i < world->writer_count; i++) {
        const struct writer *writer = &world->writers[i];
        if (world->published[writer->seq] != (writer->is_visible ? 1 : 0)) {
            return false;
        }
    }
    return world->core.gap_count == 0 && world->core.low == world->core.high;
}

static void run_one(struct search *search, unsigned commits, enum fault fault)
{
    struct world world = {
        .writer_count = search->writers, .next_xid = 100, .next_seq = 1};
    search->depth = 0;
    relay_core_init(&world.core);
    for (int i = 0; i < world.writer_count; i++) {
        world.writers[i].commits = (commits >> i & 1U) != 0;
    }
    play(&world, search, fault);
    for (int i = 0; i < 3 * 3; i++) {
        step_relay(&world, fault); /* nobody writes any more */
    }
    search->broken += is_right(&world) ? 0 : 1;
    relay_core_fini(&world.core);
}

/* Writers are alike, so the number of those that commit is enough. */
static long count_broken(int writers, int polls, enum fault fault)
{
    long broken = 0;
    for (unsigned commits = 0; commits < 1U << writers;
         commits = commits * 2 + 1) {
        struct search search = {.writers = writers, .polls = polls};
        do {
            run_one(&search, commits, fault);
        } while (advance(&search));
        broken += search.broken;
    }
    return broken;
}

static void every_small_history_is_published_once(void **state)
{
    (void)state;
    assert_int_equal(count_broken(2, 3, FAULT_NONE), 0);
    assert_int_equal(count_broken(3, 1, FAULT_NONE), 0);
}

static void search_finds_each_broken_rule(void **state)
{
    (void)state;
    assert_true(count_broken(2, 2, FAULT_ROWS_BEFORE_XMIN) > 0);
    assert_true(count_broken(2, 2, FAULT_BOUND_IS_XMAX) > 0);
    assert_true(count_broken(2, 2, FAULT_NO_GAPS) > 0);
}

/* -- the rest ------------------------------------------------------------------------ */

static void checkpoint_must_not_contradict_itself(void **state)
{
    static const struct {
        int64_t low;
        int64_t high;
        int64_t gaps[3];
        size_t count;
        bool is_valid;
    } rows[] = {
        {0, 0, {0}, 0, true},
        {7, 7, {0}, 0, true},
        {4, 9, {5, 8}, 2, true},
        {5, 9, {5, 8}, 2, false},  /* low behind the first gap */
        {4, 9, {8, 5}, 2, false},  /* not ascending */
        {4, 9, {5, 5}, 2, false},  /* twice */
        {4, 9, {5, 10}, 2, false}, /* above high */
        {8, 9, {0}, 0, false},     /* low without a gap */
        {-1, -1, {0}, 0, false},
    };
    struct relay_core core;
    (void)state;
    relay_core_init(&core);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(relay_core_load(&core, rows[i].low, rows[i].high,
                             rows[i].gaps, rows[i].count),
            rows[i].is_valid);
    }
    relay_core_fini(&core);
}

static void rows_in_the_topic_are_skipped(void **state)
{
    static const int64_t gaps[] = {3};
    static const int64_t found[] = {7, 3, 2, 7, 6};
    struct relay_core core;
    struct relay_poll poll;
    (void)state;
    relay_core_init(&core);
    assert_true(relay_core_load(&core, 2, 5, gaps, 1));
    /* 2 is published by the checkpoint, 7 is there twice. */
    assert_int_equal(relay_core_add_found(&core, found, 5), 1);
    relay_core_begin(&core, GAPS_ASKED);
    assert_int_equal(relay_core_row(&core, 3, true), RELAY_SKIP);
    assert_int_equal(relay_core_row(&core, 6, true), RELAY_SKIP);
    assert_false(relay_core_is_caught_up(&core));
    assert_int_equal(relay_core_row(&core, 7, true), RELAY_SKIP);
    assert_true(relay_core_is_caught_up(&core));
    assert_int_equal(relay_core_row(&core, 8, true), RELAY_PUBLISH);
    relay_core_end(&core, &poll);
    assert_int_equal(core.low, 8);
    assert_int_equal(core.gap_count, 0);
    relay_core_fini(&core);
}

static void rows_without_body_come_later(void **state)
{
    struct relay_core core;
    struct relay_poll poll;
    (void)state;
    relay_core_init(&core);
    relay_core_begin(&core, GAPS_ASKED);
    assert_int_equal(relay_core_row(&core, 2, true), RELAY_PUBLISH);
    assert_int_equal(relay_core_row(&core, 3, false), RELAY_LATER);
    assert_int_equal(relay_core_row(&core, 4, true), RELAY_LATER);
    relay_core_end(&core, &poll);
    assert_int_equal(core.high, 2);
    relay_core_bound(&core, 10);
    /* The gap 1 exists, so it is not dead although its bound has passed. */
    relay_core_begin(&core, GAPS_ASKED);
    relay_core_xmin(&core, 50);
    assert_int_equal(relay_core_row(&core, 1, false), RELAY_LATER);
    relay_core_end(&core, &poll);
    assert_int_equal(poll.dead, 0);
    assert_int_equal(core.low, 0);
    relay_core_begin(&core, GAPS_ASKED);
    relay_core_xmin(&core, 50);
    assert_int_equal(relay_core_row(&core, 1, true), RELAY_PUBLISH);
    assert_int_equal(relay_core_row(&core, 3, true), RELAY_PUBLISH);
    relay_core_end(&core, &poll);
    assert_int_equal(core.low, 3);
    relay_core_fini(&core);
}

static void every_gap_gets_its_turn(void **state)
{
    static const int64_t gaps[] = {1, 2, 3, 4, 5};
    int asked[6] = {0};
    struct relay_core core;
    struct relay_poll poll;
    (void)state;
    relay_core_init(&core);
    assert_true(relay_core_load(&core, 0, 6, gaps, 5));
    for (int k = 0; k < 5; k++) {
        relay_core_begin(&core, 2);
        for (size_t i = 0; i < core.gap_count; i++) {
            asked[core.gaps[i].seq] += core.gaps[i].is_asked ? 1 : 0;
        }
        relay_core_end(&core, &poll);
    }
    for (int seq = 1; seq <= 5; seq++) {
        assert_int_equal(asked[seq], 2);
    }
    relay_core_fini(&core);
}

static void a_moved_sequence_is_refused(void **state)
{
    struct relay_core core;
    (void)state;
    relay_core_init(&core);
    relay_core_begin(&core, GAPS_ASKED);
    assert_int_equal(
        relay_core_row(&core, INT64_C(5000000000), true), RELAY_TOO_MANY_GAPS);
    relay_core_fini(&core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_history_is_published_once),
        cmocka_unit_test(search_finds_each_broken_rule),
        cmocka_unit_test(checkpoint_must_not_contradict_itself),
        cmocka_unit_test(rows_in_the_topic_are_skipped),
        cmocka_unit_test(rows_without_body_come_later),
        cmocka_unit_test(every_gap_gets_its_turn),
        cmocka_unit_test(a_moved_sequence_is_refused),
    };
    return cmocka_run_group_tests_name("relay_core", tests, NULL, NULL);
}
