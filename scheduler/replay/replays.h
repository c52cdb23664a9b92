/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replays: runs the engine of replays (replayer.h) on a thread of its own
 * while this scheduler leads the relay.
 */
#ifndef REPLAYS_H
#define REPLAYS_H

#include <stdbool.h>

struct replays;
struct scheduler;

struct replays *replays_open(struct scheduler *scheduler);
/* Ends the thread; waits at most 5 s. False: it is stuck in a call, and the
 * process should end without freeing anything. NULL ok. */
bool replays_close(struct replays *replays);

#endif
