/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schema/record.h"

#define HEAD                                                                   \
    "\"spec\":\"actionist/1\",\"tenant\":\"acme\",\"connector\":\"billing\","  \
    "\"action\":\"charge.create\""

static const struct record_source kafka = {.door = RECORD_DOOR_KAFKA,
    .tenant = {.ptr = "acme", .len = 4},
    .has_tenant = true,
    .topic = "actionist.actions",
    .partition = 3,
    .offset = 42};

static const struct record_source http = {
    .door = RECORD_DOOR_HTTP, .tenant = {.ptr = "acme", .len = 4}};

struct row {
    const char *name;
    const char *text;
    enum record_verdict verdict;
    enum code code;
    const char *pointer;
};

static void check_rows(
    const struct row *rows, size_t count, const struct record_source *source)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        struct record record;
        struct fault fault = FAULT_INIT;
        const enum record_verdict verdict =
            record_parse(span_of(row->text), source, &record, &fault);
        if (verdict != row->verdict || fault.code != row->code ||
            strcmp(fault.pointer, row->pointer) != 0) {
            fail_msg("%s: verdict %d, code %s, pointer %s, detail %s",
                row->name, (int)verdict, code_name(fault.code), fault.pointer,
                fault.detail);
        }
        if (row->code != CODE_NONE && fault.detail[0] == '\0') {
            fail_msg("%s: no detail", row->name);
        }
    }
}

#define OK RECORD_OK, CODE_NONE, ""
#define UNREADABLE(code, pointer) RECORD_UNREADABLE, CODE_##code, pointer
#define REJECTED(code, pointer) RECORD_REJECTED, CODE_##code, pointer

static const struct row kafka_rows[] = {
    {"smallest", "{" HEAD "}", OK},
    {"minor",
        "{\"spec\":\"actionist/1.7\",\"tenant\":\"acme\","
        "\"connector\":\"a\",\"action\":\"b\",\"new\":[]}",
        OK},
    {"all",
        "{" HEAD ",\"idempotency_key\":\"k\",\"payload\":{\"a\":1},"
        "\"not_before\":\"2026-12-01T08:00:00Z\","
        "\"deadline\":\"2026-12-01T09:00:00+00:30\","
        "\"priority\":9,\"max_attempts\":100,\"dry_run\":false}",
        OK},
    {"escaped names",
        "{\"sp\\u0065c\":\"actionist\\/1\","
        "\"tenant\":\"acm\\u0065\",\"connector\":\"a\","
        "\"action\":\"b\"}",
        OK},
    {"open brace", "{", UNREADABLE(MALFORMED_JSON, "")},
    {"empty", "", UNREADABLE(MALFORMED_JSON, "")},
    {"array", "[]", UNREADABLE(MALFORMED_JSON, "")},
    {"two values", "{" HEAD "}{}", UNREADABLE(MALFORMED_JSON, "")},
    {"bad byte", "{" HEAD ",\"x\":\"\xFF\"}", UNREADABLE(MALFORMED_JSON, "")},
    {"duplicate", "{" HEAD ",\"payload\":{\"a\":1,\"\\u0061\":2}}",
        UNREADABLE(DUPLICATE_MEMBER, "")},
    {"no spec", "{\"tenant\":\"acme\"}", UNREADABLE(UNSUPPORTED_SPEC, "/spec")},
    {"major 2", "{\"spec\":\"actionist/2\"}",
        UNREADABLE(UNSUPPORTED_SPEC, "/spec")},
    {"major 10", "{\"spec\":\"actionist/10\"}",
        UNREADABLE(UNSUPPORTED_SPEC, "/spec")},
    {"empty minor", "{\"spec\":\"actionist/1.\"}",
        UNREADABLE(UNSUPPORTED_SPEC, "/spec")},
    {"spec type", "{\"spec\":1}", UNREADABLE(UNSUPPORTED_SPEC, "/spec")},
    {"no tenant", "{\"spec\":\"actionist/1\"}",
        UNREADABLE(INVALID_TENANT, "/tenant")},
    {"tenant case", "{\"spec\":\"actionist/1\",\"tenant\":\"Acme\"}",
        UNREADABLE(INVALID_TENANT, "/tenant")},
    {"tenant with NUL", "{\"spec\":\"actionist/1\",\"tenant\":\"acme\\u0000\"}",
        UNREADABLE(INVALID_TENANT, "/tenant")},
    {"other tenant", "{\"spec\":\"actionist/1\",\"tenant\":\"acme2\"}",
        UNREADABLE(KEY_MISMATCH, "")},
    {"no connector", "{\"spec\":\"actionist/1\",\"tenant\":\"acme\"}",
        UNREADABLE(INVALID_CONNECTOR, "/connector")},
    {"connector path",
        "{\"spec\":\"actionist/1\",\"tenant\":\"acme\","
        "\"connector\":\"../x\"}",
        UNREADABLE(INVALID_CONNECTOR, "/connector")},
    {"action type",
        "{\"spec\":\"actionist/1\",\"tenant\":\"acme\","
        "\"connector\":\"x\",\"action\":[]}",
        UNREADABLE(INVALID_ACTION, "/action")},
    {"empty key", "{" HEAD ",\"idempotency_key\":\"\"}",
        REJECTED(INVALID_KEY, "/idempotency_key")},
    {"null key", "{" HEAD ",\"idempotency_key\":null}",
        REJECTED(INVALID_KEY, "/idempotency_key")},
    {"key with space", "{" HEAD ",\"idempotency_key\":\"k \"}",
        REJECTED(INVALID_KEY, "/idempotency_key")},
    {"key with letter", "{" HEAD ",\"idempotency_key\":\"k\\u00e9\"}",
        REJECTED(INVALID_KEY, "/idempotency_key")},
    {"key with NUL", "{" HEAD ",\"idempotency_key\":\"k\\u0000\"}",
        REJECTED(INVALID_KEY, "/idempotency_key")},
    {"no zone", "{" HEAD ",\"not_before\":\"2026-12-01T08:00:00\"}",
        REJECTED(INVALID_TIME, "/not_before")},
    {"time number", "{" HEAD ",\"deadline\":1796000000}",
        REJECTED(INVALID_TIME, "/deadline")},
    {"deadline first",
        "{" HEAD ",\"not_before\":\"2026-12-01T08:00:00Z\","
        "\"deadline\":\"2026-12-01T09:00:00+01:00\"}",
        REJECTED(INVALID_TIME, "/deadline")},
    {"priority 10", "{" HEAD ",\"priority\":10}",
        REJECTED(INVALID_MEMBER, "/priority")},
    {"priority text", "{" HEAD ",\"priority\":\"5\"}",
        REJECTED(INVALID_MEMBER, "/priority")},
    {"no attempts", "{" HEAD ",\"max_attempts\":0}",
        REJECTED(INVALID_MEMBER, "/max_attempts")},
    {"101 attempts", "{" HEAD ",\"max_attempts\":101}",
        REJECTED(INVALID_MEMBER, "/max_attempts")},
    {"dry run", "{" HEAD ",\"dry_run\":true}",
        REJECTED(UNSUPPORTED, "/dry_run")},
    {"dry run text", "{" HEAD ",\"dry_run\":\"no\"}",
        REJECTED(INVALID_MEMBER, "/dry_run")},
};

static void kafka_door_judges_each_member(void **state)
{
    (void)state;
    check_rows(kafka_rows, ARRAY_LEN(kafka_rows), &kafka);
}

static void http_door_judges_each_member(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"smallest",
            "{\"connector\":\"a\",\"action\":\"b\","
            "\"idempotency_key\":\"k\"}",
            OK},
        {"own tenant", "{" HEAD ",\"idempotency_key\":\"k\"}", OK},
        {"other tenant", "{\"tenant\":\"other\"}",
            UNREADABLE(TENANT_MISMATCH, "/tenant")},
        {"tenant type", "{\"tenant\":7}",
            UNREADABLE(INVALID_TENANT, "/tenant")},
        {"bad spec", "{\"spec\":\"x\"}", UNREADABLE(UNSUPPORTED_SPEC, "/spec")},
        {"no key", "{" HEAD "}", REJECTED(MISSING_KEY, "/idempotency_key")},
    };
    check_rows(rows, ARRAY_LEN(rows), &http);
}

static void record_key_must_be_the_tenant(void **state)
{
    (void)state;
    struct record_source source = kafka;
    struct record record;
    struct fault fault = FAULT_INIT;
    source.has_tenant = false;
    assert_int_equal(
        record_parse(SPAN_LIT("{" HEAD "}"), &source, &record, &fault),
        RECORD_UNREADABLE);
    assert_int_equal(fault.code, CODE_KEY_MISMATCH);
}

static void tombstone_has_its_own_code(void **state)
{
    (void)state;
    struct record record;
    struct fault fault = FAULT_INIT;
    assert_int_equal(record_parse((struct span){0}, &kafka, &record, &fault),
        RECORD_UNREADABLE);
    assert_int_equal(fault.code, CODE_NULL_VALUE);
    assert_int_equal(record_parse((struct span){0}, &http, &record, &fault),
        RECORD_UNREADABLE);
    assert_int_equal(fault.code, CODE_MALFORMED_JSON);
}

struct header_row {
    const char *header;
    const char *key; /* NULL: refused */
};

static void key_header_is_bare_or_quoted(void **state)
{
    (void)state;
    static const struct header_row rows[] = {
        {"\"8e03978e-40d5-43e8-bc93-6894a57f9324\"",
            "8e03978e-40d5-43e8-bc93-6894a57f9324"},
        {" \tk1 ", "k1"},
        {"\"a\\\"b\\\\c\"", "a\"b\\c"},
        {"a\"b", "a\"b"},
        {"", NULL},
        {"\"\"", NULL},
        {"\"", NULL},
        {"\"a\" ;x", NULL},
        {"\"a\\n\"", NULL},
        {"\"a b\"", NULL},
        {"a b", NULL},
        {"k\xC3\xA9", NULL},
        {"k\x7F", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record_source source = http;
        source.has_key = true;
        source.key = span_of(rows[i].header);
        struct record record;
        struct fault fault = FAULT_INIT;
        const enum record_verdict verdict =
            record_parse(SPAN_LIT("{" HEAD "}"), &source, &record, &fault);
        if (rows[i].key == NULL) {
            assert_int_equal(verdict, RECORD_REJECTED);
            assert_int_equal(fault.code, CODE_INVALID_KEY);
            assert_string_equal(record.key, "");
        } else {
            assert_int_equal(verdict, RECORD_OK);
            assert_string_equal(record.key, rows[i].key);
        }
    }
}

static void key_header_and_member_must_agree(void **state)
{
    (void)state;
    struct record_source source = http;
    source.has_key = true;
    source.key = SPAN_LIT("k1");
    struct record record;
    struct fault fault = FAULT_INIT;
    const struct span same = SPAN_LIT("{" HEAD ",\"idempotency_key\":\"k1\"}");
    const struct span other = SPAN_LIT("{" HEAD ",\"idempotency_key\":\"k2\"}");
    assert_int_equal(record_parse(same, &source, &record, &fault), RECORD_OK);
    assert_int_equal(
        record_parse(other, &source, &record, &fault), RECORD_REJECTED);
    assert_int_equal(fault.code, CODE_INVALID_KEY);
    assert_string_equal(fault.pointer, "/idempotency_key");
}

static void key_has_at_most_255_bytes(void **state)
{
    (void)state;
    char key[257];
    memset(key, 'k', sizeof(key));
    assert_true(key_is_valid((struct span){.ptr = key, .len = 255}));
    assert_false(key_is_valid((struct span){.ptr = key, .len = 256}));
    assert_true(name_is_valid((struct span){.ptr = key, .len = 63}));
    assert_false(name_is_valid((struct span){.ptr = key, .len = 64}));
}

static struct record parse_ok(const char *text)
{
    struct record record;
    struct fault fault = FAULT_INIT;
    assert_int_equal(
        record_parse(span_of(text), &kafka, &record, &fault), RECORD_OK);
    return record;
}

static void same_content_has_same_fingerprint(void **state)
{
    (void)state;
    const struct record a =
        parse_ok("{" HEAD ",\"payload\":{\"a\":1,\"b\":\"\\u00e9\"}}");
    const struct record b =
        parse_ok("{\"payload\": { \"b\":\"\xC3\xA9\", \"\\u0061\":1 }," HEAD
                 ",\"priority\":1}");
    const struct record c =
        parse_ok("{" HEAD ",\"payload\":{\"a\":1.0,\"b\":\"\\u00e9\"}}");
    const struct record none = parse_ok("{" HEAD "}");
    const struct record null = parse_ok("{" HEAD ",\"payload\":null}");
    assert_int_equal(a.fingerprint[0], 1);
    assert_memory_equal(a.fingerprint, b.fingerprint, FINGERPRINT_SIZE);
    assert_memory_not_equal(a.fingerprint, c.fingerprint, FINGERPRINT_SIZE);
    assert_memory_equal(none.fingerprint, null.fingerprint, FINGERPRINT_SIZE);
}

static void id_comes_from_key_or_position(void **state)
{
    (void)state;
    const struct record a = parse_ok("{" HEAD ",\"idempotency_key\":\"k\"}");
    const struct record b =
        parse_ok("{\"idempotency_key\":\"\\u006b\"," HEAD ",\"payload\":1}");
    const struct record c = parse_ok("{" HEAD ",\"idempotency_key\":\"K\"}");
    const struct record none = parse_ok("{" HEAD "}");
    uint8_t id[UUID_SIZE];
    assert_memory_equal(a.id, b.id, UUID_SIZE);
    assert_memory_not_equal(a.id, c.id, UUID_SIZE);
    record_id_of_key(span_of("acme"), span_of("billing"), span_of("k"), id);
    assert_memory_equal(a.id, id, UUID_SIZE);
    record_id_of_source("actionist.actions", 3, 42, id);
    assert_memory_equal(none.id, id, UUID_SIZE);
    record_id_of_source("actionist.actions", 34, 2, id);
    assert_memory_not_equal(none.id, id, UUID_SIZE);
}

static void rejected_record_keeps_its_id(void **state)
{
    (void)state;
    struct record record;
    struct fault fault = FAULT_INIT;
    uint8_t id[UUID_SIZE];
    assert_int_equal(
        record_parse(SPAN_LIT("{" HEAD ",\"idempotency_key\":\"k\","
                              "\"priority\":77}"),
            &kafka, &record, &fault),
        RECORD_REJECTED);
    record_id_of_key(span_of("acme"), span_of("billing"), span_of("k"), id);
    assert_memory_equal(record.id, id, UUID_SIZE);
    assert_int_equal(
        record_parse(SPAN_LIT("{" HEAD ",\"idempotency_key\":\"\"}"), &kafka,
            &record, &fault),
        RECORD_REJECTED);
    record_id_of_source("actionist.actions", 3, 42, id);
    assert_memory_equal(record.id, id, UUID_SIZE);
}

static void http_record_goes_to_kafka_with_what_was_missing(void **state)
{
    (void)state;
    static const char text[] = " { \"connector\":\"a\",\"action\":\"b\","
                               "\"payload\":{\"n\":1.10} } ";
    struct record_source source = http;
    source.has_key = true;
    source.key = SPAN_LIT("a\\\"b");
    struct record record;
    struct fault fault = FAULT_INIT;
    assert_int_equal(
        record_parse(span_of(text), &source, &record, &fault), RECORD_OK);
    struct buf out;
    buf_init(&out, 4096);
    record_put_kafka(&out, &record, span_of(text));
    assert_string_equal(buf_str(&out),
        " {\"spec\":\"actionist/1\",\"tenant\":\"acme\","
        "\"idempotency_key\":\"a\\\\\\\"b\", \"connector\":\"a\","
        "\"action\":\"b\",\"payload\":{\"n\":1.10} } ");
    struct record again;
    assert_int_equal(
        record_parse(buf_span(&out), &kafka, &again, &fault), RECORD_OK);
    assert_memory_equal(record.id, again.id, UUID_SIZE);
    assert_memory_equal(
        record.fingerprint, again.fingerprint, FINGERPRINT_SIZE);
    buf_fini(&out);
}

static enum code parse_nested(unsigned depth)
{
    struct buf text;
    buf_init(&text, 4096);
    buf_put_str(&text, "{" HEAD ",\"payload\":");
    for (unsigned i = 0; i < depth; i++) {
        buf_put_char(&text, '[');
    }
    for (unsigned i = 0; i < depth; i++) {
        buf_put_char(&text, ']');
    }
    buf_put_char(&text, '}');
    struct record record;
    struct fault fault = FAULT_INIT;
    (void)record_parse(buf_span(&text), &kafka, &record, &fault);
    buf_fini(&text);
    return fault.code;
}

static void payload_nests_64_levels(void **state)
{
    (void)state;
    assert_int_equal(parse_nested(64), CODE_NONE);
    assert_int_equal(parse_nested(65), CODE_TOO_DEEP);
}

static enum code parse_sized(
    size_t size, const struct record_source *source, bool has_key)
{
    struct buf text;
    buf_init(&text, size);
    buf_put_str(&text, "{" HEAD);
    if (has_key) {
        buf_put_str(&text, ",\"idempotency_key\":\"k\"");
    }
    buf_put_char(&text, '}');
    while (text.len < size) {
        buf_put_char(&text, ' ');
    }
    struct record record;
    struct fault fault = FAULT_INIT;
    (void)record_parse(buf_span(&text), source, &record, &fault);
    buf_fini(&text);
    return fault.code;
}

static void body_has_at_most_one_mebibyte(void **state)
{
    (void)state;
    assert_int_equal(parse_sized(RECORD_MAX_BYTES, &http, true), CODE_NONE);
    assert_int_equal(
        parse_sized(RECORD_MAX_BYTES + 1, &http, true), CODE_TOO_LARGE);
    assert_int_equal(
        parse_sized(RECORD_MAX_KAFKA_BYTES, &kafka, true), CODE_NONE);
    assert_int_equal(
        parse_sized(RECORD_MAX_KAFKA_BYTES + 1, &kafka, true), CODE_TOO_LARGE);
}

static void codes_have_names_and_texts(void **state)
{
    (void)state;
    for (int i = CODE_NONE + 1; i < CODE_COUNT; i++) {
        enum code code = CODE_NONE;
        assert_true(code_parse(span_of(code_name((enum code)i)), &code));
        assert_int_equal(code, i);
        assert_true(code_text(code)[0] != '\0');
    }
    assert_string_equal(code_name(CODE_NONE), "");
    assert_int_equal(code_http_status(CODE_IDEMPOTENCY_CONFLICT), 422);
    for (int i = 1; i <= 8; i++) {
        enum status status = STATUS_FAILED;
        assert_true(
            status_parse(span_of(status_name((enum status)i)), &status));
        assert_int_equal(status, i);
    }
    assert_null(status_name((enum status)9));
    enum effect effect = EFFECT_UNSAFE;
    assert_true(effect_parse(SPAN_LIT("keyed"), &effect));
    assert_int_equal(effect, EFFECT_KEYED);
    assert_false(effect_parse(SPAN_LIT("idempotent"), &effect));
    assert_string_equal(wait_reason_name(WAIT_NOT_BEFORE), "not_before");
    assert_string_equal(fault_class_name(FAULT_UNKNOWN), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kafka_door_judges_each_member),
        cmocka_unit_test(http_door_judges_each_member),
        cmocka_unit_test(record_key_must_be_the_tenant),
        cmocka_unit_test(tombstone_has_its_own_code),
        cmocka_unit_test(key_header_is_bare_or_quoted),
        cmocka_unit_test(key_header_and_member_must_agree),
        cmocka_unit_test(key_has_at_most_255_bytes),
        cmocka_unit_test(same_content_has_same_fingerprint),
        cmocka_unit_test(id_comes_from_key_or_position),
        cmocka_unit_test(rejected_record_keeps_its_id),
        cmocka_unit_test(http_record_goes_to_kafka_with_what_was_missing),
        cmocka_unit_test(payload_nests_64_levels),
        cmocka_unit_test(body_has_at_most_one_mebibyte),
        cmocka_unit_test(codes_have_names_and_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
