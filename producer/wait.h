/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait: GET /v1/actions/{id}[?wait=30s]. Where an action stands, at once or as
 * soon as it has its outcome. All who wait are served by one query a tick,
 * which only says what has finished; documents are read for those alone.
 */
#ifndef WAIT_H
#define WAIT_H

#include "producer/exchange.h"

#define WAIT_MAX_US (INT64_C(60) * 1000000)

struct wait;

struct wait *wait_open(struct producer *producer);
void wait_close(struct wait *wait); /* NULL allowed */
/* From now on nobody waits: all get the state of the moment. */
void wait_drain(struct wait *wait);

/* The tenant is known. Takes the exchange. */
void wait_get(struct exchange *exchange);

/* "30s", "500ms" or "30" (seconds), at most 60 s. */
bool wait_parse(const char *text, int64_t *wait_us);

#endif
