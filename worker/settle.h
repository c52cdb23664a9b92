/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settle: results to Postgres. One transaction a batch, at most 200 results or
 * 8 MiB, one batch under way. The row in live is deleted by the statement that
 * writes the outcome (or the wait), under its fence; what it does not find is
 * read back: applied before, to be repeated, cancelled meanwhile, or late. A
 * late result is a ledger note and never published.
 */
#ifndef SETTLE_H
#define SETTLE_H

#include "worker/job.h"

struct worker;
struct settle;

struct settle *settle_open(struct worker *worker);
void settle_close(struct settle *settle); /* NULL ok */

/* Takes the job over; its settlement is filled. Never frees it at once. */
void settle_add(struct settle *settle, struct job *job);
/* Of the results that are not confirmed yet. */
size_t settle_bytes(const struct settle *settle);

#endif
