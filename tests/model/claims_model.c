/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet around the workers, and what must hold. */
#include "tests/model/claims_model.h"

#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "schema/state.h"
#include "tests/model/claims_worker.h"

/* -- deaths -------------------------------------------------------------------------- */

static int count_running(const struct claims_state *state)
{
    int count = 0;
    for (int i = 0; i < CLAIMS_BOOTS; i++) {
        count += state->boots[i].is_running;
    }
    return count;
}

/* Whether the fleet can go on without this boot. */
static bool has_other(const struct claims_state *state, int boot)
{
    for (int i = 0; i < CLAIMS_BOOTS; i++) {
        const struct claims_boot *other = &state->boots[i];
        const bool can_work = other->row == BOOT_ALIVE &&
                              other->is_running != 0 && other->is_draining == 0;
        if (i != boot && (other->row == BOOT_UNBORN || can_work)) {
            return true;
        }
    }
    return false;
}

static void expand_death(struct search *search,
    const struct claims_config *config, const struct claims_state *from,
    int boot)
{
    struct claims_state state = *from;
    claims_end_process(&state, boot);
    search_add(search, &state, false, "a worker is killed");
    if (claims_is_alive(from, boot)) {
        state = *from;
        state.boots[boot].row = BOOT_DEAD;
        search_add(search, &state, false, "a living worker is declared dead");
    }
    if (config->can_drain && from->boots[boot].is_draining == 0) {
        state = *from;
        state.boots[boot].is_draining = 1;
        search_add(search, &state, false, "a worker is told to stop");
    }
}

static void expand_life(struct search *search,
    const struct claims_config *config, const struct claims_state *from,
    int boot)
{
    const struct claims_boot *mine = &from->boots[boot];
    struct claims_state state = *from;
    if (mine->row == BOOT_UNBORN && count_running(from) < config->workers) {
        state.boots[boot].row = BOOT_ALIVE;
        state.boots[boot].is_running = 1;
        search_add(search, &state, true, "a worker starts");
        return;
    }
    if (mine->row == BOOT_ALIVE && mine->is_running == 0) {
        state.boots[boot].row = BOOT_DEAD;
        search_add(search, &state, true, "a killed worker is declared dead");
    }
    if (mine->is_running == 0) {
        return;
    }
    if (mine->row != BOOT_ALIVE) {
        claims_end_process(&state, boot);
        search_add(search, &state, true, "a worker sees that it is dead");
    } else if (mine->is_draining != 0 && mine->job == JOB_NONE &&
               mine->claim == CLAIM_IDLE) {
        state.boots[boot].row = BOOT_STOPPED;
        claims_end_process(&state, boot);
        search_add(search, &state, true, "a worker has stopped");
    }
    if (config->can_die && has_other(from, boot)) {
        expand_death(search, config, from, boot);
    }
}

/* -- the sweeper ----------------------------------------------------------------------- */

static struct claims_statement sweep_statement(
    const struct claims_state *state, const struct claims_config *config)
{
    const struct claims_live *live = &state->live;
    const struct sweep_facts facts = {.state = (enum live_state)live->state,
        .effect = config->effect,
        .deaths = live->deaths};
    const bool is_unknown =
        config->fault == CLAIMS_READY_IS_UNSTARTED && live->state == LIVE_READY
            ? live->is_unknown != 0
            : state_sweep_is_unknown(&facts, live->is_unknown != 0);
    struct claims_statement statement = {.boot = (uint8_t)(live->owner - 1),
        .attempt_no = live->attempt_no,
        .state = live->state,
        .calls = live->state == LIVE_BEGUN || config->effect != EFFECT_UNSAFE
                     ? 1
                     : 0,
        .is_unknown = is_unknown ? 1 : 0};
    const enum sweep_act act = config->fault == CLAIMS_RESCUE_BY_AGE
                                   ? SWEEP_RUN_AGAIN
                                   : state_sweep(&facts);
    statement.sql = act == SWEEP_RUN_AGAIN ? SQL_RUN_AGAIN : SQL_LIVE_END;
    statement.status = (uint8_t)(act == SWEEP_RUN_AGAIN ? 0
                                 : act == SWEEP_INDETERMINATE
                                     ? STATUS_INDETERMINATE
                                     : state_end(STATUS_EXHAUSTED, is_unknown));
    return statement;
}

static void act_or_delay(struct search *search,
    const struct claims_config *config, const struct claims_state *from,
    const struct claims_statement *statement, bool is_fair, const char *what)
{
    struct claims_state state = *from;
    (void)claims_execute(&state, config, statement);
    search_add(search, &state, is_fair, what);
    state = *from;
    if (claims_delay(&state, config, statement)) {
        search_add(search, &state, false, "the scheduler has read, acts later");
    }
}

static void expand_sweep(struct search *search,
    const struct claims_config *config, const struct claims_state *state)
{
    const struct claims_live *live = &state->live;
    if (live->attempt_no == 0 || live->owner == 0 ||
        config->fault == CLAIMS_NO_SWEEP) {
        return;
    }
    const bool is_orphan = !claims_is_alive(state, live->owner - 1);
    if (!is_orphan && config->fault != CLAIMS_RESCUE_BY_AGE) {
        return;
    }
    const struct claims_statement statement = sweep_statement(state, config);
    act_or_delay(search, config, state, &statement, is_orphan,
        "the sweeper moves a row of the dead");
}

/* -- the rest of the world ---------------------------------------------------------------- */

static void expand_waiting(struct search *search,
    const struct claims_config *config, const struct claims_state *from)
{
    if (from->waiting.attempt_no == 0) {
        return;
    }
    struct claims_state state = *from;
    claims_due_take(&state, config);
    search_add(search, &state, true, "what waited is due");
    if (config->can_expire) {
        const bool is_unknown = from->waiting.is_unknown != 0;
        const struct claims_statement statement = {.sql = SQL_WAITING_END,
            .attempt_no = from->waiting.attempt_no,
            .status = (uint8_t)state_end(STATUS_EXPIRED, is_unknown)};
        act_or_delay(search, config, from, &statement, false,
            "the deadline of what waits has passed");
    }
}

static bool is_window_locked(const struct claims_state *state)
{
    for (int i = 0; i < CLAIMS_BOOTS; i++) {
        if (state->boots[i].claim == CLAIM_LOCKED) {
            return true;
        }
    }
    return false;
}

static void expand_callers(struct search *search,
    const struct claims_config *config, const struct claims_state *from)
{
    struct claims_state state = *from;
    if (config->can_cancel && from->is_cancel_used == 0 && from->actions != 0 &&
        from->outcomes == 0) {
        claims_cancel(&state);
        search_add(search, &state, false, "it is cancelled");
    }
    if (config->can_rotate && from->window == 0 &&
        (!is_window_locked(from) || config->fault == CLAIMS_ROTATE_UNLOCKED)) {
        state = *from;
        state.window = 1;
        search_add(search, &state, false, "the window is rotated");
    }
}

static void expand_delayed(struct search *search,
    const struct claims_config *config, const struct claims_state *from)
{
    for (int i = 0; i < CLAIMS_MAX_DELAYED; i++) {
        const struct claims_statement statement = from->delayed[i];
        if (statement.sql == SQL_NONE) {
            continue;
        }
        struct claims_state state = *from;
        for (int k = i; k < CLAIMS_MAX_DELAYED - 1; k++) {
            state.delayed[k] = state.delayed[k + 1];
        }
        state.delayed[CLAIMS_MAX_DELAYED - 1] =
            (struct claims_statement){.sql = SQL_NONE};
        search_add(search, &state, true, "a delayed statement dies");
        (void)claims_execute(&state, config, &statement);
        search_add(search, &state, true, "A DELAYED STATEMENT RUNS");
    }
}

static void expand(
    struct search *search, const void *config_ptr, const void *state_ptr)
{
    const struct claims_config *config = config_ptr;
    const struct claims_state *state = state_ptr;
    for (int i = 0; i < CLAIMS_BOOTS; i++) {
        if (state->boots[i].is_running != 0) {
            claims_worker_expand(search, config, state, i);
        }
        expand_life(search, config, state, i);
    }
    expand_sweep(search, config, state);
    expand_waiting(search, config, state);
    expand_callers(search, config, state);
    expand_delayed(search, config, state);
}

/* -- what must hold ------------------------------------------------------------------------- */

static const char *check(const void *config_ptr, const void *state_ptr)
{
    static const char *const lies[] = {
        [LIE_UNTRUE] = "untrue outcome",
        [LIE_LATE] = "late outcome",
        [LIE_NEEDLESS] = "needless indeterminate",
    };
    const struct claims_config *config = config_ptr;
    const struct claims_state *state = state_ptr;
    const bool is_live = state->live.attempt_no != 0;
    const bool is_waiting = state->waiting.attempt_no != 0;
    if (state->outcomes > 1) {
        return "two outcomes";
    }
    if (config->effect == EFFECT_UNSAFE && state->effects > 1) {
        return "two effects";
    }
    if (state->lie != LIE_NONE) {
        return lies[state->lie];
    }
    if ((is_live && is_waiting) ||
        (state->outcomes > 0 && (is_live || is_waiting))) {
        return "in two stages";
    }
    if (state->is_offset_done != 0 && state->actions == 0) {
        return "offset without claim";
    }
    return NULL;
}

static bool is_end(const void *config, const void *state_ptr)
{
    const struct claims_state *state = state_ptr;
    (void)config;
    return state->outcomes > 0 && state->is_offset_done != 0;
}

static bool is_cut(const void *config, const void *state_ptr)
{
    const struct claims_state *state = state_ptr;
    (void)config;
    return state->live.attempt_no > CLAIMS_MAX_ATTEMPTS ||
           state->waiting.attempt_no > CLAIMS_MAX_ATTEMPTS ||
           state->effects > 3;
}

/* -- boots are alike ----------------------------------------------------------------------- */

/* Who is pointed at comes last, so that equal boots are told apart. */
static int compare_boots(const struct claims_state *state, int a, int b)
{
    const int order =
        memcmp(&state->boots[a], &state->boots[b], sizeof(state->boots[a]));
    if (order != 0) {
        return order;
    }
    const int owner = state->live.owner - 1;
    if ((owner == a) != (owner == b)) {
        return owner == a ? -1 : 1;
    }
    return a - b;
}

static void swap_boots(struct claims_state *state, int a, int b)
{
    const struct claims_boot boot = state->boots[a];
    state->boots[a] = state->boots[b];
    state->boots[b] = boot;
    uint8_t *owner = &state->live.owner;
    *owner = (uint8_t)(*owner == a + 1   ? b + 1
                       : *owner == b + 1 ? a + 1
                                         : *owner);
    for (int i = 0; i < CLAIMS_MAX_DELAYED; i++) {
        uint8_t *sender = &state->delayed[i].boot;
        if (state->delayed[i].sql != SQL_NONE) {
            *sender = (uint8_t)(*sender == a ? b : *sender == b ? a : *sender);
        }
    }
}

static void normalise(void *state_ptr)
{
    struct claims_state *state = state_ptr;
    for (int i = 1; i < CLAIMS_BOOTS; i++) {
        for (int k = i; k > 0 && compare_boots(state, k, k - 1) < 0; k--) {
            swap_boots(state, k, k - 1);
        }
    }
    struct claims_statement *delayed = state->delayed;
    const bool is_unsorted =
        delayed[1].sql != SQL_NONE &&
        memcmp(&delayed[0], &delayed[1], sizeof(delayed[0])) > 0;
    if (is_unsorted) {
        const struct claims_statement first = delayed[1];
        delayed[1] = delayed[0];
        delayed[0] = first;
    }
}

const char *claims_model_run(
    const struct claims_config *config, bool is_verbose, size_t *states)
{
    static const struct search_model model = {
        .state_size = sizeof(struct claims_state),
        .expand = expand,
        .normalise = normalise,
        .check = check,
        .is_end = is_end,
        .is_cut = is_cut,
    };
    struct claims_state first = {.outcomes = 0};
    for (int i = 0; i < config->workers; i++) {
        first.boots[i].row = BOOT_ALIVE;
        first.boots[i].is_running = 1;
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
