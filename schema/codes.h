/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes: every status, state, reason and error code, once. The numbers are
 * stored in Postgres (CHECK constraints in sql/) and must never change; the
 * names are the contract with callers (CONTRACTS, JSON Schemas).
 */
#ifndef CODES_H
#define CODES_H

#include "common/buf.h"

/* Terminal statuses, absorbing. X(symbol, number, name) */
#define STATUS_LIST(X)                                                         \
    X(SUCCEEDED, 1, "succeeded")                                               \
    X(FAILED, 2, "failed")                                                     \
    X(EXHAUSTED, 3, "exhausted")                                               \
    X(EXPIRED, 4, "expired")                                                   \
    X(REJECTED, 5, "rejected")                                                 \
    X(DENIED, 6, "denied")                                                     \
    X(CANCELLED, 7, "cancelled")                                               \
    X(INDETERMINATE, 8, "indeterminate")

enum status {
#define X(symbol, number, name) STATUS_##symbol = number,
    STATUS_LIST(X)
#undef X
};

/* live.state */
enum live_state { LIVE_READY = 1, LIVE_BEGUN = 2 };

/* waiting.reason */
#define WAIT_REASON_LIST(X)                                                    \
    X(RETRY, 1, "retry")                                                       \
    X(COOLDOWN, 2, "cooldown")                                                 \
    X(RATE_LIMIT, 3, "rate_limit")                                             \
    X(APPROVAL, 4, "approval")                                                 \
    X(PAUSED, 5, "paused")                                                     \
    X(PARKED, 6, "parked")                                                     \
    X(NOT_BEFORE, 7, "not_before")

enum wait_reason {
#define X(symbol, number, name) WAIT_##symbol = number,
    WAIT_REASON_LIST(X)
#undef X
};

/* What a manifest declares: how often the effect may be started. live.effect */
enum effect { EFFECT_NATURAL = 1, EFFECT_KEYED = 2, EFFECT_UNSAFE = 3 };

/* ledger.kind, and of ledger_all. X(symbol, number, name) */
#define LEDGER_KIND_LIST(X)                                                    \
    X(OUTCOME, 0, "outcome") /* of the view alone: the last attempt */         \
    X(ATTEMPT, 1, "attempt") /* one that was not the last */                   \
    X(LATE, 2, "late")       /* a result after its fence had moved */          \
    X(DUPLICATE, 3, "duplicate")                                               \
    X(TAKEOVER, 4, "takeover") /* taken from a dead worker */                  \
    X(OPS, 5, "ops")           /* pause, resume, drain */                      \
    X(DENIAL, 6, "denial")                                                     \
    X(WAIT, 7, "wait") /* without a call: paused, not before, ... */           \
    X(CANCEL, 8, "cancel")                                                     \
    X(REPLAY, 9, "replay")                                                     \
    X(RESOLUTION, 10, "resolution")

enum ledger_kind {
#define X(symbol, number, name) LEDGER_##symbol = number,
    LEDGER_KIND_LIST(X)
#undef X
        LEDGER_KIND_COUNT
};

const char *ledger_kind_name(enum ledger_kind kind); /* NULL: no such number */
bool ledger_kind_parse(struct span name, enum ledger_kind *kind);

/* error.class of an outcome */
enum fault_class {
    FAULT_TRANSIENT = 1,
    FAULT_PERMANENT = 2,
    FAULT_UNKNOWN = 3
};

const char *status_name(enum status status); /* NULL for an unknown number */
bool status_parse(struct span name, enum status *status);
const char *wait_reason_name(enum wait_reason reason);
const char *effect_name(enum effect effect);
bool effect_parse(struct span name, enum effect *effect);
const char *fault_class_name(enum fault_class class);

/*
 * Codes of error.code and of problems. X(symbol, http_status, text): the HTTP
 * status the producer answers with (0: never an answer), and the default
 * message. The name is the symbol.
 */
#define CODE_LIST(X)                                                           \
    X(MALFORMED_JSON, 400, "the body is not one well-formed JSON object")      \
    X(DUPLICATE_MEMBER, 400, "a member name occurs twice")                     \
    X(TOO_DEEP, 400, "the payload nests deeper than 64 levels")                \
    X(TOO_LARGE, 413, "the body is larger than allowed")                       \
    X(NULL_VALUE, 400, "the record has no value")                              \
    X(UNSUPPORTED_SPEC, 400, "spec must be \"actionist/1\"")                   \
    X(INVALID_TENANT, 400, "tenant is missing or not a valid name")            \
    X(INVALID_CONNECTOR, 400, "connector is missing or not a valid name")      \
    X(INVALID_ACTION, 400, "action is missing or not a valid name")            \
    X(TENANT_MISMATCH, 403, "tenant is not the one this caller belongs to")    \
    X(KEY_MISMATCH, 400, "the record's key is not its tenant")                 \
    X(INVALID_KEY, 400,                                                        \
        "idempotency_key must be 1 to 255 printable ASCII "                    \
        "characters without spaces")                                           \
    X(MISSING_KEY, 400,                                                        \
        "idempotency_key (or the Idempotency-Key header) is "                  \
        "required")                                                            \
    X(INVALID_TIME, 400, "not a time of RFC 3339 with a zone")                 \
    X(INVALID_MEMBER, 400, "a member has the wrong type or range")             \
    X(UNKNOWN_CONNECTOR, 422, "no such connector")                             \
    X(UNKNOWN_ACTION, 422, "the connector has no such action")                 \
    X(PAYLOAD_INVALID, 422, "the payload breaks the action's schema")          \
    X(TEMPLATE_INVALID, 422, "the payload does not fit the request template")  \
    X(IDEMPOTENCY_CONFLICT, 422,                                               \
        "the same idempotency key was used with "                              \
        "other content")                                                       \
    X(UNSUPPORTED, 422, "not supported by this version")                       \
    X(DEADLINE_PASSED, 0, "the deadline passed before it could succeed")       \
    X(CANCELLED, 0, "cancelled by request")                                    \
    X(EXECUTION_TIMEOUT, 0, "no answer within the time-out")                   \
    X(CONNECTION_FAILED, 0, "no connection could be made")                     \
    X(DNS_FAILED, 0, "the host name could not be resolved")                    \
    X(TLS_FAILED, 0, "the TLS handshake failed")                               \
    X(CONNECTION_LOST, 0, "the connection broke after the request was sent")   \
    X(BAD_ANSWER, 0, "the answer was not HTTP or was cut short")               \
    X(EGRESS_DENIED, 0, "the address is not allowed")                          \
    X(HTTP_STATUS, 0, "the provider answered with an error status")            \
    X(RETRY_AFTER_TOO_LONG, 0, "Retry-After is longer than 86400 s")           \
    X(RUNNER_DIED, 0, "the runner process died while the call was running")    \
    X(RUNNER_UNAVAILABLE, 0, "no runner could be started")                     \
    X(WORKER_LOST, 0, "the worker died after the call may have started")       \
    X(WORKER_CRASH, 0, "three workers died while running this action")         \
    X(ALREADY_FINISHED, 409, "the action has ended already")                   \
    X(REPLAY_REFUSED, 409, "none of these actions can be replayed now")        \
    X(REPLAY_RUNS, 409,                                                        \
        "another replay that is not over names one of these "                  \
        "actions")                                                             \
    X(REPLAY_OVER, 409,                                                        \
        "the replay is over, or all of its actions are on their way")          \
    X(CONFLICT, 409, "what is there already does not allow this")              \
    X(UNAUTHORIZED, 401, "a valid API key is required")                        \
    X(SIGNATURE_INVALID, 401,                                                  \
        "the signature is missing, wrong, or too old or new")                  \
    X(TOKEN_INVALID, 403, "the verify token is not the one of this source")    \
    X(RATE_LIMITED, 429, "too many deliveries; repeat this one later")         \
    X(NOT_FOUND, 404, "nothing here")                                          \
    X(METHOD_NOT_ALLOWED, 405, "this path does not have that method")          \
    X(UNSUPPORTED_MEDIA_TYPE, 415,                                             \
        "the content type must be "                                            \
        "application/json")                                                    \
    X(TIMEOUT, 408, "the request took too long to arrive")                     \
    X(BAD_REQUEST, 400, "the HTTP request is malformed")                       \
    X(EXPECTATION_FAILED, 417, "only 100-continue can be expected")            \
    X(HEADERS_TOO_LARGE, 431, "the headers are larger than allowed")           \
    X(UNAVAILABLE, 503,                                                        \
        "a store that this call needs cannot be reached; "                     \
        "repeat it later")

enum code {
    CODE_NONE,
#define X(symbol, http_status, text) CODE_##symbol,
    CODE_LIST(X)
#undef X
        CODE_COUNT
};

const char *code_name(enum code code); /* "MALFORMED_JSON"; "" for NONE */
const char *code_text(enum code code);
unsigned code_http_status(enum code code);
bool code_parse(struct span name, enum code *code);

#endif
