/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/seal.h"

#define KEY_A "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define KEY_B "HxAdHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA="

static struct seal_keys *keys_of(const char *text)
{
    struct err err = ERR_INIT;
    struct seal_keys *keys = seal_keys_parse(span_of(text), &err);
    if (keys == NULL) {
        fail_msg("%s", err.msg);
    }
    return keys;
}

static void what_is_sealed_opens(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "x", "a longer secret"};
    struct seal_keys *keys = keys_of("7:" KEY_A "\n");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err err = ERR_INIT;
        struct buf sealed;
        struct buf plain;
        buf_init(&sealed, 1000);
        buf_init(&plain, 1000);
        seal_put(keys, span_of(texts[i]), SPAN_LIT("here"), &sealed);
        assert_int_equal(sealed.len, strlen(texts[i]) + SEAL_OVERHEAD);
        assert_int_equal(seal_key_number(buf_span(&sealed)), 7);
        assert_int_equal(
            seal_open(keys, buf_span(&sealed), SPAN_LIT("here"), &plain, &err),
            0);
        assert_string_equal(buf_str(&plain), texts[i]);
        buf_fini(&sealed);
        buf_fini(&plain);
    }
    seal_keys_free(keys);
}

static void no_two_sealed_texts_are_alike(void **state)
{
    (void)state;
    struct seal_keys *keys = keys_of("1:" KEY_A);
    struct buf one;
    struct buf two;
    buf_init(&one, 1000);
    buf_init(&two, 1000);
    seal_put(keys, SPAN_LIT("same"), SPAN_LIT("here"), &one);
    seal_put(keys, SPAN_LIT("same"), SPAN_LIT("here"), &two);
    assert_false(span_equal(buf_span(&one), buf_span(&two)));
    buf_fini(&one);
    buf_fini(&two);
    seal_keys_free(keys);
}

static void every_changed_byte_is_seen(void **state)
{
    (void)state;
    struct seal_keys *keys = keys_of("1:" KEY_A);
    struct buf sealed;
    struct buf plain;
    buf_init(&sealed, 1000);
    buf_init(&plain, 1000);
    seal_put(keys, SPAN_LIT("secret"), SPAN_LIT("here"), &sealed);
    for (size_t i = 0; i < sealed.len; i++) {
        struct err err = ERR_INIT;
        sealed.data[i] = (char)(sealed.data[i] ^ 1);
        assert_int_equal(
            seal_open(keys, buf_span(&sealed), SPAN_LIT("here"), &plain, &err),
            -1);
        assert_int_equal(err.class, ERR_PERMANENT);
        sealed.data[i] = (char)(sealed.data[i] ^ 1);
        const struct span cut = {sealed.data, i};
        assert_int_equal(
            seal_open(keys, cut, SPAN_LIT("here"), &plain, &err), -1);
    }
    struct err err = ERR_INIT;
    assert_int_equal(
        seal_open(keys, buf_span(&sealed), SPAN_LIT("there"), &plain, &err),
        -1);
    assert_int_equal(plain.len, 0);
    buf_fini(&sealed);
    buf_fini(&plain);
    seal_keys_free(keys);
}

static void the_first_key_seals_and_all_open(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct seal_keys *old = keys_of("1:" KEY_A);
    struct seal_keys *both = keys_of("2:" KEY_B "\n1:" KEY_A "\n");
    struct seal_keys *new = keys_of("2:" KEY_B);
    struct buf sealed;
    struct buf plain;
    buf_init(&sealed, 1000);
    buf_init(&plain, 1000);
    seal_put(old, SPAN_LIT("x"), SPAN_LIT("c"), &sealed);
    assert_int_equal(
        seal_open(both, buf_span(&sealed), SPAN_LIT("c"), &plain, &err), 0);
    assert_int_equal(
        seal_open(new, buf_span(&sealed), SPAN_LIT("c"), &plain, &err), -1);
    assert_string_equal(err.code, "UNKNOWN_MASTER_KEY");
    buf_clear(&sealed);
    seal_put(both, SPAN_LIT("x"), SPAN_LIT("c"), &sealed);
    assert_int_equal(seal_key_number(buf_span(&sealed)), 2);
    buf_fini(&sealed);
    buf_fini(&plain);
    seal_keys_free(old);
    seal_keys_free(both);
    seal_keys_free(new);
}

static void bad_files_are_refused_by_line(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "\n\n", KEY_A, "0:" KEY_A,
        "-1:" KEY_A, "x:" KEY_A, "4294967296:" KEY_A, "1:AAAA",
        "1:", "1:" KEY_A "\n1:" KEY_B, "1:" KEY_A "\n2:!"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_INIT;
        assert_null(seal_keys_parse(span_of(bad[i]), &err));
        assert_int_equal(err.class, ERR_PERMANENT);
        assert_null(strstr(err.msg, "AAEC"));
    }
    seal_keys_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sealed_opens),
        cmocka_unit_test(no_two_sealed_texts_are_alike),
        cmocka_unit_test(every_changed_byte_is_seen),
        cmocka_unit_test(the_first_key_seals_and_all_open),
        cmocka_unit_test(bad_files_are_refused_by_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
