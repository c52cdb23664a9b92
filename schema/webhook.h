/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook: a captured webhook as it stands on the topic `webhooks`
 * (json/webhook.schema.json): its identity and its document. No I/O.
 */
#ifndef WEBHOOK_H
#define WEBHOOK_H

#include <stdint.h>

#include "common/json.h"
#include "schema/record.h"

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
    const uint8_t *replay_of; /* NULL: as it came; else the id of before */
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

/* -- read back ------------------------------------------------------------- */

/* webhook.decision: what became of a delivery once a worker read it. */
enum webhook_decision {
    WEBHOOK_UNMAPPED = 1, /* its source has no mapping */
    WEBHOOK_MAPPED = 2,   /* it is an action under its own id */
    WEBHOOK_FILTERED = 3, /* its type is not asked for */
    WEBHOOK_FAILED = 4,   /* the mapping could not be applied */
    WEBHOOK_HELD = 5      /* rejected, or a conflict: evidence */
};

/* A document of the topic. Owns the buffers, borrows the rest from its text. */
struct webhook_capture {
    uint8_t id[UUID_SIZE];
    char tenant[RECORD_MAX_NAME + 1];
    char source[RECORD_MAX_NAME + 1];
    bool has_sender_id;
    struct buf sender_id;
    int64_t received_us;
    enum webhook_verdict verdict;
    struct span reason; /* "": none */
    struct span scheme;
    int secret_no; /* 0: none */
    struct span method;
    struct json_value headers; /* array of pairs of strings */
    struct buf body;           /* the exact bytes */
    bool is_replay;
    uint8_t replay_of[UUID_SIZE];
};

/*
 * Reads a document strictly; text must stay valid. key: of the record, which
 * is the tenant. -1 and a fault; the capture is to be ended in any case.
 */
int webhook_capture_parse(struct webhook_capture *capture, struct span text,
    struct span key, struct fault *fault) MUST_CHECK;
void webhook_capture_fini(struct webhook_capture *capture); /* zeroed: ok */
/* Appends the value of the first header of that name; false: none. */
bool webhook_capture_header(
    const struct webhook_capture *capture, const char *name, struct buf *out);
#define WEBHOOK_MAX_TYPE 255
/* Appends what happened as the scheme tells it: at most WEBHOOK_MAX_TYPE bytes
 * of UTF-8 without control characters. False, and nothing, if it does not. */
bool webhook_capture_type(
    const struct webhook_capture *capture, struct buf *out);

const char *webhook_verdict_name(enum webhook_verdict verdict);
bool webhook_verdict_parse(struct span name, enum webhook_verdict *verdict);
const char *webhook_decision_name(enum webhook_decision decision);
bool webhook_decision_parse(struct span name, enum webhook_decision *decision);

/* What the seal of a source's secret is bound to. */
void webhook_put_context(
    struct buf *out, const char *what, struct span tenant, struct span source);
#define WEBHOOK_CONTEXT_SECRET "webhook_source.secret"
#define WEBHOOK_CONTEXT_TOKEN "webhook_source.verify_token"

#endif
