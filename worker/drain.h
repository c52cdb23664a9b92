/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain: an operator's wish that this worker takes no more work. It stops as
 * SIGTERM makes it, but the process stays and stands by: it looks twice a
 * second whether the wish is gone, and then comes back under a new boot id.
 * Read at start, on a control signal and every 30 s; the truth is in Postgres.
 */
#ifndef DRAIN_H
#define DRAIN_H

#include <stdbool.h>

struct drain;
struct worker;

struct drain *drain_open(struct worker *worker);
void drain_close(struct drain *drain); /* NULL ok */
void drain_refresh(struct drain *drain);

/* While the worker is closed: runs the loop until the wish is gone (true) or
 * the program shall end. */
bool drain_stand_by(struct worker *worker);

/* The name by which it is drained and listed: a setting, or the host's. */
#define WORKER_NAME_SIZE 256
void worker_name(const struct worker *worker, char name[WORKER_NAME_SIZE]);

#endif
