/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/crypt.h"

static void assert_hex(const uint8_t *bytes, size_t len, const char *expected)
{
    struct buf text;
    buf_init(&text, 1000);
    hex_put(&text, (struct span){.ptr = (const char *)bytes, .len = len});
    assert_string_equal(buf_str(&text), expected);
    buf_fini(&text);
}

/* FIPS 180-2 appendix B, and the empty message. */
static void sha256_gives_the_published_digests(void **state)
{
    (void)state;
    uint8_t digest[SHA256_SIZE];
    sha256(SPAN_LIT("abc"), digest);
    assert_hex(digest, sizeof(digest),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256(span_of(NULL), digest);
    assert_hex(digest, sizeof(digest),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void parts_are_length_prefixed(void **state)
{
    (void)state;
    uint8_t of_parts[SHA256_SIZE];
    uint8_t of_whole[SHA256_SIZE];
    const struct span ab_c[] = {SPAN_LIT("ab"), SPAN_LIT("c")};
    const struct span a_bc[] = {SPAN_LIT("a"), SPAN_LIT("bc")};
    sha256_parts(ab_c, ARRAY_LEN(ab_c), of_parts);
    sha256(SPAN_LIT("\0\0\0\0\0\0\0\2"
                    "ab"
                    "\0\0\0\0\0\0\0\1"
                    "c"),
        of_whole);
    assert_memory_equal(of_parts, of_whole, SHA256_SIZE);
    sha256_parts(a_bc, ARRAY_LEN(a_bc), of_whole);
    assert_memory_not_equal(of_parts, of_whole, SHA256_SIZE);
}

/* RFC 4231 test case 2, and an empty key. */
static void hmac_gives_the_published_digests(void **state)
{
    (void)state;
    uint8_t digest[SHA256_SIZE];
    hmac_sha256(
        SPAN_LIT("Jefe"), SPAN_LIT("what do ya want for nothing?"), digest);
    assert_hex(digest, sizeof(digest),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    hmac_sha256(span_of(NULL), SPAN_LIT(""), digest);
    assert_hex(digest, sizeof(digest),
        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void random_fractions_stay_within_both_ends(void **state)
{
    (void)state;
    bool is_seen[4] = {false};
    for (int i = 0; i < 1000; i++) {
        const int64_t value = random_up_to(3);
        assert_in_range(value, 0, 3);
        is_seen[value] = true;
    }
    /* Missing one of four in a thousand draws has a chance below 1e-124. */
    for (size_t i = 0; i < ARRAY_LEN(is_seen); i++) {
        assert_true(is_seen[i]);
    }
    assert_int_equal(random_up_to(0), 0);
    assert_int_equal(random_up_to(-5), 0);
    assert_true(random_up_to(INT64_MAX) >= 0);
    assert_true(random_u64() != random_u64());
}

static void secrets_compare(void **state)
{
    (void)state;
    assert_true(equal_in_constant_time(SPAN_LIT("abc"), SPAN_LIT("abc")));
    assert_false(equal_in_constant_time(SPAN_LIT("abc"), SPAN_LIT("abd")));
    assert_false(equal_in_constant_time(SPAN_LIT("abc"), SPAN_LIT("ab")));
    assert_true(equal_in_constant_time(span_of(NULL), SPAN_LIT("")));
}

static void uuid_v7_ascends_and_says_its_version(void **state)
{
    (void)state;
    uint8_t before[UUID_SIZE] = {0};
    for (int i = 0; i < 20000; i++) {
        uint8_t uuid[UUID_SIZE];
        uuid_v7(uuid);
        assert_int_equal(uuid[6] >> 4, 7);
        assert_int_equal(uuid[8] >> 6, 2);
        assert_true(memcmp(before, uuid, UUID_SIZE) < 0);
        memcpy(before, uuid, UUID_SIZE);
    }
}

static void uuid_of_a_digest_is_version_8(void **state)
{
    (void)state;
    uint8_t digest[SHA256_SIZE];
    uint8_t uuid[UUID_SIZE];
    char text[UUID_TEXT_SIZE];
    sha256(SPAN_LIT("abc"), digest);
    uuid_from_digest(digest, uuid);
    uuid_format(uuid, text);
    assert_string_equal(text, "ba7816bf-8f01-8fea-8141-40de5dae2223");
}

static void uuids_parse_in_one_form_only(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "ba7816bf8f018fea814140de5dae2223",
        "ba7816bf-8f01-8fea-8141-40de5dae222",
        "ba7816bf-8f01-8fea-8141-40de5dae22233",
        "ba7816bf-8f01-8fea-814140-de5dae2223",
        "{a7816bf-8f01-8fea-8141-40de5dae2223",
        "ba7816bg-8f01-8fea-8141-40de5dae2223"};
    uint8_t uuid[UUID_SIZE];
    char text[UUID_TEXT_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_false(uuid_parse(span_of(wrong[i]), uuid));
    }
    assert_true(
        uuid_parse(SPAN_LIT("BA7816bf-8F01-8fea-8141-40DE5dae2223"), uuid));
    uuid_format(uuid, text);
    assert_string_equal(text, "ba7816bf-8f01-8fea-8141-40de5dae2223");
}

static void hex_decodes_whole_bytes_only(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 100);
    assert_true(hex_decode(SPAN_LIT("00fFa1"), &out));
    assert_memory_equal(out.data, "\x00\xff\xa1", 3);
    buf_clear(&out);
    assert_false(hex_decode(SPAN_LIT("0"), &out));
    assert_false(hex_decode(SPAN_LIT("0g"), &out));
    assert_false(hex_decode(SPAN_LIT("0x00"), &out));
    assert_int_equal(out.len, 0);
    buf_fini(&out);
}

/* RFC 4648 section 10. */
static void base64_both_ways(void **state)
{
    (void)state;
    static const struct {
        const char *plain;
        const char *text;
        const char *url;
    } rows[] = {
        {"", "", ""},
        {"f", "Zg==", "Zg"},
        {"foo", "Zm9v", "Zm9v"},
        {"foob", "Zm9vYg==", "Zm9vYg"},
        {"fooba", "Zm9vYmE=", "Zm9vYmE"},
        {"foobar", "Zm9vYmFy", "Zm9vYmFy"},
        {"\xfb\xff\xbf", "+/+/", "-_-_"},
    };
    struct buf out;
    buf_init(&out, 100);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        buf_clear(&out);
        base64_put(&out, span_of(rows[i].plain));
        assert_string_equal(buf_str(&out), rows[i].text);
        buf_clear(&out);
        base64url_put(&out, span_of(rows[i].plain));
        assert_string_equal(buf_str(&out), rows[i].url);
        buf_clear(&out);
        assert_true(base64_decode(span_of(rows[i].text), &out));
        assert_string_equal(buf_str(&out), rows[i].plain);
    }
    buf_fini(&out);
}

static void base64_refuses_what_is_not_strict(void **state)
{
    (void)state;
    static const char *const wrong[] = {"Z", "Zg",
        "Zg=", "Zg===", "====", "=Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Zm9v\n",
        "Zm 9v", "-_-_", "Z===", "Zm=v"};
    struct buf out;
    buf_init(&out, 100);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_false(base64_decode(span_of(wrong[i]), &out));
    }
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_published_digests),
        cmocka_unit_test(parts_are_length_prefixed),
        cmocka_unit_test(hmac_gives_the_published_digests),
        cmocka_unit_test(random_fractions_stay_within_both_ends),
        cmocka_unit_test(secrets_compare),
        cmocka_unit_test(uuid_v7_ascends_and_says_its_version),
        cmocka_unit_test(uuid_of_a_digest_is_version_8),
        cmocka_unit_test(uuids_parse_in_one_form_only),
        cmocka_unit_test(hex_decodes_whole_bytes_only),
        cmocka_unit_test(base64_both_ways),
        cmocka_unit_test(base64_refuses_what_is_not_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
