/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal: secrets at rest (AES-256-GCM, NIST SP 800-38D). The master keys are in
 * a file, never in the database: one a line, "NUMBER:BASE64" with a number from
 * 1 and 32 bytes. The first line seals, all of them open; so a new master key
 * is put in front, what is sealed is sealed again in time, and the old line
 * goes then.
 *
 * A sealed text is: version 1, the number of its master key (4 bytes,
 * big-endian), nonce (12), ciphertext, tag (16). The context (whose secret it
 * is) is authenticated with it: moved to another row it does not open.
 */
#ifndef SEAL_H
#define SEAL_H

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

#define SEAL_MAX_PLAIN ((size_t)64 << 10)
#define SEAL_OVERHEAD ((size_t)33)

struct seal_keys;

/* Blocks. PERMANENT with what is wrong in which line; never the line itself.
 * The file must not be readable by others (conf_read_secret). */
struct seal_keys *seal_keys_load(const char *path, struct err *err) MUST_CHECK;
/* The same from text in memory. */
struct seal_keys *seal_keys_parse(struct span text, struct err *err) MUST_CHECK;
void seal_keys_free(struct seal_keys *keys); /* wipes; NULL ok */

/* Appends the sealed text. plain has at most SEAL_MAX_PLAIN bytes. */
void seal_put(const struct seal_keys *keys, struct span plain,
    struct span context, struct buf *out);
/* Appends the plain text. PERMANENT: unknown key, damaged, or of another
 * context; then nothing was appended. */
int seal_open(const struct seal_keys *keys, struct span sealed,
    struct span context, struct buf *out, struct err *err) MUST_CHECK;
/* The number of the master key it was sealed with; 0 if it is none. */
uint32_t seal_key_number(struct span sealed);

#endif
