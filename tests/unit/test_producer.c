/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions of the front door that need no network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/time.h"
#include "producer/actions.h"
#include "producer/keys.h"
#include "producer/refresh.h"
#include "producer/reserve.h"
#include "producer/trace.h"
#include "producer/wait.h"

static void key_comes_from_either_header(void **state)
{
    static const struct {
        const char *authorization;
        const char *api_key;
        const char *expected;
    } cases[] = {
        {NULL, NULL, ""},
        {"Bearer ak_one", NULL, "ak_one"},
        {"bearer   ak_one", NULL, "ak_one"},
        {NULL, "ak_one", "ak_one"},
        {"Bearer ak_one", "ak_one", "ak_one"},
        {"Bearer ak_one", "ak_two", ""},
        {"Basic YTpi", NULL, ""},
        {"Basic YTpi", "ak_one", ""},
        {"Bearer", NULL, ""},
        {"Bearer ", NULL, ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct span key =
            keys_of_headers(cases[i].authorization, cases[i].api_key);
        assert_true(span_is(key, cases[i].expected));
    }
}

static void key_that_is_too_long_is_none(void **state)
{
    char key[1024];
    (void)state;
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    assert_int_equal(keys_of_headers(NULL, key).len, 0);
}

static void wait_takes_times_up_to_a_minute(void **state)
{
    static const struct {
        const char *text;
        int64_t expected_us; /* -1: refused */
    } cases[] = {
        {"30s", 30000000},
        {"30", 30000000},
        {"500ms", 500000},
        {"0", 0},
        {"60s", 60000000},
        {"60000ms", 60000000},
        {"61s", -1},
        {"", -1},
        {"s", -1},
        {"-1s", -1},
        {"1.5s", -1},
        {"30m", -1},
        {"30 s", -1},
        {"99999999999999999999s", -1},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t wait_us = -1;
        const bool is_taken = wait_parse(cases[i].text, &wait_us);
        assert_int_equal(is_taken, cases[i].expected_us >= 0);
        assert_int_equal(wait_us, cases[i].expected_us);
    }
}

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN_ID "00f067aa0ba902b7"

static void trace_is_taken_over_when_well_formed(void **state)
{
    static const struct {
        const char *header;
        bool is_taken;
    } cases[] = {
        {"00-" TRACE "-" SPAN_ID "-01", true},
        {"00-" TRACE "-" SPAN_ID "-00", true},
        {"01-" TRACE "-" SPAN_ID "-01-what-comes-later", true},
        {"01-" TRACE "-" SPAN_ID "-01", true},
        {"01-" TRACE "-" SPAN_ID "-01x", false},
        {"00-" TRACE "-" SPAN_ID "-01-more", false},
        {"ff-" TRACE "-" SPAN_ID "-01", false},
        {"00-00000000000000000000000000000000-" SPAN_ID "-01", false},
        {"00-" TRACE "-0000000000000000-01", false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN_ID "-01", false},
        {"00-" TRACE "-" SPAN_ID, false},
        {"00_" TRACE "-" SPAN_ID "-01", false},
        {"", false},
        {NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[TRACEPARENT_LEN + 1];
        assert_int_equal(trace_parent(cases[i].header, out), cases[i].is_taken);
        assert_int_equal(strlen(out), TRACEPARENT_LEN);
        assert_memory_equal(out, "00-", 3);
        const bool is_same = memcmp(out + 3, TRACE, strlen(TRACE)) == 0;
        assert_int_equal(is_same, cases[i].is_taken);
        /* What it makes itself must be well-formed as well. */
        char again[TRACEPARENT_LEN + 1];
        assert_true(trace_parent(out, again));
    }
}

static void content_type_is_json_in_utf8(void **state)
{
    static const struct {
        const char *type;
        bool is_json;
    } cases[] = {
        {NULL, true},
        {"application/json", true},
        {"Application/JSON", true},
        {"application/json; charset=utf-8", true},
        {"application/json;charset=\"UTF-8\"", true},
        {"application/json; charset=latin1", false},
        {"application/json; x", false},
        {"application/json;", false},
        {"application/jsonp", false},
        {"application/x-www-form-urlencoded", false},
        {"text/plain", false},
        {"", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(actions_type_is_json(cases[i].type), cases[i].is_json);
    }
}

/* All combinations of what may be known about an id. */
static void reservation_is_judged_by_what_is_there(void **state)
{
    static const struct {
        const char *reserved;
        const char *claimed;
        bool was_inserted;
        enum reserve_verdict expected;
    } cases[] = {
        {"mine", "", true, RESERVE_NEW},
        {"mine", "", false, RESERVE_AGAIN},
        {"other", "", true, RESERVE_CONFLICT},
        {"other", "", false, RESERVE_CONFLICT},
        {"mine", "mine", false, RESERVE_CLAIMED},
        {"mine", "mine", true, RESERVE_CLAIMED}, /* an old reservation went */
        {"", "mine", false, RESERVE_CLAIMED},
        {"other", "mine", false, RESERVE_CLAIMED},
        {"mine", "other", false, RESERVE_CONFLICT},
        {"mine", "other", true, RESERVE_CONFLICT},
        {"", "other", false, RESERVE_CONFLICT},
        {"", "", false, RESERVE_FAILED},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct reserve_facts facts = {.mine = SPAN_LIT("mine"),
            .reserved = span_of(cases[i].reserved),
            .claimed = span_of(cases[i].claimed),
            .was_inserted = cases[i].was_inserted};
        assert_int_equal(reserve_judge(&facts), cases[i].expected);
    }
}

/* -- refresh -------------------------------------------------------------- */

enum { WAITER_COUNT = 3 };

struct reader {
    struct loop loop;
    struct refresh *refresh;
    struct refresh_wait waits[WAITER_COUNT];
    int readings;
    int yes;
    int no;
};

static void on_answer(void *arg, bool is_read)
{
    struct reader *reader = arg;
    reader->yes += is_read;
    reader->no += !is_read;
    if (reader->yes + reader->no == WAITER_COUNT) {
        loop_end(&reader->loop);
    }
}

/* The first reading fails; the last waiter asks while it runs. */
static void on_reading(void *owner)
{
    struct reader *reader = owner;
    const bool is_first = reader->readings++ == 0;
    if (is_first) {
        const int64_t began_us = now_mono_us();
        while (now_mono_us() == began_us) {
            /* so that the question is later than the reading */
        }
        refresh_wait(reader->refresh, &reader->waits[WAITER_COUNT - 1]);
    }
    refresh_end(reader->refresh, !is_first);
}

static void question_during_a_reading_waits_for_the_next(void **state)
{
    struct reader reader = {0};
    (void)state;
    loop_init(&reader.loop, NULL, NULL);
    reader.refresh =
        refresh_open(&reader.loop, &(struct refresh_options){.every_ms = 60000,
                                       .apart_ms = 1,
                                       .read = on_reading,
                                       .owner = &reader});
    for (int i = 0; i < WAITER_COUNT; i++) {
        reader.waits[i].done = on_answer;
        reader.waits[i].arg = &reader;
    }
    refresh_wait(reader.refresh, &reader.waits[0]);
    refresh_wait(reader.refresh, &reader.waits[1]);
    loop_run(&reader.loop);
    assert_int_equal(reader.readings, 2);
    assert_int_equal(reader.no, 2);
    assert_int_equal(reader.yes, 1);
    assert_true(refresh_since_us(reader.refresh) >= reader.waits[2].asked_us);
    refresh_close(reader.refresh);
    loop_fini(&reader.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_comes_from_either_header),
        cmocka_unit_test(key_that_is_too_long_is_none),
        cmocka_unit_test(wait_takes_times_up_to_a_minute),
        cmocka_unit_test(trace_is_taken_over_when_well_formed),
        cmocka_unit_test(content_type_is_json_in_utf8),
        cmocka_unit_test(reservation_is_judged_by_what_is_there),
        cmocka_unit_test(question_during_a_reading_waits_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
