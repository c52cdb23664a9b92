/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/time.h"

static void rfc3339_texts_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t wall_us;
        const char *formatted;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00.000000Z"},
        {"2026-12-01T08:00:00Z", INT64_C(1796112000000000),
            "2026-12-01T08:00:00.000000Z"},
        {"2026-12-01t08:00:00z", INT64_C(1796112000000000),
            "2026-12-01T08:00:00.000000Z"},
        {"2026-12-01T09:30:00.5+01:30", INT64_C(1796112000500000),
            "2026-12-01T08:00:00.500000Z"},
        {"2026-12-01T00:00:00.123456789-08:00", INT64_C(1796112000123456),
            "2026-12-01T08:00:00.123456Z"},
        {"2000-02-29T23:59:59-00:00", INT64_C(951868799000000),
            "2000-02-29T23:59:59.000000Z"},
        {"2016-12-31T23:59:60Z", INT64_C(1483228799999999),
            "2016-12-31T23:59:59.999999Z"},
        {"9999-12-31T23:59:59.999999Z", INT64_C(253402300799999999),
            "9999-12-31T23:59:59.999999Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t wall_us = -1;
        assert_true(time_parse_rfc3339(span_of(rows[i].text), &wall_us));
        assert_int_equal(wall_us, rows[i].wall_us);
        char text[TIME_TEXT_SIZE];
        time_format_rfc3339(wall_us, text);
        assert_string_equal(text, rows[i].formatted);
    }
}

static void other_texts_do_not_parse(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "2026-12-01", "2026-12-01T08:00:00",
        "2026-12-01 08:00:00Z", "2026-12-01T08:00Z", "2026-13-01T08:00:00Z",
        "2026-00-01T08:00:00Z", "2026-02-29T08:00:00Z", "1900-02-29T08:00:00Z",
        "2100-02-29T08:00:00Z", "2026-04-31T08:00:00Z", "2026-12-00T08:00:00Z",
        "2026-12-01T24:00:00Z", "2026-12-01T08:60:00Z", "2026-12-01T08:00:61Z",
        "2026-12-01T08:00:00.Z", "2026-12-01T08:00:00+0100",
        "2026-12-01T08:00:00+24:00", "2026-12-01T08:00:00+01:60",
        "2026-12-01T08:00:00Zx", "2026-12-01T08:00:00 Z",
        "1969-12-31T23:59:59Z", "1970-01-01T00:30:00+01:00",
        "9999-12-31T23:59:59-00:01", "-026-12-01T08:00:00Z",
        "20261-2-01T08:00:00Z", "tomorrow", "1796112000"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        int64_t wall_us = 0;
        assert_false(time_parse_rfc3339(span_of(wrong[i]), &wall_us));
    }
}

static void formats_what_lies_outside_of_the_years(void **state)
{
    (void)state;
    char text[TIME_TEXT_SIZE];
    time_format_rfc3339(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999999Z");
    time_format_rfc3339(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
    time_format_rfc3339(INT64_MIN, text);
    assert_string_equal(text, "0000-01-01T00:00:00.000000Z");
}

static void every_day_of_eight_centuries_has_its_number(void **state)
{
    (void)state;
    static const unsigned lengths[] = {
        31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t expected = 0;
    for (int64_t year = 1970; year < 2770; year++) {
        const bool is_leap =
            (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        for (unsigned month = 1; month <= 12; month++) {
            const unsigned last =
                lengths[month - 1] + (month == 2 && is_leap ? 1 : 0);
            for (unsigned day = 1; day <= last; day++) {
                assert_int_equal(
                    time_days_from_civil(year, month, day), expected);
                expected++;
            }
        }
    }
}

static void format_and_parse_agree(void **state)
{
    (void)state;
    for (int64_t us = 0; us < INT64_C(253402300800000000);
         us += INT64_C(1234567890123)) {
        char text[TIME_TEXT_SIZE];
        int64_t back = -1;
        time_format_rfc3339(us, text);
        assert_true(time_parse_rfc3339(span_of(text), &back));
        assert_int_equal(back, us);
    }
}

static void postgres_counts_from_2000(void **state)
{
    (void)state;
    int64_t wall_us = 0;
    assert_true(time_parse_rfc3339(SPAN_LIT("2000-01-01T00:00:01Z"), &wall_us));
    assert_int_equal(time_to_pg(wall_us), US_PER_S);
    assert_int_equal(time_from_pg(US_PER_S), wall_us);
}

static void clocks_go_forward(void **state)
{
    (void)state;
    const int64_t first = now_mono_us();
    assert_true(now_mono_us() >= first);
    /* After 2024, which a wrong unit would not be. */
    assert_true(now_wall_us() > INT64_C(1704067200000000));
    assert_true(now_wall_us() < INT64_C(253402300800000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc3339_texts_parse),
        cmocka_unit_test(other_texts_do_not_parse),
        cmocka_unit_test(formats_what_lies_outside_of_the_years),
        cmocka_unit_test(every_day_of_eight_centuries_has_its_number),
        cmocka_unit_test(format_and_parse_agree),
        cmocka_unit_test(postgres_counts_from_2000),
        cmocka_unit_test(clocks_go_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
