/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/connector_cache.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKET_COUNT = 1024, MAX_VERSIONS = 4096 };

/* One version. manifest NULL: it is there but does not load here. */
struct version {
    struct version *next_by_digest;
    struct version *next_by_name;
    int64_t number;
    uint8_t digest[SHA256_SIZE];
    struct manifest *manifest; /* owned */
};

struct connector_cache {
    struct version *by_digest[BUCKET_COUNT];
    struct version *by_name[BUCKET_COUNT]; /* descending numbers */
    size_t count;
};

static size_t digest_bucket(const uint8_t *digest)
{
    return (((size_t)digest[0] << 8) | digest[1]) % BUCKET_COUNT;
}

static size_t name_bucket(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    }
    return hash % BUCKET_COUNT;
}

struct connector_cache *connector_cache_new(void)
{
    return mem_zalloc(1, sizeof(struct connector_cache));
}

void connector_cache_free(struct connector_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKET_COUNT; i++) {
        struct version *at = cache->by_digest[i];
        while (at != NULL) {
            struct version *next = at->next_by_digest;
            manifest_free(at->manifest);
            free(at);
            at = next;
        }
    }
    free(cache);
}

void connector_cache_put_known(
    const struct connector_cache *cache, struct pg_params *params)
{
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < BUCKET_COUNT; i++) {
        const struct version *at = cache->by_digest[i];
        for (; at != NULL; at = at->next_by_digest) {
            pg_array_bytes(
                params, (struct span){.ptr = (const char *)at->digest,
                            .len = SHA256_SIZE});
        }
    }
    pg_array_end(params);
}

static struct version *find_digest(
    const struct connector_cache *cache, const uint8_t *digest)
{
    struct version *at = cache->by_digest[digest_bucket(digest)];
    while (at != NULL && memcmp(at->digest, digest, SHA256_SIZE) != 0) {
        at = at->next_by_digest;
    }
    return at;
}

static void add_by_name(struct connector_cache *cache, struct version *version)
{
    struct version **link =
        &cache->by_name[name_bucket(manifest_name(version->manifest))];
    /* A lower number may become visible after a higher one. */
    while (*link != NULL && (*link)->number > version->number) {
        link = &(*link)->next_by_name;
    }
    version->next_by_name = *link;
    *link = version;
}

int connector_cache_add(struct connector_cache *cache, int64_t number,
    const uint8_t digest[SHA256_SIZE], struct span text, struct fault *fault)
{
    if (find_digest(cache, digest) != NULL || connector_cache_is_full(cache)) {
        return 0;
    }
    struct version *version = mem_zalloc(1, sizeof(*version));
    version->number = number;
    memcpy(version->digest, digest, SHA256_SIZE);
    version->manifest = manifest_load(text, fault);

    struct version **bucket = &cache->by_digest[digest_bucket(digest)];
    version->next_by_digest = *bucket;
    *bucket = version;
    cache->count++;
    if (version->manifest == NULL) {
        return -1;
    }
    add_by_name(cache, version);
    return 0;
}

bool connector_cache_is_full(const struct connector_cache *cache)
{
    return cache->count >= MAX_VERSIONS;
}

struct manifest *connector_cache_find(
    const struct connector_cache *cache, const char *name)
{
    const struct version *at = cache->by_name[name_bucket(name)];
    while (at != NULL && strcmp(manifest_name(at->manifest), name) != 0) {
        at = at->next_by_name;
    }
    return at == NULL ? NULL : at->manifest;
}

bool connector_cache_find_digest(const struct connector_cache *cache,
    const uint8_t digest[SHA256_SIZE], struct manifest **manifest)
{
    const struct version *version = find_digest(cache, digest);
    if (version != NULL) {
        *manifest = version->manifest;
    }
    return version != NULL;
}
