/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_result: what a call reports when it is over. Reads the call and its
 * libcurl handle, changes neither; what the end means is http_judge's to say.
 */
#ifndef HTTP_RESULT_H
#define HTTP_RESULT_H

#include "worker/run/http_call.h"

/* How the transfer ended. Spans borrow from the call. */
void http_result_fill(
    struct http_call *call, CURLcode curl, struct run_result *result);

/* The result of a call that was never given to libcurl; message is copied. */
void http_result_unsent(const struct http_call *call, enum call_end end,
    enum code code, const char *message, struct run_result *result);

#endif
