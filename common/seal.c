/* SPDX-License-Identifier: Apache-2.0 */
#include "common/seal.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf.h"
#include "common/crypt.h"

enum {
    VERSION = 1,
    KEY_SIZE = 32,
    NONCE_SIZE = 12,
    TAG_SIZE = 16,
    HEAD_SIZE = 5, /* version and number */
    MAX_KEYS = 16
};
_Static_assert(HEAD_SIZE + NONCE_SIZE + TAG_SIZE == SEAL_OVERHEAD, "overhead");

struct seal_key {
    uint32_t number;
    uint8_t bytes[KEY_SIZE];
};

struct seal_keys {
    size_t count;
    struct seal_key keys[MAX_KEYS];
};

static void require(bool is_ok, const char *what)
{
    if (!is_ok) {
        (void)fprintf(stderr, "OpenSSL failed: %s\n", what);
        abort();
    }
}

/* -- the file -------------------------------------------------------------- */

static const struct seal_key *find_key(
    const struct seal_keys *keys, uint32_t number)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].number == number) {
            return &keys->keys[i];
        }
    }
    return NULL;
}

/* The words for what is wrong, or NULL. */
static const char *take_line(struct seal_keys *keys, struct span line)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    if (colon == NULL) {
        return "is not NUMBER:BASE64";
    }
    const struct span head = {line.ptr, (size_t)(colon - line.ptr)};
    const struct span text = {colon + 1, line.len - head.len - 1};
    int64_t number = 0;
    if (!span_to_int(head, &number) || number < 1 || number > UINT32_MAX) {
        return "does not begin with a number from 1";
    }
    if (find_key(keys, (uint32_t)number) != NULL) {
        return "has the number of an earlier one";
    }
    if (keys->count == MAX_KEYS) {
        return "is one too many: at most 16 keys";
    }
    struct buf bytes;
    buf_init(&bytes, SEAL_MAX_PLAIN);
    const bool is_key = base64_decode(text, &bytes) && bytes.len == KEY_SIZE;
    if (is_key) {
        struct seal_key *key = &keys->keys[keys->count++];
        key->number = (uint32_t)number;
        memcpy(key->bytes, bytes.data, KEY_SIZE);
    }
    if (bytes.data != NULL) {
        OPENSSL_cleanse(bytes.data, bytes.cap);
    }
    buf_fini(&bytes);
    return is_key ? NULL : "does not hold 32 bytes of base64";
}

struct seal_keys *seal_keys_parse(struct span text, struct err *err)
{
    struct seal_keys *keys = mem_zalloc(1, sizeof(*keys));
    int number = 0;
    while (text.len > 0) {
        const char *feed = memchr(text.ptr, '\n', text.len);
        const size_t len = feed == NULL ? text.len : (size_t)(feed - text.ptr);
        const struct span line = {text.ptr, len};
        number++;
        const char *wrong = line.len == 0 ? NULL : take_line(keys, line);
        if (wrong != NULL) {
            (void)err_set(err, ERR_PERMANENT, "BAD_MASTER_KEY", "line %d %s",
                number, wrong);
            seal_keys_free(keys);
            return NULL;
        }
        text.ptr += feed == NULL ? len : len + 1;
        text.len -= feed == NULL ? len : len + 1;
    }
    if (keys->count == 0) {
        (void)err_set(err, ERR_PERMANENT, "BAD_MASTER_KEY",
            "no key in it; each line is NUMBER:BASE64 of 32 bytes");
        seal_keys_free(keys);
        return NULL;
    }
    return keys;
}

struct seal_keys *seal_keys_load(const char *path, struct err *err)
{
    char *text = NULL;
    if (conf_read_secret(path, &text, err) != 0) {
        return NULL;
    }
    struct seal_keys *keys = seal_keys_parse(span_of(text), err);
    if (keys == NULL) {
        (void)err_wrap(err, "master keys in %s", path);
    }
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return keys;
}

void seal_keys_free(struct seal_keys *keys)
{
    if (keys != NULL) {
        OPENSSL_cleanse(keys, sizeof(*keys));
        free(keys);
    }
}

/* -- sealing --------------------------------------------------------------- */

static const unsigned char *bytes_of(struct span span)
{
    static const unsigned char none[1];
    return span.len == 0 ? none : (const unsigned char *)span.ptr;
}

void seal_put(const struct seal_keys *keys, struct span plain,
    struct span context, struct buf *out)
{
    const struct seal_key *key = &keys->keys[0];
    const uint8_t head[HEAD_SIZE] = {VERSION, (uint8_t)(key->number >> 24),
        (uint8_t)(key->number >> 16), (uint8_t)(key->number >> 8),
        (uint8_t)key->number};
    uint8_t nonce[NONCE_SIZE];
    uint8_t tag[TAG_SIZE];
    int len = 0;
    require(plain.len <= SEAL_MAX_PLAIN, "text to seal is too long");
    unsigned char *cipher = mem_alloc(plain.len + 1);
    random_bytes(nonce, sizeof(nonce));
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    require(
        ctx != NULL &&
            EVP_EncryptInit_ex(
                ctx, EVP_aes_256_gcm(), NULL, key->bytes, nonce) == 1 &&
            EVP_EncryptUpdate(ctx, NULL, &len, head, HEAD_SIZE) == 1 &&
            EVP_EncryptUpdate(
                ctx, NULL, &len, bytes_of(context), (int)context.len) == 1 &&
            EVP_EncryptUpdate(
                ctx, cipher, &len, bytes_of(plain), (int)plain.len) == 1 &&
            EVP_EncryptFinal_ex(ctx, cipher + plain.len, &len) == 1 &&
            EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, tag) == 1,
        "AES-256-GCM");
    EVP_CIPHER_CTX_free(ctx);
    buf_put(out, head, sizeof(head));
    buf_put(out, nonce, sizeof(nonce));
    buf_put(out, cipher, plain.len);
    buf_put(out, tag, sizeof(tag));
    free(cipher);
}

/* True if the tag holds; plain has cipher.len bytes. */
static bool decrypt(const struct seal_key *key, struct span sealed,
    struct span context, unsigned char *plain)
{
    const unsigned char *head = (const unsigned char *)sealed.ptr;
    const unsigned char *nonce = head + HEAD_SIZE;
    const unsigned char *cipher = nonce + NONCE_SIZE;
    const size_t cipher_len = sealed.len - SEAL_OVERHEAD;
    unsigned char tag[TAG_SIZE];
    int len = 0;
    memcpy(tag, cipher + cipher_len, TAG_SIZE);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    require(
        ctx != NULL &&
            EVP_DecryptInit_ex(
                ctx, EVP_aes_256_gcm(), NULL, key->bytes, nonce) == 1 &&
            EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_SIZE, tag) == 1,
        "AES-256-GCM");
    const bool is_right =
        EVP_DecryptUpdate(ctx, NULL, &len, head, HEAD_SIZE) == 1 &&
        EVP_DecryptUpdate(
            ctx, NULL, &len, bytes_of(context), (int)context.len) == 1 &&
        EVP_DecryptUpdate(ctx, plain, &len, cipher, (int)cipher_len) == 1 &&
        EVP_DecryptFinal_ex(ctx, plain + cipher_len, &len) == 1;
    EVP_CIPHER_CTX_free(ctx);
    ERR_clear_error(); /* else the next TLS call takes it for its own */
    return is_right;
}

int seal_open(const struct seal_keys *keys, struct span sealed,
    struct span context, struct buf *out, struct err *err)
{
    const uint32_t number = seal_key_number(sealed);
    if (number == 0 || sealed.len > SEAL_MAX_PLAIN + SEAL_OVERHEAD) {
        return err_set(err, ERR_PERMANENT, "NOT_SEALED", "no sealed text");
    }
    const struct seal_key *key = find_key(keys, number);
    if (key == NULL) {
        return err_set(err, ERR_PERMANENT, "UNKNOWN_MASTER_KEY",
            "sealed with master key %u, which the file does not have",
            (unsigned)number);
    }
    const size_t len = sealed.len - SEAL_OVERHEAD;
    unsigned char *plain = mem_zalloc(len + 1, 1);
    const bool is_right = decrypt(key, sealed, context, plain);
    if (is_right) {
        buf_put(out, plain, len);
    }
    OPENSSL_cleanse(plain, len);
    free(plain);
    if (!is_right) {
        return err_set(err, ERR_PERMANENT, "SEAL_BROKEN",
            "damaged, or sealed for another place or with another master "
            "key %u",
            (unsigned)number);
    }
    return 0;
}

uint32_t seal_key_number(struct span sealed)
{
    if (sealed.len < SEAL_OVERHEAD || sealed.ptr[0] != VERSION) {
        return 0;
    }
    uint32_t number = 0;
    for (size_t i = 1; i < HEAD_SIZE; i++) {
        number = number << 8 | (unsigned char)sealed.ptr[i];
    }
    return number;
}
