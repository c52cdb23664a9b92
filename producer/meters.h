/* SPDX-License-Identifier: Apache-2.0 */
/* meters: the producer's metrics, made once a process; see README.md. */
#ifndef METERS_H
#define METERS_H

#include "common/metrics.h"

struct meters {
    struct metric *answers;      /* by HTTP status */
    struct metric *problems;     /* by code */
    struct metric *seconds;      /* from a request to its answer, by route */
    struct metric *reservations; /* by verdict */
    struct metric *batch_size;
    struct metric *produced; /* records, by how their delivery ended */
    struct metric *webhooks; /* deliveries, by verdict */
    struct metric *requests; /* open now */
    struct metric *waiters;  /* GETs that wait for an outcome */
    struct metric *ready;
};

void meters_init(struct meters *meters);

#endif
