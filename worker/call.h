/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call: the gate. Renders the declared request, hands it to the runner of its
 * tenant, and brings the end of the call to settle. For HTTP the gate opens
 * when the frame goes to the runner.
 */
#ifndef CALL_H
#define CALL_H

#include "worker/job.h"
#include "worker/run/run.h"

struct worker;

/* 0: the job is out of the caller's hands: it runs, or is settled since it
 * cannot be rendered any more. -1 TRANSIENT: its runner has no room now. */
int call_start(
    struct worker *worker, struct job *job, struct err *err) MUST_CHECK;
/* The end of a call; one that nobody waits for any more is dropped. */
void call_done(struct worker *worker, const struct run_result *result);
/* A begun row of ours without memory of its call: settles it as a call whose
 * end nobody saw. */
void call_lose(struct worker *worker, struct job *job);
/* A begun job whose gate never opened and will not: not applied. */
void call_forgo(struct worker *worker, struct job *job);

#endif
