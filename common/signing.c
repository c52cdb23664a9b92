/* SPDX-License-Identifier: Apache-2.0 */
#include "common/signing.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"

enum { MIN_RSA_BITS = 2048 };

static const unsigned char *bytes_of(struct span span)
{
    static const unsigned char none[1];
    return span.len == 0 ? none : (const unsigned char *)span.ptr;
}

void hmac_sha1(struct span key, struct span bytes, uint8_t digest[SHA1_SIZE])
{
    unsigned len = 0;
    if (HMAC(EVP_sha1(), bytes_of(key), (int)key.len, bytes_of(bytes),
            bytes.len, digest, &len) == NULL ||
        len != SHA1_SIZE) {
        (void)fprintf(stderr, "OpenSSL failed: HMAC-SHA1\n");
        abort();
    }
}

/* Takes the key over. */
static bool is_signed(EVP_PKEY *key, const EVP_MD *digest, struct span bytes,
    struct span signature)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    const bool is_right =
        key != NULL && ctx != NULL &&
        EVP_DigestVerifyInit(ctx, NULL, digest, NULL, key) == 1 &&
        EVP_DigestVerify(ctx, bytes_of(signature), signature.len,
            bytes_of(bytes), bytes.len) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    ERR_clear_error(); /* else the next TLS call takes it for its own */
    return is_right;
}

bool ed25519_is_signed(
    struct span key, struct span bytes, struct span signature)
{
    return is_signed(EVP_PKEY_new_raw_public_key(
                         EVP_PKEY_ED25519, NULL, bytes_of(key), key.len),
        NULL, bytes, signature);
}

bool sha256_is_signed(struct span key, struct span bytes, struct span signature)
{
    const unsigned char *at = bytes_of(key);
    return is_signed(
        d2i_PUBKEY(NULL, &at, (long)key.len), EVP_sha256(), bytes, signature);
}

/* -- keys ------------------------------------------------------------------ */

static EVP_PKEY *read_pem(struct span text)
{
    BIO *bio = BIO_new_mem_buf(text.ptr, (int)text.len);
    EVP_PKEY *key = NULL;
    if (bio != NULL && memmem(text.ptr, text.len, "BEGIN CERTIFICATE", 17)) {
        X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        key = certificate == NULL ? NULL : X509_get_pubkey(certificate);
        X509_free(certificate);
    } else if (bio != NULL) {
        key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    }
    BIO_free(bio);
    return key;
}

static EVP_PKEY *read_key(struct span text)
{
    if (memmem(text.ptr, text.len, "-----BEGIN ", 11) != NULL) {
        return read_pem(text);
    }
    EVP_PKEY *key = NULL;
    struct buf der;
    buf_init(&der, SIGNING_MAX_KEY_BYTES);
    if (base64_decode(text, &der) && !der.is_overflowed && der.len > 0) {
        const unsigned char *at = (const unsigned char *)der.data;
        key = d2i_PUBKEY(NULL, &at, (long)der.len);
    }
    buf_fini(&der);
    return key;
}

static bool is_of_kind(const EVP_PKEY *key, enum signing_kind kind)
{
    char group[32] = "";
    size_t len = 0;
    if (kind == SIGNING_RSA) {
        return EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA &&
               EVP_PKEY_get_bits(key) >= MIN_RSA_BITS;
    }
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(key, group, sizeof(group), &len) == 1 &&
           strcmp(group, "prime256v1") == 0;
}

bool signing_key_parse(
    struct span text, enum signing_kind kind, struct buf *out)
{
    if (text.len == 0 || text.len > SIGNING_MAX_KEY_BYTES) {
        return false;
    }
    unsigned char *der = NULL;
    EVP_PKEY *key = read_key(text);
    const bool is_key = key != NULL && is_of_kind(key, kind);
    const int len = is_key ? i2d_PUBKEY(key, &der) : 0;
    if (len > 0) {
        buf_put(out, der, (size_t)len);
    }
    OPENSSL_free(der);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return len > 0;
}
