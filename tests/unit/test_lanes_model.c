/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/err.h"
#include "tests/model/lanes_model.h"

static void the_rules_hold(void **state)
{
    const struct lanes_rules rules = {
        .reads_after_both = true, .first_lane = 0, .fenced_first = {0, 0, 0}};
    size_t states = 0;
    (void)state;
    assert_true(lanes_model_holds(&rules, &states));
    assert_true(states > 1000);
    (void)printf("%zu states\n", states);
}

static void each_rule_left_out_doubles_a_row(void **state)
{
    static const struct lanes_rules broken[] = {
        /* The first transaction on the lane that was fenced last. */
        {.reads_after_both = true, .first_lane = 1},
        /* Read back before both lanes are fenced. */
        {.reads_after_both = false, .first_lane = 0},
        /* Fencing in different orders. */
        {.reads_after_both = true, .first_lane = 0, .fenced_first = {0, 1, 0}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        size_t states = 0;
        assert_false(lanes_model_holds(&broken[i], &states));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rules_hold),
        cmocka_unit_test(each_rule_left_out_doubles_a_row),
    };
    return cmocka_run_group_tests_name("lanes_model", tests, NULL, NULL);
}
