/* SPDX-License-Identifier: Apache-2.0 */
/* http: which path and method goes where. A new endpoint is one row. */
#ifndef HTTP_H
#define HTTP_H

#include "common/http_server.h"

/* An http_handler_fn; owner is the struct producer. */
void http_on_request(void *owner, struct http_request *request);

#endif
