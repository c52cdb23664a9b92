/* SPDX-License-Identifier: Apache-2.0 */
/* stats: the worker's metrics; made once a process, see worker/README.md. */
#ifndef STATS_H
#define STATS_H

#include "common/metrics.h"

struct stats {
    struct metric *records;    /* by topic */
    struct metric *rejects;    /* by reason */
    struct metric *deliveries; /* webhooks, by what became of them */
    struct metric *claims;     /* new actions */
    struct metric *duplicates;
    struct metric *conflicts;
    struct metric *taken;   /* dispatched actions taken */
    struct metric *adopted; /* own rows found without memory of them */
    struct metric *calls;   /* by how they ended */
    struct metric *call_seconds;
    struct metric *queue_seconds; /* of an attempt, until its call starts */
    struct metric *whole_seconds; /* from the claim to the outcome */
    struct metric *outcomes;      /* by status */
    struct metric *postponed;     /* by reason */
    struct metric *late;   /* results that came after their fence moved */
    struct metric *fenced; /* begun refused: the row was not ours any more */
    struct metric *doubts; /* statements whose end was unknown, by room */
    struct metric *found_committed;
    struct metric *found_aborted;
    struct metric *restarts; /* identities lost */
    struct metric *pauses;   /* of the intake */
    struct metric *jobs;
    struct metric *job_bytes;
    struct metric *running;
    struct metric *waiting_turn;
    struct metric *tenants;
    struct metric *ready;
};

void stats_init(struct stats *stats);

#endif
