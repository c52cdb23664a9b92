/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/relay_model.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>

#include "scheduler/relay_core.h"
#include "tests/model/search.h"

enum {
    RELAYS = 2,
    MAX_ROWS = 3,
    MAX_RECORDS = 6,
    GAPS_ASKED = 8,
    NOBODY = RELAYS,
    LANE_FOREIGN = 2
};

/* All fields are bytes: states are compared as they are. Sets of outcomes have
 * a bit a row; row 0 has seq 1. */
enum writer { WRITER_NONE, WRITER_DRAWN, WRITER_COMMITTED, WRITER_GONE };

enum phase {
    PHASE_DOWN,
    PHASE_CHECKED,
    PHASE_ONE_FENCED,
    PHASE_FENCED,
    PHASE_ENDS_READ,
    PHASE_TAILING,
    PHASE_POLLED,
    PHASE_OPEN
};

struct relay {
    uint8_t phase;
    uint8_t turn;
    uint8_t from;      /* the checkpoint's position */
    uint8_t ends;      /* of the topic, when both lanes were fenced */
    uint8_t delivered; /* position */
    uint8_t high;
    uint8_t gaps;
    uint8_t
        bounds[MAX_ROWS]; /* of each gap: who was writing when it was seen */
    uint8_t found;        /* read back */
    uint8_t batch;        /* to be published */
};

/* A transaction's records; one that was aborted is taken out. */
struct record {
    uint8_t rows;
    uint8_t lane;
    uint8_t is_open;
};

struct world {
    uint8_t writers[MAX_ROWS];
    uint8_t owners[2]; /* of the lanes */
    uint8_t record_count;
    struct record topic[MAX_RECORDS];
    uint8_t saved_high; /* the checkpoint */
    uint8_t saved_gaps;
    uint8_t saved_position;
    uint8_t is_foreign_used;
    struct relay relays[RELAYS];
};

/* -- the topic ----------------------------------------------------------------------- */

static void shift(uint8_t *position, int removed)
{
    if (*position > removed) {
        (*position)--;
    }
}

static void take_out(struct world *world, int at)
{
    for (int i = at; i < MAX_RECORDS - 1; i++) {
        world->topic[i] = world->topic[i + 1];
    }
    world->topic[MAX_RECORDS - 1] = (struct record){.rows = 0};
    world->record_count--;
    shift(&world->saved_position, at);
    for (int i = 0; i < RELAYS; i++) {
        shift(&world->relays[i].from, at);
        shift(&world->relays[i].ends, at);
        shift(&world->relays[i].delivered, at);
    }
}

/* The index of a lane's open transaction; -1: none. */
static int find_open(const struct world *world, int lane)
{
    for (int i = 0; i < world->record_count; i++) {
        if (world->topic[i].is_open != 0 && world->topic[i].lane == lane) {
            return i;
        }
    }
    return -1;
}

static void append(struct world *world, uint8_t rows, int lane)
{
    assert(world->record_count < MAX_RECORDS);
    world->topic[world->record_count] =
        (struct record){.rows = rows, .lane = (uint8_t)lane, .is_open = 1};
    world->record_count++;
}

/* Everything before this is decided. */
static int stable_end(const struct world *world)
{
    int end = 0;
    while (end < world->record_count && world->topic[end].is_open == 0) {
        end++;
    }
    return end;
}

static unsigned published_rows(const struct world *world, int from, int to)
{
    unsigned rows = 0;
    for (int i = from; i < to; i++) {
        rows |= world->topic[i].is_open == 0 ? world->topic[i].rows : 0U;
    }
    return rows;
}

/* -- starting ------------------------------------------------------------------------- */

static void go_down(struct world *world, int i)
{
    world->relays[i] = (struct relay){.phase = PHASE_DOWN};
}

static void check_in(struct world *world, int i)
{
    world->relays[i] = (struct relay){.phase = PHASE_CHECKED,
        .from = world->saved_position,
        .high = world->saved_high,
        .gaps = world->saved_gaps,
        /* Bounds are forgotten and drawn anew. */
        .bounds = {UINT8_MAX, UINT8_MAX, UINT8_MAX}};
}

static void fence_lane(struct world *world, int i, int lane)
{
    const int open = find_open(world, lane);
    if (open >= 0) {
        take_out(world, open);
    }
    world->owners[lane] = (uint8_t)i;
}

static int lane_in_order(const struct relay_config *config, int i, int step)
{
    const bool is_turned = config->fault == RELAY_OTHER_ORDER && i == 1;
    return is_turned ? 1 - step : step;
}

/* False: it has to wait for an open transaction. */
static bool read_back(
    const struct relay_config *config, struct world *world, struct relay *relay)
{
    int to = relay->ends;
    if (stable_end(world) < to) {
        if (config->fault != RELAY_READ_NO_WAIT) {
            return false;
        }
        to = stable_end(world);
    }
    if (config->fault != RELAY_NO_READ_BACK) {
        relay->found = (uint8_t)published_rows(world, relay->from, to);
    }
    relay->delivered = relay->ends;
    return true;
}

static void expand_start(struct search *search,
    const struct relay_config *config, struct world world, int i)
{
    struct relay *relay = &world.relays[i];
    switch ((enum phase)relay->phase) {
    case PHASE_DOWN:
        check_in(&world, i);
        search_add(search, &world, true, "a relay reads the checkpoint");
        break;
    case PHASE_CHECKED:
        fence_lane(&world, i, lane_in_order(config, i, 0));
        relay->phase = config->fault == RELAY_ONE_LANE_FENCED
                           ? PHASE_FENCED
                           : PHASE_ONE_FENCED;
        if (config->fault == RELAY_READ_BETWEEN) {
            relay->ends = world.record_count;
            if (!read_back(config, &world, relay)) {
                break;
            }
        }
        search_add(search, &world, true, "... fences its first lane");
        break;
    case PHASE_ONE_FENCED:
        fence_lane(&world, i, lane_in_order(config, i, 1));
        relay->phase =
            config->fault == RELAY_READ_BETWEEN ? PHASE_TAILING : PHASE_FENCED;
        search_add(search, &world, true, "... fences its second lane");
        break;
    case PHASE_FENCED:
        relay->ends = world.record_count;
        relay->phase = PHASE_ENDS_READ;
        search_add(search, &world, true, "... takes the ends");
        break;
    case PHASE_ENDS_READ:
        if (read_back(config, &world, relay)) {
            relay->turn = config->fault == RELAY_FIRST_ON_B ? 1 : 0;
            relay->phase = PHASE_TAILING;
            search_add(search, &world, true, "... reads back");
        }
        break;
    case PHASE_TAILING:
    case PHASE_POLLED:
    case PHASE_OPEN:
        break;
    }
}

/* -- the core: in and out of a state --------------------------------------------------- */

static unsigned writing_rows(const struct world *world)
{
    unsigned rows = 0;
    for (unsigned i = 0; i < MAX_ROWS; i++) {
        rows |= world->writers[i] == WRITER_DRAWN ? 1U << i : 0U;
    }
    return rows;
}

/* What the relay holds for published, dead or about to be published. */
static unsigned done_rows(unsigned high, unsigned gaps)
{
    return ((1U << high) - 1U) & ~gaps;
}

static void load_core(struct relay_core *core, const struct relay *relay)
{
    int64_t seqs[MAX_ROWS] = {0};
    size_t count = 0;
    for (unsigned i = 0; i < MAX_ROWS; i++) {
        if ((relay->gaps & 1U << i) != 0) {
            seqs[count++] = (int64_t)i + 1;
        }
    }
    const int64_t low = count > 0 ? seqs[0] - 1 : relay->high;
    relay_core_init(core);
    const bool is_loaded = relay_core_load(core, low, relay->high, seqs, count);
    assert(is_loaded);
    count = 0;
    for (unsigned i = 0; i < MAX_ROWS; i++) {
        if ((relay->found & 1U << i) != 0) {
            seqs[count++] = (int64_t)i + 1;
        }
    }
    (void)relay_core_add_found(core, seqs, count);
}

/* A bound is passed once all who were writing when it was drawn have ended;
 * one that was never drawn is not. */
static void put_bounds(const struct relay_config *config,
    const struct world *world, const struct relay *relay,
    struct relay_core *core)
{
    enum { PASSED = 1, AHEAD = 2 };
    for (size_t i = 0; i < core->gap_count; i++) {
        const uint8_t bound = relay->bounds[core->gaps[i].seq - 1];
        const bool is_passed =
            bound != UINT8_MAX && (bound & writing_rows(world)) == 0;
        core->gaps[i].bound =
            is_passed || config->fault == RELAY_GAPS_PRESUMED ? PASSED : AHEAD;
    }
    relay_core_xmin(core, PASSED);
}

static unsigned read_rows(const struct world *world, struct relay_core *core)
{
    unsigned batch = 0;
    for (unsigned i = 0; i < MAX_ROWS; i++) {
        if (world->writers[i] == WRITER_COMMITTED) {
            const int64_t seq = (int64_t)i + 1;
            batch |=
                relay_core_row(core, seq, true) == RELAY_PUBLISH ? 1U << i : 0U;
        }
    }
    return batch;
}

static void keep_core(const struct world *world, struct relay *relay,
    const struct relay_core *core)
{
    const unsigned gaps_before = relay->gaps;
    relay->high = (uint8_t)core->high;
    relay->gaps = 0;
    for (size_t i = 0; i < core->gap_count; i++) {
        relay->gaps |= (uint8_t)(1U << (core->gaps[i].seq - 1));
    }
    if (relay_core_is_caught_up(core)) {
        relay->found = 0;
    }
    for (unsigned i = 0; i < MAX_ROWS; i++) {
        const bool is_gap = (relay->gaps & 1U << i) != 0;
        const bool is_new =
            (gaps_before & 1U << i) == 0 || relay->bounds[i] == UINT8_MAX;
        if (!is_gap) {
            relay->bounds[i] = 0;
        } else if (is_new) {
            relay->bounds[i] = (uint8_t)writing_rows(world);
        }
    }
}

static void poll_rows(
    const struct relay_config *config, struct world *world, int i)
{
    struct relay *relay = &world->relays[i];
    struct relay_core core;
    struct relay_poll poll;
    load_core(&core, relay);
    relay_core_begin(&core, GAPS_ASKED);
    put_bounds(config, world, relay, &core);
    relay->batch = (uint8_t)read_rows(world, &core);
    relay_core_end(&core, &poll);
    keep_core(world, relay, &core);
    relay_core_fini(&core);
    if (relay->batch != 0) {
        relay->phase = PHASE_POLLED;
    }
}

/* -- tailing ------------------------------------------------------------------------------ */

static bool is_caught_up(const struct relay *relay)
{
    struct relay_core core;
    load_core(&core, relay);
    const bool is_so = relay_core_is_caught_up(&core);
    relay_core_fini(&core);
    return is_so;
}

static unsigned low_of(unsigned high, unsigned gaps)
{
    unsigned low = 0;
    while (low < high && (gaps & 1U << low) == 0) {
        low++;
    }
    return low;
}

static void save(const struct relay_config *config, struct world *world, int i)
{
    const struct relay *relay = &world->relays[i];
    const unsigned low = low_of(relay->high, relay->gaps);
    const bool is_behind = low < low_of(world->saved_high, world->saved_gaps) ||
                           relay->high < world->saved_high;
    if (is_behind) {
        go_down(world, i);
        return;
    }
    const bool may_move =
        is_caught_up(relay) || config->fault == RELAY_SAVE_UNMET;
    world->saved_high = relay->high;
    world->saved_gaps = relay->gaps;
    world->saved_position = may_move ? relay->delivered : relay->from;
    if (config->fault == RELAY_SAVE_LOW) {
        world->saved_high = (uint8_t)low;
        world->saved_gaps = 0;
        world->saved_position = relay->delivered;
    }
}

static void begin_transaction(
    const struct relay_config *config, struct world *world, int i)
{
    struct relay *relay = &world->relays[i];
    if (config->fault == RELAY_ONE_LANE_FENCED && relay->turn == 1 &&
        world->owners[1] != i) {
        fence_lane(world, i, 1);
    }
    if (world->owners[relay->turn] != i) {
        go_down(world, i);
        return;
    }
    append(world, relay->batch, relay->turn);
    relay->phase = PHASE_OPEN;
}

/* False: the lane is lost, and with it the transaction. */
static bool commit(struct world *world, int i)
{
    struct relay *relay = &world->relays[i];
    const int open = find_open(world, relay->turn);
    if (world->owners[relay->turn] != i || open < 0) {
        go_down(world, i);
        return false;
    }
    world->topic[open].is_open = 0;
    world->topic[open].lane = 0; /* says nothing any more */
    relay->delivered = (uint8_t)(open + 1);
    relay->turn = 1 - relay->turn;
    relay->batch = 0;
    relay->phase = PHASE_TAILING;
    return true;
}

static void expand_commit(struct search *search,
    const struct relay_config *config, struct world world, int i)
{
    const bool is_done = commit(&world, i);
    search_add(search, &world, true, "... commits, or learns of its fence");
    if (is_done && config->are_commits_lost) {
        go_down(&world, i);
        search_add(search, &world, false, "... commits, the answer is lost");
    }
}

static void expand_tail(struct search *search,
    const struct relay_config *config, const struct world *from, int i)
{
    struct world world = *from;
    switch ((enum phase)from->relays[i].phase) {
    case PHASE_TAILING:
        poll_rows(config, &world, i);
        search_add(search, &world, true, "... polls");
        world = *from;
        save(config, &world, i);
        search_add(search, &world, true, "... saves a checkpoint");
        break;
    case PHASE_POLLED:
        begin_transaction(config, &world, i);
        search_add(search, &world, true, "... produces");
        if (config->fault == RELAY_SAVE_EARLY) {
            world = *from;
            save(config, &world, i);
            search_add(search, &world, true, "... saves too early");
        }
        break;
    case PHASE_OPEN:
        expand_commit(search, config, world, i);
        break;
    case PHASE_DOWN:
    case PHASE_CHECKED:
    case PHASE_ONE_FENCED:
    case PHASE_FENCED:
    case PHASE_ENDS_READ:
        break;
    }
}

/* -- the rest of the world ------------------------------------------------------------------ */

static void expand_writers(struct search *search,
    const struct relay_config *config, const struct world *from)
{
    for (int i = 0; i < config->rows; i++) {
        struct world world = *from;
        if (from->writers[i] == WRITER_NONE) {
            world.writers[i] = WRITER_DRAWN;
            search_add(search, &world, true, "a number is drawn");
            return; /* in their order */
        }
        if (from->writers[i] == WRITER_DRAWN) {
            world.writers[i] = WRITER_COMMITTED;
            search_add(search, &world, true, "an outcome is committed");
            world.writers[i] = WRITER_GONE;
            search_add(search, &world, true, "an outcome is rolled back");
        }
    }
}

static void expand_foreign(struct search *search, const struct world *from)
{
    struct world world = *from;
    const int open = find_open(from, LANE_FOREIGN);
    if (open >= 0) {
        take_out(&world, open);
        search_add(search, &world, true, "a foreign transaction ends");
    } else if (from->is_foreign_used == 0) {
        append(&world, 0, LANE_FOREIGN);
        world.is_foreign_used = 1;
        search_add(search, &world, false, "a foreign transaction begins");
    }
}

static void expand(
    struct search *search, const void *config_ptr, const void *state_ptr)
{
    const struct relay_config *config = config_ptr;
    const struct world *from = state_ptr;
    for (int i = 0; i < RELAYS; i++) {
        expand_start(search, config, *from, i);
        expand_tail(search, config, from, i);
        if (from->relays[i].phase != PHASE_DOWN) {
            struct world world = *from;
            go_down(&world, i);
            search_add(search, &world, false, "a relay is killed");
        }
    }
    expand_writers(search, config, from);
    if (config->has_foreign) {
        expand_foreign(search, from);
    }
}

/* -- what must hold --------------------------------------------------------------------------- */

static unsigned all_published(const struct world *world)
{
    return published_rows(world, 0, world->record_count);
}

static bool is_doubled(const struct world *world)
{
    unsigned rows = 0;
    for (int i = 0; i < world->record_count; i++) {
        const struct record *record = &world->topic[i];
        if (record->is_open == 0 && (rows & record->rows) != 0) {
            return true;
        }
        rows |= record->is_open == 0 ? record->rows : 0U;
    }
    return false;
}

/* Whether something was given up that is not published or may still come. */
static bool is_lost(const struct world *world, unsigned done)
{
    for (unsigned i = 0; i < MAX_ROWS; i++) {
        const bool is_open = world->writers[i] == WRITER_DRAWN ||
                             (world->writers[i] == WRITER_COMMITTED &&
                                 (all_published(world) & 1U << i) == 0);
        if ((done & 1U << i) != 0 && is_open) {
            return true;
        }
    }
    return false;
}

static const char *check(const void *config, const void *state_ptr)
{
    const struct world *world = state_ptr;
    (void)config;
    if (is_doubled(world)) {
        return "published twice";
    }
    if (is_lost(world, done_rows(world->saved_high, world->saved_gaps))) {
        return "lost by the checkpoint";
    }
    for (int i = 0; i < RELAYS; i++) {
        const struct relay *relay = &world->relays[i];
        const unsigned done = done_rows(relay->high, relay->gaps);
        if (relay->phase >= PHASE_TAILING &&
            is_lost(world, done & ~(unsigned)relay->batch)) {
            return "lost";
        }
    }
    return NULL;
}

static bool is_end(const void *config_ptr, const void *state_ptr)
{
    const struct relay_config *config = config_ptr;
    const struct world *world = state_ptr;
    for (unsigned i = 0; i < (unsigned)config->rows; i++) {
        const bool is_published = (all_published(world) & 1U << i) != 0;
        if (world->writers[i] != WRITER_GONE && !is_published) {
            return false;
        }
    }
    return true;
}

const char *relay_model_run(
    const struct relay_config *config, bool is_verbose, size_t *states)
{
    static const struct search_model model = {
        .state_size = sizeof(struct world),
        .expand = expand,
        .check = check,
        .is_end = is_end,
    };
    struct world first = {.owners = {NOBODY, NOBODY}};
    struct search *search = search_new(&model, config);
    const char *broken = search_run(search, &first);
    *states = search_states(search);
    if (broken != NULL && is_verbose) {
        (void)printf("%s:\n", broken);
        search_print_way(search);
    }
    search_free(search);
    return broken;
}
