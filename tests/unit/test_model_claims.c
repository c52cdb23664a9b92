/* SPDX-License-Identifier: Apache-2.0 */
/* All schedules of small fleets: the rules hold, and no rule is idle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "tests/model/claims_model.h"

struct fleet_case {
    const char *name;
    struct claims_config config;
};

static const struct fleet_case fleets[] = {
    {"unsafe, two delayed statements",
        {.effect = EFFECT_UNSAFE, .workers = 2, .delayed = 2, .can_die = true}},
    {"unsafe, three workers",
        {.effect = EFFECT_UNSAFE, .workers = 3, .delayed = 1, .can_die = true}},
    {"unsafe, tried again", {.effect = EFFECT_UNSAFE,
                                .workers = 2,
                                .delayed = 1,
                                .can_die = true,
                                .can_refuse = true}},
    {"unsafe, cancelled", {.effect = EFFECT_UNSAFE,
                              .workers = 2,
                              .delayed = 1,
                              .can_die = true,
                              .can_cancel = true}},
    {"unsafe, drained and cancelled", {.effect = EFFECT_UNSAFE,
                                          .workers = 2,
                                          .can_die = true,
                                          .can_drain = true,
                                          .can_cancel = true}},
    {"unsafe, two windows", {.effect = EFFECT_UNSAFE,
                                .workers = 2,
                                .delayed = 1,
                                .can_die = true,
                                .can_rotate = true}},
    {"unsafe, nobody dies", {.effect = EFFECT_UNSAFE,
                                .workers = 2,
                                .delayed = 2,
                                .can_refuse = true}},
    {"keyed, a delayed statement",
        {.effect = EFFECT_KEYED, .workers = 2, .delayed = 1, .can_die = true}},
    {"keyed, tried again until its deadline", {.effect = EFFECT_KEYED,
                                                  .workers = 2,
                                                  .can_die = true,
                                                  .can_expire = true,
                                                  .can_refuse = true}},
    {"natural, cancelled", {.effect = EFFECT_NATURAL,
                               .workers = 2,
                               .can_die = true,
                               .can_cancel = true}},
};

static void fleet_keeps_every_promise(void **state)
{
    const struct fleet_case *one = *state;
    size_t states = 0;
    const char *broken = claims_model_run(&one->config, true, &states);
    (void)printf("%s: %zu states\n", one->name, states);
    assert_null(broken);
    assert_true(states > 5000);
}

struct fault_case {
    const char *name;
    const char *broken; /* the promise */
    struct claims_config config;
};

#define UNSAFE(...)                                                            \
    {                                                                          \
        .effect = EFFECT_UNSAFE, .workers = 2, .can_die = true, __VA_ARGS__    \
    }
#define KEYED(...)                                                             \
    {                                                                          \
        .effect = EFFECT_KEYED, .workers = 2, .can_die = true, __VA_ARGS__     \
    }

static const struct fault_case faults[] = {
    {"finds_lost_record_when_claim_before_offset_is_left_out",
        "offset without claim", UNSAFE(.fault = CLAIMS_OFFSET_FIRST)},
    {"finds_lost_record_when_reading_conflicts_is_left_out",
        "offset without claim", UNSAFE(.fault = CLAIMS_CONFLICT_UNREAD)},
    {"finds_forgotten_row_when_reconciling_is_left_out", "stuck",
        UNSAFE(.fault = CLAIMS_NO_RECONCILE)},
    {"finds_second_claim_when_window_lock_is_left_out", "in two stages",
        UNSAFE(.fault = CLAIMS_ROTATE_UNLOCKED, .can_rotate = true)},
    {"finds_two_effects_when_begun_before_gate_is_left_out", "two effects",
        UNSAFE(.fault = CLAIMS_GATE_FIRST)},
    {"finds_needless_doubt_when_reading_begun_is_left_out",
        "needless indeterminate", UNSAFE(.fault = CLAIMS_BEGIN_UNREAD)},
    {"finds_two_effects_when_never_set_back_is_left_out", "two effects",
        UNSAFE(.fault = CLAIMS_SET_BACK, .delayed = 1)},
    {"finds_two_effects_when_set_back_is_merely_fenced", "two effects",
        UNSAFE(.fault = CLAIMS_SET_BACK_FENCED, .delayed = 1)},
    {"finds_late_outcome_when_settle_fence_is_left_out", "late outcome",
        KEYED(.fault = CLAIMS_SETTLE_UNFENCED)},
    {"finds_two_outcomes_when_late_rule_is_left_out", "two outcomes",
        UNSAFE(.fault = CLAIMS_LATE_PUBLISHED)},
    {"finds_untrue_outcome_when_unknown_class_is_left_out", "untrue outcome",
        UNSAFE(.fault = CLAIMS_UNKNOWN_IS_FAILED)},
    {"finds_two_effects_when_unsafe_rule_is_left_out", "two effects",
        UNSAFE(.fault = CLAIMS_UNSAFE_RETRIED)},
    {"finds_two_effects_when_proof_of_death_is_left_out", "two effects",
        UNSAFE(.fault = CLAIMS_RESCUE_BY_AGE)},
    {"finds_untrue_outcome_when_sweep_fence_is_left_out", "untrue outcome",
        UNSAFE(.fault = CLAIMS_SWEEP_UNFENCED, .delayed = 1)},
    {"finds_untrue_outcome_when_doubt_of_ready_rows_is_left_out",
        "untrue outcome",
        KEYED(.fault = CLAIMS_READY_IS_UNSTARTED, .can_cancel = true)},
    {"finds_needless_doubt_when_higher_fence_is_left_out",
        "needless indeterminate",
        {.effect = EFFECT_UNSAFE,
            .workers = 2,
            .delayed = 1,
            .can_refuse = true,
            .fault = CLAIMS_FENCE_KEPT}},
    {"finds_forgotten_row_when_sweeper_is_left_out", "stuck",
        UNSAFE(.fault = CLAIMS_NO_SWEEP)},
};
_Static_assert(
    ARRAY_LEN(faults) == CLAIMS_FAULT_COUNT - 1, "a case for every rule");

static void fault_is_found(void **state)
{
    const struct fault_case *one = *state;
    size_t states = 0;
    const char *broken = claims_model_run(&one->config, false, &states);
    if (broken == NULL || strcmp(broken, one->broken) != 0) {
        fail_msg("%s: %s", one->name, broken == NULL ? "nothing" : broken);
    }
}

int main(void)
{
    struct CMUnitTest tests[ARRAY_LEN(fleets) + ARRAY_LEN(faults)];
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(fleets); i++) {
        tests[count++] = (struct CMUnitTest){.name = fleets[i].name,
            .test_func = fleet_keeps_every_promise,
            .initial_state = (void *)(uintptr_t)&fleets[i]};
    }
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        tests[count++] = (struct CMUnitTest){.name = faults[i].name,
            .test_func = fault_is_found,
            .initial_state = (void *)(uintptr_t)&faults[i]};
    }
    return cmocka_run_group_tests_name("model_claims", tests, NULL, NULL);
}
