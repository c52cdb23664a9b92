/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_view: what the templates of a mapping see of a delivery, as one JSON
 * document:
 *
 *   {"body": ..., "headers": {"x-github-event": "push", ...},
 *    "webhook": {"id", "tenant", "source", "sender_id", "type",
 *                "received_at", "method"}}
 *
 * `body` is the JSON value itself if the body is JSON of at most 64 levels; an
 * object of strings if it is a form (the first of each name); a string if it
 * is other text; else {"base64": "..."}. Names of headers are lower case, the
 * first of each name counts, 128 at most. Pure.
 */
#ifndef WEBHOOK_VIEW_H
#define WEBHOOK_VIEW_H

#include "schema/webhook.h"

/* 1 MiB of body, each byte an escape of six, and the headers. */
#define WEBHOOK_VIEW_MAX ((size_t)8 << 20)
/* Of containers: the body's 64 and the document around it. */
#define WEBHOOK_VIEW_DEPTH 65

/* type: "" for none. */
void webhook_view_put(
    struct buf *out, const struct webhook_capture *capture, struct span type);

#endif
