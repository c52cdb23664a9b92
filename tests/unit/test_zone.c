/* SPDX-License-Identifier: Apache-2.0 */
/* Time zones of the system's tzdata, at instants that anybody can look up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/zone_internal.h"

static const struct {
    const char *zone;
    int64_t at_s;
    int32_t offset_s;
} OFFSETS[] = {
    {"UTC", 0, 0},
    {"Europe/Berlin", 1806195599, 3600}, /* 2027-03-28T00:59:59Z */
    {"Europe/Berlin", 1806195600, 7200},
    {"Europe/Berlin", 1824944399, 7200}, /* 2027-10-31T00:59:59Z */
    {"Europe/Berlin", 1824944400, 3600},
    {"Europe/Berlin", 2531955599, 3600}, /* 2050-03-27, past the list */
    {"Europe/Berlin", 2531955600, 7200},
    {"America/New_York", 1805007599, -18000}, /* 2027-03-14T06:59:59Z */
    {"America/New_York", 1805007600, -14400},
    {"Australia/Lord_Howe", 1790436600, 37800}, /* half an hour of summer */
    {"Australia/Lord_Howe", 1798763400, 39600},
    {"Australia/Sydney", 1798763400, 39600},
    {"Asia/Kolkata", 1798763400, 19800},
    {"Asia/Kathmandu", 4102444800, 20700}, /* 2100 */
    {"Pacific/Apia", 1325239199, -36000},  /* 2011-12-30 was left out */
    {"Pacific/Apia", 1325239200, 50400},
    {"America/Argentina/Buenos_Aires", 1798763400, -10800},
    {"Etc/GMT+5", 1798763400, -18000},
    {"Europe/Dublin", 1798763400, 0}, /* its winter is the exception */
    {"Africa/Casablanca", 1798763400, 3600},
};

static void offsets_are_those_of_tzdata(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(OFFSETS) / sizeof(OFFSETS[0]); i++) {
        struct err err = ERR_INIT;
        struct zone *zone = zone_open(OFFSETS[i].zone, &err);
        if (zone == NULL) {
            fail_msg("%s", err.msg);
            return;
        }
        const struct zone_span span = zone_find(zone, OFFSETS[i].at_s);
        if (span.offset_s != OFFSETS[i].offset_s ||
            span.start_s > OFFSETS[i].at_s || span.end_s <= OFFSETS[i].at_s) {
            fail_msg("%s at %lld: %d", OFFSETS[i].zone,
                (long long)OFFSETS[i].at_s, (int)span.offset_s);
        }
        zone_free(zone);
    }
}

/* The other reader of the same files on this machine. */
static void compare_with_libc(const char *name)
{
    struct err err = ERR_INIT;
    struct zone *zone = zone_open(name, &err);
    if (zone == NULL) {
        fail_msg("%s", err.msg);
        return;
    }
    assert_int_equal(setenv("TZ", name, 1), 0);
    tzset();
    /* Prime to a day, so that every time of the day is met; up to 2100. */
    for (time_t at_s = 0; at_s < 4102444800; at_s += 5000011) {
        struct tm local;
        assert_non_null(localtime_r(&at_s, &local));
        if (zone_find(zone, at_s).offset_s != local.tm_gmtoff) {
            fail_msg("%s at %lld: %d, libc %ld", name, (long long)at_s,
                (int)zone_find(zone, at_s).offset_s, local.tm_gmtoff);
        }
    }
    zone_free(zone);
}

static void every_zone_is_as_in_libc(void **state)
{
    char line[512];
    int zones = 0;
    FILE *table = fopen("/usr/share/zoneinfo/tzdata.zi", "r");
    (void)state;
    assert_non_null(table);
    while (fgets(line, sizeof(line), table) != NULL) {
        char name[64];
        if (sscanf(line, "Z %63s", name) == 1) { /* "Z Europe/Berlin ..." */
            compare_with_libc(name);
            zones++;
        }
    }
    assert_int_equal(fclose(table), 0);
    assert_in_range(zones, 200, 1000);
    assert_int_equal(unsetenv("TZ"), 0);
    tzset();
}

static void spans_follow_each_other(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct zone *zone = zone_open("Europe/Berlin", &err);
    assert_non_null(zone);
    int64_t at_s = -ZONE_NEVER_S;
    int spans = 0;
    while (at_s < INT64_C(4102444800)) { /* 2100 */
        const struct zone_span span = zone_find(zone, at_s);
        assert_int_equal(span.start_s, at_s);
        at_s = span.end_s;
        spans++;
    }
    /* Two a year since 1980, and those of before. */
    assert_in_range(spans, 240, 300);
    zone_free(zone);
}

static void names_stay_in_the_folder(void **state)
{
    static const char *const refused[] = {"", "/etc/passwd", "../passwd",
        "Europe/../UTC", "Europe/", "/", "a//b", "a/b/c/d", "right/UTC",
        "posix/UTC", "localtime", "posixrules", "EST5EDT,M3.2.0,M11.1.0",
        "Europe/Ber lin", "zone.tab", "tzdata.zi", ":UTC"};
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct err err = ERR_INIT;
        assert_null(zone_open(refused[i], &err));
        assert_int_equal(err.class, ERR_PERMANENT);
    }
    assert_true(zone_name_is_valid(SPAN_LIT("America/Argentina/Ushuaia")));
}

static void unknown_and_damaged_are_told(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_null(zone_open("Europe/Atlantis", &err));
    assert_int_equal(err.class, ERR_PERMANENT);
    assert_non_null(strstr(err.msg, "Europe/Atlantis"));
    err = (struct err)ERR_INIT;
    assert_null(zone_open("Europe", &err));
    assert_int_equal(err.class, ERR_PERMANENT);
    err = (struct err)ERR_INIT;
    assert_null(zone_parse(SPAN_LIT("TZif2 and then nothing"), &err));
    assert_string_equal(err.code, "BAD_ZONE_FILE");
}

static const struct {
    const char *text;
    bool is_right;
} RULES[] = {
    {"CET-1CEST,M3.5.0,M10.5.0/3", true},
    {"<+0330>-3:30", true},
    {"<-03>3<-02>,M3.5.0/-1,M10.5.0/0", true},
    {"IST-1GMT0,M10.5.0,M3.5.0/1", true},
    {"EST5EDT,0/0,J365/25", true},
    {"WART4WARST,J1/0,J365/25", true},
    {"AAA0BBB,M3.2.0/167,M11.1.0/-167", true},
    {"UTC0", true},
    {"", false},
    {"UT0", false},
    {"UTC", false},
    {"UTC25", false},
    {"CET-1CEST", false},
    {"CET-1CEST,M3.5.0", false},
    {"CET-1CEST,M13.5.0,M10.5.0", false},
    {"CET-1CEST,M3.6.0,M10.5.0", false},
    {"CET-1CEST,M3.5.7,M10.5.0", false},
    {"CET-1CEST,J0,J365", false},
    {"CET-1CEST,M3.5.0,M10.5.0/168", false},
    {"CET-1CEST,M3.5.0,M10.5.0/3x", false},
    {"<+03-3", false},
};

static void rules_are_those_of_rfc_8536(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(RULES) / sizeof(RULES[0]); i++) {
        struct zone_rule rule;
        if (zone_rule_parse(span_of(RULES[i].text), &rule) !=
            RULES[i].is_right) {
            fail_msg("'%s'", RULES[i].text);
        }
    }
}

static void summer_all_the_year_is_one_offset(void **state)
{
    struct zone_rule rule;
    (void)state;
    assert_true(zone_rule_parse(SPAN_LIT("XXX3EDT4,0/0,J365/23"), &rule));
    for (int64_t at_s = 1767225600; at_s < 1893456000; at_s += 86400) {
        assert_int_equal(zone_rule_find(&rule, at_s).offset_s, -14400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_those_of_tzdata),
        cmocka_unit_test(every_zone_is_as_in_libc),
        cmocka_unit_test(spans_follow_each_other),
        cmocka_unit_test(names_stay_in_the_folder),
        cmocka_unit_test(unknown_and_damaged_are_told),
        cmocka_unit_test(rules_are_those_of_rfc_8536),
        cmocka_unit_test(summer_all_the_year_is_one_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
