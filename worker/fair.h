/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair: whose turn it is. A queue a tenant, served by deficit round robin;
 * the cost of an action is the time it is expected to hold a slot of this
 * worker, so a tenant with slow calls gets fewer of them, not more of the
 * worker. Within a tenant: priority (9 first), then arrival. Pure memory.
 */
#ifndef FAIR_H
#define FAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/job.h"

struct fair;

struct fair_limits {
    size_t tenant_queue;   /* waiting jobs a tenant may have here */
    size_t tenant_running; /* jobs of a tenant that run at once */
    int64_t patience_ms;   /* ... or more, if the last one waits shorter */
};

struct fair *fair_new(const struct fair_limits *limits);
void fair_free(struct fair *fair); /* not the jobs. NULL ok */

/* Queues the job. False: the tenant's queue is full and will be for a while;
 * the job is not in it. */
bool fair_push(struct fair *fair, struct job *job);
/* The next job that may run now, counted as running; NULL if there is none. */
struct job *fair_take(struct fair *fair, int64_t now_us);
/* The taken job could not start: back to the front, and its tenant is passed
 * over until then. */
void fair_put_back(struct fair *fair, struct job *job, int64_t until_us);
/* A taken job is over; wall_ms is how long it held its slot. */
void fair_done(struct fair *fair, struct job *job, int64_t wall_ms);
/* Takes out a job that waits; false: it does not wait here. */
bool fair_remove(struct fair *fair, struct job *job);
/* Any waiting job, for when all are to be given up; NULL when empty. */
struct job *fair_drain(struct fair *fair);

size_t fair_waiting(const struct fair *fair);
size_t fair_running(const struct fair *fair);
size_t fair_tenants(const struct fair *fair);

#endif
