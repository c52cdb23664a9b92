/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readback: what the outcomes topic says about itself and about what has been
 * published. Every call blocks: for the lanes' own thread only (see lanes.h).
 */
#ifndef READBACK_H
#define READBACK_H

#include <stdatomic.h>

#include "scheduler/lanes.h"

struct readback;

/* topic, group and conf are borrowed for its life. */
struct readback *readback_open(const struct conf *conf, const char *topic,
    const char *group, const atomic_bool *is_cancelled,
    struct err *err) MUST_CHECK;
void readback_close(struct readback *readback); /* NULL ok */

/* Before the lanes are fenced: the topic exists, deletes by age or size only,
 * and takes records of *max_record_bytes. */
int readback_check_topic(struct readback *readback, size_t *max_record_bytes,
    struct err *err) MUST_CHECK;

/* What was committed with the group's last transaction; -1: nothing. */
int readback_read_watermark(
    struct readback *readback, int64_t *watermark, struct err *err) MUST_CHECK;

/*
 * After both lanes are fenced: takes the end offsets, waits until everything
 * before them is decided, and reads from start->positions up to them what is
 * committed. Fills found, foreign, watermark, and sets positions to the ends.
 * FATAL if a position is outside of its partition.
 */
int readback_read(struct readback *readback, struct lane_start *start,
    struct err *err) MUST_CHECK;

#endif
