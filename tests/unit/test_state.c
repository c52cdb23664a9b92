/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of CONTRACTS ("what happened"), row by row, and every combination
 * of the inputs against a second, plainly written form of the rules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/time.h"
#include "schema/state.h"

#define NOW_US INT64_C(1796000000000000)

static const enum effect effects[] = {
    EFFECT_NATURAL, EFFECT_KEYED, EFFECT_UNSAFE};

static struct budget fresh(void)
{
    return (struct budget){.calls = 1,
        .max_attempts = 8,
        .now_us = NOW_US,
        .first_call_us = NOW_US - US_PER_S,
        .base_ms = 1000,
        .max_ms = 300000};
}

/* What a fresh call that ended so leads to. */
enum end_of_row { SUCCEEDED, FAILED, RETRY, RETRY_OR_UNKNOWN };

struct row {
    const char *name;
    enum call_end end;
    int http_status;
    bool has_retry_after;
    enum end_of_row wanted;
    enum fault_class class;
};

static const struct row rows[] = {
    {"not sent", CALL_NOT_SENT, 0, false, RETRY, FAULT_TRANSIENT},
    {"timed out early", CALL_TIMED_OUT_EARLY, 0, false, RETRY, FAULT_TRANSIENT},
    {"egress refused", CALL_DENIED, 0, false, FAILED, FAULT_PERMANENT},
    {"200", CALL_ANSWERED, 200, false, SUCCEEDED, FAULT_TRANSIENT},
    {"204", CALL_ANSWERED, 204, true, SUCCEEDED, FAULT_TRANSIENT},
    {"299", CALL_ANSWERED, 299, false, SUCCEEDED, FAULT_TRANSIENT},
    {"425", CALL_ANSWERED, 425, false, RETRY, FAULT_TRANSIENT},
    {"429", CALL_ANSWERED, 429, false, RETRY, FAULT_TRANSIENT},
    {"429 later", CALL_ANSWERED, 429, true, RETRY, FAULT_TRANSIENT},
    {"503 later", CALL_ANSWERED, 503, true, RETRY, FAULT_TRANSIENT},
    {"503", CALL_ANSWERED, 503, false, RETRY_OR_UNKNOWN, FAULT_TRANSIENT},
    {"408", CALL_ANSWERED, 408, false, RETRY_OR_UNKNOWN, FAULT_TRANSIENT},
    {"500", CALL_ANSWERED, 500, false, RETRY_OR_UNKNOWN, FAULT_TRANSIENT},
    {"500 later", CALL_ANSWERED, 500, true, RETRY_OR_UNKNOWN, FAULT_TRANSIENT},
    {"502", CALL_ANSWERED, 502, false, RETRY_OR_UNKNOWN, FAULT_TRANSIENT},
    {"504", CALL_ANSWERED, 504, false, RETRY_OR_UNKNOWN, FAULT_TRANSIENT},
    {"520", CALL_ANSWERED, 520, false, RETRY_OR_UNKNOWN, FAULT_TRANSIENT},
    {"301", CALL_ANSWERED, 301, true, FAILED, FAULT_PERMANENT},
    {"304", CALL_ANSWERED, 304, false, FAILED, FAULT_PERMANENT},
    {"400", CALL_ANSWERED, 400, true, FAILED, FAULT_PERMANENT},
    {"401", CALL_ANSWERED, 401, false, FAILED, FAULT_PERMANENT},
    {"403", CALL_ANSWERED, 403, true, FAILED, FAULT_PERMANENT},
    {"404", CALL_ANSWERED, 404, false, FAILED, FAULT_PERMANENT},
    {"405", CALL_ANSWERED, 405, false, FAILED, FAULT_PERMANENT},
    {"409", CALL_ANSWERED, 409, false, FAILED, FAULT_PERMANENT},
    {"410", CALL_ANSWERED, 410, false, FAILED, FAULT_PERMANENT},
    {"413", CALL_ANSWERED, 413, true, FAILED, FAULT_PERMANENT},
    {"422", CALL_ANSWERED, 422, false, FAILED, FAULT_PERMANENT},
    {"451", CALL_ANSWERED, 451, false, FAILED, FAULT_PERMANENT},
    {"499", CALL_ANSWERED, 499, false, FAILED, FAULT_PERMANENT},
    {"501", CALL_ANSWERED, 501, false, FAILED, FAULT_PERMANENT},
    {"timed out", CALL_TIMED_OUT, 0, false, RETRY_OR_UNKNOWN, FAULT_UNKNOWN},
    {"broken", CALL_BROKEN, 0, false, RETRY_OR_UNKNOWN, FAULT_UNKNOWN},
    {"runner lost", CALL_LOST, 0, false, RETRY_OR_UNKNOWN, FAULT_UNKNOWN},
};

static void check_row(const struct row *row, enum effect effect)
{
    const struct call_facts facts = {.end = row->end,
        .http_status = row->http_status,
        .has_retry_after = row->has_retry_after,
        .retry_after_s = 7,
        .effect = effect};
    const struct budget budget = fresh();
    const struct decision d =
        state_settle(&facts, &budget, CODE_HTTP_STATUS, 0);
    const bool is_unsafe = effect == EFFECT_UNSAFE;
    enum status status = STATUS_SUCCEEDED;
    enum fault_class class = row->class;
    bool is_terminal = true;
    if (row->wanted == FAILED) {
        status = STATUS_FAILED;
    } else if (row->wanted == RETRY_OR_UNKNOWN && is_unsafe) {
        status = STATUS_INDETERMINATE;
        class = FAULT_UNKNOWN;
    } else if (row->wanted != SUCCEEDED) {
        is_terminal = false;
    }
    if (d.is_terminal != is_terminal || (is_terminal && d.status != status) ||
        (row->wanted != SUCCEEDED && d.class != class) ||
        d.is_effect_unknown != (row->wanted == RETRY_OR_UNKNOWN)) {
        fail_msg("%s, %s: terminal %d status %d class %d unknown %d", row->name,
            effect_name(effect), d.is_terminal, (int)d.status, (int)d.class,
            d.is_effect_unknown);
    }
    const enum code code =
        row->wanted == SUCCEEDED ? CODE_NONE : CODE_HTTP_STATUS;
    assert_int_equal(d.code, code);
    if (!is_terminal) {
        assert_int_equal(d.wait_ms, row->has_retry_after ? 7000 : 1000);
    }
}

static void every_row_of_the_contract(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t e = 0; e < ARRAY_LEN(effects); e++) {
            check_row(&rows[i], effects[e]);
        }
    }
}

static bool is_one_of(int status, const int *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == status) {
            return true;
        }
    }
    return false;
}

/* The contract once more, in the order in which it is read. */
static enum verdict_class expected_of(const struct call_facts *f)
{
    static const int not_applied[] = {425, 429};
    static const int maybe[] = {408, 500, 502, 503, 504};
    if (f->end == CALL_NOT_SENT || f->end == CALL_TIMED_OUT_EARLY) {
        return VERDICT_NOT_APPLIED;
    }
    if (f->end == CALL_DENIED) {
        return VERDICT_PERMANENT;
    }
    if (f->end != CALL_ANSWERED) {
        return VERDICT_MAYBE;
    }
    const int s = f->http_status;
    if (s >= 200 && s <= 299) {
        return VERDICT_SUCCESS;
    }
    if (f->move == MOVE_RETRY) {
        return VERDICT_MAYBE;
    }
    if (f->move == MOVE_PERMANENT) {
        return VERDICT_PERMANENT;
    }
    if (f->move == MOVE_NOT_APPLIED ||
        (f->move == MOVE_LIMITED && f->has_retry_after) ||
        (s == 503 && f->has_retry_after) ||
        is_one_of(s, not_applied, ARRAY_LEN(not_applied))) {
        return VERDICT_NOT_APPLIED;
    }
    if (is_one_of(s, maybe, ARRAY_LEN(maybe)) || (s > 501 && s <= 599) ||
        s < 200 || s > 599) {
        return VERDICT_MAYBE;
    }
    if (s == 409 && f->effect == EFFECT_KEYED && f->was_taken_over) {
        return VERDICT_MAYBE;
    }
    return VERDICT_PERMANENT;
}

static void check_judgement(struct call_facts facts)
{
    for (int bits = 0; bits < 4; bits++) {
        facts.has_retry_after = (bits & 1) != 0;
        facts.was_taken_over = (bits & 2) != 0;
        const enum verdict_class got = state_judge(&facts);
        if (got != expected_of(&facts)) {
            fail_msg("end %d status %d effect %d move %d bits %d: %d",
                (int)facts.end, facts.http_status, (int)facts.effect,
                (int)facts.move, bits, (int)got);
        }
    }
}

static void every_combination_is_judged_by_the_contract(void **state)
{
    (void)state;
    for (int end = 0; end < CALL_END_COUNT; end++) {
        for (int status = 199; status <= 600; status++) {
            for (size_t e = 0; e < ARRAY_LEN(effects); e++) {
                for (int move = MOVE_NONE; move <= MOVE_LIMITED; move++) {
                    check_judgement(
                        (struct call_facts){.end = (enum call_end)end,
                            .http_status = status,
                            .effect = effects[e],
                            .move = (enum status_move)move});
                }
            }
        }
    }
}

static struct decision settle_status(
    int http_status, const struct budget *budget, enum effect effect)
{
    const struct call_facts facts = {
        .end = CALL_ANSWERED, .http_status = http_status, .effect = effect};
    return state_settle(&facts, budget, CODE_HTTP_STATUS, 0);
}

static void unsafe_is_never_tried_after_a_maybe(void **state)
{
    (void)state;
    for (int end = 0; end < CALL_END_COUNT; end++) {
        for (int status = 100; status <= 600; status++) {
            const struct call_facts facts = {.end = (enum call_end)end,
                .http_status = status,
                .effect = EFFECT_UNSAFE};
            const struct budget budget = fresh();
            const struct decision d =
                state_settle(&facts, &budget, CODE_HTTP_STATUS, 0);
            if (state_judge(&facts) == VERDICT_MAYBE) {
                assert_true(d.is_terminal);
                assert_int_equal(d.status, STATUS_INDETERMINATE);
            }
        }
    }
}

static void backoff_doubles_up_to_the_cap(void **state)
{
    (void)state;
    static const int64_t seconds[] = {
        1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300};
    int64_t sum = 0;
    for (int i = 0; i < 10; i++) {
        sum += state_backoff_ms(i + 1, 1000, 300000);
        assert_int_equal(
            state_backoff_ms(i + 1, 1000, 300000), seconds[i] * 1000);
    }
    assert_int_equal(sum, 811000);
    static const int late[] = {31, 32, 33, 63, 64, 65, 1000, INT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(late); i++) {
        assert_int_equal(state_backoff_ms(late[i], 1000, 300000), 300000);
        assert_true(state_backoff_ms(late[i], 1000, INT64_MAX / 2) > 300000);
    }
    assert_int_equal(
        state_backoff_ms(INT32_MAX, 1000, INT64_MAX / 2), INT64_MAX / 2);
}

static void jitter_is_only_added(void **state)
{
    (void)state;
    const struct call_facts own = {.end = CALL_NOT_SENT};
    struct call_facts asked = {.end = CALL_ANSWERED,
        .http_status = 429,
        .has_retry_after = true,
        .retry_after_s = 120};
    struct budget budget = fresh();
    budget.calls = 3;
    for (uint32_t ppm = 0; ppm <= 1000000; ppm += 1000) {
        struct decision d = state_settle(&own, &budget, CODE_DNS_FAILED, ppm);
        assert_in_range(d.wait_ms, 4000, 4800);
        d = state_settle(&asked, &budget, CODE_HTTP_STATUS, ppm);
        assert_in_range(d.wait_ms, 120000, 144000);
    }
    assert_int_equal(
        state_settle(&own, &budget, CODE_DNS_FAILED, 1000000).wait_ms, 4800);
    assert_int_equal(
        state_settle(&own, &budget, CODE_DNS_FAILED, UINT32_MAX).wait_ms, 4800);
    asked.retry_after_s = 0;
    assert_int_equal(
        state_settle(&asked, &budget, CODE_HTTP_STATUS, 1000000).wait_ms, 0);
}

static void retry_after_over_the_cap_ends_the_work(void **state)
{
    (void)state;
    struct call_facts facts = {.end = CALL_ANSWERED,
        .http_status = 429,
        .has_retry_after = true,
        .retry_after_s = RETRY_AFTER_CAP_S,
        .effect = EFFECT_KEYED};
    struct budget budget = fresh();
    struct decision d = state_settle(&facts, &budget, CODE_HTTP_STATUS, 0);
    assert_false(d.is_terminal);
    assert_int_equal(d.wait_ms, 86400000);
    facts.retry_after_s = RETRY_AFTER_CAP_S + 1;
    d = state_settle(&facts, &budget, CODE_HTTP_STATUS, 0);
    assert_true(d.is_terminal);
    assert_int_equal(d.status, STATUS_FAILED);
    assert_int_equal(d.code, CODE_RETRY_AFTER_TOO_LONG);
    assert_int_equal(d.class, FAULT_PERMANENT);
    facts.retry_after_s = INT64_MAX;
    d = state_settle(&facts, &budget, CODE_HTTP_STATUS, 1000000);
    assert_int_equal(d.code, CODE_RETRY_AFTER_TOO_LONG);
    budget.is_effect_unknown = true;
    d = state_settle(&facts, &budget, CODE_HTTP_STATUS, 0);
    assert_int_equal(d.status, STATUS_INDETERMINATE);
}

static void attempts_are_a_budget(void **state)
{
    (void)state;
    struct budget budget = fresh();
    budget.calls = 7;
    assert_false(settle_status(429, &budget, EFFECT_NATURAL).is_terminal);
    budget.calls = 8;
    struct decision d = settle_status(429, &budget, EFFECT_NATURAL);
    assert_int_equal(d.status, STATUS_EXHAUSTED);
    assert_int_equal(d.code, CODE_HTTP_STATUS);
    assert_int_equal(d.class, FAULT_TRANSIENT);
    d = settle_status(500, &budget, EFFECT_NATURAL);
    assert_int_equal(d.status, STATUS_INDETERMINATE);
    assert_int_equal(d.class, FAULT_UNKNOWN);
    budget.is_effect_unknown = true;
    d = settle_status(429, &budget, EFFECT_KEYED);
    assert_int_equal(d.status, STATUS_INDETERMINATE);
    assert_true(d.is_effect_unknown);
}

static void deadline_ends_the_work_before_the_wait(void **state)
{
    (void)state;
    struct budget budget = fresh();
    budget.deadline_us = NOW_US + 1000 * US_PER_MS + 1;
    assert_false(settle_status(429, &budget, EFFECT_UNSAFE).is_terminal);
    budget.deadline_us = NOW_US + 1000 * US_PER_MS;
    struct decision d = settle_status(429, &budget, EFFECT_UNSAFE);
    assert_int_equal(d.status, STATUS_EXPIRED);
    assert_int_equal(d.code, CODE_DEADLINE_PASSED);
    d = settle_status(504, &budget, EFFECT_KEYED);
    assert_int_equal(d.status, STATUS_INDETERMINATE);
    assert_int_equal(d.code, CODE_DEADLINE_PASSED);
    d = settle_status(200, &budget, EFFECT_KEYED);
    assert_int_equal(d.status, STATUS_SUCCEEDED);
}

static void cancel_ends_what_is_not_finished(void **state)
{
    (void)state;
    struct budget budget = fresh();
    budget.is_cancelled = true;
    assert_int_equal(
        settle_status(200, &budget, EFFECT_KEYED).status, STATUS_SUCCEEDED);
    assert_int_equal(
        settle_status(400, &budget, EFFECT_KEYED).status, STATUS_FAILED);
    struct decision d = settle_status(429, &budget, EFFECT_KEYED);
    assert_int_equal(d.status, STATUS_CANCELLED);
    assert_int_equal(d.code, CODE_CANCELLED);
    d = settle_status(500, &budget, EFFECT_KEYED);
    assert_int_equal(d.status, STATUS_INDETERMINATE);
    assert_int_equal(d.code, CODE_CANCELLED);
}

static void no_retry_after_the_provider_forgot_the_key(void **state)
{
    (void)state;
    struct budget budget = fresh();
    budget.key_retention_s = 10;
    budget.first_call_us = NOW_US - 9 * US_PER_S + 1;
    assert_false(settle_status(429, &budget, EFFECT_KEYED).is_terminal);
    budget.first_call_us = NOW_US - 9 * US_PER_S;
    struct decision d = settle_status(429, &budget, EFFECT_KEYED);
    assert_int_equal(d.status, STATUS_EXHAUSTED);
    d = settle_status(500, &budget, EFFECT_KEYED);
    assert_int_equal(d.status, STATUS_INDETERMINATE);
    budget.key_retention_s = 0;
    assert_false(settle_status(500, &budget, EFFECT_NATURAL).is_terminal);
}

static void our_refusal_does_not_settle_an_earlier_doubt(void **state)
{
    (void)state;
    const struct call_facts facts = {
        .end = CALL_DENIED, .effect = EFFECT_KEYED};
    struct budget budget = fresh();
    struct decision d = state_settle(&facts, &budget, CODE_EGRESS_DENIED, 0);
    assert_int_equal(d.status, STATUS_FAILED);
    budget.is_effect_unknown = true;
    d = state_settle(&facts, &budget, CODE_EGRESS_DENIED, 0);
    assert_int_equal(d.status, STATUS_INDETERMINATE);
    assert_int_equal(d.code, CODE_EGRESS_DENIED);
    /* The provider's own refusal of the same key does. */
    assert_int_equal(
        settle_status(400, &budget, EFFECT_KEYED).status, STATUS_FAILED);
}

static enum sweep_act expected_sweep(const struct sweep_facts *facts)
{
    if (facts->effect == EFFECT_UNSAFE && facts->state == LIVE_BEGUN) {
        return SWEEP_INDETERMINATE;
    }
    return facts->deaths >= 2 ? SWEEP_CRASHED : SWEEP_RUN_AGAIN;
}

static void sweep_runs_again_what_is_safe(void **state)
{
    (void)state;
    for (int live = LIVE_READY; live <= LIVE_BEGUN; live++) {
        for (size_t e = 0; e < ARRAY_LEN(effects); e++) {
            for (int deaths = 0; deaths < 5; deaths++) {
                const struct sweep_facts facts = {
                    .state = (enum live_state)live,
                    .effect = effects[e],
                    .deaths = deaths};
                assert_int_equal(state_sweep(&facts), expected_sweep(&facts));
                const bool is_certain =
                    effects[e] == EFFECT_UNSAFE && live == LIVE_READY;
                assert_int_equal(
                    state_sweep_is_unknown(&facts, false), !is_certain);
                assert_true(state_sweep_is_unknown(&facts, true));
            }
        }
    }
}

static void doubt_makes_any_end_indeterminate(void **state)
{
    (void)state;
    static const enum status ends[] = {
        STATUS_EXPIRED, STATUS_CANCELLED, STATUS_EXHAUSTED};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        assert_int_equal(state_end(ends[i], false), ends[i]);
        assert_int_equal(state_end(ends[i], true), STATUS_INDETERMINATE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_the_contract),
        cmocka_unit_test(every_combination_is_judged_by_the_contract),
        cmocka_unit_test(unsafe_is_never_tried_after_a_maybe),
        cmocka_unit_test(backoff_doubles_up_to_the_cap),
        cmocka_unit_test(jitter_is_only_added),
        cmocka_unit_test(retry_after_over_the_cap_ends_the_work),
        cmocka_unit_test(attempts_are_a_budget),
        cmocka_unit_test(deadline_ends_the_work_before_the_wait),
        cmocka_unit_test(cancel_ends_what_is_not_finished),
        cmocka_unit_test(no_retry_after_the_provider_forgot_the_key),
        cmocka_unit_test(our_refusal_does_not_settle_an_earlier_doubt),
        cmocka_unit_test(sweep_runs_again_what_is_safe),
        cmocka_unit_test(doubt_makes_any_end_indeterminate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
