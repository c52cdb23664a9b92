/* SPDX-License-Identifier: Apache-2.0 */
/*
 * story: what the command knows of one action (get), and entries of the ledger
 * as JSON and as lines (get, logs, ledger).
 */
#ifndef STORY_H
#define STORY_H

#include "scheduler/ctl/ctl.h"
#include "scheduler/ctl/shown_call.h"
#include "schema/sql_ctl.h"

struct story {
    char id[UUID_TEXT_SIZE];
    PGresult *action; /* one row; columns: enum ctl_story_column */
    PGresult *ledger; /* columns: enum ctl_entry_column */
    struct shown_call call;
};

/* "ready", "begun", "waiting", "unknown"; static. */
const char *story_state(const PGresult *action);
/* Empty if it is null. */
struct span story_bytes(const PGresult *rows, int row, int column);

/* For people, in the order of time. */
void story_print(const struct ctl *ctl, const struct story *story);

/* One entry as a JSON object. */
void story_put_entry(struct buf *out, const PGresult *ledger, int row);
/* ... on a line of standard output. */
void story_print_entry(const PGresult *ledger, int row);
/* What an entry tells, in a few words for one line; no control characters. */
void story_put_words(struct buf *out, const PGresult *ledger, int row);
/* Appends text without control characters, cut at max bytes. */
void story_put_plain(struct buf *out, struct span text, size_t max);

#endif
