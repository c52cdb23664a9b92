/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crypt: hashes, random bytes, identifiers and text encodings (OpenSSL 3).
 * A failure inside OpenSSL aborts: nothing sensible can follow it.
 */
#ifndef CRYPT_H
#define CRYPT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

#define SHA256_SIZE 32
#define UUID_SIZE 16
#define UUID_TEXT_SIZE 37 /* 8-4-4-4-12 and the end */

void sha256(struct span bytes, uint8_t digest[SHA256_SIZE]);
/* Several parts, each preceded by its length as 8 bytes big-endian, so that
 * no two lists of parts give the same input. */
void sha256_parts(
    const struct span *parts, size_t count, uint8_t digest[SHA256_SIZE]);
void hmac_sha256(
    struct span key, struct span bytes, uint8_t digest[SHA256_SIZE]);

void random_bytes(void *bytes, size_t len);
uint64_t random_u64(void);
/* A random fraction of max in 0..max, both ends included. */
int64_t random_up_to(int64_t max);

/* True if equal; time depends on the lengths only. */
bool equal_in_constant_time(struct span a, struct span b);

void uuid_v7(uint8_t uuid[UUID_SIZE]); /* RFC 9562 5.7, monotonic */
/* The first 16 bytes of a digest as a version 8 UUID (RFC 9562 5.8). */
void uuid_from_digest(
    const uint8_t digest[SHA256_SIZE], uint8_t uuid[UUID_SIZE]);
void uuid_format(const uint8_t uuid[UUID_SIZE], char text[UUID_TEXT_SIZE]);
bool uuid_parse(struct span text, uint8_t uuid[UUID_SIZE]); /* lower or upper */

void hex_put(struct buf *out, struct span bytes);
bool hex_decode(struct span text, struct buf *out);
void base64_put(struct buf *out, struct span bytes);    /* with padding */
void base64url_put(struct buf *out, struct span bytes); /* without padding */
bool base64_decode(struct span text, struct buf *out);  /* strict, padded */

#endif
