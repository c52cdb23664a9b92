/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admit: may it run now? Ends what needs no call (rejected, cancelled, too
 * late), sends back what is too early or too much, and lets the rest run in a
 * fair order, within the caps on running actions: all together and a tenant.
 */
#ifndef ADMIT_H
#define ADMIT_H

#include "worker/job.h"

struct worker;
struct admit;

struct admit *admit_open(struct worker *worker);
void admit_close(struct admit *admit); /* NULL ok */

/* A job whose row is ours and ready. Takes it over. */
void admit_add(struct admit *admit, struct job *job);
/* The begun commit of an unsafe job is confirmed: its gate may open. */
void admit_begun(struct admit *admit, struct job *job);
/* The job gives its slot back; wall_ms is how long it held it. The job itself
 * goes on to wherever the caller sends it. */
void admit_done(struct admit *admit, struct job *job, int64_t wall_ms);
/* A cancel of this action is committed. One that only waits here ends at once;
 * one that runs is left to end, but is not tried again. */
/* Something was paused: looks again at all that wait for their turn. */
void admit_review(struct admit *admit);
void admit_cancel(struct admit *admit, const uint8_t *id);
/* Something changed: see who can run. */
void admit_kick(struct admit *admit);
/* Any job that has not begun, taken out; NULL when there is none left. */
struct job *admit_give_up(struct admit *admit);
/* Any begun job whose gate never opened; NULL when there is none left. It
 * holds no slot any more. */
struct job *admit_give_up_begun(struct admit *admit);

size_t admit_running(const struct admit *admit);
size_t admit_waiting(const struct admit *admit);
size_t admit_tenants(const struct admit *admit);

#endif
