/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settle_late: keeps what a late result said as a ledger note, which helps a
 * person to close an indeterminate action. Best effort: it is not repeated.
 */
#ifndef SETTLE_LATE_H
#define SETTLE_LATE_H

#include "worker/job.h"

struct worker;

/* Nothing is written for a job that made no call. Copies what it needs. */
void settle_late_note(struct worker *worker, const struct job *job);

#endif
