/* SPDX-License-Identifier: Apache-2.0 */
#include "common/crypt.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fetched once: looking an algorithm up costs more than a short hash. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *md_sha256;
static EVP_MAC *mac_hmac;

static void require(bool is_ok, const char *what)
{
    if (!is_ok) {
        (void)fprintf(stderr, "OpenSSL failed: %s\n", what);
        abort();
    }
}

static void fetch(void)
{
    md_sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    require(md_sha256 != NULL, "fetch SHA256");
    mac_hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    require(mac_hmac != NULL, "fetch HMAC");
}

static void fetch_once(void)
{
    (void)pthread_once(&once, fetch);
}

void sha256(struct span bytes, uint8_t digest[SHA256_SIZE])
{
    fetch_once();
    require(
        EVP_Digest(bytes.ptr, bytes.len, digest, NULL, md_sha256, NULL) == 1,
        "SHA256");
}

void sha256_parts(
    const struct span *parts, size_t count, uint8_t digest[SHA256_SIZE])
{
    fetch_once();
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    require(ctx != NULL && EVP_DigestInit_ex2(ctx, md_sha256, NULL) == 1,
        "start SHA256");
    for (size_t i = 0; i < count; i++) {
        uint8_t length[8];
        for (size_t byte = 0; byte < sizeof(length); byte++) {
            length[byte] = (uint8_t)((uint64_t)parts[i].len >> (56 - 8 * byte));
        }
        require(EVP_DigestUpdate(ctx, length, sizeof(length)) == 1 &&
                    EVP_DigestUpdate(ctx, parts[i].ptr, parts[i].len) == 1,
            "SHA256");
    }
    require(EVP_DigestFinal_ex(ctx, digest, NULL) == 1, "end SHA256");
    EVP_MD_CTX_free(ctx);
}

void hmac_sha256(
    struct span key, struct span bytes, uint8_t digest[SHA256_SIZE])
{
    /* OpenSSL wants a pointer it may not write to, but does not say const. */
    char name[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
        OSSL_PARAM_construct_end()};
    static const unsigned char none[1];
    /* A null key would mean "keep the key of before". */
    const unsigned char *start =
        key.len == 0 ? none : (const unsigned char *)key.ptr;
    size_t len = 0;
    fetch_once();
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac_hmac);
    require(ctx != NULL && EVP_MAC_init(ctx, start, key.len, params) == 1 &&
                EVP_MAC_update(
                    ctx, (const unsigned char *)bytes.ptr, bytes.len) == 1 &&
                EVP_MAC_final(ctx, digest, &len, SHA256_SIZE) == 1 &&
                len == SHA256_SIZE,
        "HMAC");
    EVP_MAC_CTX_free(ctx);
}

void random_bytes(void *bytes, size_t len)
{
    require(RAND_bytes_ex(NULL, bytes, len, 0) == 1, "random bytes");
}

uint64_t random_u64(void)
{
    uint64_t value = 0;
    random_bytes(&value, sizeof(value));
    return value;
}

int64_t random_up_to(int64_t max)
{
    if (max <= 0) {
        return 0;
    }
    const uint64_t span = (uint64_t)max + 1;
    /* Below this the remainders would not be equally likely. */
    const uint64_t uneven = (UINT64_MAX - span + 1) % span;
    uint64_t value = random_u64();
    while (value < uneven) {
        value = random_u64();
    }
    return (int64_t)(value % span);
}

bool equal_in_constant_time(struct span a, struct span b)
{
    return a.len == b.len &&
           (a.len == 0 || CRYPTO_memcmp(a.ptr, b.ptr, a.len) == 0);
}
