/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_memory: the deliveries that were taken last, so that a repeat can be
 * told from a new one. Holds a fixed number; the oldest goes first. What is
 * forgotten, or known to another process alone, is captured again under the
 * same id.
 */
#ifndef WEBHOOK_MEMORY_H
#define WEBHOOK_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define WEBHOOK_MARK_SIZE 16

struct webhook_memory;

enum webhook_seen {
    WEBHOOK_SEEN_NEVER,
    WEBHOOK_SEEN_SAME, /* with the same content */
    WEBHOOK_SEEN_OTHER /* with another one */
};

/* capacity: 1 to 2^24. */
struct webhook_memory *webhook_memory_new(size_t capacity);
void webhook_memory_free(struct webhook_memory *memory); /* NULL ok */

enum webhook_seen webhook_memory_look(const struct webhook_memory *memory,
    const uint8_t key[WEBHOOK_MARK_SIZE],
    const uint8_t content[WEBHOOK_MARK_SIZE]);
/* Nothing changes if the key is known. */
void webhook_memory_put(struct webhook_memory *memory,
    const uint8_t key[WEBHOOK_MARK_SIZE],
    const uint8_t content[WEBHOOK_MARK_SIZE]);

#endif
