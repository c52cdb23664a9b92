/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql_worker: the statements of the worker. Every write names the fence
 * (id, attempt_no) and the owner in its WHERE; every list of ids is given
 * sorted, so that two workers never wait for each other in a circle.
 */
#ifndef SQL_WORKER_H
#define SQL_WORKER_H

#include "common/pg.h"

/* Hot statements: prepared on the claim and on the settle connection. */
enum sql_worker {
    SQL_WORKER_CLAIM_LOCK,
    SQL_WORKER_CLAIM,
    SQL_WORKER_CONFLICTS,
    SQL_WORKER_FLUSH,
    SQL_WORKER_TAKE,
    SQL_WORKER_COLLECT,
    SQL_WORKER_LOAD,
    SQL_WORKER_BEGIN,
    SQL_WORKER_BEGIN_READ,
    SQL_WORKER_SETTLE,
    SQL_WORKER_POSTPONE,
    SQL_WORKER_SETTLE_READ,
    SQL_WORKER_NOTE_LATE,
    SQL_WORKER_NOTE_REPEATS,
    SQL_WORKER_HAND_BACK,
    SQL_WORKER_OWNED,
    SQL_WORKER_DELIVERIES,
    SQL_WORKER_MAPPING_COUNTS,
    SQL_WORKER_MAPPINGS,
    SQL_WORKER_CONNECTORS,
    SQL_WORKER_IS_DRAINED,
    SQL_WORKER_PAUSES,
    SQL_WORKER_PAUSE_SEEN,
    SQL_WORKER_COUNT
};
extern const struct pg_statement SQL_WORKER[SQL_WORKER_COUNT];

/* Columns of SQL_WORKER_TAKE, _COLLECT and _LOAD. */
enum live_column {
    LIVE_ID,
    LIVE_TENANT,
    LIVE_ATTEMPT_NO,
    LIVE_STATE,
    LIVE_EFFECT,
    LIVE_CALLS,
    LIVE_IS_EFFECT_UNKNOWN,
    LIVE_IS_CANCELLED,
    LIVE_DEADLINE,
    LIVE_STARTED_AT,
    LIVE_MANIFEST,
    LIVE_REQUEST,
    LIVE_ACCEPTED_AT,
    LIVE_REPLAY_OF, /* the columns of enum replay_of_column */
};

/* Columns of SQL_WORKER_MAPPINGS. */
enum mapping_column { MAPPING_TENANT, MAPPING_SOURCE, MAPPING_TEXT };
#define SQL_WORKER_MAPPINGS_ROWS 10000

/* Prepared on the presence connection. */
enum sql_presence {
    SQL_PRESENCE_LOCK,
    SQL_PRESENCE_REGISTER,
    SQL_PRESENCE_RENEW,
    SQL_PRESENCE_STOP,
    SQL_PRESENCE_IS_DRAINED,
    SQL_PRESENCE_COUNT
};
extern const struct pg_statement SQL_PRESENCE[SQL_PRESENCE_COUNT];

#endif
