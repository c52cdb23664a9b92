/* SPDX-License-Identifier: Apache-2.0 */
/* pauses: which names a pause holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "worker/pauses.h"

static void the_first_pause_that_matches_holds(void **state)
{
    static const struct pause PAUSES[] = {
        {.number = 3, .tenant = "acme", .connector = "shop"},
        {.number = 5, .connector = "bank", .action = "pay"},
        {.number = 8, .tenant = "idle"},
    };
    static const struct {
        const char *names[3];
        int64_t number;
    } cases[] = {
        {{"acme", "shop", "buy"}, 3},
        {{"acme", "bank", "buy"}, 0},
        {{"acme", "bank", "pay"}, 5},
        {{"idle", "bank", "pay"}, 5},
        {{"idle", "bank", "get"}, 8},
        {{"acm", "shop", "buy"}, 0},
        {{"acme2", "shop", "buy"}, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const *names = cases[i].names;
        assert_int_equal(pause_match(PAUSES, 3, names[0], names[1], names[2]),
            cases[i].number);
        assert_int_equal(
            pause_match(PAUSES, 0, names[0], names[1], names[2]), 0);
    }
}

static void a_pause_of_no_names_holds_everything(void **state)
{
    static const struct pause ALL = {.number = 1};
    (void)state;
    assert_int_equal(pause_match(&ALL, 1, "a", "b", "c"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_pause_that_matches_holds),
        cmocka_unit_test(a_pause_of_no_names_holds_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
