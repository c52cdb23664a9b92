/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vectors of tests/cases/fixtures/json_edge.json against json_parse(). The
 * fixture is read with cJSON, so that a fault of our own parser cannot hide
 * behind itself. Run from the top of the tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "common/crypt.h"
#include "common/json.h"

#define FIXTURE "tests/cases/fixtures/json_edge.json"
#define ENVELOPE                                                               \
    "{\"tenant\":\"t1\",\"connector\":\"echo\",\"action\":\"post\","           \
    "\"idempotency_key\":\"k\",\"payload\":"

enum { REQUEST_DEPTH = 65, FIXTURE_MAX_BYTES = 1 << 20 };

/* Well-formed JSON that is refused for what it says or for its size. */
static const char *const refused_later[] = {
    "top-03", "top-04", "top-15", "top-16", "size-01"};

static cJSON *read_fixture(void)
{
    struct buf text;
    buf_init(&text, FIXTURE_MAX_BYTES);
    FILE *file = fopen(FIXTURE, "re");
    if (file == NULL) {
        fail_msg("cannot open " FIXTURE "; run from the top of the tree");
    }
    char *room = buf_reserve(&text, FIXTURE_MAX_BYTES);
    assert_non_null(room);
    text.len = fread(room, 1, FIXTURE_MAX_BYTES, file);
    (void)fclose(file);
    cJSON *fixture = cJSON_ParseWithLength(text.data, text.len);
    assert_non_null(fixture);
    buf_fini(&text);
    return fixture;
}

static const char *text_of(const cJSON *vector, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(vector, name));
}

static void repeat(struct buf *out, const char *text, int count)
{
    for (int i = 0; i < count; i++) {
        buf_put_str(out, text);
    }
}

/* The bodies too long for the fixture, by its body_generator texts. */
static void generate(const char *id, struct buf *out)
{
    buf_put_str(out, ENVELOPE);
    if (strcmp(id, "deep-03") == 0) {
        repeat(out, "{\"a\":", 100000);
        buf_put_str(out, "1");
        repeat(out, "}", 100000);
    } else if (strcmp(id, "deep-04") == 0) {
        repeat(out, "[", 100000);
        return;
    } else if (strcmp(id, "size-01") == 0) {
        buf_put_str(out, "{\"s\":\"");
        repeat(out, "a", 1048576);
        buf_put_str(out, "\"}");
    } else {
        fail_msg("%s: no generator for it here", id);
    }
    buf_put_char(out, '}');
}

static bool is_expected_to_parse(const cJSON *vector, const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(refused_later); i++) {
        if (strcmp(refused_later[i], id) == 0) {
            return true;
        }
    }
    return strcmp(text_of(vector, "expected"), "accept") == 0;
}

/* The payload passes byte for byte. */
static void check_payload(
    const cJSON *vector, const char *id, struct json_value root)
{
    const char *forwarded = text_of(vector, "forwarded_base64");
    if (forwarded == NULL) {
        return;
    }
    struct buf expected;
    buf_init(&expected, FIXTURE_MAX_BYTES);
    assert_true(base64_decode(span_of(forwarded), &expected));
    struct json_value payload;
    assert_true(json_find(root, "payload", &payload));
    if (!span_equal(payload.raw, buf_span(&expected))) {
        fail_msg("%s: the payload is not passed unchanged", id);
    }
    buf_fini(&expected);
}

static void check_vector(const cJSON *vector)
{
    const char *id = text_of(vector, "id");
    const char *body = text_of(vector, "body_base64");
    struct buf bytes;
    buf_init(&bytes, SIZE_MAX);
    if (body != NULL) {
        assert_true(base64_decode(span_of(body), &bytes));
    } else {
        generate(id, &bytes);
    }
    struct json_value root;
    struct err err = ERR_INIT;
    const bool is_parsed =
        json_parse(buf_span(&bytes), REQUEST_DEPTH, &root, &err) == 0;
    if (is_parsed != is_expected_to_parse(vector, id)) {
        fail_msg("%s: %s", id, is_parsed ? "was accepted" : err.msg);
    }
    if (is_parsed) {
        check_payload(vector, id, root);
    }
    buf_fini(&bytes);
}

static void every_vector_of_the_fixture_is_judged_as_it_says(void **state)
{
    (void)state;
    cJSON *fixture = read_fixture();
    const cJSON *vectors = cJSON_GetObjectItemCaseSensitive(fixture, "vectors");
    const cJSON *vector = NULL;
    int count = 0;
    cJSON_ArrayForEach(vector, vectors)
    {
        check_vector(vector);
        count++;
    }
    assert_true(count > 50);
    cJSON_Delete(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_of_the_fixture_is_judged_as_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
