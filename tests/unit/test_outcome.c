/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schema/outcome.h"

static const uint8_t id[UUID_SIZE] = {0x01, 0x02};
static const uint8_t digest[SHA256_SIZE] = {0xAB};

static struct outcome sample(void)
{
    return (struct outcome){.id = id,
        .tenant = "acme",
        .connector = "billing",
        .action = "charge.create",
        .key = "order-77",
        .status = STATUS_SUCCEEDED,
        .attempts = 2,
        .error = {.retry_after_s = -1},
        .finished_at_us = 1796000000123456,
        .wall_ms = 210,
        .manifest = digest};
}

static struct json_value parse(const struct buf *text)
{
    struct json_value root;
    struct err err = ERR_INIT;
    if (json_parse(buf_span(text), JSON_MAX_DEPTH, &root, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(root.type, JSON_OBJECT);
    return root;
}

static struct span member(struct json_value root, const char *name)
{
    struct json_value value;
    if (!json_find(root, name, &value)) {
        return (struct span){0};
    }
    return value.raw;
}

static void success_has_the_documented_form(void **state)
{
    (void)state;
    struct outcome outcome = sample();
    outcome.result = SPAN_LIT("{\"id\":\"ch_1\", \"n\":1.10}");
    outcome.started_at_us = 1796000000000000;
    struct buf out;
    buf_init(&out, OUTCOME_MAX_BYTES);
    outcome_put(&out, &outcome);
    assert_string_equal(buf_str(&out),
        "{\"spec\":\"actionist/1\","
        "\"id\":\"01020000-0000-0000-0000-000000000000\","
        "\"tenant\":\"acme\",\"connector\":\"billing\","
        "\"action\":\"charge.create\",\"idempotency_key\":\"order-77\","
        "\"status\":\"succeeded\",\"attempts\":2,"
        "\"result\":{\"id\":\"ch_1\", \"n\":1.10},\"error\":null,"
        "\"started_at\":\"2026-11-30T00:53:20.000000Z\","
        "\"finished_at\":\"2026-11-30T00:53:20.123456Z\","
        "\"usage\":{\"wall_ms\":210,\"cpu_ms\":0,\"memory_peak_bytes\":0,"
        "\"egress_bytes\":0},\"manifest\":\"sha256:"
        "ab00000000000000000000000000000000000000000000000000000000000000"
        "\",\"replay_of\":null}");
    buf_fini(&out);
}

static void failure_has_an_error(void **state)
{
    (void)state;
    struct outcome outcome = sample();
    outcome.key = "";
    outcome.manifest = NULL;
    outcome.status = STATUS_FAILED;
    outcome.error = (struct outcome_error){.code = CODE_HTTP_STATUS,
        .class = FAULT_PERMANENT,
        .message = "a \"b\"",
        .pointer = "/payload/a",
        .http_status = 400,
        .retry_after_s = 0};
    struct buf out;
    buf_init(&out, OUTCOME_MAX_BYTES);
    outcome_put(&out, &outcome);
    const struct json_value root = parse(&out);
    assert_true(span_is(member(root, "error"),
        "{\"code\":\"HTTP_STATUS\",\"class\":\"permanent\","
        "\"message\":\"a \\\"b\\\"\",\"pointer\":\"/payload/a\","
        "\"http_status\":400,\"retry_after_s\":0}"));
    assert_true(span_is(member(root, "result"), "null"));
    assert_true(span_is(member(root, "idempotency_key"), "null"));
    assert_true(span_is(member(root, "started_at"), "null"));
    assert_true(span_is(member(root, "manifest"), "null"));
    buf_fini(&out);
}

static void error_without_details_is_short(void **state)
{
    (void)state;
    const struct outcome_error error = {.code = CODE_CANCELLED,
        .class = FAULT_PERMANENT,
        .pointer = "",
        .retry_after_s = -1};
    struct buf out;
    buf_init(&out, 4096);
    outcome_put_error(&out, &error);
    assert_string_equal(buf_str(&out),
        "{\"code\":\"CANCELLED\",\"class\":\"permanent\","
        "\"message\":\"cancelled by request\"}");
    buf_fini(&out);
}

struct row {
    struct span body;
    bool is_cut;
    const char *result;
};

static void results_are_json_or_text_or_base64(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {{"1e400", 5}, false, "1e400"},
        {{" null ", 6}, false, " null "},
        {{"", 0}, false, "\"\""},
        {{"{\"a\":", 5}, false, "\"{\\\"a\\\":\""},
        {{"{\"a\":1,\"a\":2}", 13}, false, "\"{\\\"a\\\":1,\\\"a\\\":2}\""},
        {{"caf\xC3\xA9\0", 6}, false, "\"caf\xC3\xA9\\u0000\""},
        {{"\xFF\x00", 2}, false, "{\"base64\":\"/wA=\"}"},
        {{"123", 3}, true, "\"123\""},
        {{"caf\xC3", 4}, true, "\"caf\""},
        {{"\xF0\x9F\x9A", 3}, true, "\"\""},
        {{"caf\xC3\xA9", 5}, true, "\"caf\xC3\xA9\""},
        {{"\xA9\xA9\xA9\xA9", 4}, true, "{\"base64\":\"qampqQ==\"}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome outcome = sample();
        outcome.result = rows[i].body;
        outcome.is_result_cut = rows[i].is_cut;
        outcome.result_bytes = rows[i].is_cut ? 5000000 : 0;
        struct buf out;
        buf_init(&out, OUTCOME_MAX_BYTES);
        outcome_put(&out, &outcome);
        if (strstr(buf_str(&out), rows[i].result) == NULL) {
            fail_msg("row %zu: %s", i, buf_str(&out));
        }
        const struct json_value root = parse(&out);
        const struct span bytes = member(root, "result_bytes");
        if (rows[i].is_cut) {
            assert_true(span_is(bytes, "5000000"));
            assert_true(span_is(member(root, "result_truncated"), "true"));
        } else {
            assert_null(bytes.ptr);
        }
        buf_fini(&out);
    }
}

static void check_fits(const char *pattern, size_t size, bool wants_cut)
{
    const size_t step = strlen(pattern);
    char *body = malloc(size);
    assert_non_null(body);
    for (size_t i = 0; i < size; i++) {
        body[i] = pattern[i % step];
    }
    struct outcome outcome = sample();
    outcome.result = (struct span){.ptr = body, .len = size};
    struct buf out;
    buf_init(&out, OUTCOME_MAX_BYTES);
    outcome_put(&out, &outcome);
    assert_false(out.is_overflowed);
    const struct json_value root = parse(&out);
    const struct span bytes = member(root, "result_bytes");
    assert_int_equal(bytes.ptr != NULL, wants_cut);
    int64_t whole = 0;
    if (wants_cut) {
        assert_true(span_to_int(bytes, &whole));
        assert_int_equal(whole, size);
    }
    buf_fini(&out);
    free(body);
}

static void document_always_fits(void **state)
{
    (void)state;
    check_fits("x", OUTCOME_MAX_RESULT, false);
    check_fits("x", OUTCOME_MAX_RESULT + 1, true);
    check_fits("\x01", OUTCOME_MAX_RESULT, true);
    check_fits("\xC3\xA9", 2 * OUTCOME_MAX_RESULT, true);
    check_fits("\xFF", OUTCOME_MAX_RESULT, false);
    check_fits("\xFF", OUTCOME_MAX_RESULT + 7, true);
}

static void cut_form_keeps_all_but_the_result(void **state)
{
    (void)state;
    struct outcome outcome = sample();
    outcome.result = SPAN_LIT("[1,2,3]");
    struct buf whole;
    struct buf cut;
    struct buf again;
    buf_init(&whole, OUTCOME_MAX_BYTES);
    buf_init(&cut, OUTCOME_MAX_BYTES);
    buf_init(&again, OUTCOME_MAX_BYTES);
    outcome_put(&whole, &outcome);
    outcome_put_cut(&cut, buf_span(&whole));
    const struct json_value root = parse(&cut);
    assert_true(span_is(member(root, "result"), "null"));
    assert_true(span_is(member(root, "result_truncated"), "true"));
    assert_true(span_is(member(root, "result_bytes"), "7"));
    assert_true(span_is(member(root, "status"), "\"succeeded\""));
    assert_true(span_is(member(root, "replay_of"), "null"));
    outcome_put_cut(&again, buf_span(&cut));
    assert_string_equal(buf_str(&again), buf_str(&cut));
    buf_fini(&whole);
    buf_fini(&cut);
    buf_fini(&again);
}

/* What a member of a text takes most room of: each byte becomes six. */
static const char *fattest(char *text, size_t size)
{
    memset(text, 1, size - 1);
    text[size - 1] = '\0';
    return text;
}

static void cut_form_of_the_fattest_outcome_fits(void **state)
{
    /* The relay refuses a topic that takes less than 16 KiB; headers and the
     * record's own overhead are well below 1 KiB. */
    enum { ROOM = (16 - 1) << 10, NAME = 63 };
    char name[NAME + 1];
    char key[RECORD_MAX_KEY + 1];
    char message[4096];
    char pointer[sizeof(((struct fault *)NULL)->pointer)];
    (void)state;
    memset(name, 'n', NAME);
    name[NAME] = '\0';
    const int64_t most = INT64_MAX;
    const struct outcome outcome = {.id = id,
        .tenant = name,
        .connector = name,
        .action = name,
        .key = fattest(key, sizeof(key)),
        .status = STATUS_INDETERMINATE,
        .attempts = INT32_MAX,
        .result = SPAN_LIT("[1]"),
        .is_result_cut = true,
        .result_bytes = most,
        .error = {.code = CODE_IDEMPOTENCY_CONFLICT,
            .class = FAULT_UNKNOWN,
            .message = fattest(message, sizeof(message)),
            .pointer = fattest(pointer, sizeof(pointer)),
            .http_status = 599,
            .retry_after_s = most},
        .started_at_us = 1796000000000000,
        .finished_at_us = 1796000000123456,
        .wall_ms = most,
        .cpu_ms = most,
        .memory_peak_bytes = most,
        .egress_bytes = most,
        .manifest = digest};
    struct buf whole;
    struct buf cut;
    buf_init(&whole, OUTCOME_MAX_BYTES);
    buf_init(&cut, OUTCOME_MAX_BYTES);
    outcome_put(&whole, &outcome);
    outcome_put_cut(&cut, buf_span(&whole));
    (void)parse(&cut);
    assert_in_range(cut.len, 6 * (RECORD_MAX_KEY + sizeof(pointer)), ROOM);
    buf_fini(&whole);
    buf_fini(&cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(success_has_the_documented_form),
        cmocka_unit_test(failure_has_an_error),
        cmocka_unit_test(error_without_details_is_short),
        cmocka_unit_test(results_are_json_or_text_or_base64),
        cmocka_unit_test(document_always_fits),
        cmocka_unit_test(cut_form_keeps_all_but_the_result),
        cmocka_unit_test(cut_form_of_the_fattest_outcome_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
