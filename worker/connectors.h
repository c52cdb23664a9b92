/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connectors: the manifests of the fleet in memory, the newest of each name
 * and every version by its digest. Read at start, on a control signal, every
 * 30 s, and when a name is asked for that nobody knows: a connector that was
 * added before a record was received is found for it.
 * Versions are never changed or deleted, so what was read stays true.
 */
#ifndef CONNECTORS_H
#define CONNECTORS_H

#include "worker/job.h"

struct worker;
struct connectors;

enum lookup {
    LOOKUP_FOUND,
    LOOKUP_NONE, /* surely not there at asked_us */
    LOOKUP_WAIT  /* unknown before the next refresh: connectors_wait() */
};

struct connectors *connectors_open(struct worker *worker);
void connectors_close(struct connectors *connectors); /* NULL ok */

/* asked_us: monotonic, when the question came up. The manifest stays valid
 * until close. */
enum lookup connectors_find(struct connectors *connectors, const char *name,
    int64_t asked_us, struct manifest **manifest);
enum lookup connectors_find_digest(struct connectors *connectors,
    const uint8_t *digest, int64_t asked_us, struct manifest **manifest);
/* Keeps the job until the next refresh is done, then calls
 * job->resume(job->resume_owner, job). */
void connectors_wait(struct connectors *connectors, struct job *job);
/* Takes a waiting job out again; NULL when there is none. For the drain. */
struct job *connectors_give_up(struct connectors *connectors);
/* Something changed: read again soon. */
void connectors_refresh(struct connectors *connectors);
bool connectors_is_loaded(const struct connectors *connectors);

#endif
