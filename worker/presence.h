/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presence: the connection that says this worker lives. It holds a session
 * advisory lock, which the server frees within milliseconds of our death, and
 * carries the worker's row and its lease. It is direct, exists in no child,
 * and runs nothing long.
 */
#ifndef PRESENCE_H
#define PRESENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/pg.h"

struct worker;
struct presence;

struct presence *presence_open(struct worker *worker);
void presence_close(struct presence *presence); /* NULL ok */

/* The lock is held and the worker's row is written. */
bool presence_is_held(const struct presence *presence);
/* For the lease: its statements run here. */
struct pg *presence_db(struct presence *presence);
/* Marks the row as stopped in order; done runs in any case. */
void presence_stop(struct presence *presence, pg_done_fn done, void *arg);

/* conninfo (keywords or URI) with the settings that make a dead peer known
 * within seconds. Freed by the caller. */
char *presence_conninfo(const char *conninfo);

#endif
