/* SPDX-License-Identifier: Apache-2.0 */
/* repeats: counted by action, with a maximum; names of ledger entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "schema/repeats.h"

static struct repeat make(int number)
{
    struct repeat repeat = {.tenant = "acme", .topic = "actions"};
    /* All of them begin alike: the worst case of the table. */
    memset(repeat.id, 7, UUID_SIZE);
    memcpy(repeat.id + 4, &number, sizeof(number));
    repeat.offset = number;
    return repeat;
}

static size_t ids_put(const struct repeats *repeats)
{
    struct pg_params params;
    pg_params_init(&params);
    repeats_put(repeats, &params);
    assert_int_equal(params.count, 4);
    const size_t size = params.size[0];
    pg_params_fini(&params);
    /* Array head of 20 bytes, then a length and an id each. */
    return (size - 20) / (4 + UUID_SIZE);
}

static void an_action_is_one_row_however_often_it_came(void **state)
{
    static struct repeats repeats;
    const struct repeat one = make(1);
    const struct repeat two = make(2);
    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_true(repeats_add(&repeats, &one));
    }
    assert_true(repeats_add(&repeats, &two));
    assert_int_equal(repeats.count, 2);
    assert_int_equal(ids_put(&repeats), 2);
    repeats_clear(&repeats);
    assert_int_equal(repeats.count, 0);
    assert_true(repeats_add(&repeats, &two));
    assert_int_equal(ids_put(&repeats), 1);
}

static void there_is_a_maximum(void **state)
{
    static struct repeats repeats;
    (void)state;
    for (int i = 0; i < (int)REPEATS_MAX; i++) {
        const struct repeat one = make(i);
        assert_true(repeats_add(&repeats, &one));
    }
    const struct repeat known = make(3);
    const struct repeat more = make((int)REPEATS_MAX);
    assert_true(repeats_add(&repeats, &known));
    assert_false(repeats_add(&repeats, &more));
    assert_int_equal(ids_put(&repeats), REPEATS_MAX);
}

static void kinds_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < LEDGER_KIND_COUNT; i++) {
        enum ledger_kind kind = LEDGER_KIND_COUNT;
        const char *name = ledger_kind_name((enum ledger_kind)i);
        assert_non_null(name);
        assert_true(ledger_kind_parse(span_of(name), &kind));
        assert_int_equal(kind, i);
    }
    enum ledger_kind kind = LEDGER_OPS;
    assert_null(ledger_kind_name(LEDGER_KIND_COUNT));
    assert_false(ledger_kind_parse(SPAN_LIT("none"), &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_action_is_one_row_however_often_it_came),
        cmocka_unit_test(there_is_a_maximum),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
