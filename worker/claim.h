/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim: memory to Postgres. Batches of at most 200 records or 8 MiB, one
 * under way at a time, the next one sent when it has ended: so batches are as
 * large as the load makes them, with no timer.
 *
 * Order that matters: a record's offset is done only after its claim (or what
 * it collided with) was read as committed. If we die before, it is delivered
 * again and meets its own row.
 */
#ifndef CLAIM_H
#define CLAIM_H

#include "worker/job.h"

struct worker;
struct claim;

struct claim *claim_open(struct worker *worker);
void claim_close(struct claim *claim); /* NULL ok */

/* Takes the job over. Its offset entry is done once it is durable. */
void claim_add(struct claim *claim, struct job *job);
bool claim_is_busy(const struct claim *claim);
/* Monotonic time at which the batch under way was sent; 0: none. */
int64_t claim_since_us(const struct claim *claim);
/* Forgets what is not under way; their offsets stay uncommitted. */
void claim_drain(struct claim *claim);

#endif
