/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest: a connector's manifest (CONTRACTS, "Connector manifest"), checked
 * and compiled. Loading is strict: an unknown member or keyword, a missing
 * idempotency, a template that cannot work are errors that name the pointer.
 */
#ifndef MANIFEST_H
#define MANIFEST_H

#include <stdint.h>

#include "schema/record.h"

#define MANIFEST_MAX_BYTES ((size_t)1 << 20)
#define MANIFEST_MAX_ACTIONS 256

struct manifest;        /* immutable once loaded */
struct manifest_action; /* borrowed from its manifest */

/* text is copied. NULL and fault (pointer into the manifest) on failure. */
struct manifest *manifest_load(struct span text, struct fault *fault);
void manifest_free(struct manifest *manifest); /* NULL ok */

const char *manifest_name(const struct manifest *manifest);
const char *manifest_version(const struct manifest *manifest);
const uint8_t *manifest_digest(const struct manifest *manifest); /* 32 bytes */
struct span manifest_text(const struct manifest *manifest);
const struct manifest_action *manifest_find(
    const struct manifest *manifest, const char *action);
size_t manifest_action_count(const struct manifest *manifest);
const struct manifest_action *manifest_action_at(
    const struct manifest *manifest, size_t index);

/* Egress allow-list entry: host (lower case, "*.x" = one label), port. */
struct egress_rule {
    const char *host;
    uint16_t port;
};
const struct egress_rule *manifest_egress(
    const struct manifest *manifest, size_t *count);

enum effect action_effect(const struct manifest_action *action);
int64_t action_timeout_ms(const struct manifest_action *action);
/* keyed: name of the header that carries our key; NULL otherwise. */
const char *action_key_header(const struct manifest_action *action);
/* keyed: how long the provider keeps keys; 0 otherwise. */
int64_t action_key_retention_s(const struct manifest_action *action);
int action_max_attempts(const struct manifest_action *action);
int64_t action_base_ms(const struct manifest_action *action);
int64_t action_max_ms(const struct manifest_action *action);

/* How a manifest moves a status. MOVE_LIMITED: not applied when the answer
 * carries a usable Retry-After or reset header, else not moved. */
enum status_move {
    MOVE_NONE,
    MOVE_RETRY,
    MOVE_PERMANENT,
    MOVE_NOT_APPLIED,
    MOVE_LIMITED
};
enum status_move action_status_move(
    const struct manifest_action *action, int http_status);

/* A reset header: seconds to wait as epoch or delta. */
enum reset_unit { RESET_EPOCH_S, RESET_EPOCH_MS, RESET_DELTA_S };
struct reset_header {
    const char *name; /* lower case */
    enum reset_unit unit;
};
const struct reset_header *action_reset_headers(
    const struct manifest_action *action, size_t *count);

/* Checks the payload against the action's schema. 0, or -1 with a fault whose
 * pointer starts with /payload. */
int action_check_payload(const struct manifest_action *action,
    struct json_value payload, struct fault *fault) MUST_CHECK;

/* -- the request to be made ---------------------------------------------------- */

struct call_header {
    struct span name;
    struct span value;
};
#define CALL_MAX_HEADERS 64
#define CALL_MAX_URL 8192

/* Everything borrows from storage. */
struct call {
    bool is_echo; /* the runner answers with the body; nothing is sent */
    const char *method;
    struct span url;
    struct call_header headers[CALL_MAX_HEADERS];
    size_t header_count;
    struct span body; /* ptr NULL: none */
};

/* The key sent to the provider: the same over retries, crashes, replays. The
 * action id's text. */

/*
 * Renders the action's templates with the record. storage holds what call
 * borrows (buf_init with a maximum of 4 MiB). -1: TEMPLATE_INVALID or
 * PAYLOAD_INVALID with the pointer of the member that is missing or unfit.
 */
int action_render(const struct manifest_action *action,
    const struct record *record, struct buf *storage, struct call *call,
    struct fault *fault) MUST_CHECK;

#endif
