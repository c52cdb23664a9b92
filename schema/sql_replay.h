/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql_replay: the statements of the engine of replays, on a connection of its
 * own. What a step does is one transaction that begins with GRAB: it holds the
 * row of the replay and names the position it goes on from, so of two engines
 * one goes on, and what was committed without our knowing is not done again.
 */
#ifndef SQL_REPLAY_H
#define SQL_REPLAY_H

#include "common/pg.h"

enum sql_replay {
    SQL_REPLAY_SESSION,
    SQL_REPLAY_BEGIN,
    SQL_REPLAY_COMMIT,
    SQL_REPLAY_ROLLBACK,
    SQL_REPLAY_ACTIVE,
    SQL_REPLAY_BOUND,
    SQL_REPLAY_IS_SETTLED, /* all up to to_seq is there to be seen */
    SQL_REPLAY_CONNECTORS,
    SQL_REPLAY_SCAN,
    SQL_REPLAY_NAMED,
    SQL_REPLAY_IN_FLIGHT,
    SQL_REPLAY_CLAIM_LOCK,
    SQL_REPLAY_GRAB,
    SQL_REPLAY_OPEN,
    SQL_REPLAY_PUBLISH,
    SQL_REPLAY_CLOSE,
    SQL_REPLAY_MOVE,
    SQL_REPLAY_LOW,
    SQL_REPLAY_TALLY,
    SQL_REPLAY_TALLIED,
    SQL_REPLAY_SETTLE,
    SQL_REPLAY_TROUBLE,
    SQL_REPLAY_BODIES,
    SQL_REPLAY_COUNT
};
extern const struct pg_statement SQL_REPLAY[SQL_REPLAY_COUNT];

/* Columns of SQL_REPLAY_SCAN and SQL_REPLAY_NAMED. SCAN has at least one row;
 * AT is null in one that tells the page alone. */
enum replay_scan_column {
    SCAN_LAST,  /* the position behind the page; null: it is empty */
    SCAN_COUNT, /* what was looked at in this page */
    SCAN_AT,    /* the position behind this row */
    SCAN_ID,
    SCAN_ROOT,
    SCAN_WINDOW,
    SCAN_STATUS,
    SCAN_ERROR_CODE,
    SCAN_CONNECTOR,
    SCAN_ACTION,
    SCAN_EFFECT,
    SCAN_EFFECT_ID,
    SCAN_ACCEPTED_AT, /* of the line's first, null: not kept */
    SCAN_HAS_REQUEST,
    SCAN_IS_PAUSED,
    SCAN_HAS_SUCCEEDED,
    SCAN_IS_OPEN,
    SCAN_IS_REPEATED,
    SCAN_IS_KNOWN,
    SCAN_NOW
};

/* Columns of SQL_REPLAY_TALLY. */
enum replay_tally_column { TALLY_STATUS, TALLY_COUNT, TALLY_LAST };

/* Columns of SQL_REPLAY_BODIES, else as of SCAN. */
enum replay_body_column {
    BODY_LAST,
    BODY_COUNT,
    BODY_SEQ,
    BODY_ID,
    BODY_TENANT,
    BODY_TRACEPARENT,
    BODY_DOCUMENT
};

#endif
