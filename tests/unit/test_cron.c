/* SPDX-License-Identifier: Apache-2.0 */
/* What a crontab line means, in several zones and through their changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/time.h"
#include "schema/cron.h"

enum { MAX_TICKS = 6 };

static const struct {
    const char *name;
    const char *cron;
    const char *zone;
    const char *after;            /* RFC 3339 */
    const char *ticks[MAX_TICKS]; /* in UTC, to the minute */
} TICKS[] = {
    {"every_minute", "* * * * *", "UTC", "2026-12-01T08:00:30Z",
        {"2026-12-01T08:01", "2026-12-01T08:02"}},
    {"a_tick_is_after_its_own_instant", "0 8 * * *", "UTC",
        "2026-12-01T08:00:00Z", {"2026-12-02T08:00"}},
    {"lists_ranges_steps", "5,10-12,50-59/4 1 * * *", "UTC",
        "2026-12-01T00:00:00Z",
        {"2026-12-01T01:05", "2026-12-01T01:10", "2026-12-01T01:11",
            "2026-12-01T01:12", "2026-12-01T01:50", "2026-12-01T01:54"}},
    {"names", "0 0 * JAN,mar Mon-wed", "UTC", "2026-12-01T00:00:00Z",
        {"2027-01-04T00:00", "2027-01-05T00:00", "2027-01-06T00:00",
            "2027-01-11T00:00"}},
    {"seven_is_sunday", "0 0 * * 7", "UTC", "2026-12-01T00:00:00Z",
        {"2026-12-06T00:00", "2026-12-13T00:00"}},
    {"five_to_seven", "0 0 * * 5-7", "UTC", "2026-12-01T00:00:00Z",
        {"2026-12-04T00:00", "2026-12-05T00:00", "2026-12-06T00:00",
            "2026-12-11T00:00"}},
    {"either_day_is_enough", "0 0 13 * 5", "UTC", "2026-12-01T00:00:00Z",
        {"2026-12-04T00:00", "2026-12-11T00:00", "2026-12-13T00:00",
            "2026-12-18T00:00"}},
    {"a_star_makes_it_both", "0 0 */2 * 5", "UTC", "2026-12-01T00:00:00Z",
        {"2026-12-11T00:00", "2026-12-25T00:00", "2027-01-01T00:00"}},
    {"ends_of_months", "0 12 31 * *", "UTC", "2027-01-01T00:00:00Z",
        {"2027-01-31T12:00", "2027-03-31T12:00", "2027-05-31T12:00",
            "2027-07-31T12:00", "2027-08-31T12:00", "2027-10-31T12:00"}},
    {"leap_days", "0 0 29 2 *", "UTC", "2027-01-01T00:00:00Z",
        {"2028-02-29T00:00", "2032-02-29T00:00", "2036-02-29T00:00"}},
    {"no_leap_day_in_2100", "0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z",
        {"2104-02-29T00:00"}},
    {"a_leap_sunday", "0 0 29 2 */7", "UTC", "2027-01-01T00:00:00Z",
        {"2032-02-29T00:00", "2060-02-29T00:00", "2088-02-29T00:00",
            "2128-02-29T00:00"}},
    {"new_year", "@yearly", "UTC", "2026-12-01T00:00:00Z",
        {"2027-01-01T00:00", "2028-01-01T00:00"}},
    {"weekly", "@weekly", "UTC", "2026-12-01T00:00:00Z",
        {"2026-12-06T00:00", "2026-12-13T00:00"}},

    {"half_hour_zone", "0 0 * * *", "Asia/Kolkata", "2026-12-01T00:00:00Z",
        {"2026-12-01T18:30", "2026-12-02T18:30"}},
    /* 2027-03-28: 02:00 is 03:00; 2027-10-31: 03:00 is 02:00 again */
    {"berlin_skipped", "30 2 * * *", "Europe/Berlin", "2027-03-26T12:00:00Z",
        {"2027-03-27T01:30", "2027-03-28T01:00", "2027-03-29T00:30"}},
    {"berlin_skipped_meets_a_real_one", "0,30 2,3 * * *", "Europe/Berlin",
        "2027-03-28T00:00:00Z",
        {"2027-03-28T01:00", "2027-03-28T01:30", "2027-03-29T00:00"}},
    {"berlin_repeated", "30 2 * * *", "Europe/Berlin", "2027-10-30T12:00:00Z",
        {"2027-10-31T00:30", "2027-11-01T01:30"}},
    {"berlin_repeated_at_its_edges", "0 2,3 * * *", "Europe/Berlin",
        "2027-10-30T12:00:00Z",
        {"2027-10-31T00:00", "2027-10-31T02:00", "2027-11-01T01:00"}},
    {"berlin_repeated_asked_in_between", "30 2 * * *", "Europe/Berlin",
        "2027-10-31T01:10:00Z", {"2027-11-01T01:30"}},
    {"berlin_wildcard_minutes_repeated", "*/30 2 * * *", "Europe/Berlin",
        "2027-10-30T23:00:00Z",
        {"2027-10-31T00:00", "2027-10-31T00:30", "2027-10-31T01:00",
            "2027-10-31T01:30", "2027-11-01T01:00"}},
    {"berlin_wildcard_minutes_skipped", "*/30 2 * * *", "Europe/Berlin",
        "2027-03-28T00:00:00Z", {"2027-03-29T00:00", "2027-03-29T00:30"}},
    {"berlin_hourly_follows_elapsed_time", "0 * * * *", "Europe/Berlin",
        "2027-10-30T23:30:00Z",
        {"2027-10-31T00:00", "2027-10-31T01:00", "2027-10-31T02:00"}},
    {"berlin_hourly_through_the_gap", "0 * * * *", "Europe/Berlin",
        "2027-03-27T23:30:00Z",
        {"2027-03-28T00:00", "2027-03-28T01:00", "2027-03-28T02:00"}},
    {"berlin_quarters_through_the_gap", "*/15 * * * *", "Europe/Berlin",
        "2027-03-28T00:45:00Z", {"2027-03-28T01:00", "2027-03-28T01:15"}},
    /* 2027-03-14 and 2027-11-07 */
    {"new_york_skipped", "15 2 * * *", "America/New_York",
        "2027-03-13T12:00:00Z", {"2027-03-14T07:00", "2027-03-15T06:15"}},
    {"new_york_repeated", "30 1 * * *", "America/New_York",
        "2027-11-06T12:00:00Z", {"2027-11-07T05:30", "2027-11-08T06:30"}},
    /* The south: 2027-04-04 repeats, 2027-10-03 skips */
    {"sydney_repeated", "30 2 * * *", "Australia/Sydney",
        "2027-04-03T00:00:00Z", {"2027-04-03T15:30", "2027-04-04T16:30"}},
    {"sydney_skipped", "30 2 * * *", "Australia/Sydney", "2027-10-02T00:00:00Z",
        {"2027-10-02T16:00", "2027-10-03T15:30"}},
    /* Half an hour: 02:00 is 02:30 */
    {"lord_howe_skipped", "15 2 * * *", "Australia/Lord_Howe",
        "2027-10-02T00:00:00Z", {"2027-10-02T15:30", "2027-10-03T15:15"}},
    {"lord_howe_not_in_the_gap", "45 2 * * *", "Australia/Lord_Howe",
        "2027-10-02T00:00:00Z", {"2027-10-02T15:45", "2027-10-03T15:45"}},
    /* Midnight itself is skipped */
    {"havana_midnight", "0 0 * * *", "America/Havana", "2027-03-13T12:00:00Z",
        {"2027-03-14T05:00", "2027-03-15T04:00"}},
    /* A whole day was left out */
    {"apia_lost_day", "0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z",
        {"2011-12-29T19:00", "2011-12-30T10:00", "2011-12-30T19:00"}},
    /* Past the years that tzdata lists */
    {"berlin_2090_skipped", "30 2 * * *", "Europe/Berlin",
        "2090-03-25T12:00:00Z", {"2090-03-26T01:00", "2090-03-27T00:30"}},
    {"last_year", "0 0 31 12 *", "UTC", "9998-12-31T12:00:00Z",
        {"9999-12-31T00:00"}},
};

static void ticks_are(size_t row)
{
    struct cron cron;
    struct fault fault = FAULT_INIT;
    struct err err = ERR_INIT;
    int64_t at_us = 0;
    struct zone *zone = zone_open(TICKS[row].zone, &err);
    assert_non_null(zone);
    assert_int_equal(cron_parse(span_of(TICKS[row].cron), &cron, &fault), 0);
    assert_true(time_parse_rfc3339(span_of(TICKS[row].after), &at_us));
    int64_t at_s = at_us / US_PER_S;
    for (size_t i = 0; i < MAX_TICKS && TICKS[row].ticks[i] != NULL; i++) {
        char text[TIME_TEXT_SIZE] = "none";
        char want[TIME_TEXT_SIZE];
        if (cron_next(&cron, zone, at_s, &at_s)) {
            time_format_rfc3339(at_s * US_PER_S, text);
        }
        snprintf(want, sizeof(want), "%s:00.000000Z", TICKS[row].ticks[i]);
        if (strcmp(text, want) != 0) {
            fail_msg(
                "%s: tick %zu is %s, not %s", TICKS[row].name, i, text, want);
        }
    }
    zone_free(zone);
}

static void next_ticks(void **state)
{
    (void)state;
    for (size_t row = 0; row < ARRAY_LEN(TICKS); row++) {
        ticks_are(row);
    }
}

/* SCH-07, by its own numbers. */
static void sch_07_daylight_saving(void **state)
{
    static const int64_t spring[] = {1806111000, 1806195600, 1806280200};
    static const int64_t autumn[] = {1824942600, 1825032600};
    (void)state;
    struct cron cron;
    struct fault fault = FAULT_INIT;
    struct err err = ERR_INIT;
    struct zone *zone = zone_open("Europe/Berlin", &err);
    int64_t at_s = 1806098400; /* 2027-03-27 */
    assert_non_null(zone);
    assert_int_equal(cron_parse(SPAN_LIT("30 2 * * *"), &cron, &fault), 0);
    for (size_t i = 0; i < ARRAY_LEN(spring); i++) {
        assert_true(cron_next(&cron, zone, at_s, &at_s));
        assert_int_equal(at_s, spring[i]);
    }
    at_s = 1824933600; /* 2027-10-30T22:00Z */
    for (size_t i = 0; i < ARRAY_LEN(autumn); i++) {
        assert_true(cron_next(&cron, zone, at_s, &at_s));
        assert_int_equal(at_s, autumn[i]);
    }
    zone_free(zone);
}

static const struct {
    const char *cron;
    const char *said; /* part of the detail */
} FAULTS[] = {
    {"", "five fields"},
    {"* * * *", "five fields"},
    {"* * * * * *", "no seconds"},
    {"0 0 0 1 1 * 2027", "five fields"},
    {"60 * * * *", "minute: 60 is not from 0 to 59"},
    {"* 24 * * *", "hour: 24 is not from 0 to 23"},
    {"* * 0 * *", "day of month: 0 is not from 1 to 31"},
    {"* * 32 * *", "day of month: 32"},
    {"* * * 0 *", "month: 0"},
    {"* * * 13 *", "month: 13"},
    {"* * * * 8", "day of week: 8 is not from 0 to 7"},
    {"-1 * * * *", "minute: takes"},
    {"5- * * * *", "minute: takes"},
    {"10-5 * * * *", "minute: a range goes upwards"},
    {"0 0 * * fri-sun", "day of week: a range goes upwards"},
    {"5/10 * * * *", "minute: a step goes with"},
    {"*/0 * * * *", "minute: a step is a number from 1 to 59"},
    {"*/60 * * * *", "minute: a step is a number from 1 to 59"},
    {"*/99999999999 * * * *", "minute: a step"},
    {"*/ * * * *", "minute: a step"},
    {"1,,2 * * * *", "minute: takes"},
    {"1, * * * *", "minute: takes"},
    {"** * * * *", "minute: takes"},
    {"0 0 L * *", "day of month: takes numbers; L, W"},
    {"0 0 15W * *", "day of month: takes"},
    {"0 0 * * 5#3", "day of week: takes"},
    {"0 0 ? * *", "day of month: takes"},
    {"0 0 * january *", "month: names have three letters"},
    {"0 0 * * day", "day of week: names have three letters"},
    {"0 0 30 2 *", "no day is ever like that"},
    {"0 0 31 4,6,9,11 *", "no day is ever like that"},
    {"@reboot", "the shorthands are"},
    {"@daily 5", "the shorthands are"},
    {"0 0 * * *\n", "day of week: takes"},
    {"99999999999999999999 * * * *", "minute: 9999 is not from"},
};

static void faults_name_the_field_and_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++) {
        struct cron cron;
        struct fault fault = FAULT_INIT;
        if (cron_parse(span_of(FAULTS[i].cron), &cron, &fault) == 0 ||
            strstr(fault.detail, FAULTS[i].said) == NULL) {
            fail_msg("'%s': %s", FAULTS[i].cron, fault.detail);
        }
        assert_string_equal(fault.pointer, "/cron");
        assert_int_equal(fault.code, CODE_INVALID_MEMBER);
    }
}

static void nothing_comes_after_the_year_9999(void **state)
{
    struct cron cron;
    struct fault fault = FAULT_INIT;
    struct err err = ERR_INIT;
    struct zone *zone = zone_open("America/New_York", &err);
    int64_t at_s = 0;
    (void)state;
    assert_non_null(zone);
    assert_int_equal(cron_parse(SPAN_LIT("0 0 1 1 *"), &cron, &fault), 0);
    assert_false(cron_next(&cron, zone, INT64_C(253402300799), &at_s));
    zone_free(zone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_ticks),
        cmocka_unit_test(sch_07_daylight_saving),
        cmocka_unit_test(faults_name_the_field_and_the_rule),
        cmocka_unit_test(nothing_comes_after_the_year_9999),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
