/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signing: checks signatures that others made (OpenSSL 3), beside the
 * HMAC-SHA256 of crypt.h. Nothing here signs with a private key.
 */
#ifndef SIGNING_H
#define SIGNING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

#define SHA1_SIZE 20
#define ED25519_KEY_SIZE 32
#define SIGNING_MAX_KEY_BYTES ((size_t)16 << 10)

/* For senders that know no better; HMAC does not need SHA-1 to resist
 * collisions. */
void hmac_sha1(struct span key, struct span bytes, uint8_t digest[SHA1_SIZE]);

/* key: the 32 raw bytes. False for a bad key or signature too. */
bool ed25519_is_signed(
    struct span key, struct span bytes, struct span signature);

/* key: a DER SubjectPublicKeyInfo. signature: DER (ECDSA), PKCS #1 v1.5 (RSA);
 * the digest is SHA-256. */
bool sha256_is_signed(
    struct span key, struct span bytes, struct span signature);

enum signing_kind { SIGNING_EC_P256, SIGNING_RSA };
/* Appends the DER SubjectPublicKeyInfo of a key given as PEM (a public key or
 * a certificate) or as base64 of DER. False if it is none, of another kind, or
 * weaker than RSA of 2048 bits. */
bool signing_key_parse(
    struct span text, enum signing_kind kind, struct buf *out);

#endif
