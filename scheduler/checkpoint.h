/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint: one consistent state of the relay, taken between transactions.
 * Published = (low..high minus gaps) plus every record at or behind positions.
 */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "common/pg.h"
#include "scheduler/positions.h"
#include "scheduler/relay_core.h"

struct checkpoint {
    bool exists;
    int64_t low;
    int64_t high;
    int64_t *gaps; /* owned */
    size_t gap_count;
    struct positions positions;
    int64_t system; /* of the database cluster */
    int32_t timeline;
};

void checkpoint_init(struct checkpoint *checkpoint);
void checkpoint_fini(struct checkpoint *checkpoint); /* may be called twice */

/* Of SQL_RELAY_CHECKPOINT_READ; no row: one that does not exist. */
int checkpoint_parse(struct checkpoint *checkpoint, const PGresult *result,
    struct err *err) MUST_CHECK;

/* The parameters of SQL_RELAY_CHECKPOINT_WRITE. */
void checkpoint_put(struct pg_params *params, int shard,
    const struct relay_core *core, const struct positions *positions,
    int64_t system, int32_t timeline);

#endif
