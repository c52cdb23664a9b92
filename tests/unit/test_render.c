/* SPDX-License-Identifier: Apache-2.0 */
/* action_render(): what a record makes of a request template. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "schema/manifest.h"

#define STORAGE_MAX ((size_t)4 << 20)
#define HEADER_COPY_SIZE 256

static const struct record_source source = {.door = RECORD_DOOR_KAFKA,
    .tenant = {.ptr = "acme", .len = 4},
    .has_tenant = true,
    .topic = "t"};

struct fixture {
    struct manifest *manifest;
    struct record record;
    struct buf storage;
    struct buf text;
    struct call call;
    struct fault fault;
    int result;
};

/* request: members of `request` after method and path. */
static void render(struct fixture *f, const char *path, const char *members,
    const char *payload)
{
    struct buf manifest;
    buf_init(&manifest, MANIFEST_MAX_BYTES);
    buf_printf(&manifest,
        "{\"manifest\":1,\"name\":\"b\",\"version\":\"1\",\"base_url\":"
        "\"https://api.example.com/v1\",\"actions\":{\"a\":{\"idempotency\":"
        "\"keyed\",\"request\":{\"method\":\"POST\",\"path\":\"%s\"%s}}}}",
        path, members);
    f->fault = (struct fault)FAULT_INIT;
    f->manifest = manifest_load(buf_span(&manifest), &f->fault);
    if (f->manifest == NULL) {
        fail_msg("%s: %s", f->fault.pointer, f->fault.detail);
    }
    buf_fini(&manifest);
    buf_init(&f->text, RECORD_MAX_BYTES);
    buf_put_str(&f->text,
        "{\"spec\":\"actionist/1\",\"tenant\":\"acme\",\"connector\":\"b\","
        "\"action\":\"a\",\"payload\":");
    buf_put_str(&f->text, payload);
    buf_put_char(&f->text, '}');
    assert_int_equal(
        record_parse(buf_span(&f->text), &source, &f->record, &f->fault),
        RECORD_OK);
    buf_init(&f->storage, STORAGE_MAX);
    f->result = action_render(manifest_find(f->manifest, "a"), &f->record,
        &f->storage, &f->call, &f->fault);
}

static void fini(struct fixture *f)
{
    manifest_free(f->manifest);
    buf_fini(&f->storage);
    buf_fini(&f->text);
}

static void assert_span(struct span span, const char *text)
{
    if (!span_is(span, text)) {
        fail_msg("got %.*s, wanted %s", (int)span.len, span.ptr, text);
    }
}

static const char *header(const struct fixture *f, const char *name)
{
    static char value[HEADER_COPY_SIZE];
    for (size_t i = 0; i < f->call.header_count; i++) {
        const struct call_header *h = &f->call.headers[i];
        if (span_is(h->name, name)) {
            assert_true(h->value.len < sizeof(value));
            memcpy(value, h->value.ptr, h->value.len);
            value[h->value.len] = '\0';
            return value;
        }
    }
    return NULL;
}

struct row {
    const char *name;
    const char *path;
    const char *members;
    const char *payload;
    const char *url; /* without the base; NULL: refused */
    const char *body;
    const char *pointer; /* of the fault */
};

static const struct row rows[] = {
    {"plain", "/charges/{{payload.order}}",
        ",\"json\":{\"amount\":\"{{payload.amount}}\"}",
        "{\"order\":\"o 1\",\"amount\":\"12.50\"}", "/charges/o%201",
        "{\"amount\":\"12.50\"}", NULL},
    {"types and bytes stay", "/",
        ",\"json\":{\"n\":\"{{payload.n}}\",\"o\": \"{{ payload.o }}\" }",
        "{\"n\":1.10,\"o\":{ \"a\" : [null,1e400] }}", "/",
        "{\"n\":1.10,\"o\": { \"a\" : [null,1e400] } }", NULL},
    {"whole payload", "/", ",\"json\":\"{{payload}}\"",
        "{ \"\\u0000\": \"\\ud83d\\ude80\" }", "/",
        "{ \"\\u0000\": \"\\ud83d\\ude80\" }", NULL},
    {"array index", "/{{payload.l.1}}", "", "{\"l\":[\"a\",true]}", "/true",
        NULL, NULL},
    {"text is joined", "/", ",\"json\":[\"<{{payload.s}}|{{payload.n}}>\"]",
        "{\"s\":\"a\\\"b\\u0000\",\"n\":[1, 2]}", "/",
        "[\"<a\\\"b\\u0000|[1, 2]>\"]", NULL},
    {"json cannot be broken out of", "/",
        ",\"json\":{\"s\":\"x{{payload.s}}\"}",
        "{\"s\":\"\\\",\\\"admin\\\":true,\\\"z\\\":\\\"\"}", "/",
        "{\"s\":\"x\\\",\\\"admin\\\":true,\\\"z\\\":\\\"\"}", NULL},
    {"values are not templates", "/{{payload.s}}",
        ",\"json\":\"{{payload.s}}\"", "{\"s\":\"{{action.tenant}}\"}",
        "/%7B%7Baction.tenant%7D%7D", "\"{{action.tenant}}\"", NULL},
    {"own values", "/{{action.tenant}}", ",\"json\":\"{{action.tenant}}\"",
        "null", "/acme", "\"acme\"", NULL},
    {"names with tilde", "/{{payload.a~b}}", "", "{\"a~b\":\"x\"}", "/x", NULL,
        NULL},
    {"slash stays in its segment", "/x/{{payload.s}}/y", "",
        "{\"s\":\"../admin?a=b#c\"}", "/x/..%2Fadmin%3Fa%3Db%23c/y", NULL,
        NULL},
    {"backslash and percent", "/{{payload.s}}", "", "{\"s\":\"%2e%2e\\\\\"}",
        "/%252e%252e%5C", NULL, NULL},
    {"utf-8 in path", "/{{payload.s}}", "", "{\"s\":\"\xC3\xA9\"}", "/%C3%A9",
        NULL, NULL},
    {"host is not reached", "/{{payload.s}}", "",
        "{\"s\":\"@evil.example:1/\"}", "/%40evil.example%3A1%2F", NULL, NULL},
    {"dot", "/x/{{payload.s}}", "", "{\"s\":\".\"}", NULL, NULL, "/payload/s"},
    {"two dots", "/x/{{payload.s}}/y", "", "{\"s\":\"..\"}", NULL, NULL,
        "/payload/s"},
    {"dots joined", "/x/.{{payload.s}}", "", "{\"s\":\".\"}", NULL, NULL,
        "/payload/s"},
    {"dots after text", "/x/a{{payload.s}}", "", "{\"s\":\"..\"}", NULL, NULL,
        "/payload/s"},
    {"three dots", "/x/{{payload.s}}", "", "{\"s\":\"...\"}", "/x/...", NULL,
        NULL},
    {"empty segment", "/x/{{payload.s}}", "", "{\"s\":\"\"}", NULL, NULL,
        "/payload/s"},
    {"object in path", "/{{payload.s}}", "", "{\"s\":{}}", NULL, NULL,
        "/payload/s"},
    {"null in path", "/{{payload.s}}", "", "{\"s\":null}", NULL, NULL,
        "/payload/s"},
    {"missing", "/", ",\"json\":{\"a\":\"{{payload.a.b}}\"}", "{\"a\":1}", NULL,
        NULL, "/payload/a/b"},
    {"missing in payload of another type", "/{{payload.a}}", "", "[1]", NULL,
        NULL, "/payload/a"},
    {"missing key", "/{{action.key}}", "", "null", NULL, NULL,
        "/idempotency_key"},
    {"query", "/",
        ",\"query\":{\"a b\":\"{{payload.s}}\",\"n\":1.0,\"t\":true}",
        "{\"s\":\"x&y=z ..\"}", "/?a%20b=x%26y%3Dz%20..&n=1.0&t=true", NULL,
        NULL},
    {"array in query", "/", ",\"query\":{\"a\":\"{{payload.s}}\"}",
        "{\"s\":[]}", NULL, NULL, "/payload/s"},
    {"form", "/", ",\"form\":{\"a\":\"{{payload.s}}\",\"b\":\"\"}",
        "{\"s\":\"1&b=2\"}", "/", "a=1%26b%3D2&b=", NULL},
    {"body text", "/", ",\"body\":\"<a>{{payload.s}}</a>\"",
        "{\"s\":\"x\\ny\"}", "/", "<a>x\ny</a>", NULL},
    {"header with CR LF", "/", ",\"headers\":{\"X\":\"{{payload.s}}\"}",
        "{\"s\":\"a\\r\\nX-Evil: 1\"}", NULL, NULL, "/payload/s"},
    {"header with LF", "/", ",\"headers\":{\"X\":\"{{payload.s}}\"}",
        "{\"s\":\"a\\nb\"}", NULL, NULL, "/payload/s"},
    {"header with CR", "/", ",\"headers\":{\"X\":\"{{payload.s}}\"}",
        "{\"s\":\"a\\rb\"}", NULL, NULL, "/payload/s"},
    {"header with NUL", "/", ",\"headers\":{\"X\":\"{{payload.s}}\"}",
        "{\"s\":\"a\\u0000b\"}", NULL, NULL, "/payload/s"},
    {"header with object", "/", ",\"headers\":{\"X\":\"{{payload.s}}\"}",
        "{\"s\":{}}", NULL, NULL, "/payload/s"},
};

static void templates_are_filled_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        struct fixture f;
        render(&f, row->path, row->members, row->payload);
        if (row->url == NULL) {
            if (f.result == 0 || f.fault.code != CODE_TEMPLATE_INVALID ||
                strcmp(f.fault.pointer, row->pointer) != 0) {
                fail_msg("%s: %d %s %s", row->name, f.result, f.fault.pointer,
                    f.fault.detail);
            }
            fini(&f);
            continue;
        }
        if (f.result != 0) {
            fail_msg("%s: %s %s", row->name, f.fault.pointer, f.fault.detail);
        }
        struct buf url;
        buf_init(&url, CALL_MAX_URL);
        buf_printf(&url, "https://api.example.com/v1%s", row->url);
        assert_span(f.call.url, buf_str(&url));
        buf_fini(&url);
        if (row->body == NULL) {
            assert_null(f.call.body.ptr);
        } else {
            assert_span(f.call.body, row->body);
        }
        fini(&f);
    }
}

static void headers_are_ours_then_the_connectors(void **state)
{
    (void)state;
    struct fixture f;
    render(&f, "/", ",\"json\":1,\"headers\":{\"X-Note\":\"n {{payload.s}}\"}",
        "{\"s\":\"\\t\xC3\xA9\"}");
    assert_int_equal(f.result, 0);
    assert_string_equal(f.call.method, "POST");
    assert_int_equal(f.call.header_count, 4);
    assert_string_equal(header(&f, "User-Agent"), "actionist/1");
    assert_string_equal(header(&f, "Content-Type"), "application/json");
    assert_string_equal(header(&f, "X-Note"), "n \t\xC3\xA9");
    char id[UUID_TEXT_SIZE];
    uuid_format(f.record.id, id);
    assert_string_equal(header(&f, "Idempotency-Key"), id);
    fini(&f);
}

static void content_type_follows_the_body(void **state)
{
    (void)state;
    struct fixture f;
    render(&f, "/", ",\"form\":{}", "null");
    assert_string_equal(
        header(&f, "Content-Type"), "application/x-www-form-urlencoded");
    assert_non_null(f.call.body.ptr);
    assert_int_equal(f.call.body.len, 0);
    fini(&f);
    render(&f, "/", ",\"body\":\"\"", "null");
    assert_string_equal(
        header(&f, "Content-Type"), "text/plain; charset=utf-8");
    fini(&f);
    render(&f, "/", "", "null");
    assert_null(header(&f, "Content-Type"));
    assert_null(f.call.body.ptr);
    fini(&f);
    render(&f, "/",
        ",\"body\":\"<a/>\",\"headers\":{\"content-type\":"
        "\"application/xml\"}",
        "null");
    assert_null(header(&f, "Content-Type"));
    assert_string_equal(header(&f, "content-type"), "application/xml");
    fini(&f);
}

static void big_values_are_refused(void **state)
{
    (void)state;
    struct buf payload;
    buf_init(&payload, RECORD_MAX_BYTES);
    buf_put_str(&payload, "{\"s\":\"");
    for (int i = 0; i < 65536; i++) {
        buf_put_char(&payload, 'x');
    }
    buf_put_str(&payload, "\"}");
    struct fixture f;
    render(&f, "/{{payload.s}}", "", buf_str(&payload));
    assert_int_equal(f.result, -1);
    fini(&f);
    render(
        &f, "/", ",\"headers\":{\"X\":\"{{payload.s}}\"}", buf_str(&payload));
    assert_int_equal(f.result, -1);
    fini(&f);
    struct buf members;
    buf_init(&members, 65536);
    buf_put_str(&members, ",\"json\":[0");
    for (int i = 0; i < 70; i++) {
        buf_put_str(&members, ",\"{{payload}}\"");
    }
    buf_put_str(&members, "]");
    render(&f, "/", buf_str(&members), buf_str(&payload));
    assert_int_equal(f.result, -1);
    assert_int_equal(f.fault.code, CODE_TEMPLATE_INVALID);
    fini(&f);
    buf_fini(&members);
    buf_fini(&payload);
}

static void same_record_gives_same_bytes(void **state)
{
    (void)state;
    struct fixture a;
    struct fixture b;
    const char *members = ",\"json\":{\"id\":\"{{action.id}}\"}";
    render(&a, "/{{action.id}}", members, "{\"x\":1}");
    render(&b, "/{{action.id}}", members, "{\"x\":1}");
    assert_true(span_equal(a.call.url, b.call.url));
    assert_true(span_equal(a.call.body, b.call.body));
    fini(&a);
    fini(&b);
}

static void an_echo_is_the_payload_as_it_stands(void **state)
{
    (void)state;
    static const char text[] =
        "{\"manifest\":1,\"name\":\"c\",\"version\":\"1\","
        "\"base_url\":\"http://h\",\"actions\":{\"a\":{"
        "\"idempotency\":\"natural\",\"runtime\":\"echo\"}}}";
    struct fault fault = FAULT_INIT;
    struct manifest *manifest = manifest_load(span_of(text), &fault);
    assert_non_null(manifest);
    const struct record record = {
        .payload = {.type = JSON_OBJECT, .raw = SPAN_LIT("{ \"a\": 1e2 }")}};
    struct buf storage;
    struct call call;
    buf_init(&storage, 4096);
    assert_int_equal(action_render(manifest_find(manifest, "a"), &record,
                         &storage, &call, &fault),
        0);
    assert_true(call.is_echo);
    assert_true(span_is(call.body, "{ \"a\": 1e2 }"));
    buf_fini(&storage);
    manifest_free(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_filled_or_refused),
        cmocka_unit_test(headers_are_ours_then_the_connectors),
        cmocka_unit_test(content_type_follows_the_body),
        cmocka_unit_test(big_values_are_refused),
        cmocka_unit_test(same_record_gives_same_bytes),
        cmocka_unit_test(an_echo_is_the_payload_as_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
