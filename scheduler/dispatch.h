/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch: tells the workers which live rows wait for an owner. A record on
 * the dispatch topic is only a hint: the row is the truth, a lost or repeated
 * hint is harmless. What nobody has taken after 1 s is sent again, less and
 * less often while nobody takes anything.
 */
#ifndef DISPATCH_H
#define DISPATCH_H

#include <stdint.h>

#include "common/pg.h"

struct dispatch;
struct scheduler;

struct dispatch *dispatch_open(struct scheduler *scheduler);
void dispatch_close(struct dispatch *dispatch); /* NULL ok */

/* Sends every row of a result with the columns id, tenant, attempt_no. */
void dispatch_send(struct dispatch *dispatch, const PGresult *rows);
/* How many rows wait for a worker, and the age of the oldest. */
void dispatch_look(struct dispatch *dispatch, int64_t untaken, int64_t age_us);
/* Whether more than enough waits already: nothing new should become live. */
bool dispatch_is_full(const struct dispatch *dispatch);

#endif
