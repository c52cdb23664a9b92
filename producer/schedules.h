/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedules: /v1/schedules, the schedules of the caller's tenant. Needs
 * Postgres alone: what a POST got 201 for is a row, and the schedulers make
 * its ticks into actions. A POST may be repeated: the same document under the
 * same name is 200, another one 409.
 */
#ifndef SCHEDULES_H
#define SCHEDULES_H

#include "producer/exchange.h"

/* Handlers of routes; each takes the exchange. */
void schedules_post(struct exchange *exchange);
void schedules_list(struct exchange *exchange); /* ?limit=, ?after=NAME */
void schedules_get(struct exchange *exchange);
void schedules_delete(struct exchange *exchange);
void schedules_pause(struct exchange *exchange);
void schedules_resume(struct exchange *exchange);

#endif
