/* SPDX-License-Identifier: Apache-2.0 */
/* sql_producer: the statements of the front door. */
#ifndef SQL_PRODUCER_H
#define SQL_PRODUCER_H

#include "common/pg.h"

/* On the connection that writes; a reservation is the first two in a batch. */
enum sql_reserve {
    SQL_RESERVE_INSERT,
    SQL_RESERVE_READ,
    SQL_RESERVE_CANCEL, /* columns: enum cancel_column */
    SQL_RESERVE_NOTE_REPEATS,
    SQL_RESERVE_REPLAY_LOCK,
    SQL_RESERVE_REPLAY_CREATE,
    SQL_RESERVE_REPLAY_IDS,
    SQL_RESERVE_REPLAY_GET, /* columns: REPLAY_COLUMNS */
    SQL_RESERVE_REPLAY_ACT,
    SQL_RESERVE_SCHEDULE_ADD,
    SQL_RESERVE_SCHEDULE_SWITCH,
    SQL_RESERVE_SCHEDULE_REMOVE,
    SQL_RESERVE_COUNT
};
extern const struct pg_statement SQL_RESERVE[SQL_RESERVE_COUNT];

/* Columns of SQL_RESERVE_READ; the last two may be null. */
enum reserve_column { RESERVED_ID, RESERVED_FINGERPRINT, CLAIMED_FINGERPRINT };

/* On the connection that only reads. */
enum sql_look {
    SQL_LOOK_KEY_COUNTS,
    SQL_LOOK_KEYS,
    SQL_LOOK_CONNECTORS, /* columns: enum connector_cache_column */
    SQL_LOOK_FINISHED,
    SQL_LOOK_ACTIONS,
    SQL_LOOK_HOOK_COUNTS,
    SQL_LOOK_HOOKS,  /* columns: enum hook_column */
    SQL_LOOK_REPLAY, /* columns: REPLAY_COLUMNS */
    SQL_LOOK_REPLAYS,
    SQL_LOOK_REPLAYABLE, /* columns: enum replayable_column */
    SQL_LOOK_SCHEDULE_PREPARE,
    SQL_LOOK_SCHEDULE_GET,
    SQL_LOOK_SCHEDULE_LIST,
    SQL_LOOK_COUNT
};
extern const struct pg_statement SQL_LOOK[SQL_LOOK_COUNT];

/* Rows of SQL_LOOK_HOOKS at most. */
#define SQL_LOOK_HOOK_ROWS 20000

enum hook_column {
    HOOK_TENANT,
    HOOK_SOURCE,
    HOOK_SCHEME,
    HOOK_PARAMETER,
    HOOK_SECRET_NO,
    HOOK_SECRET,
    HOOK_OLD_SECRET, /* null: none */
    HOOK_OLD_UNTIL,
    HOOK_TOKEN, /* null: none */
    HOOK_KEEPS_REJECTED,
    HOOK_MAX_BODY,
    HOOK_RATE,
    HOOK_ANSWER_MS
};

/* How many of the ids asked for are the tenant's, could be replayed, are under
 * way, have succeeded. */
enum replayable_column {
    REPLAYABLE_KNOWN,
    REPLAYABLE_COUNT,
    REPLAYABLE_OPEN,
    REPLAYABLE_SUCCEEDED
};

/* Columns of SQL_LOOK_KEYS. */
enum key_column { KEY_HASH, KEY_TENANT };

/* Columns of SQL_LOOK_ACTIONS; null where there is no such row. */
enum look_column {
    LOOK_ID,
    LOOK_RESERVED_TENANT,
    LOOK_TENANT,
    LOOK_CONNECTOR,
    LOOK_ACTION,
    LOOK_OUTCOME,
    LOOK_LIVE_STATE,
    LOOK_LIVE_CALLS,
    LOOK_WAIT_REASON,
    LOOK_WAIT_DUE,
    LOOK_WAIT_CALLS
};

#endif
