/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_find: which deliveries are meant, from the command line to one page
 * of rows, newest first. Shared by list, tail and replay.
 */
#ifndef WEBHOOK_FIND_H
#define WEBHOOK_FIND_H

#include "scheduler/ctl/ctl.h"
#include "schema/webhook.h"

#define WEBHOOK_PAGE 1000 /* rows at most */

/* What the command line says, unread. */
struct webhook_words {
    const char *tenant;
    const char *source;
    const char *sender_id;
    const char *type;
    const char *verdict;
    const char *decision;
    const char *since;
    const char *until;
    const char *before;
    const char *limit;
};

/* Where a page ends; the next one begins behind. */
struct webhook_place {
    int64_t at_us; /* 0: no place */
    int32_t partition;
    int64_t offset;
};

struct webhook_filter {
    const char *tenant;
    const char *source; /* NULL: any, as below */
    const char *sender_id;
    const char *type;
    int verdict;      /* -1: any */
    int decision;     /* 0: any */
    int64_t since_us; /* 0: any */
    int64_t until_us;
    struct webhook_place before;
    int64_t limit;
};

/* The options that fill words, for a table of options. */
#define WEBHOOK_FIND_OPTIONS(words)                                            \
    {"tenant", "T", "whose deliveries; required", &(words).tenant, NULL},      \
        {"source", "S", "of that source", &(words).source, NULL},              \
        {"sender-id", "X", "of that id, as the sender gave it",                \
            &(words).sender_id, NULL},                                         \
        {"type", "E", "of that type", &(words).type, NULL},                    \
        {"verdict", "V", "verified, conflict or rejected", &(words).verdict,   \
            NULL},                                                             \
        {"became", "D", "mapped, unmapped, filtered, failed or held",          \
            &(words).decision, NULL},                                          \
        {"since", "TIME", "not before: RFC 3339, or 90s, 15m, 2h, 7d ago",     \
            &(words).since, NULL},                                             \
    {                                                                          \
        "until", "TIME", "before that", &(words).until, NULL                   \
    }

/* Returns the exit code; not 0: an error was printed. */
int webhook_filter_read(const struct webhook_words *words, int64_t max_limit,
    struct webhook_filter *filter);
/* Rows of SQL_CTL_DELIVERY_LIST, at most WEBHOOK_PAGE; NULL after an error was
 * printed. */
PGresult *webhook_find(
    PGconn *conn, const struct webhook_filter *filter, int *exit_code);
void webhook_place_of(
    const PGresult *rows, int row, struct webhook_place *place);
/* Where the action of a row is: "succeeded", "running", ... or "". */
const char *webhook_state(const PGresult *rows, int row, int status_column);

#endif
