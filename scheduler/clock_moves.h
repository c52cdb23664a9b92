/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock_moves: watches the database's clock (dbclock.h) and, after a step,
 * moves what waits with it. The move is one statement on a connection of its
 * own, opened at the first step; the sum in the database makes it happen once,
 * whoever tries and however often an answer is lost.
 */
#ifndef CLOCK_MOVES_H
#define CLOCK_MOVES_H

#include <stdint.h>

#include "scheduler/dbclock.h"

struct clock_moves;
struct scheduler;

struct clock_moves *clock_moves_open(struct scheduler *scheduler);
void clock_moves_close(struct clock_moves *moves); /* NULL ok */

/* The pulse has looked. */
void clock_moves_look(
    struct clock_moves *moves, const struct dbclock_look *look);

/* The time up to which what waits may be taken now. */
int64_t clock_moves_trusted_us(const struct clock_moves *moves);

#endif
