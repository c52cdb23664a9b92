/* SPDX-License-Identifier: Apache-2.0 */
/* Every scheme against the committed vectors of tests/cases/fixtures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/time.h"
#include "schema/signature.h"

#define VECTORS "tests/cases/fixtures/webhook_signatures.json"
#define NOW_S INT64_C(1796000000)
#define MAX_HEADERS 8

struct request {
    char *names[MAX_HEADERS];  /* owned */
    char *values[MAX_HEADERS]; /* owned */
    size_t count;
};

static const char *header_of(void *arg, const char *name)
{
    const struct request *request = arg;
    for (size_t i = 0; i < request->count; i++) {
        if (strcasecmp(request->names[i], name) == 0) {
            return request->values[i];
        }
    }
    return NULL;
}

static char *text_of(struct json_value object, const char *name)
{
    struct json_value value;
    struct buf out;
    if (!json_find(object, name, &value)) {
        return NULL;
    }
    buf_init(&out, 65536);
    json_decode(value, &out);
    buf_put_str(&out, "");
    return out.len == 0 ? mem_strdup("") : buf_take(&out, NULL);
}

static size_t take_keys(const struct signature_scheme *scheme,
    struct json_value vector, struct buf *bufs, struct span *keys)
{
    struct json_value list;
    struct json_member member;
    struct err err = ERR_INIT;
    size_t count = 0;
    char *secret = text_of(vector, "secret");
    if (secret != NULL) {
        buf_init(&bufs[0], SIGNATURE_MAX_KEY);
        assert_int_equal(
            signature_key_parse(scheme, span_of(secret), &bufs[0], &err), 0);
        keys[count++] = buf_span(&bufs[0]);
        free(secret);
        return count;
    }
    assert_true(json_find(vector, "secrets", &list));
    struct json_cursor cursor = json_enter(list);
    while (count < SIGNATURE_MAX_KEYS && json_next(&cursor, &member)) {
        struct buf text;
        buf_init(&text, 1024);
        json_decode(member.value, &text);
        buf_init(&bufs[count], SIGNATURE_MAX_KEY);
        assert_int_equal(
            signature_key_parse(scheme, buf_span(&text), &bufs[count], &err),
            0);
        keys[count] = buf_span(&bufs[count]);
        count++;
        buf_fini(&text);
    }
    return count;
}

static void take_headers(struct json_value vector, struct request *request)
{
    struct json_value headers;
    struct json_member member;
    assert_true(json_find(vector, "headers", &headers));
    struct json_cursor cursor = json_enter(headers);
    while (json_next(&cursor, &member)) {
        struct buf value;
        assert_true(request->count < MAX_HEADERS);
        buf_init(&value, 4096);
        json_decode(member.value, &value);
        request->names[request->count] = span_dup(member.name);
        request->values[request->count++] = span_dup(buf_span(&value));
        buf_fini(&value);
    }
}

static void free_headers(struct request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        free(request->names[i]);
        free(request->values[i]);
    }
}

static void check_vector(struct json_value vector)
{
    struct request request = {.count = 0};
    struct buf bufs[SIGNATURE_MAX_KEYS] = {{0}};
    struct span keys[SIGNATURE_MAX_KEYS];
    struct signature_result result;
    struct buf body;
    char *id = text_of(vector, "id");
    char *provider = text_of(vector, "provider");
    char *url = text_of(vector, "url");
    char *text = text_of(vector, "body_base64");
    char *expected = text_of(vector, "expected");
    const struct signature_scheme *scheme = signature_find(span_of(provider));
    assert_non_null(scheme);
    buf_init(&body, 65536);
    assert_true(base64_decode(span_of(text), &body));
    take_headers(vector, &request);
    const size_t key_count = take_keys(scheme, vector, bufs, keys);
    const struct signature_input input = {.method = "POST",
        .parameter = span_of(url),
        .body = buf_span(&body),
        .header = header_of,
        .arg = &request};
    signature_check(scheme, &input, keys, key_count, NOW_S * US_PER_S, &result);
    if ((result.verdict == SIGNATURE_RIGHT) !=
        (strcmp(expected, "accept") == 0)) {
        fail_msg("%s: %s, but %s is expected", id,
            signature_verdict_name(result.verdict), expected);
    }
    free_headers(&request);
    for (size_t i = 0; i < SIGNATURE_MAX_KEYS; i++) {
        buf_fini(&bufs[i]);
    }
    buf_fini(&body);
    free(id);
    free(provider);
    free(url);
    free(text);
    free(expected);
}

static void committed_vectors_hold(void **state)
{
    (void)state;
    struct json_value root;
    struct json_value vectors;
    struct json_member member;
    struct err err = ERR_INIT;
    struct buf text;
    char block[4096];
    size_t count = 0;
    buf_init(&text, (size_t)1 << 20);
    FILE *file = fopen(VECTORS, "rb");
    if (file == NULL) {
        fail_msg("no " VECTORS " (run from the root of the tree)");
        return;
    }
    for (size_t got = 1; got > 0;) {
        got = fread(block, 1, sizeof(block), file);
        buf_put(&text, block, got);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(json_parse(buf_span(&text), 8, &root, &err), 0);
    assert_true(json_find(root, "vectors", &vectors));
    struct json_cursor cursor = json_enter(vectors);
    while (json_next(&cursor, &member)) {
        check_vector(member.value);
        count++;
    }
    assert_int_equal(count, 48);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_vectors_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
