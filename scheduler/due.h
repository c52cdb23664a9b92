/* SPDX-License-Identifier: Apache-2.0 */
/*
 * due: makes waiting rows live again when their time has come by the clock of
 * the database, and by what is known of that clock (clock_moves.h), so never
 * early. Rows whose deadline has passed end.
 * Any number of schedulers may do this side by side: rows that one has locked
 * are skipped by the others.
 */
#ifndef DUE_H
#define DUE_H

#include <stdint.h>

struct due;
struct scheduler;

struct due *due_open(struct scheduler *scheduler);
void due_close(struct due *due); /* NULL ok */

/* next_us: from now until the first row is due; negative when overdue. */
void due_look(struct due *due, int64_t next_us);

#endif
