/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql_verify: the statements of the audit. Each judges a whole slice in the
 * server and returns counts and a few samples, in one snapshot: a settle moves
 * a row in one commit, so an action is always seen in exactly one place.
 */
#ifndef SQL_VERIFY_H
#define SQL_VERIFY_H

#include "common/pg.h"

enum sql_verify {
    SQL_VERIFY_LOCK,
    SQL_VERIFY_RESET,
    SQL_VERIFY_BOUNDS,
    SQL_VERIFY_MARK_READ,
    SQL_VERIFY_MARK_WRITE,
    SQL_VERIFY_ACTIONS,
    SQL_VERIFY_OPEN,
    SQL_VERIFY_ORPHANS,
    SQL_VERIFY_STRAYS,
    SQL_VERIFY_LATE,
    SQL_VERIFY_OLDEST,
    SQL_VERIFY_OUTCOMES,
    SQL_VERIFY_UNKNOWN,
    SQL_VERIFY_FIND,
    SQL_VERIFY_FINDINGS,
    SQL_VERIFY_COUNT
};
extern const struct pg_statement SQL_VERIFY[SQL_VERIFY_COUNT];

/* Columns of SQL_VERIFY_BOUNDS. */
enum verify_bound {
    BOUND_NOW,
    BOUND_OLDEST, /* no action was accepted before this */
    BOUND_LOW,    /* all outcomes up to here are published */
    BOUND_LAST,   /* the highest outcome */
    BOUND_CALM,   /* the highest that ended before the lag */
    BOUND_FIRST   /* the lowest that ended after `from`, or last + 1 */
};

/* Columns of SQL_VERIFY_MARK_READ. */
enum verify_mark_column {
    MARK_ACCEPTED_AT,
    MARK_SEQ,
    MARK_READ_FROM,
    MARK_READ_TO
};

/* Columns of SQL_VERIFY_ACTIONS and SQL_VERIFY_OPEN; samples are ids with
 * spaces between them. */
enum verify_judged_column {
    JUDGED_COUNT,
    JUDGED_MISSING,
    JUDGED_MISSING_IDS,
    JUDGED_DOUBLE,
    JUDGED_DOUBLE_IDS
};

#endif
