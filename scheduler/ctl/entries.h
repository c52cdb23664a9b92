/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entries: reads the ledger and the outcomes as one, in order of time, in
 * pages, so that any amount passes through constant memory.
 */
#ifndef ENTRIES_H
#define ENTRIES_H

#include "common/crypt.h"
#include "scheduler/ctl/ctl.h"
#include "schema/sql_ctl.h"

struct entries_query {
    const char *tenant; /* NULL: all */
    const char *actor;  /* NULL: any; else what it begins with */
    bool has_id;        /* only of this action */
    uint8_t id[UUID_SIZE];
    int kind; /* -1: any */
    int64_t since_us;
    int64_t until_us;  /* 0: no end */
    int64_t after_seq; /* outcomes: only with a higher number */
};

/* False ends the reading. The row's columns: enum ctl_entry_column. */
typedef bool (*entry_fn)(void *owner, const PGresult *rows, int row);

/* An exit code; an error was printed. */
int entries_read(PGconn *conn, const struct entries_query *query, entry_fn take,
    void *owner);

/* What logs and export have in common. */
struct entries_words {
    const char *tenant;
    const char *id;
    const char *kind;
    const char *actor;
    const char *since;
    const char *until;
};
#define ENTRIES_OPTIONS(words)                                                 \
    {"tenant", "T", "only of this tenant", &(words).tenant, NULL},             \
        {"id", "ID", "only of this action", &(words).id, NULL},                \
        {"kind", "KIND", "outcome, attempt, duplicate, wait, ops, ...",        \
            &(words).kind, NULL},                                              \
        {"actor", "WHO",                                                       \
            "only by those that begin so: operator:, worker:", &(words).actor, \
            NULL},                                                             \
        {"since", "WHEN", "from then on: a time, or an age as 15m, 2h, 7d",    \
            &(words).since, NULL},                                             \
    {                                                                          \
        "until", "WHEN", "up to then", &(words).until, NULL                    \
    }

/* Judges the words against the database's clock; an exit code. default_age_us:
 * where no --since is given; 0: from the beginning. */
int entries_parse(PGconn *conn, const struct entries_words *words,
    int64_t default_age_us, struct entries_query *query);

#endif
