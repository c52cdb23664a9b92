/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repeats: requests that came again under a key whose action is there, on
 * their way to the ledger. They are counted by action for about a second and
 * written in one statement, so that a client that repeats in a tight loop
 * costs one entry a second. What is still in memory when the process is
 * killed is lost; the action itself never is.
 * Pure: no I/O, no clock. The memory is fixed.
 */
#ifndef REPEATS_H
#define REPEATS_H

#include <stdbool.h>

#include "common/pg.h"
#include "schema/ledger.h"
#include "schema/record.h"

#define REPEATS_MAX 512
#define REPEATS_SLOTS 1024
#define REPEATS_EVERY_MS 1000

/* Ids, tenants, how often, where the last one stood, who saw it. */
#define REPEATS_SQL                                                            \
    LEDGER_INSERT                                                              \
    " select g.id, g.tenant, " LEDGER_KEEP_DAYS                                \
    ", 0, 3, $5, null, " LEDGER_TRACE_OF_ID                                    \
    ", convert_to(json_build_object('count', g.count,"                         \
    "  'source', g.source)::text, 'UTF8')"                                     \
    " from unnest($1::uuid[], $2::text[], $3::int4[], $4::text[])"             \
    "  as g (id, tenant, count, source)"

struct repeat {
    uint8_t id[UUID_SIZE];
    char tenant[RECORD_MAX_NAME + 1];
    int count; /* 0: free */
    /* Where the last one stood; topic borrowed, NULL: it came by HTTP. */
    const char *topic;
    int32_t partition;
    int64_t offset;
};

struct repeats {
    struct repeat rows[REPEATS_SLOTS]; /* hashed by id, at most half full */
    size_t count;
};

/* False: too many different ones since the last clear; it is not counted. */
bool repeats_add(struct repeats *repeats, const struct repeat *repeat);
/* The first four parameters of REPEATS_SQL. */
void repeats_put(const struct repeats *repeats, struct pg_params *params);
void repeats_clear(struct repeats *repeats);

#endif
