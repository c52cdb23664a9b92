/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/reply.h"

#include <stdio.h>

static void count_status(const struct meters *meters, unsigned status)
{
    char text[12];
    (void)snprintf(text, sizeof(text), "%u", status); /* always fits */
    metric_add(meters->answers, text, 1);
}

void reply_body(const struct meters *meters, struct http_request *request,
    unsigned status, const char *content_type, struct span body)
{
    count_status(meters, status);
    http_reply(request, status, content_type, body);
}

void reply_problem(const struct meters *meters, struct http_request *request,
    unsigned status, enum code code, const char *pointer, const char *detail)
{
    count_status(meters, status);
    metric_add(meters->problems, code_name(code), 1);
    if (status == 503) {
        http_reply_header(request, "Retry-After", REPLY_RETRY_AFTER_S);
    }
    if (status == 401) {
        http_reply_header(
            request, "WWW-Authenticate", "Bearer realm=\"actionist\"");
    }
    http_problem(request, status, code_name(code), pointer,
        detail == NULL ? code_text(code) : detail);
}

void reply_fault(const struct meters *meters, struct http_request *request,
    const struct fault *fault)
{
    reply_problem(meters, request, code_http_status(fault->code), fault->code,
        fault->pointer[0] == '\0' ? NULL : fault->pointer,
        fault->detail[0] == '\0' ? NULL : fault->detail);
}
