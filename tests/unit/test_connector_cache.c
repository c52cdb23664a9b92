/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "schema/connector_cache.h"

static const uint8_t UNKNOWN[SHA256_SIZE] = {0xFF};

/* Adds a version of "shop" under the digest of its text. */
static int add(struct connector_cache *cache, int64_t number,
    const char *version, uint8_t digest[SHA256_SIZE])
{
    struct fault fault = FAULT_INIT;
    struct buf text;
    buf_init(&text, 1024);
    buf_printf(&text,
        "{\"manifest\":1,\"name\":\"shop\",\"version\":\"%s\","
        "\"base_url\":\"https://shop.example.com\",\"actions\":{\"buy\":{"
        "\"idempotency\":\"natural\",\"request\":{\"method\":\"GET\","
        "\"path\":\"/\"}}}}",
        version);
    sha256(buf_span(&text), digest);
    const int rc =
        connector_cache_add(cache, number, digest, buf_span(&text), &fault);
    buf_fini(&text);
    return rc;
}

static void newest_version_is_found_in_any_order(void **state)
{
    static const int64_t orders[][3] = {
        {1, 2, 3}, {3, 2, 1}, {2, 3, 1}, {1, 3, 2}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        uint8_t digest[SHA256_SIZE];
        struct connector_cache *cache = connector_cache_new();
        for (size_t k = 0; k < ARRAY_LEN(orders[i]); k++) {
            const char version[] = {(char)('0' + orders[i][k]), '\0'};
            assert_int_equal(add(cache, orders[i][k], version, digest), 0);
        }
        struct manifest *manifest = connector_cache_find(cache, "shop");
        assert_non_null(manifest);
        assert_string_equal(manifest_version(manifest), "3");
        assert_null(connector_cache_find(cache, "other"));
        connector_cache_free(cache);
    }
}

static void each_version_is_found_by_its_digest(void **state)
{
    uint8_t one[SHA256_SIZE];
    uint8_t two[SHA256_SIZE];
    struct manifest *manifest = NULL;
    struct connector_cache *cache = connector_cache_new();
    (void)state;
    assert_int_equal(add(cache, 1, "1", one), 0);
    assert_int_equal(add(cache, 2, "2", two), 0);
    assert_int_equal(add(cache, 2, "2", two), 0); /* again: nothing */
    assert_true(connector_cache_find_digest(cache, one, &manifest));
    assert_string_equal(manifest_version(manifest), "1");
    assert_true(connector_cache_find_digest(cache, two, &manifest));
    assert_string_equal(manifest_version(manifest), "2");
    assert_false(connector_cache_find_digest(cache, UNKNOWN, &manifest));
    assert_false(connector_cache_is_full(cache));
    connector_cache_free(cache);
}

static void one_that_does_not_load_is_known_but_never_used(void **state)
{
    struct fault fault = FAULT_INIT;
    struct pg_params params;
    uint8_t good[SHA256_SIZE];
    struct manifest *manifest = NULL;
    struct connector_cache *cache = connector_cache_new();
    (void)state;
    assert_int_equal(add(cache, 1, "1", good), 0);
    assert_int_equal(
        connector_cache_add(cache, 2, UNKNOWN, SPAN_LIT("{}"), &fault), -1);
    assert_string_not_equal(fault.detail, "");
    assert_true(connector_cache_find_digest(cache, UNKNOWN, &manifest));
    assert_null(manifest);
    assert_non_null(connector_cache_find(cache, "shop"));
    pg_params_init(&params);
    connector_cache_put_known(cache, &params);
    assert_int_equal(params.count, 1);
    /* Array head of 20 bytes, then a length and a digest each. */
    assert_int_equal(params.size[0], 20 + 2 * (4 + SHA256_SIZE));
    pg_params_fini(&params);
    connector_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_version_is_found_in_any_order),
        cmocka_unit_test(each_version_is_found_by_its_digest),
        cmocka_unit_test(one_that_does_not_load_is_known_but_never_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
