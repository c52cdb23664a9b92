/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake_cloudevents: finds the action request inside a Kafka record, which
 * may be a CloudEvent (CloudEvents 1.0, Kafka protocol binding): structured
 * mode by its content type, `data` is the request; binary mode by its ce_
 * headers, the value is the request. Anything else is the request itself.
 */
#ifndef INTAKE_CLOUDEVENTS_H
#define INTAKE_CLOUDEVENTS_H

#include "schema/record.h"

/* content_type: of the header, empty when absent. Borrows from value. -1 with
 * a fault when it says it is a structured event and is not one. */
int cloudevents_unwrap(struct span content_type, struct span value,
    struct span *request, struct fault *fault) MUST_CHECK;

#endif
