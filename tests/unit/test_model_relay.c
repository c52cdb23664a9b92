/* SPDX-License-Identifier: Apache-2.0 */
/* All schedules of two relays: the rules hold, and no rule is idle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "tests/model/relay_model.h"

static void relays_publish_every_outcome_once(void **state)
{
    static const struct relay_config configs[] = {
        {.rows = 2, .has_foreign = true, .are_commits_lost = true},
        {.rows = 3, .are_commits_lost = true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
        size_t states = 0;
        const char *broken = relay_model_run(&configs[i], true, &states);
        (void)printf("%d outcomes: %zu states\n", configs[i].rows, states);
        assert_null(broken);
        assert_true(states > 50000);
    }
}

struct fault_case {
    const char *name;
    const char *broken; /* the promise */
    enum relay_fault fault;
};

static const struct fault_case faults[] = {
    {"finds_double_when_lane_a_first_is_left_out", "published twice",
        RELAY_FIRST_ON_B},
    {"finds_double_when_fence_of_b_is_left_out", "published twice",
        RELAY_ONE_LANE_FENCED},
    {"finds_double_when_order_of_fences_is_left_out", "published twice",
        RELAY_OTHER_ORDER},
    {"finds_double_when_reading_after_both_fences_is_left_out",
        "published twice", RELAY_READ_BETWEEN},
    {"finds_double_when_read_back_is_left_out", "published twice",
        RELAY_NO_READ_BACK},
    {"finds_double_when_waiting_for_the_ends_is_left_out", "published twice",
        RELAY_READ_NO_WAIT},
    {"finds_loss_when_saving_after_commit_is_left_out",
        "lost by the checkpoint", RELAY_SAVE_EARLY},
    {"finds_double_when_high_and_gaps_are_left_out_of_the_checkpoint",
        "published twice", RELAY_SAVE_LOW},
    {"finds_double_when_keeping_unmet_positions_is_left_out", "published twice",
        RELAY_SAVE_UNMET},
    {"finds_loss_when_proof_of_dead_gaps_is_left_out", "lost",
        RELAY_GAPS_PRESUMED},
};
_Static_assert(
    ARRAY_LEN(faults) == RELAY_FAULT_COUNT - 1, "a case for every rule");

static void fault_is_found(void **state)
{
    const struct fault_case *one = *state;
    const struct relay_config config = {.rows = 2, .fault = one->fault};
    size_t states = 0;
    const char *broken = relay_model_run(&config, false, &states);
    if (broken == NULL || strcmp(broken, one->broken) != 0) {
        fail_msg("%s: %s", one->name, broken == NULL ? "nothing" : broken);
    }
}

int main(void)
{
    struct CMUnitTest tests[1 + ARRAY_LEN(faults)] = {
        cmocka_unit_test(relays_publish_every_outcome_once)};
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        tests[1 + i] = (struct CMUnitTest){.name = faults[i].name,
            .test_func = fault_is_found,
            .initial_state = (void *)(uintptr_t)&faults[i]};
    }
    return cmocka_run_group_tests_name("model_relay", tests, NULL, NULL);
}
