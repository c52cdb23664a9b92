/* SPDX-License-Identifier: Apache-2.0 */
/* All schedules of a few workers: the rules hold, and no rule is idle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "tests/model/sweep_model.h"

static void the_living_live_and_the_dead_are_found(void **state)
{
    static const struct sweep_config configs[] = {
        {.workers = 1, .deaths = 1, .freezes = 1, .restarts = 2, .steps = 1},
        {.workers = 2, .deaths = 1, .blips = 1, .cuts = 1, .restarts = 1},
        {.workers = 3, .deaths = 1, .restarts = 1},
        {.workers = 4, .deaths = 1, .cuts = 1},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
        size_t states = 0;
        const char *broken = sweep_model_run(&configs[i], true, &states);
        (void)printf("%d workers: %zu states\n", configs[i].workers, states);
        assert_null(broken);
        assert_true(states > 1000);
    }
}

struct fault_case {
    const char *name;
    const char *broken; /* the promise */
    struct sweep_config config;
};

#define KILLED "a living worker was declared dead"

static const struct fault_case faults[] = {
    {"finds_death_when_a_new_session_that_knows_nothing_is_left_out", KILLED,
        {.workers = 3, .restarts = 1, .fault = SWEEP_KEEPS_MEMORY}},
    {"finds_death_when_locks_seen_held_are_left_out", KILLED,
        {.workers = 3, .restarts = 1, .fault = SWEEP_HELD_UNSEEN}},
    {"finds_death_when_the_second_look_is_left_out", KILLED,
        {.workers = 2, .blips = 1, .fault = SWEEP_ONE_LOOK}},
    {"finds_death_when_doubt_in_many_deaths_is_left_out", KILLED,
        {.workers = 3, .cuts = 1, .fault = SWEEP_BELIEVES_MANY}},
    {"finds_death_when_quiet_after_a_restart_is_left_out", KILLED,
        {.workers = 2, .restarts = 1, .fault = SWEEP_NO_QUIET}},
    {"finds_death_when_the_wait_for_lapsed_leases_is_left_out", KILLED,
        {.workers = 1, .steps = 1, .fault = SWEEP_LAPSED_AT_ONCE}},
    {"finds_delay_when_vanished_locks_are_left_out",
        "a death was seen too late",
        {.workers = 2, .deaths = 1, .fault = SWEEP_LEASES_ALONE}},
};
_Static_assert(
    ARRAY_LEN(faults) == SWEEP_FAULT_COUNT - 1, "a case for every rule");

static void fault_is_found(void **state)
{
    const struct fault_case *one = *state;
    struct sweep_config config = one->config;
    size_t states = 0;
    const char *broken = sweep_model_run(&config, false, &states);
    if (broken == NULL || strcmp(broken, one->broken) != 0) {
        fail_msg("%s: %s", one->name, broken == NULL ? "nothing" : broken);
    }
    config.fault = SWEEP_NO_FAULT;
    assert_null(sweep_model_run(&config, true, &states));
}

int main(void)
{
    struct CMUnitTest tests[1 + ARRAY_LEN(faults)] = {
        cmocka_unit_test(the_living_live_and_the_dead_are_found)};
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        tests[1 + i] = (struct CMUnitTest){.name = faults[i].name,
            .test_func = fault_is_found,
            .initial_state = (void *)(uintptr_t)&faults[i]};
    }
    return cmocka_run_group_tests_name("model_sweep", tests, NULL, NULL);
}
