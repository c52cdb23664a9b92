/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health: /healthz (the loop turns), /readyz (all stores are there, else 503
 * with what is missing) and /metrics, on http.listen. Answers nothing else and
 * reads no body.
 */
#ifndef HEALTH_H
#define HEALTH_H

#include "common/http_server.h"

struct worker;

/* NULL without err when http.listen is empty: no door. Borrows worker. */
struct http_server *health_open(struct worker *worker, struct err *err);

#endif
