/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes: the two transactional producers that publish outcomes in turn, and
 * the reading back that comes before.
 *
 * librdkafka's transactional calls block, so one thread of our own makes them
 * all, with every client it needs. The loop hands it one job at a time and
 * gets the answer by a wake-up; a job's data belongs to the thread until it is
 * answered, and nothing else is shared but the flag that ends waiting.
 *
 * Rules: a start fences lane A, then lane B, always in this order, and only
 * then takes the end offsets and reads back. The first transaction after a
 * start is on A, and a lane begins only when the other one's commit returned
 * OK. Any doubt (an error, a retriable result, a slow commit) destroys both;
 * after that only a new start helps.
 */
#ifndef LANES_H
#define LANES_H

#include "common/buf.h"
#include "common/conf.h"
#include "common/crypt.h"
#include "common/loop.h"
#include "scheduler/positions.h"

/* One outcome to publish. Offsets point into the batch's bytes. */
struct lane_row {
    int64_t seq;
    uint8_t id[UUID_SIZE];
    size_t tenant_at;
    size_t tenant_len;
    size_t trace_at;
    size_t trace_len; /* 0: no traceparent */
    size_t body_at;
    size_t body_len;
    int32_t partition; /* where it was delivered, set by the lane */
    int64_t offset;    /* -1: not delivered */
};

struct lane_batch {
    struct lane_row *rows; /* owned */
    size_t count;
    size_t cap;
    struct buf bytes;
    int64_t low; /* the watermark that may be committed with the rows */
};

void lane_batch_init(struct lane_batch *batch, size_t max_bytes);
void lane_batch_fini(struct lane_batch *batch);
void lane_batch_clear(struct lane_batch *batch);
/* Copies everything; trace may be empty. */
void lane_batch_add(struct lane_batch *batch, int64_t seq, const uint8_t *id,
    struct span tenant, struct span trace, struct span body);

/* A record found by the read-back. */
struct lane_found {
    int64_t seq;
    uint8_t id[UUID_SIZE];
};

/* What a start found out. */
struct lane_start {
    struct positions positions; /* in: of the checkpoint; out: the ends */
    struct lane_found *found;   /* owned */
    size_t found_count;
    size_t found_cap;
    size_t foreign;          /* records without our headers */
    int64_t watermark;       /* committed last; -1: none */
    size_t max_record_bytes; /* what the topic takes */
};

void lane_start_init(struct lane_start *start);
void lane_start_fini(struct lane_start *start); /* may be called twice */

struct lanes;

struct lanes_events {
    /* err NULL: ready to publish. FATAL: refused, see its message; TRANSIENT:
     * could not be reached or was cancelled. */
    void (*on_started)(void *owner, const struct err *err);
    /* err NULL: committed, and every row has partition and offset. Else in
     * doubt; code LANE_FENCED if another relay took the lanes over. */
    void (*on_published)(void *owner, const struct err *err);
};

/* shard: for the transactional ids "<topics.prefix>relay.<shard>.a" and ".b"
 * and the group "<topics.prefix>relay.<shard>". conf is borrowed. */
struct lanes *lanes_open(struct loop *loop, const struct conf *conf, int shard,
    const struct lanes_events *events, void *owner);
/* Ends the thread; waits at most wait_ms. False: it is stuck in a call, and the
 * process should end without freeing anything. */
bool lanes_close(struct lanes *lanes, int64_t wait_ms) MUST_CHECK;

bool lanes_is_busy(const struct lanes *lanes);
/* Jobs; only while not busy. The argument is the thread's until the answer. */
void lanes_start(struct lanes *lanes, struct lane_start *start);
void lanes_publish(struct lanes *lanes, struct lane_batch *batch);
/* Makes the job under way end soon, and destroys both producers after it. Its
 * answer still comes. */
void lanes_drop(struct lanes *lanes);

#endif
