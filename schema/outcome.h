/* SPDX-License-Identifier: Apache-2.0 */
/* outcome: writes the outcome document (CONTRACTS, "Outcome"). No I/O. */
#ifndef OUTCOME_H
#define OUTCOME_H

#include "schema/record.h"

#define OUTCOME_MAX_RESULT ((size_t)1 << 20)
#define OUTCOME_MAX_BYTES ((size_t)2 << 20) /* of the whole document */

struct outcome_error {
    enum code code; /* CODE_NONE: no error */
    enum fault_class class;
    const char *message;   /* NULL: the code's text */
    const char *pointer;   /* NULL or "": none */
    int http_status;       /* 0: none */
    int64_t retry_after_s; /* -1: none */
};

struct outcome {
    const uint8_t *id; /* UUID_SIZE bytes */
    const char *tenant;
    const char *connector;
    const char *action;
    const char *key; /* "" : null */
    enum status status;
    int attempts;
    struct span result;   /* raw answer body; ptr NULL: null */
    bool is_result_cut;   /* result_truncated and result_bytes are added */
    int64_t result_bytes; /* whole size where it is cut */
    struct outcome_error error;
    int64_t started_at_us; /* 0: null */
    int64_t finished_at_us;
    int64_t wall_ms;
    int64_t cpu_ms;
    int64_t memory_peak_bytes;
    int64_t egress_bytes;
    const uint8_t *manifest;  /* 32 bytes; NULL: null */
    const uint8_t *replay_of; /* UUID_SIZE bytes; NULL: null */
};

/* Appends the document. result becomes the JSON value if it is valid JSON,
 * else a string if UTF-8, else {"base64": ...}. */
void outcome_put(struct buf *out, const struct outcome *outcome);

/* Appends just the error object, for the ledger and for waiting.error. */
void outcome_put_error(struct buf *out, const struct outcome_error *error);

/* A form of a stored document that surely fits: the same without its result,
 * with result_truncated and result_bytes set. */
void outcome_put_cut(struct buf *out, struct span document);

#endif
