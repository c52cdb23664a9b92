/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit: runs the conservation audit (scheduler/verify/) all the time, in small
 * passes, each from where the last one ended. Done by the scheduler that leads
 * the relay. Exports actionist_unaccounted and actionist_duplicates; both are 0
 * on a healthy fleet, and anything else is logged as an error.
 *
 * A pass blocks, so it runs on a thread of its own, which shares nothing with
 * the loop but the pass's options and result, each at one time with one owner.
 */
#ifndef AUDIT_H
#define AUDIT_H

#include <stdbool.h>

#include "common/err.h"

struct audit;
struct scheduler;

struct audit *audit_open(struct scheduler *scheduler);
/* Ends the pass under way; waits at most 2 s. False: its thread is stuck in a
 * call, and the process should end without freeing anything. NULL ok. */
bool audit_close(struct audit *audit) MUST_CHECK;

#endif
