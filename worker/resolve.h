/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve: finds the declaration behind a request and judges the request
 * against it: connector, action, payload schema, templates. What does not fit
 * gets job->fault and is claimed all the same, to be settled as `rejected`.
 */
#ifndef RESOLVE_H
#define RESOLVE_H

#include "worker/connectors.h"

/* False: the connector is not known before the next refresh; ask again then. */
bool resolve_new(struct connectors *connectors, struct job *job);
/* The same for a claimed action, which keeps the version it was claimed with.
 * digest NULL: it was claimed to be rejected; the fault is found again. */
bool resolve_claimed(
    struct connectors *connectors, struct job *job, const uint8_t *digest);

#endif
