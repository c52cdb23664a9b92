/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of the programs, as far as one action goes. */
#include "tests/model/claims_state.h"

bool claims_is_alive(const struct claims_state *state, int boot)
{
    return state->boots[boot].row == BOOT_ALIVE;
}

static bool is_mine(
    const struct claims_state *state, const struct claims_statement *statement)
{
    return state->live.attempt_no != 0 &&
           state->live.attempt_no == statement->attempt_no &&
           state->live.owner == statement->boot + 1;
}

/* -- outcomes ------------------------------------------------------------------ */

static bool has_nobody_suffered(const struct claims_state *state)
{
    for (int i = 0; i < CLAIMS_BOOTS; i++) {
        const struct claims_boot *boot = &state->boots[i];
        const bool is_well = boot->row == BOOT_ALIVE && boot->is_running != 0 &&
                             boot->is_draining == 0;
        if (boot->row != BOOT_UNBORN && !is_well) {
            return false;
        }
    }
    return true;
}

/* Judged by what the provider knows. A natural or keyed call of before may have
 * been refused and yet have had its effect: failed says nothing about it. */
static enum claims_lie judge(const struct claims_state *state,
    const struct claims_config *config, enum status status)
{
    const bool is_unsafe = config->effect == EFFECT_UNSAFE;
    const bool denies =
        status == STATUS_EXHAUSTED || status == STATUS_EXPIRED ||
        status == STATUS_CANCELLED || (status == STATUS_FAILED && is_unsafe);
    if ((status == STATUS_SUCCEEDED && state->effects == 0) ||
        (denies && state->effects > 0)) {
        return LIE_UNTRUE;
    }
    if (status == STATUS_INDETERMINATE && state->effects == 0 &&
        has_nobody_suffered(state)) {
        return LIE_NEEDLESS;
    }
    return LIE_NONE;
}

static void put_outcome(struct claims_state *state,
    const struct claims_config *config, uint8_t status, uint8_t attempt_no)
{
    const enum claims_lie lie = judge(state, config, (enum status)status);
    if (lie != LIE_NONE) {
        state->lie = (uint8_t)lie;
    }
    state->outcomes++;
    state->outcome_status = status;
    state->outcome_no = attempt_no;
}

/* -- the worker's --------------------------------------------------------------- */

/* The newest window as this statement sees it: with the lock, the one read
 * under it. */
static int claim(
    struct claims_state *state, const struct claims_statement *statement)
{
    const struct claims_boot *boot = &state->boots[statement->boot];
    const bool has_looked = boot->claim == CLAIM_LOCKED;
    const unsigned window = has_looked ? boot->window : state->window;
    const bool is_older = has_looked ? boot->is_older != 0
                                     : (state->actions & ~(1U << window)) != 0;
    const bool is_there = (state->actions & 1U << window) != 0;
    if (!claims_is_alive(state, statement->boot) || is_older || is_there) {
        return 0;
    }
    if (state->live.attempt_no != 0) {
        return 0; /* 23505 on live: nothing of it stays */
    }
    state->actions |= (uint8_t)(1U << window);
    state->live = (struct claims_live){.attempt_no = 1,
        .state = LIVE_READY,
        .owner = (uint8_t)(statement->boot + 1)};
    return 1;
}

static int collect(
    struct claims_state *state, const struct claims_statement *statement)
{
    if (state->live.attempt_no == 0 || state->live.owner != 0 ||
        state->live.state != LIVE_READY ||
        !claims_is_alive(state, statement->boot)) {
        return 0;
    }
    state->live.owner = (uint8_t)(statement->boot + 1);
    return 1;
}

static int begin(
    struct claims_state *state, const struct claims_statement *statement)
{
    if (!is_mine(state, statement) || state->live.state != LIVE_READY ||
        state->live.is_cancelled != 0 ||
        !claims_is_alive(state, statement->boot)) {
        return 0;
    }
    state->live.state = LIVE_BEGUN;
    return 1;
}

static int settle(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement)
{
    const bool is_unfenced =
        config->fault == CLAIMS_SETTLE_UNFENCED && state->live.attempt_no != 0;
    if (!is_mine(state, statement) && !is_unfenced) {
        return 0;
    }
    if (!is_mine(state, statement)) {
        state->lie = LIE_LATE;
    }
    state->live = (struct claims_live){.attempt_no = 0};
    put_outcome(state, config, statement->status, statement->attempt_no);
    return 1;
}

static int postpone(
    struct claims_state *state, const struct claims_statement *statement)
{
    if (!is_mine(state, statement) || state->live.is_cancelled != 0) {
        return 0;
    }
    state->live = (struct claims_live){.attempt_no = 0};
    state->waiting =
        (struct claims_waiting){.attempt_no = statement->attempt_no,
            .calls = statement->calls,
            .is_unknown = statement->is_unknown};
    state->noted |= (uint8_t)(1U << statement->attempt_no);
    return 1;
}

static int hand_back(
    struct claims_state *state, const struct claims_statement *statement)
{
    if (!is_mine(state, statement) || state->live.state != LIVE_READY) {
        return 0;
    }
    state->live.owner = 0;
    state->live.attempt_no++;
    return 1;
}

/* No program has it: it stands for the rule that was broken. */
static int set_back(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement)
{
    if (!is_mine(state, statement) || state->live.state != LIVE_BEGUN) {
        return 0;
    }
    state->live.state = LIVE_READY;
    if (config->fault == CLAIMS_SET_BACK_FENCED) {
        state->live.attempt_no++;
    }
    return 1;
}

/* -- the scheduler's ------------------------------------------------------------ */

static bool is_owner_alive(const struct claims_state *state)
{
    return state->live.owner != 0 &&
           claims_is_alive(state, state->live.owner - 1);
}

static int run_again(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement)
{
    const bool is_fenced = is_mine(state, statement) &&
                           state->live.state == statement->state &&
                           !claims_is_alive(state, statement->boot);
    const bool is_rescue =
        config->fault == CLAIMS_RESCUE_BY_AGE && is_mine(state, statement);
    const bool is_unfenced =
        config->fault == CLAIMS_SWEEP_UNFENCED && state->live.attempt_no != 0;
    if (!is_fenced && !is_rescue && !is_unfenced) {
        return 0;
    }
    state->live.state = LIVE_READY;
    state->live.owner = 0;
    state->live.attempt_no++;
    state->live.deaths++;
    state->live.calls = (uint8_t)(state->live.calls + statement->calls);
    state->live.is_unknown = statement->is_unknown;
    return 1;
}

static int live_end(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement)
{
    if (state->live.attempt_no == 0 ||
        state->live.attempt_no != statement->attempt_no ||
        is_owner_alive(state)) {
        return 0;
    }
    state->live = (struct claims_live){.attempt_no = 0};
    put_outcome(state, config, statement->status, statement->attempt_no);
    return 1;
}

static int waiting_end(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement)
{
    if (state->waiting.attempt_no == 0 ||
        state->waiting.attempt_no != statement->attempt_no) {
        return 0;
    }
    state->waiting = (struct claims_waiting){.attempt_no = 0};
    put_outcome(state, config, statement->status, statement->attempt_no);
    return 1;
}

static void wake(struct claims_state *state, int step, uint8_t is_cancelled)
{
    const struct claims_waiting *waiting = &state->waiting;
    state->live = (struct claims_live){
        .attempt_no = (uint8_t)(waiting->attempt_no + step),
        .state = LIVE_READY,
        .calls = waiting->calls,
        .deaths = waiting->deaths,
        .is_unknown = waiting->is_unknown,
        .is_cancelled = is_cancelled};
    state->waiting = (struct claims_waiting){.attempt_no = 0};
}

void claims_due_take(
    struct claims_state *state, const struct claims_config *config)
{
    wake(state, config->fault == CLAIMS_FENCE_KEPT ? 0 : 1, 0);
}

void claims_cancel(struct claims_state *state)
{
    state->is_cancel_used = 1;
    if (state->live.attempt_no != 0) {
        state->live.is_cancelled = 1;
    } else if (state->waiting.attempt_no != 0) {
        wake(state, 1, 1);
    }
}

int claims_execute(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement)
{
    switch ((enum claims_sql)statement->sql) {
    case SQL_CLAIM:
        return claim(state, statement);
    case SQL_COLLECT:
        return collect(state, statement);
    case SQL_BEGIN:
        return begin(state, statement);
    case SQL_SETTLE:
        return settle(state, config, statement);
    case SQL_POSTPONE:
        return postpone(state, statement);
    case SQL_HAND_BACK:
        return hand_back(state, statement);
    case SQL_SET_BACK:
        return set_back(state, config, statement);
    case SQL_RUN_AGAIN:
        return run_again(state, config, statement);
    case SQL_LIVE_END:
        return live_end(state, config, statement);
    case SQL_WAITING_END:
        return waiting_end(state, config, statement);
    case SQL_NONE:
    case CLAIMS_SQL_COUNT:
        break;
    }
    return 0;
}
