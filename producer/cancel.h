/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel: POST /v1/actions/{id}/cancel. 202 once the cancel is written down, be
 * it the first or a repeat; 200 when the action has ended as cancelled; 409
 * when it has ended otherwise. See schema/cancel.h for who wins a race.
 */
#ifndef PRODUCER_CANCEL_H
#define PRODUCER_CANCEL_H

#include "producer/exchange.h"

struct cancel;

struct cancel *cancel_open(struct producer *producer);
void cancel_close(struct cancel *cancel); /* NULL allowed */

/* The tenant is known. Takes the exchange. */
void cancel_post(struct exchange *exchange);

#endif
