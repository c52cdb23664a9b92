/* SPDX-License-Identifier: Apache-2.0 */
/* positions: the next offset of each partition of the outcomes topic. */
#ifndef POSITIONS_H
#define POSITIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

#define POSITION_UNKNOWN INT64_C(-1)
#define POSITIONS_MAX 100000

struct positions {
    int64_t *next; /* owned; by partition; POSITION_UNKNOWN */
    int32_t count;
};

void positions_init(struct positions *positions);
void positions_fini(struct positions *positions); /* may be called twice */
void positions_copy(struct positions *to, const struct positions *from);
int64_t positions_get(const struct positions *positions, int32_t partition);
/* Moves a position forward, never back. */
void positions_advance(
    struct positions *positions, int32_t partition, int64_t next);

/* {"<partition>": <next offset>, ...}; unknown ones are left out. */
void positions_format(const struct positions *positions, struct buf *out);
int positions_parse(
    struct positions *positions, struct span text, struct err *err) MUST_CHECK;

#endif
