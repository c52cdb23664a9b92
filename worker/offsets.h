/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offsets: which records of each partition are done. An offset may be
 * committed when every record before it is durable, in whatever order they
 * become so. Pure memory: what may be committed is told to a callback.
 *
 * A tracker lives for one generation of the assignment; what finishes after a
 * rebalance is counted off but never stored.
 */
#ifndef OFFSETS_H
#define OFFSETS_H

#include <stddef.h>
#include <stdint.h>

struct offsets;
struct offset_entry; /* one record under way */

/* next_offset: the first that is not known to be done. */
typedef void (*offsets_store_fn)(void *owner, const char *topic,
    int32_t partition, int64_t next_offset, uint64_t generation);

struct offsets *offsets_new(offsets_store_fn store, void *owner);
/* Entries not done yet are freed too: forget them before. NULL ok. */
void offsets_free(struct offsets *offsets);

/* Starts a new generation; older trackers store nothing from now on. */
void offsets_assign(struct offsets *offsets, uint64_t generation);
/*
 * A record was received; they must come in order of their offsets within a
 * generation. topic must live as long as offsets. The entry is owned by
 * offsets; end it with offsets_done() once.
 */
struct offset_entry *offsets_add(struct offsets *offsets, const char *topic,
    int32_t partition, int64_t offset, uint64_t generation);
/* Durable (or delivered to rejects). Frees the entry, sooner or later. */
void offsets_done(struct offset_entry *entry);
/* Records received and not done, over all partitions. */
size_t offsets_open(const struct offsets *offsets);

#endif
