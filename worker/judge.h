/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge: from what happened to what is written. Fills job->settlement: the
 * outcome document, or the wait with the attempt's ledger note. The decision
 * itself is schema/state; here are its facts and its papers. Pure: clock and
 * dice come in as arguments.
 */
#ifndef JUDGE_H
#define JUDGE_H

#include "worker/job.h"
#include "worker/run/run.h"

/* Never ran: its fault is the answer (none: the action is not known). */
void judge_rejected(struct jobs *jobs, struct job *job, int64_t now_us);
/* Ends without a call of its own; indeterminate if an earlier one is
 * unknown. */
void judge_ended(struct jobs *jobs, struct job *job, enum status status,
    enum code code, int64_t now_us);
/*
 * A call ended. job->action is set. Counts the call, keeps what it left
 * unknown. now_us, job->started_at_us: the database's clock. jitter_ppm: 0 to
 * 1 million.
 */
void judge_call(struct jobs *jobs, struct job *job,
    const struct run_result *result, int64_t now_us, uint32_t jitter_ppm);

/* The largest usable Retry-After or reset header of an answer. False: none.
 * headers: "lower-case-name: value\n" lines. */
bool judge_retry_after(const struct manifest_action *action,
    struct span headers, int64_t now_wall_us, int64_t *seconds);

#endif
