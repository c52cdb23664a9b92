/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of tests/cases/fixtures/retry_after.json and of RFC 9110. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/json.h"
#include "common/time.h"
#include "schema/retry_after.h"
#include "schema/state.h"

#define FIXTURE "tests/cases/fixtures/retry_after.json"
#define NOW_S INT64_C(1795996800) /* 2026-11-30T00:00:00Z */
#define NOW_US (NOW_S * US_PER_S)

enum { IGNORED = -1, OVER_CAP = -2 };

static void read_file(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s (run from the root of the tree)", path);
        return;
    }
    char block[4096];
    size_t got = fread(block, 1, sizeof(block), file);
    while (got > 0) {
        buf_put(out, block, got);
        got = fread(block, 1, sizeof(block), file);
    }
    assert_int_equal(fclose(file), 0);
}

static int64_t expected_of(struct json_value value)
{
    int64_t seconds = 0;
    if (value.type == JSON_NUMBER) {
        assert_true(json_to_int(value, &seconds));
        return seconds;
    }
    return json_string_is(value, "ignore") ? IGNORED : OVER_CAP;
}

/* What a call that ended so waits for, as the fixture words it. */
static int64_t outcome_of(int64_t http_status, struct span header, int64_t now)
{
    struct call_facts facts = {.end = CALL_ANSWERED,
        .http_status = (int)http_status,
        .effect = EFFECT_NATURAL};
    facts.has_retry_after = retry_after_parse(
        header, (struct span){0}, now * US_PER_S, &facts.retry_after_s);
    const struct budget budget = {.calls = 1,
        .max_attempts = 8,
        .now_us = now * US_PER_S,
        .base_ms = 1000,
        .max_ms = 300000};
    const struct decision decision =
        state_settle(&facts, &budget, CODE_HTTP_STATUS, 0);
    if (decision.is_terminal) {
        return decision.code == CODE_RETRY_AFTER_TOO_LONG ? OVER_CAP : IGNORED;
    }
    if (!facts.has_retry_after) {
        assert_int_equal(decision.wait_ms, 1000);
        return IGNORED;
    }
    return decision.wait_ms / 1000;
}

static bool is_also_ok(struct json_value vector, int64_t got)
{
    struct json_value list;
    if (!json_find(vector, "also_ok", &list)) {
        return false;
    }
    struct json_cursor cursor = json_enter(list);
    struct json_member item;
    while (json_next(&cursor, &item)) {
        if (expected_of(item.value) == got) {
            return true;
        }
    }
    return false;
}

static void check_vector(struct json_value vector)
{
    struct json_value id, status, header, now, expected;
    assert_true(json_find(vector, "id", &id));
    assert_true(json_find(vector, "status", &status));
    assert_true(json_find(vector, "header", &header));
    assert_true(json_find(vector, "now_epoch", &now));
    assert_true(json_find(vector, "expected", &expected));
    int64_t http_status = 0;
    int64_t now_s = 0;
    assert_true(json_to_int(status, &http_status));
    assert_true(json_to_int(now, &now_s));
    struct buf text;
    buf_init(&text, 4096);
    json_decode(header, &text);
    struct json_value zone;
    if (json_find(vector, "tz", &zone)) {
        struct buf name;
        buf_init(&name, 64);
        json_decode(zone, &name);
        assert_int_equal(setenv("TZ", buf_str(&name), 1), 0);
        buf_fini(&name);
    }
    const int64_t got = outcome_of(http_status, buf_span(&text), now_s);
    if (got != expected_of(expected) && !is_also_ok(vector, got)) {
        fail_msg("%.*s: got %lld", (int)id.raw.len, id.raw.ptr, (long long)got);
    }
    buf_fini(&text);
}

static void every_vector_of_the_fixture(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, (size_t)1 << 20);
    read_file(FIXTURE, &text);
    struct json_value root, vectors;
    struct err err = ERR_INIT;
    assert_int_equal(json_parse(buf_span(&text), 16, &root, &err), 0);
    assert_true(json_find(root, "vectors", &vectors));
    struct json_cursor cursor = json_enter(vectors);
    struct json_member item;
    size_t count = 0;
    while (json_next(&cursor, &item)) {
        check_vector(item.value);
        count++;
    }
    assert_true(count >= 45);
    buf_fini(&text);
}

struct row {
    const char *value;
    int64_t seconds; /* IGNORED: not usable */
};

static void more_values(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0120", 120},
        {"20260101", 20260101},
        {"9223372037", 9223372037},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", INT64_MAX},
        {"1.5", IGNORED},
        {"+5", IGNORED},
        {"inf", IGNORED},
        {"1e400", IGNORED},
        {"120\r\n", IGNORED},
        {"30 Feb 2026 00:00:00 GMT", IGNORED},
        {"Mon, 30 Nov 2026 00:02:00", IGNORED},
        {"Mon, 30 Nov 2026 00:02:00 UTC", IGNORED},
        {"Mon, 30 Nov 2026 00:02:00 GMT ", 120},
        {"Mon, 30 Nov 2026  0:02:00 GMT", IGNORED},
        {"Mon, 30 Nov 26 00:02:00 GMT", IGNORED},
        {"Mon Nov 30 00:02:00 2026 GMT", IGNORED},
        {"Mon Nov 00 00:02:00 2026", IGNORED},
        {"wed, 21 oct 2015 07:28:00 GMT", IGNORED},
        {"Mon, 00 Nov 2026 00:02:00 GMT", IGNORED},
        {"Mon, 30 Nov 2026 00:60:00 GMT", IGNORED},
        {"Mon, 30 Nov 2026 00:00:61 GMT", IGNORED},
        {"Mon, 29 Feb 2027 00:00:00 GMT", IGNORED},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t seconds = 0;
        const bool is_usable = retry_after_parse(
            span_of(rows[i].value), (struct span){0}, NOW_US, &seconds);
        if ((is_usable ? seconds : IGNORED) != rows[i].seconds) {
            fail_msg(
                "%s: %d %lld", rows[i].value, is_usable, (long long)seconds);
        }
    }
}

static void http_dates_of_the_rfc(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Sun Nov  6 08:49:37 1994", 784111777},
        {"Fri, 31 Dec 1999 23:59:59 GMT", 946684799},
        {"Wed, 21 Oct 2015 07:28:00 GMT", 1445412480},
        {"Friday, 06-Nov-71 08:49:37 GMT", 3214025377},
        {"Friday, 06-Nov-76 08:49:37 GMT", 3371878177},
        {"Sunday, 06-Nov-77 08:49:37 GMT", 247654177},
        {"Monday, 30-Nov-76 00:00:00 GMT", 3373920000},
        {"Monday, 30-Nov-76 00:00:01 GMT", 218160001},
        {"Tuesday, 29-Feb-00 00:00:00 GMT", 951782400},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t wall_us = 0;
        if (!http_date_parse(span_of(rows[i].value), NOW_US, &wall_us) ||
            wall_us != rows[i].seconds * US_PER_S) {
            fail_msg(
                "%s: %lld", rows[i].value, (long long)(wall_us / US_PER_S));
        }
    }
}

static void date_header_is_the_base_when_near(void **state)
{
    (void)state;
    const struct span value = SPAN_LIT("Mon, 30 Nov 2026 00:02:00 GMT");
    int64_t seconds = 0;
    /* The provider's clock is a minute behind ours. */
    assert_true(retry_after_parse(
        value, SPAN_LIT("Sun, 29 Nov 2026 23:59:00 GMT"), NOW_US, &seconds));
    assert_int_equal(seconds, 180);
    assert_true(retry_after_parse(
        value, SPAN_LIT("Fri, 27 Nov 2026 23:59:00 GMT"), NOW_US, &seconds));
    assert_int_equal(seconds, 120);
    assert_true(
        retry_after_parse(value, SPAN_LIT("rubbish"), NOW_US, &seconds));
    assert_int_equal(seconds, 120);
    assert_true(
        retry_after_parse(value, (struct span){0}, NOW_US + 1, &seconds));
    assert_int_equal(seconds, 120); /* rounded up */
}

static void reset_headers_by_unit(void **state)
{
    (void)state;
    int64_t seconds = 0;
    assert_true(reset_header_parse(
        SPAN_LIT("1795996920"), RESET_EPOCH_S, NOW_US, &seconds));
    assert_int_equal(seconds, 120);
    assert_true(reset_header_parse(
        SPAN_LIT("1795996799"), RESET_EPOCH_S, NOW_US, &seconds));
    assert_int_equal(seconds, 0);
    assert_true(reset_header_parse(
        SPAN_LIT("1795996800001"), RESET_EPOCH_MS, NOW_US, &seconds));
    assert_int_equal(seconds, 1);
    assert_true(
        reset_header_parse(SPAN_LIT(" 54 "), RESET_DELTA_S, NOW_US, &seconds));
    assert_int_equal(seconds, 54);
    assert_true(reset_header_parse(
        SPAN_LIT("99999999999999999999"), RESET_EPOCH_S, NOW_US, &seconds));
    assert_true(seconds > RETRY_AFTER_CAP_S);
    assert_false(
        reset_header_parse(SPAN_LIT("-1"), RESET_DELTA_S, NOW_US, &seconds));
    assert_false(
        reset_header_parse(SPAN_LIT("1s"), RESET_DELTA_S, NOW_US, &seconds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_of_the_fixture),
        cmocka_unit_test(more_values),
        cmocka_unit_test(http_dates_of_the_rfc),
        cmocka_unit_test(date_header_is_the_base_when_near),
        cmocka_unit_test(reset_headers_by_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
