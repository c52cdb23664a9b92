/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"

static void puts_append_and_terminate(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 1000);
    assert_string_equal(buf_str(&buf), "");
    buf_put(&buf, "ab", 2);
    buf_put_str(&buf, "cd");
    buf_put_char(&buf, 'e');
    buf_put_span(&buf, SPAN_LIT("f"));
    buf_put_span(&buf, (struct span){.ptr = NULL, .len = 0});
    buf_printf(&buf, "%d%s", 12, "z");
    assert_string_equal(buf_str(&buf), "abcdef12z");
    assert_int_equal(buf.len, 9);
    assert_false(buf.is_overflowed);
    buf_fini(&buf);
    buf_fini(&buf);
}

static void integers_are_decimal(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {7, "7"},
        {-1, "-1"},
        {1234567890123, "1234567890123"},
        {INT64_MAX, "9223372036854775807"},
        {INT64_MIN, "-9223372036854775808"},
    };
    struct buf buf;
    buf_init(&buf, 100);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        buf_clear(&buf);
        buf_put_int(&buf, rows[i].value);
        assert_string_equal(buf_str(&buf), rows[i].text);
        int64_t back = 0;
        assert_true(span_to_int(buf_span(&buf), &back));
        assert_int_equal(back, rows[i].value);
    }
    buf_fini(&buf);
}

static void the_maximum_holds_and_overflow_sticks(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 5);
    buf_put_str(&buf, "12345");
    assert_false(buf.is_overflowed);
    buf_put_str(&buf, "6");
    assert_true(buf.is_overflowed);
    assert_string_equal(buf_str(&buf), "12345");
    buf_clear(&buf);
    assert_false(buf.is_overflowed);
    buf_put_str(&buf, "abcdefgh");
    assert_true(buf.is_overflowed);
    assert_string_equal(buf_str(&buf), "abcde");
    buf_drop_front(&buf, 3);
    buf_put_str(&buf, "x");
    assert_string_equal(buf_str(&buf), "de");
    buf_fini(&buf);
}

static void large_content_grows(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, SIZE_MAX);
    for (int i = 0; i < 20000; i++) {
        buf_put_str(&buf, "0123456789");
    }
    assert_int_equal(buf.len, 200000);
    char text[600];
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    buf_clear(&buf);
    buf_printf(&buf, "%s!", text);
    assert_int_equal(buf.len, sizeof(text));
    assert_int_equal(buf.data[buf.len - 1], '!');
    buf_fini(&buf);
}

static void reserve_gives_room_up_to_the_maximum(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 100);
    char *room = buf_reserve(&buf, 100);
    assert_non_null(room);
    memset(room, 'r', 100);
    buf.len += 100;
    assert_null(buf_reserve(&buf, 1));
    assert_true(buf.is_overflowed);
    buf_fini(&buf);
}

static void drop_front_keeps_the_rest(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 100);
    buf_put_str(&buf, "hello world");
    buf_drop_front(&buf, 0);
    buf_drop_front(&buf, 6);
    assert_string_equal(buf_str(&buf), "world");
    buf_drop_front(&buf, 99);
    assert_string_equal(buf_str(&buf), "");
    buf_fini(&buf);
}

static void take_moves_the_memory(void **state)
{
    (void)state;
    struct buf buf;
    size_t len = 1;
    buf_init(&buf, 100);
    char *empty = buf_take(&buf, &len);
    assert_string_equal(empty, "");
    assert_int_equal(len, 0);
    free(empty);
    buf_put_str(&buf, "mine");
    char *text = buf_take(&buf, NULL);
    assert_string_equal(text, "mine");
    assert_int_equal(buf.len, 0);
    free(text);
    buf_fini(&buf);
}

static void spans_compare(void **state)
{
    (void)state;
    assert_true(span_is(SPAN_LIT("abc"), "abc"));
    assert_false(span_is(SPAN_LIT("abc"), "abd"));
    assert_false(span_is(SPAN_LIT("abc"), "ab"));
    assert_true(span_is(span_of(NULL), ""));
    assert_true(span_equal(span_of(NULL), SPAN_LIT("")));
    assert_true(span_is_nocase(SPAN_LIT("Retry-AFTER"), "retry-after"));
    assert_false(span_is_nocase(SPAN_LIT("retry_after"), "retry-after"));
    assert_false(span_is_nocase(SPAN_LIT("@"), "`"));
    char *copy = span_dup(SPAN_LIT("dup"));
    assert_string_equal(copy, "dup");
    free(copy);
}

static void only_whole_integers_parse(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "-", "+1", " 1", "1 ", "1.0", "0x1",
        "--1", "9223372036854775808", "-9223372036854775809",
        "99999999999999999999"};
    int64_t value = 42;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_false(span_to_int(span_of(wrong[i]), &value));
    }
    assert_int_equal(value, 42);
    assert_true(span_to_int(SPAN_LIT("007"), &value));
    assert_int_equal(value, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_append_and_terminate),
        cmocka_unit_test(integers_are_decimal),
        cmocka_unit_test(the_maximum_holds_and_overflow_sticks),
        cmocka_unit_test(large_content_grows),
        cmocka_unit_test(reserve_gives_room_up_to_the_maximum),
        cmocka_unit_test(drop_front_keeps_the_rest),
        cmocka_unit_test(take_moves_the_memory),
        cmocka_unit_test(spans_compare),
        cmocka_unit_test(only_whole_integers_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
