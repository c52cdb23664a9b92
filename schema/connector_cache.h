/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connector_cache: manifests in memory, the newest of each name and every
 * version by its digest. Owns the manifests; does no I/O, the programs feed it
 * with the rows of CONNECTOR_CACHE_SQL. Versions are never changed or deleted,
 * so what was read stays true, and a manifest stays valid until free.
 */
#ifndef CONNECTOR_CACHE_H
#define CONNECTOR_CACHE_H

#include <stdbool.h>

#include "common/pg.h"
#include "schema/manifest.h"

#define CONNECTOR_CACHE_ROWS 16 /* of one reading: up to 16 MiB */

/* $1: the digests known already. */
#define CONNECTOR_CACHE_SQL                                                    \
    "select number, name, digest, manifest from connector"                     \
    " where digest <> all ($1::bytea[]) order by number limit 16"
enum connector_cache_column {
    CONNECTOR_CACHE_NUMBER,
    CONNECTOR_CACHE_NAME,
    CONNECTOR_CACHE_DIGEST,
    CONNECTOR_CACHE_MANIFEST
};

struct connector_cache;

struct connector_cache *connector_cache_new(void);
void connector_cache_free(struct connector_cache *cache); /* NULL ok */

/* The digests of all versions, as the parameter of CONNECTOR_CACHE_SQL. */
void connector_cache_put_known(
    const struct connector_cache *cache, struct pg_params *params);
/*
 * Takes one version in; text is copied. -1 with a fault when it does not load
 * here: it is remembered as known, and never found. A digest that is known is
 * left as it is, one that does not fit any more is left out.
 */
int connector_cache_add(struct connector_cache *cache, int64_t number,
    const uint8_t digest[SHA256_SIZE], struct span text,
    struct fault *fault) MUST_CHECK;
/* True when no more versions fit (4096): say so, and stop reading. */
bool connector_cache_is_full(const struct connector_cache *cache);

/* The version with the highest number of that name; NULL if there is none. */
struct manifest *connector_cache_find(
    const struct connector_cache *cache, const char *name);
/* False if no version has it. manifest is NULL if that one does not load. */
bool connector_cache_find_digest(const struct connector_cache *cache,
    const uint8_t digest[SHA256_SIZE], struct manifest **manifest);

#endif
