/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from byte strings to 64-bit numbers (counters, or indexes into
 * an array of the caller's). Copies its keys. It only grows; the caller caps
 * `count`. No thread safety, never blocks.
 */
#ifndef DOUBLE_MAP_H
#define DOUBLE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_entry;

struct map {
    struct map_entry **buckets; /* owned, and so is each chain */
    size_t bucket_count;
    size_t count;
};

uint64_t map_hash(const char *data, size_t len);
/* An all-zero map is empty and ready. */
void map_fini(struct map *map);
/* The value under the key, or NULL. Valid until map_fini. */
uint64_t *map_find(const struct map *map, const char *key, size_t len);
/* The same, but makes an entry with value 0 when there is none. */
uint64_t *map_slot(struct map *map, const char *key, size_t len);

#endif
