/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply: the answers of the front door, counted. Each ends the request.
 */
#ifndef REPLY_H
#define REPLY_H

#include "common/http_server.h"
#include "producer/meters.h"
#include "schema/record.h"

/* What a client should wait at least before it tries again. */
#define REPLY_RETRY_AFTER_S "1"

void reply_body(const struct meters *meters, struct http_request *request,
    unsigned status, const char *content_type, struct span body);
/* pointer and detail may be NULL; detail NULL: the code's text. */
void reply_problem(const struct meters *meters, struct http_request *request,
    unsigned status, enum code code, const char *pointer, const char *detail);
/* The fault with the status of its code; 401 and 503 with their headers. */
void reply_fault(const struct meters *meters, struct http_request *request,
    const struct fault *fault);

#endif
