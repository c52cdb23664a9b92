/* SPDX-License-Identifier: Apache-2.0 */
/* routes: which path and method goes where. A new endpoint is one row. */
#ifndef ROUTES_H
#define ROUTES_H

#include "common/http_server.h"

/* An http_handler_fn; owner is the struct producer. */
void routes_on_request(void *owner, struct http_request *request);

#endif
