/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/state.h"

#include "common/time.h"

enum { PPM = 1000000, JITTER_PARTS = 5 }; /* a fifth: at most 20 % is added */

/* The table of CONTRACTS for a whole answer that no manifest moved. */
static enum verdict_class judge_status(const struct call_facts *facts)
{
    switch (facts->http_status) {
    case 425:
    case 429:
        return VERDICT_NOT_APPLIED;
    case 503:
        return facts->has_retry_after ? VERDICT_NOT_APPLIED : VERDICT_MAYBE;
    case 408:
        return VERDICT_MAYBE;
    case 409:
        /* The provider may still be running the call of before. */
        return facts->effect == EFFECT_KEYED && facts->was_taken_over
                   ? VERDICT_MAYBE
                   : VERDICT_PERMANENT;
    case 501:
        return VERDICT_PERMANENT;
    default:
        break;
    }
    if (facts->http_status >= 300 && facts->http_status < 500) {
        return VERDICT_PERMANENT;
    }
    return VERDICT_MAYBE; /* other 5xx as 500; what is no final status too */
}

static enum verdict_class judge_answer(const struct call_facts *facts)
{
    if (facts->http_status >= 200 && facts->http_status < 300) {
        return VERDICT_SUCCESS;
    }
    switch (facts->move) {
    case MOVE_RETRY:
        return VERDICT_MAYBE;
    case MOVE_PERMANENT:
        return VERDICT_PERMANENT;
    case MOVE_NOT_APPLIED:
        return VERDICT_NOT_APPLIED;
    case MOVE_LIMITED:
        if (facts->has_retry_after) {
            return VERDICT_NOT_APPLIED;
        }
        break;
    case MOVE_NONE:
        break;
    }
    return judge_status(facts);
}

enum verdict_class state_judge(const struct call_facts *facts)
{
    static const enum verdict_class of_end[CALL_END_COUNT] = {
        [CALL_NOT_SENT] = VERDICT_NOT_APPLIED,
        [CALL_DENIED] = VERDICT_PERMANENT,
        [CALL_TIMED_OUT] = VERDICT_MAYBE,
        [CALL_TIMED_OUT_EARLY] = VERDICT_NOT_APPLIED,
        [CALL_BROKEN] = VERDICT_MAYBE,
        [CALL_LOST] = VERDICT_MAYBE,
    };
    if (facts->end == CALL_ANSWERED) {
        return judge_answer(facts);
    }
    return of_end[facts->end];
}

int64_t state_backoff_ms(int calls, int64_t base_ms, int64_t max_ms)
{
    int64_t wait_ms = base_ms;
    for (int i = 1; i < calls && wait_ms < max_ms; i++) {
        wait_ms = wait_ms > max_ms / 2 ? max_ms : wait_ms * 2;
    }
    return wait_ms < max_ms ? wait_ms : max_ms;
}

enum status state_end(enum status wanted, bool is_effect_unknown)
{
    return is_effect_unknown ? STATUS_INDETERMINATE : wanted;
}

static struct decision end_with(
    enum status status, enum code code, enum fault_class class)
{
    return (struct decision){
        .is_terminal = true, .status = status, .code = code, .class = class};
}

/* Work that stops although another attempt might succeed. */
static struct decision give_up(
    enum status wanted, enum code code, const struct decision *draft)
{
    struct decision decision = *draft;
    decision.is_terminal = true;
    decision.status = state_end(wanted, draft->is_effect_unknown);
    decision.code = code;
    if (decision.status == STATUS_INDETERMINATE) {
        decision.class = FAULT_UNKNOWN;
    }
    return decision;
}

static int64_t wait_before_retry_ms(const struct call_facts *facts,
    const struct budget *budget, uint32_t jitter_ppm)
{
    /* A usable Retry-After replaces our own backoff; jitter only adds. */
    const int64_t wait_ms =
        facts->has_retry_after
            ? facts->retry_after_s * 1000
            : state_backoff_ms(budget->calls, budget->base_ms, budget->max_ms);
    const int64_t ppm = jitter_ppm < PPM ? jitter_ppm : PPM;
    return wait_ms + wait_ms / JITTER_PARTS * ppm / PPM;
}

static bool is_past_retention(const struct budget *budget, int64_t start_us)
{
    return budget->key_retention_s > 0 && budget->first_call_us > 0 &&
           start_us >=
               budget->first_call_us + budget->key_retention_s * US_PER_S;
}

static struct decision try_again(const struct call_facts *facts,
    const struct budget *budget, struct decision draft, uint32_t jitter_ppm)
{
    if (budget->is_cancelled) {
        return give_up(STATUS_CANCELLED, CODE_CANCELLED, &draft);
    }
    if (facts->has_retry_after && facts->retry_after_s > RETRY_AFTER_CAP_S) {
        draft.class = FAULT_PERMANENT;
        return give_up(STATUS_FAILED, CODE_RETRY_AFTER_TOO_LONG, &draft);
    }
    if (budget->calls >= budget->max_attempts) {
        return give_up(STATUS_EXHAUSTED, draft.code, &draft);
    }
    draft.wait_ms = wait_before_retry_ms(facts, budget, jitter_ppm);
    const int64_t start_us = budget->now_us + draft.wait_ms * US_PER_MS;
    if (budget->deadline_us != 0 && start_us >= budget->deadline_us) {
        return give_up(STATUS_EXPIRED, CODE_DEADLINE_PASSED, &draft);
    }
    if (is_past_retention(budget, start_us)) {
        /* The provider will have forgotten our key: it would run twice. */
        return give_up(STATUS_EXHAUSTED, draft.code, &draft);
    }
    return draft;
}

static struct decision refused(
    const struct call_facts *facts, const struct budget *budget, enum code code)
{
    const struct decision draft = {.code = code,
        .class = FAULT_PERMANENT,
        .is_effect_unknown = budget->is_effect_unknown};
    if (facts->end == CALL_DENIED) {
        /* We refused, not the provider: an earlier call stays unknown. */
        return give_up(STATUS_FAILED, code, &draft);
    }
    return end_with(STATUS_FAILED, code, FAULT_PERMANENT);
}

struct decision state_settle(const struct call_facts *facts,
    const struct budget *budget, enum code code_if_failed, uint32_t jitter_ppm)
{
    const enum verdict_class verdict = state_judge(facts);
    if (verdict == VERDICT_SUCCESS) {
        return end_with(STATUS_SUCCEEDED, CODE_NONE, FAULT_TRANSIENT);
    }
    if (verdict == VERDICT_PERMANENT) {
        return refused(facts, budget, code_if_failed);
    }
    const bool is_maybe = verdict == VERDICT_MAYBE;
    if (is_maybe && facts->effect == EFFECT_UNSAFE) {
        struct decision decision =
            end_with(STATUS_INDETERMINATE, code_if_failed, FAULT_UNKNOWN);
        decision.is_effect_unknown = true;
        return decision;
    }
    const bool is_unknown = is_maybe && facts->end != CALL_ANSWERED;
    const struct decision draft = {.code = code_if_failed,
        .class = is_unknown ? FAULT_UNKNOWN : FAULT_TRANSIENT,
        .is_effect_unknown = is_maybe || budget->is_effect_unknown};
    return try_again(facts, budget, draft, jitter_ppm);
}

enum sweep_act state_sweep(const struct sweep_facts *facts)
{
    if (facts->state == LIVE_BEGUN && facts->effect == EFFECT_UNSAFE) {
        return SWEEP_INDETERMINATE;
    }
    /* Also what was only ready: the record itself may be what kills. */
    if (facts->deaths + 1 >= STATE_MAX_DEATHS) {
        return SWEEP_CRASHED;
    }
    return SWEEP_RUN_AGAIN;
}

bool state_sweep_is_unknown(const struct sweep_facts *facts, bool was_unknown)
{
    /* Natural and keyed calls start without the separate begun commit, so
     * "ready" proves nothing for them. */
    return was_unknown || facts->effect != EFFECT_UNSAFE ||
           facts->state == LIVE_BEGUN;
}
