/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane: one transactional producer. Every call blocks: for the lanes' own
 * thread only (see lanes.h).
 */
#ifndef LANE_H
#define LANE_H

#include <stdatomic.h>

#include "common/kafka.h"
#include "scheduler/lanes.h"

struct lane;

struct lane_target {
    const struct conf *conf;
    const char *topic;
    const char *group; /* whose offset is the watermark */
    size_t max_record_bytes;
    const atomic_bool *is_cancelled;
};

/* Makes the producer and fences whoever used this id before; waits at most
 * 60 s for the coordinator. target is borrowed for the lane's life. */
struct lane *lane_open(const struct lane_target *target,
    const char *transactional_id, struct err *err) MUST_CHECK;
void lane_close(struct lane *lane); /* NULL ok; aborts nothing */

/* One transaction: all rows, and now and then the watermark; or a doubt: class
 * UNKNOWN, LANE_FENCED if somebody else has used the same id. */
int lane_publish(
    struct lane *lane, struct lane_batch *batch, struct err *err) MUST_CHECK;

#endif
