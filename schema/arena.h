/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena: memory for what lives and dies together (a loaded manifest). Pieces
 * are never freed one by one. Exhausted memory aborts. Sizes are bounded by
 * the caller's caps on its input.
 */
#ifndef ARENA_H
#define ARENA_H

#include "common/buf.h"

struct arena_block;

struct arena {
    struct arena_block *first;
};

void arena_init(struct arena *arena);
void arena_fini(struct arena *arena);

/* Zeroed, aligned for any type. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);
/* A terminated copy. */
char *arena_copy(struct arena *arena, struct span text);

#endif
