/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/webhook_memory.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

struct mark {
    uint8_t key[WEBHOOK_MARK_SIZE];
    uint8_t content[WEBHOOK_MARK_SIZE];
    uint32_t next; /* in its bucket; index + 1, 0: the last */
};

struct webhook_memory {
    struct mark *marks; /* owned; a ring */
    uint32_t *buckets;  /* owned; index + 1 of the first, 0: none */
    size_t capacity;
    size_t count;
    size_t oldest;
};

struct webhook_memory *webhook_memory_new(size_t capacity)
{
    struct webhook_memory *memory = mem_zalloc(1, sizeof(*memory));
    memory->marks = mem_zalloc(capacity, sizeof(*memory->marks));
    memory->buckets = mem_zalloc(capacity, sizeof(*memory->buckets));
    memory->capacity = capacity;
    return memory;
}

void webhook_memory_free(struct webhook_memory *memory)
{
    if (memory != NULL) {
        free(memory->marks);
        free(memory->buckets);
        free(memory);
    }
}

/* Keys are digests, so any of their bytes are as good as another hash. */
static uint32_t *bucket_of(
    const struct webhook_memory *memory, const uint8_t key[WEBHOOK_MARK_SIZE])
{
    uint64_t hash = 0;
    memcpy(&hash, key, sizeof(hash));
    return &memory->buckets[hash % memory->capacity];
}

static const struct mark *find(
    const struct webhook_memory *memory, const uint8_t key[WEBHOOK_MARK_SIZE])
{
    uint32_t at = *bucket_of(memory, key);
    while (at != 0) {
        const struct mark *mark = &memory->marks[at - 1];
        if (memcmp(mark->key, key, WEBHOOK_MARK_SIZE) == 0) {
            return mark;
        }
        at = mark->next;
    }
    return NULL;
}

enum webhook_seen webhook_memory_look(const struct webhook_memory *memory,
    const uint8_t key[WEBHOOK_MARK_SIZE],
    const uint8_t content[WEBHOOK_MARK_SIZE])
{
    const struct mark *mark = find(memory, key);
    if (mark == NULL) {
        return WEBHOOK_SEEN_NEVER;
    }
    return memcmp(mark->content, content, WEBHOOK_MARK_SIZE) == 0
               ? WEBHOOK_SEEN_SAME
               : WEBHOOK_SEEN_OTHER;
}

/* Takes the mark at an index out of its bucket. */
static void forget(struct webhook_memory *memory, size_t index)
{
    uint32_t *link = bucket_of(memory, memory->marks[index].key);
    while (*link != index + 1) {
        link = &memory->marks[*link - 1].next;
    }
    *link = memory->marks[index].next;
}

void webhook_memory_put(struct webhook_memory *memory,
    const uint8_t key[WEBHOOK_MARK_SIZE],
    const uint8_t content[WEBHOOK_MARK_SIZE])
{
    if (find(memory, key) != NULL) {
        return;
    }
    size_t index = memory->count;
    if (memory->count < memory->capacity) {
        memory->count++;
    } else {
        index = memory->oldest;
        memory->oldest = (memory->oldest + 1) % memory->capacity;
        forget(memory, index);
    }
    struct mark *mark = &memory->marks[index];
    uint32_t *bucket = bucket_of(memory, key);
    memcpy(mark->key, key, WEBHOOK_MARK_SIZE);
    memcpy(mark->content, content, WEBHOOK_MARK_SIZE);
    mark->next = *bucket;
    *bucket = (uint32_t)index + 1;
}
