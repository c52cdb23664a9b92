/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actions: POST /v1/actions. The order of the steps is the promise:
 *
 *   parse -> judge by the manifest -> reserve (Postgres) -> produce (Kafka,
 *   acknowledged by all replicas in sync) -> 202
 *
 * If we die before the reservation, nothing happened. If we die between
 * reservation and 202, the client repeats and the record is produced again;
 * the claim takes one of them.
 */
#ifndef ACTIONS_H
#define ACTIONS_H

#include "producer/exchange.h"
#include "producer/reserve.h"

struct actions;

struct actions *actions_open(struct producer *producer);
void actions_close(struct actions *actions); /* NULL allowed */

/* The tenant is known. Takes the exchange. */
void actions_post(struct exchange *exchange);
/* For reserve_open(). */
void actions_on_reserved(
    struct exchange *exchange, enum reserve_verdict verdict);

/* True while records get through, as far as is known. */
bool actions_is_kafka_up(const struct actions *actions);

/* Whether a Content-Type is JSON in UTF-8; NULL (none came) counts as such. */
bool actions_type_is_json(const char *content_type);

#endif
