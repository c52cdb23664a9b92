/* SPDX-License-Identifier: Apache-2.0 */
/* The captured document, what is remembered, challenges, caps of a source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/json.h"
#include "common/time.h"
#include "producer/challenge.h"
#include "producer/webhook_memory.h"
#include "producer/webhook_sources.h"
#include "schema/webhook.h"

/* -- the document -------------------------------------------------------------- */

static void document_holds_the_exact_bytes(void **state)
{
    (void)state;
    struct buf headers;
    struct buf out;
    buf_init(&headers, 1000);
    buf_init(&out, 10000);
    webhook_put_header(&headers, "A", "1\"\xff");
    webhook_put_header(&headers, "B", NULL);
    struct webhook webhook = {.tenant = SPAN_LIT("acme"),
        .source = SPAN_LIT("shop"),
        .received_us = 1796000000 * US_PER_S,
        .verdict = WEBHOOK_VERIFIED,
        .reason = "",
        .scheme = "github",
        .secret_no = 2,
        .method = "POST",
        .headers = buf_span(&headers),
        .body = {"a\0b", 3}};
    webhook_put(&out, &webhook);
    assert_string_equal(buf_str(&out),
        "{\"spec\":\"actionist/1\","
        "\"id\":\"00000000-0000-0000-0000-000000000000\","
        "\"tenant\":\"acme\",\"source\":\"shop\",\"sender_id\":null,"
        "\"received_at\":\"2026-11-30T00:53:20.000000Z\","
        "\"verdict\":\"verified\",\"reason\":null,\"scheme\":\"github\","
        "\"secret_no\":2,\"method\":\"POST\","
        "\"headers\":[[\"A\",\"1\\\"\xef\xbf\xbd\"],[\"B\",\"\"]],"
        "\"body\":\"YQBi\"}");
    buf_fini(&headers);
    buf_fini(&out);
}

/* 1 MiB of body and 32 KiB of the worst headers still fit a record. */
static void the_largest_one_fits(void **state)
{
    (void)state;
    static char body[WEBHOOK_MAX_BODY];
    static char value[(32 << 10) + 1];
    struct buf headers;
    struct buf out;
    memset(value, 1, sizeof(value) - 1);
    buf_init(&headers, WEBHOOK_MAX_RECORD);
    buf_init(&out, WEBHOOK_MAX_RECORD);
    webhook_put_header(&headers, "A", value);
    const struct webhook webhook = {.reason = "signature_malformed",
        .verdict = WEBHOOK_REJECTED,
        .scheme = "github",
        .method = "POST",
        .headers = buf_span(&headers),
        .body = {body, sizeof(body)}};
    webhook_put(&out, &webhook);
    assert_false(headers.is_overflowed);
    assert_false(out.is_overflowed);
    buf_fini(&headers);
    buf_fini(&out);
}

static void ids_differ_where_anything_does(void **state)
{
    (void)state;
    uint8_t ids[6][UUID_SIZE];
    const uint8_t message[SHA256_SIZE] = {1};
    const struct span a = SPAN_LIT("a");
    const struct span b = SPAN_LIT("b");
    webhook_id_of_sender(a, a, a, ids[0]);
    webhook_id_of_sender(b, a, a, ids[1]);
    webhook_id_of_sender(a, b, a, ids[2]);
    webhook_id_of_sender(a, a, b, ids[3]);
    webhook_id_of_message(a, a, message, ids[4]);
    webhook_id_of_conflict(a, a, a, b, ids[5]);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(ids[i], ids[j], UUID_SIZE);
        }
    }
    uint8_t again[UUID_SIZE];
    webhook_id_of_sender(a, a, a, again);
    assert_memory_equal(ids[0], again, UUID_SIZE);
}

/* -- the memory ------------------------------------------------------------------ */

static void mark(uint64_t n, uint8_t out[WEBHOOK_MARK_SIZE])
{
    uint8_t digest[SHA256_SIZE];
    sha256((struct span){(const char *)&n, sizeof(n)}, digest);
    memcpy(out, digest, WEBHOOK_MARK_SIZE);
}

static enum webhook_seen seen(
    const struct webhook_memory *memory, uint64_t key, uint64_t content)
{
    uint8_t k[WEBHOOK_MARK_SIZE];
    uint8_t c[WEBHOOK_MARK_SIZE];
    mark(key, k);
    mark(content, c);
    return webhook_memory_look(memory, k, c);
}

static void put(struct webhook_memory *memory, uint64_t key, uint64_t content)
{
    uint8_t k[WEBHOOK_MARK_SIZE];
    uint8_t c[WEBHOOK_MARK_SIZE];
    mark(key, k);
    mark(content, c);
    webhook_memory_put(memory, k, c);
}

static void memory_tells_same_from_other(void **state)
{
    (void)state;
    struct webhook_memory *memory = webhook_memory_new(2);
    assert_int_equal(seen(memory, 1, 1), WEBHOOK_SEEN_NEVER);
    put(memory, 1, 1);
    assert_int_equal(seen(memory, 1, 1), WEBHOOK_SEEN_SAME);
    assert_int_equal(seen(memory, 1, 2), WEBHOOK_SEEN_OTHER);
    put(memory, 1, 2);
    assert_int_equal(seen(memory, 1, 1), WEBHOOK_SEEN_SAME);
    webhook_memory_free(memory);
    webhook_memory_free(NULL);
}

/* Against the plain rule: exactly the last `capacity` are known. */
static void memory_forgets_the_oldest_first(void **state)
{
    (void)state;
    static const size_t capacities[] = {1, 2, 7, 64};
    for (size_t c = 0; c < ARRAY_LEN(capacities); c++) {
        const size_t capacity = capacities[c];
        struct webhook_memory *memory = webhook_memory_new(capacity);
        for (uint64_t n = 0; n < 300; n++) {
            put(memory, n, n);
            for (uint64_t k = 0; k <= n; k++) {
                assert_int_equal(seen(memory, k, k),
                    n - k < capacity ? WEBHOOK_SEEN_SAME : WEBHOOK_SEEN_NEVER);
            }
        }
        webhook_memory_free(memory);
    }
}

/* -- challenges ------------------------------------------------------------------ */

static const char *no_header(void *arg, const char *name)
{
    (void)name;
    return arg;
}

static void check_challenge(const char *scheme, const char *header,
    struct span body, enum challenge expected, const char *answer)
{
    char copy[64] = "";
    memcpy(copy, header, strlen(header) + 1);
    const struct signature_input input = {.method = "POST",
        .body = body,
        .header = no_header,
        .arg = header[0] == '\0' ? NULL : copy};
    struct challenge_reply reply = {.content_type = NULL};
    buf_init(&reply.body, 4096);
    assert_int_equal(challenge_answer(signature_find(span_of(scheme)), &input,
                         SPAN_LIT("testonly_zoom_token"), &reply),
        expected);
    assert_string_equal(buf_str(&reply.body), answer);
    buf_fini(&reply.body);
}

static void challenges_and_events(void **state)
{
    (void)state;
    static const struct {
        const char *scheme;
        const char *header;
        const char *body;
        enum challenge expected;
        const char *answer;
    } rows[] = {
        {"slack", "", "{\"type\":\"url_verification\",\"challenge\":\"c\"}",
            CHALLENGE_ANSWERED, "c"},
        {"slack", "", "{\"type\":\"url_verification\"}", CHALLENGE_BAD, ""},
        {"slack", "", "{\"type\":\"url_verification\",\"challenge\":\"a\\nb\"}",
            CHALLENGE_BAD, ""},
        {"slack", "", "{\"type\":\"event_callback\",\"challenge\":\"c\"}",
            CHALLENGE_NONE, ""},
        {"slack", "", "payload=x", CHALLENGE_NONE, ""},
        {"discord", "", "{\"type\":1}", CHALLENGE_ANSWERED, "{\"type\":1}"},
        {"discord", "", "{\"type\":2}", CHALLENGE_NONE, ""},
        {"discord", "", "{\"type\":\"1\"}", CHALLENGE_NONE, ""},
        {"twitch", "webhook_callback_verification", "{\"challenge\":\"c\"}",
            CHALLENGE_ANSWERED, "c"},
        {"twitch", "notification", "{\"challenge\":\"c\"}", CHALLENGE_NONE, ""},
        {"twitch", "", "{\"challenge\":\"c\"}", CHALLENGE_NONE, ""},
        {"zoom", "",
            "{\"event\":\"endpoint.url_validation\","
            "\"payload\":{\"plainToken\":\"plain-0001-AbCd\"}}",
            CHALLENGE_ANSWERED,
            "{\"plainToken\":\"plain-0001-AbCd\",\"encryptedToken\":"
            "\"24b0df7714ccb9105f301b7fee1730a516f9133c94b4a02fec1fc568fe7e"
            "e648\"}"},
        {"zoom", "", "{\"event\":\"endpoint.url_validation\"}", CHALLENGE_BAD,
            ""},
        {"github", "",
            "{\"type\":\"url_verification\",\"challenge\":\"c\",\"type2\":1}",
            CHALLENGE_NONE, ""},
        {"meta", "", "{\"type\":1,\"challenge\":\"c\"}", CHALLENGE_NONE, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_challenge(rows[i].scheme, rows[i].header, span_of(rows[i].body),
            rows[i].expected, rows[i].answer);
    }
}

static void metas_token_must_be_the_one(void **state)
{
    (void)state;
    const struct span token = SPAN_LIT("right");
    assert_true(challenge_is_subscribed("subscribe", "right", token));
    assert_false(challenge_is_subscribed("subscribe", "wrong", token));
    assert_false(challenge_is_subscribed("subscribe", NULL, token));
    assert_false(challenge_is_subscribed(NULL, "right", token));
    assert_false(challenge_is_subscribed("other", "right", token));
    assert_false(challenge_is_subscribed("subscribe", "", span_of(NULL)));
    assert_false(challenge_is_text(SPAN_LIT("")));
    assert_false(challenge_is_text(SPAN_LIT("a\r\nb")));
    assert_true(challenge_is_text(SPAN_LIT("1158201444")));
}

/* -- a source --------------------------------------------------------------------- */

static void the_rate_allows_one_second_at_once(void **state)
{
    (void)state;
    struct webhook_source source = {.rate_per_s = 10};
    int64_t now_us = 1000 * US_PER_S;
    for (int i = 0; i < 10; i++) {
        assert_true(webhook_source_pay(&source, now_us));
    }
    assert_false(webhook_source_pay(&source, now_us));
    now_us += US_PER_S / 10;
    assert_true(webhook_source_pay(&source, now_us));
    assert_false(webhook_source_pay(&source, now_us));
    now_us += 60 * US_PER_S;
    for (int i = 0; i < 10; i++) {
        assert_true(webhook_source_pay(&source, now_us));
    }
    assert_false(webhook_source_pay(&source, now_us));
}

static void evidence_is_counted_by_the_minute(void **state)
{
    (void)state;
    struct webhook_source source = {.keeps_rejected = true};
    int64_t now_us = 1000 * US_PER_S;
    for (int minute = 0; minute < 2; minute++) {
        for (int i = 0; i < 60; i++) {
            assert_true(webhook_source_keep(&source, now_us));
        }
        assert_false(webhook_source_keep(&source, now_us));
        now_us += 60 * US_PER_S;
    }
    source.keeps_rejected = false;
    assert_false(webhook_source_keep(&source, now_us));
}

/* WHK-24: up to its end and not beyond; the newest always. */
static void the_old_key_ends(void **state)
{
    (void)state;
    struct webhook_source source = {.key_count = 2, .old_until_us = 3600};
    struct span keys[SIGNATURE_MAX_KEYS];
    assert_int_equal(webhook_source_keys(&source, 3599, keys), 2);
    assert_int_equal(webhook_source_keys(&source, 3600, keys), 2);
    assert_int_equal(webhook_source_keys(&source, 3601, keys), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(document_holds_the_exact_bytes),
        cmocka_unit_test(the_largest_one_fits),
        cmocka_unit_test(ids_differ_where_anything_does),
        cmocka_unit_test(memory_tells_same_from_other),
        cmocka_unit_test(memory_forgets_the_oldest_first),
        cmocka_unit_test(challenges_and_events),
        cmocka_unit_test(metas_token_must_be_the_one),
        cmocka_unit_test(the_rate_allows_one_second_at_once),
        cmocka_unit_test(evidence_is_counted_by_the_minute),
        cmocka_unit_test(the_old_key_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
