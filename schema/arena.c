/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 4096 };

struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t size;
    alignas(max_align_t) char bytes[];
};

void arena_init(struct arena *arena)
{
    arena->first = NULL;
}

void arena_fini(struct arena *arena)
{
    struct arena_block *block = arena->first;
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena->first = NULL;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, alignof(max_align_t) - 1, &bytes)) {
        abort();
    }
    bytes -= bytes % alignof(max_align_t);
    struct arena_block *block = arena->first;
    if (block == NULL || block->size - block->used < bytes) {
        const size_t want = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = mem_zalloc(1, sizeof(*block) + want);
        block->size = want;
        block->next = arena->first;
        arena->first = block;
    }
    void *piece = block->bytes + block->used;
    block->used += bytes;
    return piece;
}

char *arena_copy(struct arena *arena, struct span text)
{
    char *copy = arena_alloc(arena, text.len + 1, 1);
    if (text.len > 0) {
        memcpy(copy, text.ptr, text.len);
    }
    return copy;
}
