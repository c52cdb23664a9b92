/* SPDX-License-Identifier: Apache-2.0 */
#include "map.h"

#include "buf.h"

#include <stdlib.h>
#include <string.h>

struct map_entry {
    struct map_entry *next;
    uint64_t hash;
    uint64_t value;
    size_t len;
    char key[];
};

/* FNV-1a, 64 bits. */
uint64_t map_hash(const char *data, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (size_t i = 0; i < len; i++) {
        hash ^= (unsigned char)data[i];
        hash *= 0x100000001b3U;
    }
    return hash;
}

void map_fini(struct map *map)
{
    for (size_t i = 0; i < map->bucket_count; i++) {
        struct map_entry *entry = map->buckets[i];
        while (entry != NULL) {
            struct map_entry *next = entry->next;
            free(entry);
            entry = next;
        }
    }
    free(map->buckets);
    *map = (struct map){0};
}

static struct map_entry *find_hashed(
    const struct map *map, uint64_t hash, const char *key, size_t len)
{
    if (map->bucket_count == 0) {
        return NULL;
    }
    struct map_entry *entry = map->buckets[hash & (map->bucket_count - 1)];
    while (entry != NULL && (entry->hash != hash || entry->len != len ||
                                memcmp(entry->key, key, len) != 0)) {
        entry = entry->next;
    }
    return entry;
}

static void grow(struct map *map)
{
    const size_t count = map->bucket_count > 0 ? map->bucket_count * 2 : 64;
    struct map_entry **buckets = mem_resize(NULL, count * sizeof *buckets);
    memset(buckets, 0, count * sizeof *buckets);
    for (size_t i = 0; i < map->bucket_count; i++) {
        struct map_entry *entry = map->buckets[i];
        while (entry != NULL) {
            struct map_entry *next = entry->next;
            struct map_entry **head = &buckets[entry->hash & (count - 1)];
            entry->next = *head;
            *head = entry;
            entry = next;
        }
    }
    free(map->buckets);
    map->buckets = buckets;
    map->bucket_count = count;
}

uint64_t *map_find(const struct map *map, const char *key, size_t len)
{
    struct map_entry *entry = find_hashed(map, map_hash(key, len), key, len);
    return entry != NULL ? &entry->value : NULL;
}

uint64_t *map_slot(struct map *map, const char *key, size_t len)
{
    const uint64_t hash = map_hash(key, len);
    struct map_entry *entry = find_hashed(map, hash, key, len);
    if (entry != NULL) {
        return &entry->value;
    }
    if (map->count >= map->bucket_count) {
        grow(map);
    }
    entry = mem_resize(NULL, sizeof *entry + len);
    entry->hash = hash;
    entry->value = 0;
    entry->len = len;
    if (len > 0) {
        memcpy(entry->key, key, len);
    }
    struct map_entry **head = &map->buckets[hash & (map->bucket_count - 1)];
    entry->next = *head;
    *head = entry;
    map->count++;
    return &entry->value;
}
