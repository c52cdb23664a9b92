/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace: W3C Trace Context of a request. Exactly one well-formed traceparent
 * is passed on, what a later version adds is cut off; anything else begins a
 * new trace, and never refuses the request.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>

#include "common/buf.h"

#define TRACEPARENT_LEN 55
#define TRACESTATE_MAX 4096 /* longer ones are dropped whole */

/* header NULL: none came. True if it was taken over; out is terminated. */
bool trace_parent(const char *header, char out[TRACEPARENT_LEN + 1]);

#endif
