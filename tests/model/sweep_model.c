/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/sweep_model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "scheduler/sweep_watch.h"
#include "tests/model/search.h"

/* Time goes in ticks of half a second, with a look at the end of each. */
#define TICK_US (500 * US_PER_MS)
#define NOW_US (1000 * US_PER_S)

enum {
    RENEW_TICKS = 4,
    GIVE_UP_TICKS = 16,
    LEASE_TICKS = 16, /* the lease's 20, less the age of the last renewal */
    QUIET_TICKS = 30,
    LAPSED_TICKS = 6,
    SOON_TICKS = 3, /* looks until a death that can be seen must be seen */
    NEVER = 255     /* of ticks since something that has not happened */
};

enum phase {
    PHASE_LIVE,   /* holds its lock and renews */
    PHASE_BLIP,   /* its lock is free for one look */
    PHASE_CUT,    /* lives, has no session */
    PHASE_FROZEN, /* its session stands, it does not renew */
    PHASE_STUCK,  /* frozen for so long that it gives up when it goes on */
    PHASE_DEAD,
    PHASE_DECLARED
};

enum verdict { FINE, KILLED_LIVING, TOO_LATE };

/* All fields are bytes: states are compared as they are. */
struct worker {
    uint8_t phase;
    uint8_t age;        /* ticks since it should have renewed */
    uint8_t is_expired; /* as the database's clock says */
    uint8_t was_held;   /* as the watch remembers it; ticks, or NEVER */
    uint8_t free_for;
    uint8_t expired_for;
    uint8_t unseen; /* looks that could have seen its death */
};

struct world {
    struct worker workers[SWEEP_MAX_WORKERS];
    uint8_t quiet; /* ticks left */
    uint8_t is_down;
    uint8_t is_cut; /* most sessions are lost */
    uint8_t deaths; /* used so far */
    uint8_t freezes;
    uint8_t blips;
    uint8_t cuts;
    uint8_t restarts;
    uint8_t steps;
    uint8_t verdict;
};

static bool is_living(const struct worker *worker)
{
    return worker->phase <= PHASE_FROZEN;
}

static bool is_held(const struct worker *worker)
{
    return worker->phase == PHASE_LIVE || worker->phase == PHASE_FROZEN ||
           worker->phase == PHASE_STUCK;
}

/* Whether the watch knows that it holds its lock. Sessions are lost then only:
 * a lock that no look saw cannot be seen to vanish, and one lost twice between
 * two looks was lost for all of the time; both are out of the model. */
static bool is_seen(const struct worker *worker)
{
    return worker->phase == PHASE_LIVE && worker->was_held != 0 &&
           worker->free_for == NEVER;
}

/* -- the look: worlds to the program's own structs and back ------------------ */

static int64_t since(uint8_t ticks)
{
    return ticks == NEVER ? WATCH_NOT_YET : NOW_US - ticks * TICK_US;
}

/* What lies further back than the longest wait makes no difference. */
static uint8_t ticks_since(int64_t since_us)
{
    if (since_us == WATCH_NOT_YET) {
        return NEVER;
    }
    const int64_t ticks = (NOW_US - since_us) / TICK_US;
    return (uint8_t)(ticks < LAPSED_TICKS ? ticks : LAPSED_TICKS);
}

/* Those that are not declared, in order; their places go to places. */
static void load(const struct sweep_config *config, const struct world *world,
    struct watch *watch, int *places)
{
    watch_init(watch);
    watch->workers = mem_zalloc(SWEEP_MAX_WORKERS + 1, sizeof(*watch->workers));
    watch->quiet_until_us = NOW_US + world->quiet * TICK_US;
    for (int i = 0; i < config->workers; i++) {
        const struct worker *worker = &world->workers[i];
        if (worker->phase == PHASE_DECLARED) {
            continue;
        }
        struct watch_worker *known = &watch->workers[watch->count];
        memset(known->boot_id, i + 1, UUID_SIZE);
        known->was_held =
            worker->was_held != 0 || config->fault == SWEEP_HELD_UNSEEN;
        known->free_since_us = since(worker->free_for);
        known->expired_since_us = since(worker->expired_for);
        places[watch->count] = i;
        watch->count++;
    }
}

/* Looks; returns how many sights there were. */
static size_t look(const struct sweep_config *config, const struct world *world,
    struct watch *watch, const int *places, struct watch_sight *sights)
{
    const size_t count = watch->count;
    /* Workers that hold their locks make any number of others few. */
    const size_t others =
        config->fault == SWEEP_BELIEVES_MANY ? SWEEP_MAX_WORKERS + 1 : 0;
    for (size_t i = 0; i < count; i++) {
        const struct worker *worker = &world->workers[places[i]];
        sights[i] = (struct watch_sight){
            .is_held = is_held(worker), .is_expired = worker->is_expired != 0};
        memcpy(sights[i].boot_id, watch->workers[i].boot_id, UUID_SIZE);
    }
    for (size_t i = count; i < count + others; i++) {
        sights[i] = (struct watch_sight){.is_held = true};
        memset(sights[i].boot_id, (int)i + 1 + SWEEP_MAX_WORKERS, UUID_SIZE);
    }
    watch_look(watch, NOW_US, sights, count + others);
    return count;
}

/* A second look at once, as if the first had been long ago. */
static void hasten(const struct sweep_config *config, struct watch *watch,
    struct watch_sight *sights, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct watch_worker *known = &watch->workers[i];
        if (config->fault == SWEEP_ONE_LOOK &&
            known->free_since_us != WATCH_NOT_YET) {
            known->free_since_us = NOW_US - WATCH_GONE_US;
        }
        if (config->fault == SWEEP_LAPSED_AT_ONCE &&
            known->expired_since_us != WATCH_NOT_YET) {
            known->expired_since_us = NOW_US - WATCH_LAPSED_US;
        }
    }
    watch_look(watch, NOW_US, sights, count);
}

/* Whether the watch could tell a death from a restart right now. */
static bool can_be_seen(const struct watch *watch, size_t count, size_t i)
{
    size_t vanished = 0;
    for (size_t k = 0; k < count; k++) {
        vanished += watch->workers[k].free_since_us == WATCH_NOT_YET ? 0 : 1;
    }
    return watch->workers[i].free_since_us != WATCH_NOT_YET &&
           (2 * vanished < count || (vanished == 1 && count <= 2));
}

static void judge(struct world *world, struct worker *worker,
    enum watch_verdict verdict, bool is_visible)
{
    if (verdict == WATCH_LEAVE) {
        const bool is_missed = is_visible && worker->phase == PHASE_DEAD;
        worker->unseen = (uint8_t)(is_missed ? worker->unseen + 1 : 0);
        world->verdict = worker->unseen > SOON_TICKS ? TOO_LATE : FINE;
        return;
    }
    if (is_living(worker)) {
        world->verdict = KILLED_LIVING;
    }
    *worker = (struct worker){.phase = PHASE_DECLARED};
}

static void take_look(const struct sweep_config *config, struct world *world)
{
    struct watch watch;
    struct watch_sight sights[2 * SWEEP_MAX_WORKERS + 1];
    int places[SWEEP_MAX_WORKERS] = {0};
    load(config, world, &watch, places);
    const size_t count = look(config, world, &watch, places, sights);
    if (config->fault == SWEEP_ONE_LOOK ||
        config->fault == SWEEP_LAPSED_AT_ONCE) {
        hasten(config, &watch, sights, count);
    }
    for (size_t i = 0; i < count; i++) {
        struct worker *worker = &world->workers[places[i]];
        const struct watch_worker *known = &watch.workers[i];
        worker->was_held = known->was_held ? 1 : 0;
        worker->free_for = ticks_since(known->free_since_us);
        worker->expired_for = ticks_since(known->expired_since_us);
        const bool is_deaf = config->fault == SWEEP_LEASES_ALONE &&
                             sights[i].verdict == WATCH_GONE;
        judge(world, worker, is_deaf ? WATCH_LEAVE : sights[i].verdict,
            can_be_seen(&watch, count, i));
    }
    watch_fini(&watch);
}

/* -- time ------------------------------------------------------------------- */

static uint8_t older(uint8_t ticks)
{
    return ticks == NEVER ? NEVER : (uint8_t)(ticks + 1);
}

static void renew(struct worker *worker)
{
    worker->phase = PHASE_LIVE;
    worker->age = 0;
    worker->is_expired = 0;
}

/* A worker after half a second in which nothing else happened to it. */
static void age(struct worker *worker)
{
    worker->free_for = older(worker->free_for);
    worker->expired_for = older(worker->expired_for);
    if (worker->phase == PHASE_LIVE && worker->age == RENEW_TICKS) {
        renew(worker);
        return;
    }
    if (worker->phase == PHASE_LIVE && worker->is_expired == 0) {
        return;
    }
    worker->age =
        (uint8_t)(worker->age < LEASE_TICKS ? worker->age + 1 : LEASE_TICKS);
    if (is_living(worker) && worker->age >= GIVE_UP_TICKS) {
        worker->phase = worker->phase == PHASE_CUT ? PHASE_DEAD : PHASE_STUCK;
    }
}

static void tick(struct search *search, const struct sweep_config *config,
    struct world world)
{
    for (int i = 0; i < config->workers; i++) {
        if (world.workers[i].phase != PHASE_DECLARED) {
            age(&world.workers[i]);
        }
    }
    world.quiet = (uint8_t)(world.quiet > 0 ? world.quiet - 1 : 0);
    if (world.is_down == 0) {
        take_look(config, &world);
    }
    for (int i = 0; i < config->workers; i++) {
        if (world.workers[i].phase == PHASE_BLIP) {
            renew(&world.workers[i]);
        }
    }
    search_add(search, &world, true, "half a second and a look");
}

/* -- what happens to one worker ------------------------------------------------ */

static void add_one(struct search *search, const struct world *world, int i,
    enum phase phase, const char *what)
{
    struct world next = *world;
    next.workers[i].phase = (uint8_t)phase;
    next.workers[i].unseen = 0;
    if (phase == PHASE_DEAD) {
        next.deaths++;
    } else if (phase == PHASE_FROZEN) {
        next.freezes++;
    } else {
        next.blips++;
    }
    search_add(search, &next, false, what);
}

static void add_renewal(
    struct search *search, const struct world *world, int i, const char *what)
{
    struct world next = *world;
    renew(&next.workers[i]);
    search_add(search, &next, true, what);
}

static void add_expiry(struct search *search, const struct world *world, int i)
{
    struct world next = *world;
    next.workers[i].is_expired = 1;
    search_add(search, &next, true, "a dead worker's lease runs out");
}

static void expand_one(struct search *search, const struct sweep_config *config,
    const struct world *world, int i)
{
    const struct worker *worker = &world->workers[i];
    if (is_living(worker) && world->deaths < config->deaths) {
        add_one(search, world, i, PHASE_DEAD, "a worker is killed");
    }
    if (worker->phase == PHASE_LIVE && worker->is_expired == 0) {
        if (world->freezes < config->freezes) {
            add_one(search, world, i, PHASE_FROZEN, "a worker is frozen");
        }
        if (world->blips < config->blips && is_seen(worker)) {
            add_one(search, world, i, PHASE_BLIP, "a session is lost and back");
        }
    } else if (worker->phase == PHASE_LIVE) {
        add_renewal(search, world, i, "a worker renews");
    } else if (worker->phase == PHASE_FROZEN) {
        add_renewal(search, world, i, "a worker goes on");
    } else if (worker->phase == PHASE_STUCK || worker->phase == PHASE_DEAD) {
        if (worker->is_expired == 0 && worker->age >= LEASE_TICKS) {
            add_expiry(search, world, i);
        }
        if (worker->phase == PHASE_STUCK) {
            struct world next = *world;
            next.workers[i].phase = PHASE_DEAD;
            search_add(search, &next, false, "a worker goes on and gives up");
        }
    } else if (worker->phase == PHASE_CUT && world->is_down == 0 &&
               world->is_cut == 0) {
        add_renewal(search, world, i, "a worker is connected again");
    }
}

/* -- what happens to all -------------------------------------------------------- */

/* Loses the sessions of those in the set; with another clock perhaps. */
static void cut(struct world *world, unsigned set, bool is_expired)
{
    for (int i = 0; i < SWEEP_MAX_WORKERS; i++) {
        struct worker *worker = &world->workers[i];
        if ((set >> i & 1U) == 0 || worker->phase == PHASE_DECLARED) {
            continue;
        }
        worker->phase = is_living(worker) ? PHASE_CUT : PHASE_DEAD;
        worker->is_expired = is_expired ? 1 : worker->is_expired;
        worker->unseen = 0;
    }
}

static void add_restart(
    struct search *search, const struct world *world, bool is_expired)
{
    struct world next = *world;
    next.is_down = 1;
    next.is_cut = 0;
    next.restarts++;
    cut(&next, ~0U, is_expired);
    search_add(search, &next, false,
        is_expired ? "Postgres is away, another clock will be there"
                   : "Postgres is away");
}

/* A new session of the scheduler: watch_restart(). */
static void add_return(struct search *search, const struct sweep_config *config,
    const struct world *world)
{
    struct world next = *world;
    next.is_down = 0;
    if (config->fault != SWEEP_KEEPS_MEMORY) {
        next.quiet = config->fault == SWEEP_NO_QUIET ? 0 : QUIET_TICKS;
        for (int i = 0; i < config->workers; i++) {
            next.workers[i].was_held = 0;
            next.workers[i].free_for = NEVER;
            next.workers[i].expired_for = NEVER;
        }
    }
    search_add(search, &next, true, "Postgres is back");
}

static void add_cuts(struct search *search, const struct sweep_config *config,
    const struct world *world)
{
    for (unsigned set = 0; set < 1U << config->workers; set++) {
        int in_set = 0;
        int all = 0;
        bool is_possible = true;
        for (int i = 0; i < config->workers; i++) {
            const uint8_t phase = world->workers[i].phase;
            const bool is_in = (set >> i & 1U) != 0;
            is_possible &= !is_in || is_seen(&world->workers[i]);
            in_set += is_in ? 1 : 0;
            all += phase == PHASE_DECLARED ? 0 : 1;
        }
        if (is_possible && in_set >= 2 && 2 * in_set >= all) {
            struct world next = *world;
            next.is_cut = 1;
            next.cuts++;
            cut(&next, set, false);
            search_add(search, &next, false, "most sessions are lost");
        }
    }
}

static void add_end_of_cut(struct search *search, const struct world *world)
{
    struct world next = *world;
    next.is_cut = 0;
    for (int i = 0; i < SWEEP_MAX_WORKERS; i++) {
        if (next.workers[i].phase == PHASE_CUT) {
            renew(&next.workers[i]);
        }
    }
    search_add(search, &next, true, "the lost sessions are back");
}

/* Those that hold a session repair it with their next renewal; a frozen one
 * cannot, so both at once are out of the model. */
static void add_step(struct search *search, const struct sweep_config *config,
    const struct world *world)
{
    struct world next = *world;
    next.steps++;
    for (int i = 0; i < config->workers; i++) {
        struct worker *worker = &next.workers[i];
        if (worker->phase == PHASE_FROZEN || worker->phase == PHASE_CUT) {
            return;
        }
        if (worker->phase != PHASE_DECLARED) {
            worker->is_expired = 1;
        }
    }
    search_add(search, &next, false, "the clock steps forward");
}

static void expand(
    struct search *search, const void *config_arg, const void *state)
{
    const struct sweep_config *config = config_arg;
    const struct world *world = state;
    tick(search, config, *world);
    for (int i = 0; i < config->workers; i++) {
        expand_one(search, config, world, i);
    }
    if (world->is_down != 0) {
        add_return(search, config, world);
        return;
    }
    if (world->restarts < config->restarts) {
        add_restart(search, world, false);
        add_restart(search, world, true);
    }
    if (world->cuts < config->cuts) {
        add_cuts(search, config, world);
    }
    if (world->is_cut != 0) {
        add_end_of_cut(search, world);
    }
    if (world->steps < config->steps) {
        add_step(search, config, world);
    }
}

/* -- promises ---------------------------------------------------------------------- */

static const char *check(const void *config, const void *state)
{
    static const char *const promises[] = {[FINE] = NULL,
        [KILLED_LIVING] = "a living worker was declared dead",
        [TOO_LATE] = "a death was seen too late"};
    const struct world *world = state;
    (void)config;
    return promises[world->verdict];
}

static bool is_end(const void *config_arg, const void *state)
{
    const struct sweep_config *config = config_arg;
    const struct world *world = state;
    for (int i = 0; i < config->workers; i++) {
        const struct worker *worker = &world->workers[i];
        if (worker->phase != PHASE_DECLARED &&
            (worker->phase != PHASE_LIVE || worker->is_expired != 0)) {
            return false;
        }
    }
    return world->is_down == 0;
}

static int compare_workers(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct worker));
}

/* Workers differ in names alone. */
static void normalise(void *state)
{
    struct world *world = state;
    qsort(world->workers, SWEEP_MAX_WORKERS, sizeof(world->workers[0]),
        compare_workers);
}

const char *sweep_model_run(
    const struct sweep_config *config, bool is_verbose, size_t *states)
{
    static const struct search_model model = {
        .state_size = sizeof(struct world),
        .expand = expand,
        .normalise = normalise,
        .check = check,
        .is_end = is_end,
    };
    struct world first = {.quiet = QUIET_TICKS};
    for (int i = 0; i < SWEEP_MAX_WORKERS; i++) {
        first.workers[i] = i < config->workers
                               ? (struct worker){.phase = PHASE_LIVE,
                                     .free_for = NEVER,
                                     .expired_for = NEVER}
                               : (struct worker){.phase = PHASE_DECLARED};
    }
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
