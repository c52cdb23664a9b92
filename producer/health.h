/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health: /healthz (the loop turns), /readyz (actions can be accepted; if not,
 * what is missing) and /metrics. For anybody; they tell nothing of tenants.
 */
#ifndef HEALTH_H
#define HEALTH_H

#include "producer/producer.h"

void health_live(struct producer *producer, struct http_request *request);
void health_ready(struct producer *producer, struct http_request *request);
void health_metrics(struct producer *producer, struct http_request *request);

#endif
