/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook: a captured webhook as it stands on the topic `webhooks`
 * (json/webhook.schema.json): its identity and its document. No I/O.
 */
#ifndef WEBHOOK_H
#define WEBHOOK_H

#include <stdint.h>

#include "common/buf.h"
#include "common/crypt.h"

/* Of a body: base64 and the headers around it still fit into a record. */
#define WEBHOOK_MAX_BODY ((size_t)1 << 20)
#define WEBHOOK_MAX_RECORD ((size_t)2000000)

enum webhook_verdict {
    WEBHOOK_VERIFIED,
    WEBHOOK_CONFLICT, /* rightly signed, but its id had another body, or its
                         body another id that nobody signed */
    WEBHOOK_REJECTED  /* kept as evidence alone */
};

struct webhook {
    uint8_t id[UUID_SIZE];
    struct span tenant;
    struct span source;
    struct span sender_id; /* ptr NULL: none */
    int64_t received_us;   /* wall */
    enum webhook_verdict verdict;
    const char *reason; /* REJECTED: why; else "" */
    const char *scheme;
    int secret_no; /* which one it was signed with; 0: none */
    const char *method;
    struct span headers; /* of webhook_put_header() calls */
    struct span body;
};

/* The id of one delivery, the same however often and wherever it arrives. */
void webhook_id_of_sender(struct span tenant, struct span source,
    struct span sender_id, uint8_t id[UUID_SIZE]);
/* The same for senders that give no id: of the bytes that were signed. */
void webhook_id_of_message(struct span tenant, struct span source,
    const uint8_t message[SHA256_SIZE], uint8_t id[UUID_SIZE]);
/* Another id, for a delivery that contradicts one of before. */
void webhook_id_of_conflict(struct span tenant, struct span source,
    struct span sender_id, struct span body, uint8_t id[UUID_SIZE]);

/* Appends one ["name","value"] to a list without its brackets. */
void webhook_put_header(struct buf *out, const char *name, const char *value);
void webhook_put(struct buf *out, const struct webhook *webhook);

/* What the seal of a source's secret is bound to. */
void webhook_put_context(
    struct buf *out, const char *what, struct span tenant, struct span source);
#define WEBHOOK_CONTEXT_SECRET "webhook_source.secret"
#define WEBHOOK_CONTEXT_TOKEN "webhook_source.verify_token"

#endif
