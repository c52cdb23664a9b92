/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of schedules, and what fires after an outage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/time.h"
#include "schema/schedule.h"

#define REQUEST "\"request\":{\"connector\":\"c\",\"action\":\"a\"}"
#define NOW_US (INT64_C(1796000000) * US_PER_S)

static void take(const char *text, struct schedule *schedule)
{
    struct fault fault = FAULT_INIT;
    if (schedule_parse(span_of(text), "acme", schedule, &fault) != 0) {
        fail_msg("%s: %s %s", text, fault.pointer, fault.detail);
    }
}

static const struct {
    const char *text;
    enum code code;
    const char *pointer;
} FAULTS[] = {
    {"", CODE_MALFORMED_JSON, ""},
    {"[]", CODE_MALFORMED_JSON, ""},
    {"{\"name\":\"n\",\"name\":\"n\"}", CODE_DUPLICATE_MEMBER, ""},
    {"{\"name\":\"n\",\"at\":\"2027-01-01T00:00:00Z\"}", CODE_INVALID_MEMBER,
        "/request"},
    {"{" REQUEST ",\"every_s\":60}", CODE_INVALID_MEMBER, "/name"},
    {"{\"name\":\"N\",\"every_s\":60," REQUEST "}", CODE_INVALID_MEMBER,
        "/name"},
    {"{\"name\":\"n\"," REQUEST "}", CODE_INVALID_MEMBER, ""},
    {"{\"name\":\"n\",\"every_s\":60,\"cron\":\"* * * * *\"," REQUEST "}",
        CODE_INVALID_MEMBER, ""},
    {"{\"name\":\"n\",\"every\":60," REQUEST "}", CODE_INVALID_MEMBER, ""},
    {"{\"name\":\"n\",\"every_s\":0," REQUEST "}", CODE_INVALID_MEMBER,
        "/every_s"},
    {"{\"name\":\"n\",\"every_s\":1.5," REQUEST "}", CODE_INVALID_MEMBER,
        "/every_s"},
    {"{\"name\":\"n\",\"every_s\":31622401," REQUEST "}", CODE_INVALID_MEMBER,
        "/every_s"},
    {"{\"name\":\"n\",\"cron\":5," REQUEST "}", CODE_INVALID_MEMBER, "/cron"},
    {"{\"name\":\"n\",\"cron\":\"* *\"," REQUEST "}", CODE_INVALID_MEMBER,
        "/cron"},
    {"{\"name\":\"n\",\"cron\":\"@daily\",\"zone\":\"../UTC\"," REQUEST "}",
        CODE_INVALID_MEMBER, "/zone"},
    {"{\"name\":\"n\",\"every_s\":60,\"zone\":\"UTC\"," REQUEST "}",
        CODE_INVALID_MEMBER, "/zone"},
    /* SCH-07: without a zone a time is nothing */
    {"{\"name\":\"n\",\"at\":\"2027-01-01T00:00:00\"," REQUEST "}",
        CODE_INVALID_TIME, "/at"},
    {"{\"name\":\"n\",\"at\":\"tomorrow\"," REQUEST "}", CODE_INVALID_TIME,
        "/at"},
    {"{\"name\":\"n\",\"every_s\":60,\"start\":1," REQUEST "}",
        CODE_INVALID_TIME, "/start"},
    {"{\"name\":\"n\",\"cron\":\"@daily\",\"start\":"
     "\"2027-01-01T00:00:00Z\"," REQUEST "}",
        CODE_INVALID_MEMBER, "/start"},
    {"{\"name\":\"n\",\"every_s\":60,\"misfire\":\"never\"," REQUEST "}",
        CODE_INVALID_MEMBER, "/misfire"},
    {"{\"name\":\"n\",\"every_s\":60,\"misfire_cap\":5," REQUEST "}",
        CODE_INVALID_MEMBER, "/misfire_cap"},
    {"{\"name\":\"n\",\"every_s\":60,\"misfire\":\"all\",\"misfire_cap\":"
     "1001," REQUEST "}",
        CODE_INVALID_MEMBER, "/misfire_cap"},
    {"{\"name\":\"n\",\"every_s\":60,\"deadline_s\":0," REQUEST "}",
        CODE_INVALID_MEMBER, "/deadline_s"},
    {"{\"name\":\"n\",\"every_s\":60,\"request\":[]}", CODE_INVALID_MEMBER,
        "/request"},
    {"{\"name\":\"n\",\"every_s\":60,\"request\":{}}", CODE_INVALID_CONNECTOR,
        "/request/connector"},
    {"{\"name\":\"n\",\"every_s\":60,\"request\":{\"connector\":\"c\","
     "\"action\":\"a\",\"idempotency_key\":\"k\"}}",
        CODE_INVALID_MEMBER, "/request/idempotency_key"},
    {"{\"name\":\"n\",\"every_s\":60,\"request\":{\"connector\":\"c\","
     "\"action\":\"a\",\"priority\":10}}",
        CODE_INVALID_MEMBER, "/request/priority"},
};

static void faults_name_the_member(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++) {
        struct schedule schedule;
        struct fault fault = FAULT_INIT;
        const int rc =
            schedule_parse(span_of(FAULTS[i].text), "acme", &schedule, &fault);
        if (rc == 0 || fault.code != FAULTS[i].code ||
            strcmp(fault.pointer, FAULTS[i].pointer) != 0) {
            fail_msg("%s: %s at '%s': %s", FAULTS[i].text,
                code_name(fault.code), fault.pointer, fault.detail);
        }
    }
}

static void a_tick_becomes_a_request(void **state)
{
    static const uint8_t id[UUID_SIZE] = {1, 2, 3};
    struct schedule schedule;
    struct record record;
    struct fault fault = FAULT_INIT;
    struct json_value member;
    struct buf text;
    const struct record_source source = {.door = RECORD_DOOR_KAFKA,
        .tenant = SPAN_LIT("acme"),
        .has_tenant = true,
        .topic = "actions"};
    (void)state;
    take("{\"name\":\"night\",\"cron\":\"30 2 * * *\",\"deadline_s\":90,"
         "\"request\":{\"connector\":\"c\",\"action\":\"a\",\"priority\":7,"
         "\"payload\":{\"n\":1.10}}}",
        &schedule);
    buf_init(&text, RECORD_MAX_BYTES);
    schedule_put_record(&text, &schedule, "acme", id, NOW_US);
    assert_int_equal(
        record_parse(buf_span(&text), &source, &record, &fault), RECORD_OK);
    assert_string_equal(record.key,
        "schedule:01020300-0000-0000-0000-000000000000:"
        "2026-11-30T00:53:20.000000Z");
    assert_string_equal(record.tenant, "acme");
    assert_int_equal(record.priority, 7);
    assert_int_equal(record.deadline_us, NOW_US + 90 * US_PER_S);
    assert_true(span_is(record.payload.raw, "{\"n\":1.10}"));
    assert_true(json_find(record.root, "scheduled", &member));
    assert_true(json_find(member, "name", &member));
    assert_true(json_string_is(member, "night"));
    buf_fini(&text);
}

/* -- after an outage ------------------------------------------------------- */

/* A tick a minute, the first one so many minutes ago. */
static const struct {
    const char *misfire;
    int64_t ago;  /* of the tick that is due */
    size_t fired; /* in this turn */
    int64_t first_ago;
    int64_t missed;
} OUTAGES[] = {
    {"\"once\"", 0, 1, 0, 0}, {"\"once\"", 1, 2, 1, 0}, /* not late yet */
    {"\"once\"", 2, 1, 0, 2}, {"\"once\"", 60, 1, 0, 60},
    {"\"skip\"", 1, 2, 1, 0}, {"\"skip\"", 60, 2, 1, 59},
    {"\"skip\"", 525600, 2, 1, 10000}, /* counted so far */
    {"\"all\"", 60, 61, 60, 0}, {"\"all\"", 99, 100, 99, 0},
    {"\"all\"", 100, 100, 99, 1}, {"\"all\"", 525600, 100, 99, 10000},
    {"\"all\",\"misfire_cap\":3", 60, 3, 2, 58},
    {"\"all\",\"misfire_cap\":1", 60, 1, 0, 60},
    {"\"all\",\"misfire_cap\":1000", 500, 100, 500, 0}, /* in turns */
};

static void check_outage(size_t row, const char *kind, const struct zone *zone)
{
    char text[512];
    struct schedule schedule;
    static struct schedule_plan plan;
    const int64_t now_us = NOW_US - NOW_US % (60 * US_PER_S);
    const int64_t minute_us = 60 * US_PER_S;
    snprintf(text, sizeof(text),
        "{\"name\":\"n\",%s,\"misfire\":%s," REQUEST "}", kind,
        OUTAGES[row].misfire);
    take(text, &schedule);
    schedule.start_us = now_us - 1000000 * minute_us;
    schedule_make_plan(
        &schedule, zone, now_us - OUTAGES[row].ago * minute_us, now_us, &plan);
    if (plan.count != OUTAGES[row].fired ||
        plan.missed != OUTAGES[row].missed ||
        plan.ticks_us[0] != now_us - OUTAGES[row].first_ago * minute_us) {
        fail_msg("%s: %zu fire, the first %lld min ago, %lld missed", text,
            plan.count, (long long)((now_us - plan.ticks_us[0]) / minute_us),
            (long long)plan.missed);
    }
    assert_true(plan.has_next);
    assert_int_equal(plan.next_us, plan.ticks_us[plan.count - 1] + minute_us);
}

static void outages(void **state)
{
    struct err err = ERR_INIT;
    struct zone *zone = zone_open("Europe/Berlin", &err);
    (void)state;
    assert_non_null(zone);
    for (size_t row = 0; row < ARRAY_LEN(OUTAGES); row++) {
        check_outage(
            row, "\"cron\":\"* * * * *\",\"zone\":\"Europe/Berlin\"", zone);
        check_outage(row, "\"every_s\":60", NULL);
    }
    zone_free(zone);
}

static void a_one_off_fires_once(void **state)
{
    struct schedule schedule;
    static struct schedule_plan plan;
    int64_t tick_us = 0;
    (void)state;
    take("{\"name\":\"n\",\"at\":\"2026-11-30T01:53:20.000001+01:00\"," REQUEST
         "}",
        &schedule);
    assert_true(schedule_next(&schedule, NULL, NOW_US, &tick_us));
    assert_int_equal(tick_us, NOW_US + 1); /* exactly, by its offset */
    assert_false(schedule_next(&schedule, NULL, NOW_US + 1, &tick_us));
    for (int64_t late_s = 0; late_s <= 3600; late_s += 3600) {
        schedule_make_plan(
            &schedule, NULL, NOW_US + 1, NOW_US + 1 + late_s * US_PER_S, &plan);
        assert_int_equal(plan.count, 1);
        assert_int_equal(plan.ticks_us[0], NOW_US + 1);
        assert_false(plan.has_next);
    }
    schedule.misfire = SCHEDULE_MISFIRE_SKIP;
    schedule_make_plan(
        &schedule, NULL, NOW_US + 1, NOW_US + 3600 * US_PER_S, &plan);
    assert_int_equal(plan.count, 0);
    assert_int_equal(plan.missed, 1);
    assert_false(plan.has_next);
}

static void intervals_count_from_their_start(void **state)
{
    struct schedule schedule;
    int64_t tick_us = 0;
    (void)state;
    take("{\"name\":\"n\",\"every_s\":90,\"start\":\"2026-11-30T00:53:"
         "20Z\"," REQUEST "}",
        &schedule);
    assert_true(schedule_next(&schedule, NULL, NOW_US - 5, &tick_us));
    assert_int_equal(tick_us, NOW_US);
    assert_true(schedule_next(&schedule, NULL, NOW_US, &tick_us));
    assert_int_equal(tick_us, NOW_US + 90 * US_PER_S);
    assert_true(
        schedule_next(&schedule, NULL, NOW_US + 271 * US_PER_S, &tick_us));
    assert_int_equal(tick_us, NOW_US + 360 * US_PER_S);
}

/* However the time is cut into turns, every tick fires once. */
static void turns_leave_nothing_out(void **state)
{
    struct schedule schedule;
    static struct schedule_plan plan;
    int64_t due_us = NOW_US - 777 * US_PER_S;
    int64_t want_us = due_us;
    (void)state;
    take("{\"name\":\"n\",\"every_s\":1,\"misfire\":\"all\","
         "\"misfire_cap\":1000," REQUEST "}",
        &schedule);
    while (due_us <= NOW_US) {
        schedule_make_plan(&schedule, NULL, due_us, NOW_US, &plan);
        for (size_t i = 0; i < plan.count; i++) {
            assert_int_equal(plan.ticks_us[i], want_us);
            want_us += US_PER_S;
        }
        due_us = plan.next_us;
    }
    assert_int_equal(want_us, NOW_US + US_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_name_the_member),
        cmocka_unit_test(a_tick_becomes_a_request),
        cmocka_unit_test(outages),
        cmocka_unit_test(a_one_off_fires_once),
        cmocka_unit_test(intervals_count_from_their_start),
        cmocka_unit_test(turns_leave_nothing_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
