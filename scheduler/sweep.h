/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep: takes over what dead workers left. Which worker is dead is decided by
 * sweep_watch; this marks it in the database (under its own presence lock, or
 * after its lease) and moves its rows, each by its fence:
 * - what may run again gets a higher attempt_no and no owner, and is dispatched
 *   at once;
 * - an unsafe call that had begun becomes `indeterminate`;
 * - the third death in a row ends the action.
 * Rows of owners that do not live are also looked for every 5 s: a statement of
 * a dead worker may have arrived late, or we may have died half way.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include "common/pg.h"

struct sweep;
struct scheduler;

struct sweep *sweep_open(struct scheduler *scheduler);
void sweep_close(struct sweep *sweep); /* NULL ok */

/* A new session looks: nothing that was seen before counts. */
void sweep_forget(struct sweep *sweep);
/* The rows of SQL_PULSE_LOOK. */
void sweep_look(struct sweep *sweep, const PGresult *rows);

#endif
