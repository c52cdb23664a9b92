/* SPDX-License-Identifier: Apache-2.0 */
/* What an SQLSTATE means to us (PostgreSQL, appendix A). */
#include <string.h>

#include "common/pg.h"

struct row {
    const char *prefix; /* the longest row that fits wins: it stands first */
    enum err_class class;
};

/*
 * TRANSIENT: the statement was not applied and may be repeated as it is.
 * FATAL: the database is not the one this program was built for; waiting
 * does not help. Everything else is PERMANENT: our statement or its data.
 */
static const struct row rows[] = {
    {"0A000", ERR_TRANSIENT}, /* a cached plan outlived a migration */
    {"08", ERR_TRANSIENT},    /* connection exceptions */
    {"25006", ERR_TRANSIENT}, /* read only: a fail-over is under way */
    {"25P02", ERR_TRANSIENT}, /* in a transaction that failed before */
    {"25P03", ERR_TRANSIENT}, /* idle in transaction for too long */
    {"26000", ERR_TRANSIENT}, /* the prepared statement is gone */
    {"28", ERR_FATAL},        /* wrong role or password */
    {"3D000", ERR_FATAL},     /* no such database */
    {"3F000", ERR_FATAL},     /* no such schema */
    {"40", ERR_TRANSIENT},    /* rollback: serialization, deadlock */
    {"42501", ERR_FATAL},     /* the role lacks a right */
    {"42703", ERR_FATAL},     /* no such column */
    {"42883", ERR_FATAL},     /* no such function */
    {"42P01", ERR_FATAL},     /* no such table */
    {"53", ERR_TRANSIENT},    /* disk full, out of memory, connections */
    {"55006", ERR_TRANSIENT}, /* object in use */
    {"55P03", ERR_TRANSIENT}, /* lock not available in time */
    {"57", ERR_TRANSIENT},    /* cancelled, shut down, starting up */
    {"58", ERR_TRANSIENT},    /* the system under the server */
    {"XX", ERR_TRANSIENT},    /* internal: a restart may heal it */
};

bool pg_was_rolled_back(const struct pg_outcome *outcome)
{
    return outcome->end == PG_FAILED &&
           strncmp(outcome->sqlstate, "40", 2) == 0;
}

enum err_class pg_class_of(const char *sqlstate)
{
    if (sqlstate == NULL || sqlstate[0] == '\0') {
        return ERR_TRANSIENT;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *prefix = rows[i].prefix;
        if (strncmp(sqlstate, prefix, strlen(prefix)) == 0) {
            return rows[i].class;
        }
    }
    return ERR_PERMANENT;
}
