/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pauses: what is paused right now. Read at start, on a control signal and
 * every 30 s; the truth is in Postgres. Until the first read nothing may start.
 * A call that has begun is left to end.
 */
#ifndef PAUSES_H
#define PAUSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record;
struct worker;
struct pauses;

/* One scope; an empty name stands for any. */
struct pause {
    int64_t number;
    char tenant[64];
    char connector[64];
    char action[64];
};

struct pauses *pauses_open(struct worker *worker);
void pauses_close(struct pauses *pauses); /* NULL ok */

bool pauses_are_read(const struct pauses *pauses);
/* The number of a pause that holds this record; 0: none does. */
int64_t pauses_find(const struct pauses *pauses, const struct record *record);
/* Something changed: read again at once. */
void pauses_refresh(struct pauses *pauses);

/* The lowest number among them that holds these names; 0: none. Pure. */
int64_t pause_match(const struct pause *pauses, size_t count,
    const char *tenant, const char *connector, const char *action);

#endif
