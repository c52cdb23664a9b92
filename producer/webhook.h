/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook: /hooks/{tenant}/{source}. A delivery is checked over its raw bytes,
 * put onto the topic `webhooks` as it came, and answered with 200 once all
 * replicas in sync have it. Needs Kafka only. Answers are 2xx, 4xx, or 503
 * with Retry-After, and have no body that a sender could misread.
 */
#ifndef WEBHOOK_DOOR_H
#define WEBHOOK_DOOR_H

#include "common/http_server.h"
#include "common/seal.h"

struct producer;
struct webhook_door;

/* NULL, without an error, if no master key is set: then there are no sources.
 * Blocks to read the key. */
int webhook_door_open(struct producer *producer, struct webhook_door **door,
    struct err *err) MUST_CHECK;
void webhook_door_close(struct webhook_door *door); /* NULL ok */

/* Handlers of the routes. */
void webhook_post(struct producer *producer, struct http_request *request);
void webhook_get(struct producer *producer, struct http_request *request);

#endif
