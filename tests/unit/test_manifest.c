/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "schema/manifest.h"

#define TOP                                                                    \
    "{\"manifest\":1,\"name\":\"billing\",\"version\":\"1.4.0\","              \
    "\"base_url\":\"https://API.example.com/v1/\","
#define REQUEST "\"request\":{\"method\":\"POST\",\"path\":\"/charges\"}"
#define ONE(members) TOP "\"actions\":{\"a\":{" members "}}}"

static struct manifest *load_ok(const char *text)
{
    struct fault fault = FAULT_INIT;
    struct manifest *manifest = manifest_load(span_of(text), &fault);
    if (manifest == NULL) {
        fail_msg(
            "%s %s: %s", code_name(fault.code), fault.pointer, fault.detail);
    }
    return manifest;
}

static void full_manifest_loads(void **state)
{
    (void)state;
    struct manifest *manifest = load_ok(
        TOP "\"egress\":[\"*.example.com\",\"[2001:DB8::1]:8443\"],"
            "\"actions\":{\"charge.create\":{\"idempotency\":\"keyed\","
            "\"key\":{\"header\":\"X-Key\",\"retention_s\":3600}," REQUEST
            ",\"payload\":{\"type\":\"object\"},\"timeout_ms\":2000,"
            "\"retry\":{\"max_attempts\":3},\"retry_on\":[404],"
            "\"permanent_on\":[500],\"not_applied_on\":[599],"
            "\"limited_on\":[403]},"
            "\"b\":{\"idempotency\":\"unsafe\"," REQUEST "}},"
            "\"retry\":{\"max_attempts\":9,\"base_ms\":10,\"max_ms\":20,"
            "\"reset_headers\":[{\"name\":\"X-Reset\",\"unit\":\"delta_s\"}]}"
            "}");
    assert_string_equal(manifest_name(manifest), "billing");
    assert_string_equal(manifest_version(manifest), "1.4.0");
    assert_int_equal(manifest_action_count(manifest), 2);
    size_t count = 0;
    const struct egress_rule *egress = manifest_egress(manifest, &count);
    assert_int_equal(count, 2);
    assert_string_equal(egress[0].host, "*.example.com");
    assert_int_equal(egress[0].port, 443);
    assert_string_equal(egress[1].host, "2001:db8::1");
    assert_int_equal(egress[1].port, 8443);
    const struct manifest_action *a = manifest_find(manifest, "charge.create");
    assert_ptr_equal(a, manifest_action_at(manifest, 0));
    assert_int_equal(action_effect(a), EFFECT_KEYED);
    assert_string_equal(action_key_header(a), "X-Key");
    assert_int_equal(action_key_retention_s(a), 3600);
    assert_int_equal(action_timeout_ms(a), 2000);
    assert_int_equal(action_max_attempts(a), 3);
    assert_int_equal(action_base_ms(a), 10);
    assert_int_equal(action_max_ms(a), 20);
    assert_int_equal(action_status_move(a, 404), MOVE_RETRY);
    assert_int_equal(action_status_move(a, 500), MOVE_PERMANENT);
    assert_int_equal(action_status_move(a, 599), MOVE_NOT_APPLIED);
    assert_int_equal(action_status_move(a, 403), MOVE_LIMITED);
    assert_int_equal(action_status_move(a, 200), MOVE_NONE);
    const struct reset_header *reset = action_reset_headers(a, &count);
    assert_int_equal(count, 1);
    assert_string_equal(reset[0].name, "x-reset");
    assert_int_equal(reset[0].unit, RESET_DELTA_S);
    const struct manifest_action *b = manifest_find(manifest, "b");
    assert_null(action_key_header(b));
    assert_int_equal(action_key_retention_s(b), 0);
    assert_int_equal(action_max_attempts(b), 9);
    assert_null(manifest_find(manifest, "c"));
    manifest_free(manifest);
}

static void defaults_are_the_documented_ones(void **state)
{
    (void)state;
    const char *text = ONE("\"idempotency\":\"keyed\"," REQUEST);
    struct manifest *manifest = load_ok(text);
    const struct manifest_action *a = manifest_find(manifest, "a");
    assert_string_equal(action_key_header(a), "Idempotency-Key");
    assert_int_equal(action_key_retention_s(a), 86400);
    assert_int_equal(action_timeout_ms(a), 30000);
    assert_int_equal(action_max_attempts(a), 8);
    assert_int_equal(action_base_ms(a), 1000);
    assert_int_equal(action_max_ms(a), 300000);
    size_t count = 0;
    const struct egress_rule *egress = manifest_egress(manifest, &count);
    assert_int_equal(count, 1);
    assert_string_equal(egress[0].host, "api.example.com");
    assert_int_equal(egress[0].port, 443);
    uint8_t digest[SHA256_SIZE];
    sha256(span_of(text), digest);
    assert_memory_equal(manifest_digest(manifest), digest, SHA256_SIZE);
    assert_true(span_is(manifest_text(manifest), text));
    manifest_free(manifest);
}

struct row {
    const char *text;
    enum code code;
    const char *pointer;
};

#define NATURAL "\"idempotency\":\"natural\","
#define WITH(members) ONE(NATURAL REQUEST "," members)
#define REQ(members)                                                           \
    ONE(NATURAL "\"request\":{\"method\":\"POST\",\"path\":\"/\"," members "}")
#define PATHED(path)                                                           \
    ONE(NATURAL "\"request\":{\"method\":\"GET\",\"path\":\"" path "\"}")
#define BASED(url)                                                             \
    "{\"manifest\":1,\"name\":\"b\",\"version\":\"1\",\"base_url\":\"" url     \
    "\",\"actions\":{\"a\":{" NATURAL REQUEST "}}}"

static const struct row bad_rows[] = {
    {"{", CODE_MALFORMED_JSON, ""},
    {"[]", CODE_INVALID_MEMBER, ""},
    {"{\"a\":1,\"a\":2}", CODE_DUPLICATE_MEMBER, ""},
    {"{\"manifest\":2}", CODE_INVALID_MEMBER, "/manifest"},
    {"{\"manifest\":1}", CODE_INVALID_MEMBER, "/name"},
    {TOP "\"actions\":{}}", CODE_INVALID_MEMBER, "/actions"},
    {TOP "\"auth\":{}}", CODE_UNSUPPORTED, "/auth"},
    {TOP "\"limits\":{}}", CODE_UNSUPPORTED, "/limits"},
    {TOP "\"x/y\":{}}", CODE_INVALID_MEMBER, "/x~1y"},
    {TOP "\"name\":\"X\"}", CODE_DUPLICATE_MEMBER, ""},
    {ONE(REQUEST), CODE_INVALID_MEMBER, "/actions/a/idempotency"},
    {ONE("\"idempotency\":\"maybe\"," REQUEST), CODE_INVALID_MEMBER,
        "/actions/a/idempotency"},
    {ONE("\"idempotency\":\"natural\""), CODE_INVALID_MEMBER,
        "/actions/a/request"},
    {TOP "\"actions\":{\"A\":{}}}", CODE_INVALID_MEMBER, "/actions/A"},
    {TOP "\"actions\":{\"a\\u0000b\":{}}}", CODE_INVALID_MEMBER,
        "/actions/a?b"},
    {WITH("\"runtime\":\"js\""), CODE_UNSUPPORTED, "/actions/a/runtime"},
    {WITH("\"runtime\":\"echo\""), CODE_INVALID_MEMBER, "/actions/a/request"},
    {ONE("\"idempotency\":\"unsafe\",\"runtime\":\"echo\""),
        CODE_INVALID_MEMBER, "/actions/a/idempotency"},
    {WITH("\"reconcile\":{}"), CODE_UNSUPPORTED, "/actions/a/reconcile"},
    {WITH("\"policy\":{}"), CODE_UNSUPPORTED, "/actions/a/policy"},
    {WITH("\"limits\":{}"), CODE_UNSUPPORTED, "/actions/a/limits"},
    {WITH("\"key\":{}"), CODE_INVALID_MEMBER, "/actions/a/key"},
    {WITH("\"timeout_ms\":0"), CODE_INVALID_MEMBER, "/actions/a/timeout_ms"},
    {WITH("\"timeout_ms\":600001"), CODE_INVALID_MEMBER,
        "/actions/a/timeout_ms"},
    {WITH("\"retry\":{\"max_attempts\":101}"), CODE_INVALID_MEMBER,
        "/actions/a/retry/max_attempts"},
    {WITH("\"retry\":{\"base_ms\":9000,\"max_ms\":8000}"), CODE_INVALID_MEMBER,
        "/actions/a/retry/max_ms"},
    {WITH("\"retry\":{\"reset_headers\":[{\"name\":\"x\",\"unit\":\"s\"}]}"),
        CODE_INVALID_MEMBER, "/actions/a/retry/reset_headers/0/unit"},
    {WITH("\"retry_on\":[200]"), CODE_INVALID_MEMBER, "/actions/a/retry_on/0"},
    {WITH("\"retry_on\":[404],\"permanent_on\":[410,404]"), CODE_INVALID_MEMBER,
        "/actions/a/permanent_on/1"},
    {WITH("\"payload\":{\"pattern\":\"x\"}"), CODE_INVALID_MEMBER,
        "/actions/a/payload/pattern"},
    {WITH("\"payload\":{\"properties\":{\"x\":{\"type\":\"int\"}}}"),
        CODE_INVALID_MEMBER, "/actions/a/payload/properties/x/type"},
    {WITH("\"payload\":{\"items\":{\"enum\":[]}}"), CODE_INVALID_MEMBER,
        "/actions/a/payload/items/enum"},
    {WITH("\"payload\":{\"required\":[1]}"), CODE_INVALID_MEMBER,
        "/actions/a/payload/required"},
    {WITH("\"payload\":{\"maxLength\":-1}"), CODE_INVALID_MEMBER,
        "/actions/a/payload/maxLength"},
    {WITH("\"payload\":7"), CODE_INVALID_MEMBER, "/actions/a/payload"},
    {ONE("\"idempotency\":\"keyed\",\"key\":{\"header\":\"Host\"}," REQUEST),
        CODE_INVALID_MEMBER, "/actions/a/key/header"},
    {ONE("\"idempotency\":\"keyed\",\"key\":{\"header\":\"a b\"}," REQUEST),
        CODE_INVALID_MEMBER, "/actions/a/key/header"},
    {ONE("\"idempotency\":\"keyed\",\"request\":{\"method\":\"POST\","
         "\"path\":\"/\",\"headers\":{\"idempotency-KEY\":\"x\"}}"),
        CODE_INVALID_MEMBER, "/actions/a/request/headers/idempotency-KEY"},
    {REQ("\"headers\":{\"Host\":\"x\"}"), CODE_INVALID_MEMBER,
        "/actions/a/request/headers/Host"},
    {REQ("\"headers\":{\"X A\":\"x\"}"), CODE_INVALID_MEMBER,
        "/actions/a/request/headers/X A"},
    {REQ("\"headers\":{\"X-A: b\":\"x\"}"), CODE_INVALID_MEMBER,
        "/actions/a/request/headers/X-A: b"},
    {REQ("\"headers\":{\"\":\"x\"}"), CODE_INVALID_MEMBER,
        "/actions/a/request/headers/"},
    {REQ("\"headers\":{\"X\":\"a\\r\\nY: b\"}"), CODE_INVALID_MEMBER,
        "/actions/a/request/headers/X"},
    {REQ("\"headers\":{\"X\":\"a\",\"x\":\"b\"}"), CODE_INVALID_MEMBER,
        "/actions/a/request/headers/x"},
    {REQ("\"json\":1,\"body\":\"x\""), CODE_INVALID_MEMBER,
        "/actions/a/request/body"},
    {REQ("\"json\":{\"{{payload.a}}\":1}"), CODE_INVALID_MEMBER,
        "/actions/a/request/json"},
    {REQ("\"json\":\"{{env.HOME}}\""), CODE_INVALID_MEMBER,
        "/actions/a/request/json"},
    {REQ("\"json\":\"{{payload.}}\""), CODE_INVALID_MEMBER,
        "/actions/a/request/json"},
    {REQ("\"json\":\"{{payload..a}}\""), CODE_INVALID_MEMBER,
        "/actions/a/request/json"},
    {REQ("\"json\":\"{{payload.a\""), CODE_INVALID_MEMBER,
        "/actions/a/request/json"},
    {REQ("\"json\":\"\\u007b{payloads}}\""), CODE_INVALID_MEMBER,
        "/actions/a/request/json"},
    {REQ("\"form\":\"x\""), CODE_INVALID_MEMBER, "/actions/a/request/form"},
    {REQ("\"query\":7"), CODE_INVALID_MEMBER, "/actions/a/request/query"},
    {REQ("\"headers\":null"), CODE_INVALID_MEMBER,
        "/actions/a/request/headers"},
    {WITH("\"retry\":{\"reset_headers\":\"x\"}"), CODE_INVALID_MEMBER,
        "/actions/a/retry/reset_headers"},
    {WITH("\"retry_on\":\"x\""), CODE_INVALID_MEMBER, "/actions/a/retry_on"},
    {WITH("\"retry\":[]"), CODE_INVALID_MEMBER, "/actions/a/retry"},
    {WITH("\"payload\":{\"enum\":\"x\"}"), CODE_INVALID_MEMBER,
        "/actions/a/payload/enum"},
    {WITH("\"payload\":{\"properties\":\"x\"}"), CODE_INVALID_MEMBER,
        "/actions/a/payload/properties"},
    {TOP "\"actions\":\"x\"}", CODE_INVALID_MEMBER, "/actions"},
    {TOP "\"egress\":\"x\"}", CODE_INVALID_MEMBER, "/egress"},
    {REQ("\"query\":{\"a\":[1]}"), CODE_INVALID_MEMBER,
        "/actions/a/request/query/a"},
    {REQ("\"method\":\"TRACE\""), CODE_DUPLICATE_MEMBER, ""},
    {ONE(NATURAL "\"request\":{\"method\":\"CONNECT\",\"path\":\"/\"}"),
        CODE_INVALID_MEMBER, "/actions/a/request/method"},
    {ONE(NATURAL "\"request\":{\"method\":\"GET\",\"path\":\"/\","
                 "\"json\":1}"),
        CODE_INVALID_MEMBER, "/actions/a/request/method"},
    {PATHED("charges"), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {PATHED(""), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {PATHED("{{payload.a}}"), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {PATHED("/a/.."), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {PATHED("/./a"), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {PATHED("/a?b=c"), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {PATHED("/a#b"), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {PATHED("/a b"), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {PATHED("/%2e%2e/"), CODE_INVALID_MEMBER, "/actions/a/request/path"},
    {BASED("ftp://x.example"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a@b.example"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://evil.com\\\\@good.com/"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example?x"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example#x"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example:0"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example:70000"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example:80x"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example./"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://2130706433"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://0x7f.1"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://0177.0.0.1"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://127.1"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://%31.example"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://[fe80::1%25eth0]"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://[::1"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a_.example"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example/x/../y"), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example/.."), CODE_INVALID_MEMBER, "/base_url"},
    {BASED("https://a.example//b"), CODE_INVALID_MEMBER, "/base_url"},
    {TOP "\"egress\":[\"other.example:443\"],\"actions\":{\"a\":{" NATURAL
            REQUEST "}}}",
        CODE_INVALID_MEMBER, "/egress"},
    {TOP "\"egress\":[\"api.example.com:80\"],\"actions\":{\"a\":{" NATURAL
            REQUEST "}}}",
        CODE_INVALID_MEMBER, "/egress"},
    {TOP "\"egress\":[\"*.com\"],\"actions\":{\"a\":{" NATURAL REQUEST "}}}",
        CODE_INVALID_MEMBER, "/egress"},
    {TOP "\"egress\":[\"*\"]}", CODE_INVALID_MEMBER, "/egress/0"},
    {TOP "\"egress\":[\"a.*.example\"]}", CODE_INVALID_MEMBER, "/egress/0"},
};

static void bad_manifests_are_refused_with_their_pointer(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad_rows); i++) {
        const struct row *row = &bad_rows[i];
        struct fault fault = FAULT_INIT;
        struct manifest *manifest = manifest_load(span_of(row->text), &fault);
        if (manifest != NULL) {
            manifest_free(manifest);
            fail_msg("loaded: %s", row->text);
        }
        if (fault.code != row->code ||
            strcmp(fault.pointer, row->pointer) != 0 ||
            fault.detail[0] == '\0') {
            fail_msg("%s: %s at \"%s\": %s", row->text, code_name(fault.code),
                fault.pointer, fault.detail);
        }
    }
}

static void base_urls_are_normalised(void **state)
{
    (void)state;
    static const char *const urls[] = {"http://127.0.0.1:8080",
        "HTTPS://[::1]:443/a/", "http://localhost", "https://a-b.c_d.example/"};
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        struct buf text;
        buf_init(&text, 4096);
        buf_printf(&text, BASED("%s"), urls[i]);
        manifest_free(load_ok(buf_str(&text)));
        buf_fini(&text);
    }
}

static void size_is_capped(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, MANIFEST_MAX_BYTES + 1);
    while (!text.is_overflowed && text.len < text.max) {
        buf_put_char(&text, ' ');
    }
    struct fault fault = FAULT_INIT;
    assert_null(manifest_load(buf_span(&text), &fault));
    assert_int_equal(fault.code, CODE_TOO_LARGE);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_manifest_loads),
        cmocka_unit_test(defaults_are_the_documented_ones),
        cmocka_unit_test(bad_manifests_are_refused_with_their_pointer),
        cmocka_unit_test(base_urls_are_normalised),
        cmocka_unit_test(size_is_capped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
