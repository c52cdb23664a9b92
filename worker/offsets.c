/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/offsets.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

struct offset_entry {
    struct offset_entry *next;
    struct tracker *tracker;
    int64_t offset;
    bool is_done;
};

/* One partition in one generation: its entries in order of offset. */
struct tracker {
    struct tracker *next;
    struct offsets *offsets;
    const char *topic;
    int32_t partition;
    uint64_t generation;
    struct offset_entry *head;
    struct offset_entry *tail;
};

struct offsets {
    offsets_store_fn store;
    void *owner;
    uint64_t generation;
    struct tracker *trackers;
    size_t open;
};

struct offsets *offsets_new(offsets_store_fn store, void *owner)
{
    struct offsets *offsets = mem_zalloc(1, sizeof(*offsets));
    offsets->store = store;
    offsets->owner = owner;
    return offsets;
}

static void free_tracker(struct tracker *tracker)
{
    while (tracker->head != NULL) {
        struct offset_entry *entry = tracker->head;
        tracker->head = entry->next;
        free(entry);
    }
    free(tracker);
}

void offsets_free(struct offsets *offsets)
{
    if (offsets == NULL) {
        return;
    }
    while (offsets->trackers != NULL) {
        struct tracker *tracker = offsets->trackers;
        offsets->trackers = tracker->next;
        free_tracker(tracker);
    }
    free(offsets);
}

/* Old trackers go once nothing under way points at them. */
static void drop_idle(struct offsets *offsets)
{
    struct tracker **link = &offsets->trackers;
    while (*link != NULL) {
        struct tracker *tracker = *link;
        if (tracker->generation != offsets->generation &&
            tracker->head == NULL) {
            *link = tracker->next;
            free_tracker(tracker);
        } else {
            link = &tracker->next;
        }
    }
}

void offsets_assign(struct offsets *offsets, uint64_t generation)
{
    offsets->generation = generation;
    drop_idle(offsets);
}

static struct tracker *get_tracker(struct offsets *offsets, const char *topic,
    int32_t partition, uint64_t generation)
{
    for (struct tracker *at = offsets->trackers; at != NULL; at = at->next) {
        if (at->partition == partition && at->generation == generation &&
            strcmp(at->topic, topic) == 0) {
            return at;
        }
    }
    struct tracker *tracker = mem_zalloc(1, sizeof(*tracker));
    tracker->offsets = offsets;
    tracker->topic = topic;
    tracker->partition = partition;
    tracker->generation = generation;
    tracker->next = offsets->trackers;
    offsets->trackers = tracker;
    return tracker;
}

struct offset_entry *offsets_add(struct offsets *offsets, const char *topic,
    int32_t partition, int64_t offset, uint64_t generation)
{
    struct tracker *tracker =
        get_tracker(offsets, topic, partition, generation);
    struct offset_entry *entry = mem_zalloc(1, sizeof(*entry));
    entry->tracker = tracker;
    entry->offset = offset;
    if (tracker->tail != NULL) {
        tracker->tail->next = entry;
    } else {
        tracker->head = entry;
    }
    tracker->tail = entry;
    offsets->open++;
    return entry;
}

void offsets_done(struct offset_entry *entry)
{
    struct tracker *tracker = entry->tracker;
    struct offsets *offsets = tracker->offsets;
    int64_t next_offset = -1;

    entry->is_done = true;
    offsets->open--;
    while (tracker->head != NULL && tracker->head->is_done) {
        struct offset_entry *done = tracker->head;
        next_offset = done->offset + 1;
        tracker->head = done->next;
        free(done);
    }
    if (tracker->head == NULL) {
        tracker->tail = NULL;
    }
    if (tracker->generation != offsets->generation) {
        drop_idle(offsets);
        return;
    }
    if (next_offset >= 0) {
        offsets->store(offsets->owner, tracker->topic, tracker->partition,
            next_offset, tracker->generation);
    }
}

size_t offsets_open(const struct offsets *offsets)
{
    return offsets->open;
}
