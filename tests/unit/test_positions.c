/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scheduler/positions.h"

static void positions_only_move_forward(void **state)
{
    struct positions positions;
    (void)state;
    positions_init(&positions);
    assert_int_equal(positions_get(&positions, 3), POSITION_UNKNOWN);
    positions_advance(&positions, 3, 10);
    positions_advance(&positions, 3, 4);
    assert_int_equal(positions_get(&positions, 3), 10);
    assert_int_equal(positions_get(&positions, 0), POSITION_UNKNOWN);
    positions_fini(&positions);
}

static void text_form_goes_there_and_back(void **state)
{
    struct positions positions;
    struct positions again;
    struct buf text;
    struct err err = ERR_INIT;
    (void)state;
    positions_init(&positions);
    positions_init(&again);
    buf_init(&text, 1000);
    positions_advance(&positions, 0, 7);
    positions_advance(&positions, 2, INT64_C(5000000000));
    positions_format(&positions, &text);
    assert_string_equal(buf_str(&text), "{\"0\":7,\"2\":5000000000}");
    assert_int_equal(positions_parse(&again, buf_span(&text), &err), 0);
    assert_int_equal(again.count, 3);
    assert_int_equal(positions_get(&again, 1), POSITION_UNKNOWN);
    assert_int_equal(positions_get(&again, 2), INT64_C(5000000000));
    positions_copy(&positions, &again);
    assert_int_equal(positions_get(&positions, 0), 7);
    buf_fini(&text);
    positions_fini(&positions);
    positions_fini(&again);
}

static void bad_text_is_refused(void **state)
{
    static const char *const texts[] = {"", "[]", "7", "{\"a\":1}",
        "{\"-1\":1}", "{\"0\":-1}", "{\"0\":1.5}", "{\"0\":\"1\"}",
        "{\"9999999\":1}", "{\"0\":[1]}"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct positions positions;
        struct err err = ERR_INIT;
        positions_init(&positions);
        assert_int_equal(
            positions_parse(&positions, span_of(texts[i]), &err), -1);
        positions_fini(&positions);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_only_move_forward),
        cmocka_unit_test(text_form_goes_there_and_back),
        cmocka_unit_test(bad_text_is_refused),
    };
    return cmocka_run_group_tests_name("positions", tests, NULL, NULL);
}
