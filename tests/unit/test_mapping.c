/* SPDX-License-Identifier: Apache-2.0 */
/* From a captured webhook to a request: reading back, view, type, mapping. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/time.h"
#include "schema/mapping.h"
#include "schema/signature.h"
#include "schema/webhook_view.h"

/* A delivery as the door captures it, then read back. */
struct fixture {
    struct buf text;
    struct webhook_capture capture;
    struct fault fault;
    struct buf type;
    struct buf request;
};

static void capture(struct fixture *f, const char *scheme, const char *sender,
    const char *headers, struct span body)
{
    const struct webhook webhook = {.id = {7, [15] = 9},
        .tenant = SPAN_LIT("acme"),
        .source = SPAN_LIT("shop"),
        .sender_id = span_of(sender),
        .received_us = 1796000000 * US_PER_S,
        .verdict = WEBHOOK_VERIFIED,
        .reason = "",
        .scheme = scheme,
        .secret_no = 2,
        .method = "POST",
        .headers = span_of(headers),
        .body = body};
    f->fault = (struct fault)FAULT_INIT;
    buf_init(&f->text, WEBHOOK_MAX_RECORD);
    buf_init(&f->type, WEBHOOK_MAX_TYPE);
    buf_init(&f->request, RECORD_MAX_KAFKA_BYTES);
    webhook_put(&f->text, &webhook);
    if (webhook_capture_parse(&f->capture, buf_span(&f->text), SPAN_LIT("acme"),
            &f->fault) != 0) {
        fail_msg("%s: %s", f->fault.pointer, f->fault.detail);
    }
}

static void release(struct fixture *f)
{
    webhook_capture_fini(&f->capture);
    buf_fini(&f->text);
    buf_fini(&f->type);
    buf_fini(&f->request);
}

static enum webhook_decision apply(struct fixture *f, const char *text)
{
    struct fault fault = FAULT_INIT;
    struct mapping *mapping = mapping_load(span_of(text), &fault);
    if (mapping == NULL) {
        fail_msg("%s: %s", fault.pointer, fault.detail);
    }
    buf_clear(&f->type);
    buf_clear(&f->request);
    const enum webhook_decision decision =
        mapping_apply(mapping, &f->capture, &f->type, &f->request, &f->fault);
    mapping_free(mapping);
    return decision;
}

/* -- reading back -------------------------------------------------------------- */

static void a_capture_is_read_back_as_it_was(void **state)
{
    (void)state;
    struct fixture f;
    struct buf header;
    capture(&f, "github", "d \"1\"\xc3\xa9", "[\"A\",\"1\"],[\"a\",\"2\"]",
        (struct span){"a\0b\xff", 4});
    assert_true(f.capture.has_sender_id);
    assert_string_equal(buf_str(&f.capture.sender_id), "d \"1\"\xc3\xa9");
    assert_int_equal(f.capture.id[0], 7);
    assert_string_equal(f.capture.source, "shop");
    assert_int_equal(f.capture.secret_no, 2);
    assert_int_equal(f.capture.received_us, 1796000000 * US_PER_S);
    assert_true(
        span_equal(buf_span(&f.capture.body), (struct span){"a\0b\xff", 4}));
    assert_false(f.capture.is_replay);
    buf_init(&header, 100);
    assert_true(webhook_capture_header(&f.capture, "a", &header));
    assert_string_equal(buf_str(&header), "1");
    assert_false(webhook_capture_header(&f.capture, "b", &header));
    buf_fini(&header);
    release(&f);
}

static const struct {
    const char *name;
    const char *from;
    const char *to;
    const char *pointer;
} WRONG[] = {
    {"spec", "actionist/1", "actionist/2", "/spec"},
    {"id", "07000000-", "0700000-", "/id"},
    {"tenant", "\"acme\"", "\"Acme\"", "/tenant"},
    {"another tenant", "\"acme\"", "\"acm\"", "/tenant"},
    {"sender_id", "\"d-1\"", "7", "/sender_id"},
    {"control", "\"d-1\"", "\"\\u0000\"", "/sender_id"},
    {"time", "2026-", "202-", "/received_at"},
    {"verdict", "verified", "trusted", "/verdict"},
    {"secret", "\"secret_no\":2", "\"secret_no\":0", "/secret_no"},
    {"headers", "[\"A\",\"1\"]", "[\"A\"]", "/headers"},
    {"body", "\"e30=\"", "\"e30\"", "/body"},
    {"no body", "\"body\"", "\"bod\"", "/body"},
    {"json", "{", "", ""},
};

static void what_is_no_capture_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    capture(&f, "github", "d-1", "[\"A\",\"1\"]", SPAN_LIT("{}"));
    for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
        struct buf text;
        struct webhook_capture other;
        struct fault fault = FAULT_INIT;
        const char *whole = buf_str(&f.text);
        const char *at = strstr(whole, WRONG[i].from);
        assert_non_null(at);
        buf_init(&text, WEBHOOK_MAX_RECORD);
        buf_put(&text, whole, (size_t)(at - whole));
        buf_put_str(&text, WRONG[i].to);
        buf_put_str(&text, at + strlen(WRONG[i].from));
        if (webhook_capture_parse(
                &other, buf_span(&text), SPAN_LIT("acme"), &fault) == 0 ||
            strcmp(fault.pointer, WRONG[i].pointer) != 0) {
            fail_msg("%s: %s %s", WRONG[i].name, fault.pointer, fault.detail);
        }
        webhook_capture_fini(&other);
        buf_fini(&text);
    }
    release(&f);
}

/* -- what templates see -------------------------------------------------------- */

#define BYTES(text)                                                            \
    {                                                                          \
        (text), sizeof(text) - 1                                               \
    }

static const struct {
    const char *headers;
    struct span body;
    const char *seen; /* as "body" */
} BODIES[] = {
    {"", BYTES(" {\"n\": 1.50}\n"), "{\"n\": 1.50}"},
    {"", BYTES("[1]"), "[1]"},
    {"", BYTES(""), "\"\""},
    {"", BYTES("{\"a\":1,\"a\":2}"), "\"{\\\"a\\\":1,\\\"a\\\":2}\""},
    {"", BYTES("a=1"), "\"a=1\""},
    {"", {"\xff\0", 2}, "{\"base64\":\"/wA=\"}"},
    {"[\"content-type\",\"Application/x-www-form-urlencoded;charset=x\"]",
        BYTES("a=1+%C3%A9&a=2&b"), "{\"a\":\"1 \xc3\xa9\",\"b\":\"\"}"},
    {"[\"content-type\",\"application/x-www-form-urlencoded\"]", BYTES("%ff=1"),
        "\"%ff=1\""},
};

static void body_is_seen_as_what_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(BODIES); i++) {
        struct fixture f;
        struct buf view;
        struct buf wanted;
        capture(&f, "github", NULL, BODIES[i].headers, BODIES[i].body);
        buf_init(&view, WEBHOOK_VIEW_MAX);
        buf_init(&wanted, WEBHOOK_VIEW_MAX);
        webhook_view_put(&view, &f.capture, SPAN_LIT(""));
        buf_printf(&wanted, "{\"body\":%s,\"headers\":", BODIES[i].seen);
        assert_true(strncmp(buf_str(&view), buf_str(&wanted), wanted.len) == 0);
        buf_fini(&view);
        buf_fini(&wanted);
        release(&f);
    }
}

static void the_first_of_a_header_is_seen_in_lower_case(void **state)
{
    (void)state;
    struct fixture f;
    struct buf view;
    capture(&f, "github", "d-1", "[\"X-A\",\"1\"],[\"x-a\",\"2\"],[\"B\",\"\"]",
        SPAN_LIT("{}"));
    buf_init(&view, WEBHOOK_VIEW_MAX);
    webhook_view_put(&view, &f.capture, SPAN_LIT("t"));
    assert_string_equal(buf_str(&view),
        "{\"body\":{},\"headers\":{\"x-a\":\"1\",\"b\":\"\"},\"webhook\":{"
        "\"id\":\"07000000-0000-0000-0000-000000000009\",\"tenant\":\"acme\","
        "\"source\":\"shop\",\"sender_id\":\"d-1\",\"type\":\"t\","
        "\"method\":\"POST\",\"received_at\":\"2026-11-30T00:53:20.000000Z\"}"
        "}");
    buf_fini(&view);
    release(&f);
}

static void each_scheme_tells_its_type_or_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIGNATURE_SCHEME_COUNT; i++) {
        const struct signature_scheme *scheme = &SIGNATURE_SCHEMES[i];
        struct fixture f;
        struct buf headers;
        buf_init(&headers, 1000);
        webhook_put_header(&headers,
            scheme->type_header == NULL ? "X" : scheme->type_header, "t.1");
        capture(&f, scheme->name, NULL, buf_str(&headers),
            SPAN_LIT("{\"type\":\"t.1\",\"object\":\"t.1\",\"event_type\":"
                     "\"t.1\"}"));
        const bool is_told = webhook_capture_type(&f.capture, &f.type);
        const bool is_here =
            scheme->type_header != NULL ||
            (scheme->type_pointer != NULL &&
                strchr(scheme->type_pointer + 1, '/') == NULL &&
                strcmp(scheme->type_pointer, "/event") != 0);
        assert_int_equal(is_told, is_here);
        assert_string_equal(buf_str(&f.type), is_here ? "t.1" : "");
        buf_fini(&headers);
        release(&f);
    }
}

/* -- mappings ------------------------------------------------------------------ */

#define TO "{\"connector\":\"c\",\"action\":\"a\""

static void values_pass_byte_for_byte(void **state)
{
    (void)state;
    struct fixture f;
    capture(&f, "stripe", "evt_1", "[\"User-Agent\",\"U/1\"]",
        SPAN_LIT(
            "{\"type\":\"t\",\"n\":1.50e0,\"o\":{\"a/b\":[\"\\u00e9\"]}}"));
    assert_int_equal(
        apply(&f, TO ",\"payload\":{\"n\":\"{{ body.n }}\","
                     "\"s\":\"{{body.o.a/b.0}}\",\"t\":\"{{webhook.type}}/{{"
                     "headers.user-agent}}\",\"all\":\"{{body.o}}\"}}"),
        WEBHOOK_MAPPED);
    assert_string_equal(buf_str(&f.request),
        "{\"spec\":\"actionist/1\",\"tenant\":\"acme\",\"connector\":\"c\","
        "\"action\":\"a\",\"idempotency_key\":\"webhook:shop:evt_1\","
        "\"payload\":{\"n\":1.50e0,\"s\":\"\\u00e9\",\"t\":\"t/U/1\","
        "\"all\":{\"a/b\":[\"\\u00e9\"]}}}");
    assert_int_equal(apply(&f, TO "}"), WEBHOOK_MAPPED);
    assert_non_null(strstr(buf_str(&f.request), "\"payload\":{\"type\":\"t\""));
    release(&f);
}

static const struct {
    const char *types;
    enum webhook_decision decision;
} FILTERS[] = {
    {"[\"invoice.paid\"]", WEBHOOK_MAPPED},
    {"[\"x\",\"invoice.*\"]", WEBHOOK_MAPPED},
    {"[\"*\"]", WEBHOOK_MAPPED},
    {"[\"invoice\"]", WEBHOOK_FILTERED},
    {"[\"invoice.paid.*\"]", WEBHOOK_FILTERED},
    {"[\"Invoice.paid\"]", WEBHOOK_FILTERED},
};

static void types_are_filtered(void **state)
{
    (void)state;
    struct fixture f;
    capture(&f, "stripe", "e", "",
        SPAN_LIT("{\"type\":\"invoice.paid\",\"kind\":\"k\",\"bad\":\"\\n\"}"));
    for (size_t i = 0; i < ARRAY_LEN(FILTERS); i++) {
        struct buf text;
        buf_init(&text, 1000);
        buf_printf(&text, TO ",\"types\":%s}", FILTERS[i].types);
        assert_int_equal(apply(&f, buf_str(&text)), FILTERS[i].decision);
        buf_fini(&text);
    }
    assert_int_equal(
        apply(&f, TO ",\"type\":\"{{body.kind}}\",\"types\":[\"k\"]}"),
        WEBHOOK_MAPPED);
    assert_string_equal(buf_str(&f.type), "k");
    assert_int_equal(
        apply(&f, TO ",\"type\":\"{{body.bad}}\"}"), WEBHOOK_FAILED);
    assert_string_equal(f.fault.pointer, "/webhook/type");
    release(&f);
    capture(&f, "github", "e", "", SPAN_LIT("{}"));
    assert_int_equal(apply(&f, TO ",\"types\":[\"k\"]}"), WEBHOOK_FILTERED);
    release(&f);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    struct fixture f;
    capture(&f, "github", "e", "", SPAN_LIT("{\"a\":{}}"));
    assert_int_equal(
        apply(&f, TO ",\"payload\":\"{{body.a.b}}\"}"), WEBHOOK_FAILED);
    assert_int_equal(f.fault.code, CODE_TEMPLATE_INVALID);
    assert_string_equal(f.fault.pointer, "/body/a/b");
    assert_int_equal(
        apply(&f, TO ",\"payload\":[\"x{{headers.y}}\"]}"), WEBHOOK_FAILED);
    assert_string_equal(f.fault.pointer, "/headers/y");
    release(&f);
}

static void a_payload_that_is_too_large_fails(void **state)
{
    (void)state;
    static char body[WEBHOOK_MAX_BODY];
    struct fixture f;
    memset(body, '"', sizeof(body)); /* no JSON; twice as long when escaped */
    capture(&f, "github", "e", "", (struct span){body, sizeof(body)});
    assert_int_equal(apply(&f, TO "}"), WEBHOOK_FAILED);
    assert_int_equal(f.fault.code, CODE_TOO_LARGE);
    release(&f);
}

static const struct {
    const char *sender;
    const char *key;
} KEYS[] = {
    {"d-1", "webhook:shop:d-1"},
    {NULL, "webhook:shop:07000000-0000-0000-0000-000000000009"},
    {"a b", "webhook:shop:07000000-0000-0000-0000-000000000009"},
    {"\xc3\xa9", "webhook:shop:07000000-0000-0000-0000-000000000009"},
};

static void key_is_of_the_senders_id_where_it_can_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        struct fixture f;
        capture(&f, "github", KEYS[i].sender, "", SPAN_LIT("{}"));
        assert_int_equal(apply(&f, TO "}"), WEBHOOK_MAPPED);
        assert_non_null(strstr(buf_str(&f.request), KEYS[i].key));
        release(&f);
    }
    struct fixture f;
    char sender[SIGNATURE_MAX_ID + 1];
    memset(sender, 'x', SIGNATURE_MAX_ID);
    sender[SIGNATURE_MAX_ID] = '\0';
    capture(&f, "github", sender, "", SPAN_LIT("{}"));
    assert_int_equal(apply(&f, TO "}"), WEBHOOK_MAPPED);
    assert_non_null(strstr(buf_str(&f.request), KEYS[1].key));
    release(&f);
}

static void repeats_are_told_by_the_body(void **state)
{
    (void)state;
    uint8_t prints[3][FINGERPRINT_SIZE];
    const struct span bodies[] = {
        SPAN_LIT("{}"), SPAN_LIT("{}"), SPAN_LIT("{ }")};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct fixture f;
        capture(&f, i == 0 ? "github" : "slack", "e", "", bodies[i]);
        mapping_fingerprint(&f.capture, prints[i]);
        release(&f);
    }
    assert_int_equal(prints[0][0], 1);
    assert_memory_equal(prints[0], prints[1], FINGERPRINT_SIZE);
    assert_memory_not_equal(prints[0], prints[2], FINGERPRINT_SIZE);
}

static const struct {
    const char *text;
    const char *pointer;
} UNFIT[] = {
    {"[]", ""},
    {"{", ""},
    {"{\"action\":\"a\"}", "/connector"},
    {"{\"connector\":\"c\",\"action\":\"\"}", "/action"},
    {TO ",\"x/y\":1}", "/x~1y"},
    {TO ",\"payload\":\"{{payload}}\"}", "/payload"},
    {TO ",\"payload\":{\"{{body}}\":1}}", "/payload"},
    {TO ",\"payload\":\"{{bodyx}}\"}", "/payload"},
    {TO ",\"payload\":\"{{body.}}\"}", "/payload"},
    {TO ",\"payload\":\"{{action.id}}\"}", "/payload"},
    {TO ",\"types\":\"x\"}", "/types"},
    {TO ",\"types\":[\"\"]}", "/types"},
    {TO ",\"type\":7}", "/type"},
};

static void unfit_mappings_do_not_load(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(UNFIT); i++) {
        struct fault fault = FAULT_INIT;
        assert_null(mapping_load(span_of(UNFIT[i].text), &fault));
        assert_string_equal(fault.pointer, UNFIT[i].pointer);
        assert_true(fault.code != CODE_NONE);
    }
}

static void names_of_verdicts_and_decisions_are_read_back(void **state)
{
    (void)state;
    for (int i = WEBHOOK_VERIFIED; i <= WEBHOOK_REJECTED; i++) {
        enum webhook_verdict verdict;
        assert_true(webhook_verdict_parse(
            span_of(webhook_verdict_name((enum webhook_verdict)i)), &verdict));
        assert_int_equal(verdict, i);
    }
    for (int i = WEBHOOK_UNMAPPED; i <= WEBHOOK_HELD; i++) {
        enum webhook_decision decision;
        assert_true(webhook_decision_parse(
            span_of(webhook_decision_name((enum webhook_decision)i)),
            &decision));
        assert_int_equal(decision, i);
    }
    enum webhook_decision decision;
    assert_false(webhook_decision_parse(SPAN_LIT("run"), &decision));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capture_is_read_back_as_it_was),
        cmocka_unit_test(what_is_no_capture_is_refused),
        cmocka_unit_test(body_is_seen_as_what_it_is),
        cmocka_unit_test(the_first_of_a_header_is_seen_in_lower_case),
        cmocka_unit_test(each_scheme_tells_its_type_or_none),
        cmocka_unit_test(values_pass_byte_for_byte),
        cmocka_unit_test(types_are_filtered),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(a_payload_that_is_too_large_fails),
        cmocka_unit_test(key_is_of_the_senders_id_where_it_can_be),
        cmocka_unit_test(repeats_are_told_by_the_body),
        cmocka_unit_test(unfit_mappings_do_not_load),
        cmocka_unit_test(names_of_verdicts_and_decisions_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
