/* SPDX-License-Identifier: Apache-2.0 */
/* The check of webhooks against what senders published, and its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <strings.h>

#include "common/time.h"
#include "schema/signature.h"
#include "schema/signature_internal.h"

#define NOW_S INT64_C(1796000000)
#define MAX_HEADERS 8

struct request {
    const char *names[MAX_HEADERS];
    const char *values[MAX_HEADERS];
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

static const struct signature_scheme *scheme_of(const char *name)
{
    const struct signature_scheme *scheme = signature_find(span_of(name));
    if (scheme == NULL) {
        fail_msg("no scheme %s", name);
    }
    return scheme;
}

static enum signature_verdict check(const struct signature_scheme *scheme,
    const struct signature_input *input, const char *secret, int64_t now_s)
{
    struct err err = ERR_INIT;
    struct buf key;
    struct signature_result result;
    buf_init(&key, SIGNATURE_MAX_KEY);
    if (signature_key_parse(scheme, span_of(secret), &key, &err) != 0) {
        fail_msg("%s: %s", scheme->name, err.msg);
    }
    const struct span keys[] = {buf_span(&key)};
    signature_check(scheme, input, keys, 1, now_s * US_PER_S, &result);
    buf_fini(&key);
    return result.verdict;
}

/* -- the senders' published ones --------------------------------------------- */

struct vector {
    const char *scheme;
    const char *secret;
    const char *parameter;
    const char *body;
    const char *headers[6]; /* name, value, ... */
    int64_t now_s;
    enum signature_verdict verdict;
};

#define TWILIO_URL "https://mycompany.com/myapp.php?foo=1&bar=2"
#define TWILIO_FORM                                                            \
    "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&"             \
    "From=%2B14158675309&To=%2B18005551212"
#define FORM "application/x-www-form-urlencoded"
#define SENDGRID_KEY                                                           \
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8"   \
    "kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=="
#define SENDGRID_BODY                                                          \
    "[{\"email\":\"hello@world.com\",\"event\":\"dropped\",\"reason\":"        \
    "\"Bounced Address\",\"sg_event_id\":\"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T"  \
    "0doUTRrb2ZTbV9BLTA\",\"sg_message_id\":\"LRzXl_NHStOGhQ4kofSm_A."         \
    "filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0\",\"smtp-id\":\"<"    \
    "LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>\",\"timestamp\":"   \
    "1600112492}]\r\n"
#define STD_ID "webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define STD_TIME "webhook-timestamp", "1614265330"
#define STD_BODY "{\"test\": 2432232314}"
#define STD_SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define LINEAR_BODY "{\"action\":\"create\",\"webhookTimestamp\":1676056940508}"
#define LINEAR_RIGHT                                                           \
    "d013f08cfe1fc2d763447e90076d8e010fcab784b3f0c814b1233bc1bb730e9d"

static const char STD_V1A[] =
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5Bdq"
    "zCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";

static const struct vector PUBLISHED[] = {
    {"standard-webhooks", STD_SECRET, "", STD_BODY,
        {STD_ID, STD_TIME, "webhook-signature",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        1614265330, SIGNATURE_RIGHT},
    {"standard-webhooks", STD_SECRET, "", STD_BODY,
        {STD_ID, STD_TIME, "webhook-signature",
            "bad v2,xxxx v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= bad"},
        1614265330, SIGNATURE_RIGHT},
    {"standard-webhooks", STD_SECRET, "", STD_BODY,
        {STD_ID, STD_TIME, "webhook-signature", "v1,"}, 1614265330,
        SIGNATURE_WRONG},
    {"standard-webhooks", STD_SECRET, "", STD_BODY,
        {STD_ID, STD_TIME, "webhook-signature",
            "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="},
        1614265330, SIGNATURE_WRONG},
    {"standard-webhooks", STD_SECRET, "", STD_BODY,
        {STD_ID, STD_TIME, "webhook-signature",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        1614265631, SIGNATURE_STALE},
    {"standard-webhooks-ed25519",
        "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", "", STD_BODY,
        {STD_ID, STD_TIME, "webhook-signature", STD_V1A}, 1614265330,
        SIGNATURE_RIGHT},
    {"svix", STD_SECRET, "", STD_BODY,
        {"svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "svix-timestamp",
            "1614265330", "svix-signature",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        1614265330, SIGNATURE_RIGHT},
    {"github", "It's a Secret to Everybody", "", "Hello, World!",
        {"X-Hub-Signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b0"
            "43e17"},
        0, SIGNATURE_RIGHT},
    {"meta", "mysecret", "", "{\"foo\":\"bar\"}",
        {"X-Hub-Signature-256",
            "sha256=4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f348423"
            "6bda3"},
        0, SIGNATURE_RIGHT},
    {"twilio", "12345", TWILIO_URL, TWILIO_FORM,
        {"Content-Type", FORM, "X-Twilio-Signature",
            "RSOYDt4T1cUTdK1PDd93/VVr8B8="},
        0, SIGNATURE_RIGHT},
    {"twilio", "12345", TWILIO_URL, TWILIO_FORM,
        {"Content-Type", FORM, "X-Twilio-Signature",
            "kvajT1Ptam85bY51eRf/AJRuM3w="},
        0, SIGNATURE_RIGHT},
    {"twilio", "12345", "http://mycompany.com/myapp.php?foo=1&bar=2",
        TWILIO_FORM,
        {"Content-Type", FORM, "X-Twilio-Signature",
            "0ZXoZLH/DfblKGATFgpif+LLRf4="},
        0, SIGNATURE_RIGHT},
    {"twilio", "12345", "http://mycompany.com:1234/myapp.php?foo=1&bar=2",
        TWILIO_FORM,
        {"Content-Type", FORM, "X-Twilio-Signature",
            "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="},
        0, SIGNATURE_RIGHT},
    {"twilio", "12345", TWILIO_URL, TWILIO_FORM,
        {"Content-Type", FORM, "X-Twilio-Signature",
            "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="},
        0, SIGNATURE_WRONG},
    {"twilio", "12345", TWILIO_URL,
        "{\"property\": \"value\", \"boolean\": true}",
        {"Content-Type", "application/json", "X-Twilio-Signature",
            "a9nBmqA0ju/hNViExpshrM61xv4="},
        0, SIGNATURE_RIGHT},
    {"square", "signature-key", "https://webhook.site/webhooks",
        "{\"data\":{\"type\":\"webhooks\",\"id\":\">id<\"}}",
        {"x-square-hmacsha256-signature",
            "Cxt7+aTi4rKgcA0bC4g9EHdVtLSDWdqccmL5MvihU4U="},
        0, SIGNATURE_RIGHT},
    {"sendgrid", SENDGRID_KEY, "", SENDGRID_BODY,
        {"X-Twilio-Email-Event-Webhook-Timestamp", "1600112502",
            "X-Twilio-Email-Event-Webhook-Signature",
            "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W"
            "0JuG+luQAbPIqHh89M15TluLtEZtM="},
        1600112502, SIGNATURE_RIGHT},
    {"sendgrid", SENDGRID_KEY, "", SENDGRID_BODY,
        {"X-Twilio-Email-Event-Webhook-Timestamp", "1600112502",
            "X-Twilio-Email-Event-Webhook-Signature",
            "MEUCIQCtIHJeH93Y+qpYeWrySphQgpNGNr/U+UyUlBkU6n7RAwIgJTz2C+8a8xonZG"
            "i6BpSzoQsbVRamr2nlxFDWYNH3j/0="},
        1600112502, SIGNATURE_WRONG},
    {"stripe", "whsec_test_secret", "",
        "{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}",
        {"Stripe-Signature",
            "t=1700000000,v1=4f1cd7feda9826e746b7d482c4badebb657398df1099e10463"
            "64f6196a230150"},
        1700000300, SIGNATURE_RIGHT},
    {"stripe", "whsec_test_secret", "", "{}",
        {"Stripe-Signature", "i'm not even a real signature header"},
        1700000000, SIGNATURE_MALFORMED},
    {"stripe", "whsec_test_secret", "", "{}",
        {"Stripe-Signature", "t=1700000000,v0=00"}, 1700000000,
        SIGNATURE_MALFORMED},
    {"stripe", "whsec_test_secret", "", "{}",
        {"Stripe-Signature", "t=1700000000,t=1700000001,v1=00"}, 1700000000,
        SIGNATURE_MALFORMED},
    {"zendesk", "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==", "",
        "{\"id\":1}",
        {"X-Zendesk-Webhook-Signature-Timestamp", "2021-03-25T05:09:27Z",
            "X-Zendesk-Webhook-Signature",
            "ywpRZiAB7t63lmd+pF7GH2wmTjBlyoVl8feO7lD518g="},
        1616648967, SIGNATURE_RIGHT},
    {"shopify", "hush", "", "{\"id\":820982911946154508}",
        {"X-Shopify-Hmac-SHA256",
            "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I="},
        0, SIGNATURE_RIGHT},
    {"linear", "lin_wh_test", "", LINEAR_BODY,
        {"Linear-Signature", LINEAR_RIGHT}, 1676056940 + 60, SIGNATURE_RIGHT},
    {"linear", "lin_wh_test", "", LINEAR_BODY,
        {"Linear-Signature", LINEAR_RIGHT}, 1676056940 + 61, SIGNATURE_STALE},
};

static enum signature_verdict verdict_of(const struct vector *vector)
{
    struct request request = {.count = 0};
    for (size_t i = 0; i + 1 < ARRAY_LEN(vector->headers); i += 2) {
        if (vector->headers[i] != NULL) {
            request.names[request.count] = vector->headers[i];
            request.values[request.count++] = vector->headers[i + 1];
        }
    }
    const struct signature_input input = {.method = "POST",
        .parameter = span_of(vector->parameter),
        .body = span_of(vector->body),
        .header = header_of,
        .arg = &request};
    return check(
        scheme_of(vector->scheme), &input, vector->secret, vector->now_s);
}

static void published_vectors_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(PUBLISHED); i++) {
        const enum signature_verdict verdict = verdict_of(&PUBLISHED[i]);
        if (verdict != PUBLISHED[i].verdict) {
            fail_msg("row %zu, %s: '%s'", i, PUBLISHED[i].scheme,
                signature_verdict_name(verdict));
        }
    }
}

/* What occurs twice under one name is sorted, and counts once. */
static void twilio_takes_equal_fields_once(void **state)
{
    (void)state;
    const struct vector vector = {"twilio", "12345", TWILIO_URL,
        "Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234",
        {"Content-Type", FORM, "X-Twilio-Signature",
            "IK+Dwps556ElfBT0I3Rgjkr1wJU="},
        0, SIGNATURE_RIGHT};
    assert_int_equal(verdict_of(&vector), SIGNATURE_RIGHT);
}

/* The ways in which two fields might be moved into each other. */
static void fields_do_not_run_into_each_other(void **state)
{
    (void)state;
    struct vector vector = PUBLISHED[0];
    vector.headers[1] = "msg.1614265330";
    assert_int_equal(verdict_of(&vector), SIGNATURE_MALFORMED);
    vector.headers[1] = "";
    assert_int_equal(verdict_of(&vector), SIGNATURE_MALFORMED);
}

/* The right digest is ODD_HEX "17". */
#define ODD_HEX "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e"

/* WHK-12: no length and no alphabet of a digest is anything but wrong. */
static void odd_digests_are_wrong(void **state)
{
    (void)state;
    static const char *const odd[] = {"sha256=", "sha256=ab", "sha256",
        "sha1=" ODD_HEX "17", "SHA256=" ODD_HEX "17", "sha256=" ODD_HEX "1700",
        "sha256=" ODD_HEX "1", "sha256=\xff\xfe"};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        const struct vector vector = {"github", "It's a Secret to Everybody",
            "", "Hello, World!", {"X-Hub-Signature-256", odd[i]}, 0,
            SIGNATURE_WRONG};
        assert_int_not_equal(verdict_of(&vector), SIGNATURE_RIGHT);
    }
}

/* WHK-10: the window is closed on both sides, its edges belong to it. */
static void the_window_has_two_edges(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        enum signature_verdict verdict;
    } rows[] = {
        {"t=1795999699,v1=646418e2f98cb208c9821fa1011081a679e7c19c5fc717121121"
         "f28c921f310c",
            SIGNATURE_STALE},
        {"t=1795999700,v1=762d45f889bab0c2adf4585a0894fece70ae42885ac2e77052ed"
         "1f725a727f09",
            SIGNATURE_RIGHT},
        {"t=1796000300,v1=53c6daa3f98398ae259f2d12214615e8b5265641e39a7901cdec"
         "fa5e81786289",
            SIGNATURE_RIGHT},
        {"t=1796000301,v1=45e5b702f38cb71a50dc2092db04232fea9f5b1856485abb2fe5"
         "bdfe8dad3c54",
            SIGNATURE_STALE}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct vector vector = {"stripe", "whsec_testonly_stripe_0001",
            "", "{\"id\":\"evt_1\"}", {"Stripe-Signature", rows[i].header},
            NOW_S, rows[i].verdict};
        assert_int_equal(verdict_of(&vector), rows[i].verdict);
    }
}

/* PayPal's documented sample has no published certificate, so the message. */
static void paypal_signs_a_checksum(void **state)
{
    (void)state;
    const struct signature_input input = {.method = "POST",
        .parameter = SPAN_LIT("1JE4291016473214C"),
        .body = SPAN_LIT("{\"a\":1}")};
    const struct signature_parts parts = {
        .id = SPAN_LIT("69cd13f0-d67a-11e5-baa3-778b53f4ae55"),
        .time = SPAN_LIT("2016-02-18T20:01:35Z")};
    struct buf message;
    buf_init(&message, 256);
    assert_true(
        signature_put_message(scheme_of("paypal"), &input, &parts, &message));
    assert_string_equal(buf_str(&message),
        "69cd13f0-d67a-11e5-baa3-778b53f4ae55|2016-02-18T20:01:35Z|"
        "1JE4291016473214C|1444654255");
    buf_fini(&message);
}

/* -- configuration ------------------------------------------------------------ */

static void weak_secrets_are_refused(void **state)
{
    (void)state;
    static const char *const weak[][2] = {{"standard-webhooks", ""},
        {"standard-webhooks", "whsec_"}, {"standard-webhooks", "whsec_!!!!"},
        {"standard-webhooks", "whsec_%%%"},
        {"standard-webhooks", "whsec_MDEyMzQ1Njc="},
        {"standard-webhooks-ed25519", "whpk_MDEyMzQ1Njc="}, {"discord", "00"},
        {"discord", "nothex"}, {"stripe", ""}, {"sendgrid", "AAAA"},
        {"paypal", SENDGRID_KEY}, {"paypal", "-----BEGIN PUBLIC KEY-----"}};
    for (size_t i = 0; i < ARRAY_LEN(weak); i++) {
        struct err err = ERR_INIT;
        struct buf key;
        buf_init(&key, SIGNATURE_MAX_KEY);
        assert_int_equal(signature_key_parse(scheme_of(weak[i][0]),
                             span_of(weak[i][1]), &key, &err),
            -1);
        assert_int_equal(err.class, ERR_PERMANENT);
        assert_int_equal(key.len, 0);
        buf_fini(&key);
    }
}

static void parameters_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *scheme;
        const char *parameter;
        int rc;
    } rows[] = {{"github", "", 0}, {"github", "https://a.example/x", -1},
        {"square", "", -1}, {"square", "https://a.example/x", 0},
        {"square", "ftp://a.example/x", -1},
        {"square", "https://a.example/x y", -1}, {"paypal", "", -1},
        {"paypal", "1JE4", 0}, {"paypal", "1|2", -1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = ERR_INIT;
        assert_int_equal(signature_parameter_check(scheme_of(rows[i].scheme),
                             span_of(rows[i].parameter), &err),
            rows[i].rc);
    }
}

static void the_other_form_of_a_url(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"https://a.example/x", "https://a.example:443/x"},
        {"https://a.example:443/x", "https://a.example/x"},
        {"http://a.example?b=:1", "http://a.example:80?b=:1"},
        {"http://[::1]/x", "http://[::1]:80/x"},
        {"https://a.example:8443/x", NULL}, {"ftp://a.example/x", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;
        buf_init(&out, 256);
        const bool is_there =
            signature_put_other_url(span_of(rows[i][0]), &out);
        assert_int_equal(is_there, rows[i][1] != NULL);
        assert_string_equal(buf_str(&out), is_there ? rows[i][1] : "");
        buf_fini(&out);
    }
}

static void ids_come_from_header_or_body(void **state)
{
    (void)state;
    static const struct {
        const char *scheme;
        const char *header;
        const char *value;
        const char *body;
        const char *id;
    } rows[] = {{"github", "x-github-delivery", "d-1", "", "d-1"},
        {"github", "x-github-delivery", "", "", NULL},
        {"github", "x", "", "", NULL},
        {"stripe", "x", "", "{\"id\":\"evt_1\"}", "evt_1"},
        {"stripe", "x", "", "{\"id\":17}", "17"},
        {"stripe", "x", "", "{\"id\":null}", NULL},
        {"stripe", "x", "", "{\"id\":\"a\\u0000\"}", NULL},
        {"stripe", "x", "", "no json", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request request = {
            .names = {rows[i].header}, .values = {rows[i].value}, .count = 1};
        const struct signature_input input = {.body = span_of(rows[i].body),
            .header = header_of,
            .arg = &request};
        struct buf id;
        buf_init(&id, 512);
        assert_int_equal(
            signature_sender_id(scheme_of(rows[i].scheme), &input, &id),
            rows[i].id != NULL);
        assert_string_equal(buf_str(&id), rows[i].id == NULL ? "" : rows[i].id);
        buf_fini(&id);
    }
}

/* A row that is wrong in itself would refuse or take everything. */
static void every_row_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIGNATURE_SCHEME_COUNT; i++) {
        const struct signature_scheme *scheme = &SIGNATURE_SCHEMES[i];
        assert_ptr_equal(signature_find(span_of(scheme->name)), scheme);
        assert_non_null(scheme->header);
        assert_non_null(scheme->prefix);
        assert_true(strstr(scheme->message, "{body}") != NULL ||
                    strstr(scheme->message, "{form}") != NULL ||
                    strstr(scheme->message, "{crc32}") != NULL);
        const bool is_timed = scheme->time != SIGNATURE_TIME_NONE;
        assert_int_equal(is_timed, scheme->time_at != NULL);
        assert_int_equal(is_timed, scheme->tolerance_s > 0);
        if (is_timed && scheme->time != SIGNATURE_TIME_BODY_MS) {
            assert_non_null(strstr(scheme->message, "{time}"));
        }
        if (strstr(scheme->message, "{id}") != NULL) {
            assert_non_null(scheme->id_header);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_hold),
        cmocka_unit_test(twilio_takes_equal_fields_once),
        cmocka_unit_test(fields_do_not_run_into_each_other),
        cmocka_unit_test(odd_digests_are_wrong),
        cmocka_unit_test(the_window_has_two_edges),
        cmocka_unit_test(paypal_signs_a_checksum),
        cmocka_unit_test(weak_secrets_are_refused),
        cmocka_unit_test(parameters_are_checked),
        cmocka_unit_test(the_other_form_of_a_url),
        cmocka_unit_test(ids_come_from_header_or_body),
        cmocka_unit_test(every_row_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
