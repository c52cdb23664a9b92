/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One answer: its bytes, how they go out, and what happens to the connection
 * after them. Made here, sent by conn.c. No I/O.
 */
#ifndef DOUBLE_ANSWER_H
#define DOUBLE_ANSWER_H

#include "http.h"
#include "script.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_MAX_BYTES ((size_t)64 * 1024 * 1024)

enum answer_end {
    ANSWER_KEEP, /* the connection takes the next request */
    ANSWER_CLOSE,
    ANSWER_RESET, /* with a TCP RST */
    ANSWER_HANG   /* nothing more is ever sent */
};

struct answer {
    struct buf bytes;
    size_t head_bytes;  /* of `bytes`; sent at once even when dripping */
    int64_t fill_bytes; /* that many `x` follow `bytes` */
    int64_t delay_us;   /* before the first byte, or before the reset */
    int64_t drip_bytes; /* 0 = all at once */
    int64_t drip_every_us;
    int64_t retry_after_s; /* what the answer asks for; -1 nothing */
    int64_t retry_date_us; /* the same as a wall clock time; -1 nothing */
    uint64_t seq;          /* in the request log; 0 = not logged */
    int status;
    enum answer_end end;
};

/* What a step's answer depends on besides the step. */
struct answer_context {
    const struct http_request *request;
    struct http_span key;
    uint64_t n; /* number of the call, for {{n}} */
    int64_t wall_us;
};

void answer_init(struct answer *answer);
void answer_fini(struct answer *answer);
/* Back to an empty 200 that keeps the connection; keeps the memory. */
void answer_clear(struct answer *answer);

/* A whole answer with a JSON body. Closes unless the request keeps. */
void answer_json(struct answer *answer, const struct http_request *request,
    int status, const struct buf *body);
void answer_json_text(struct answer *answer, const struct http_request *request,
    int status, const char *body);
/*
 * The answer of a step, whole: without the step's faults (truncation, reset,
 * silence), so that it can be kept and repeated.
 */
void answer_step(struct answer *answer, const struct step *step,
    const struct answer_context *context);
/* Then the faults, delay and drip of the step. */
void answer_spoil(struct answer *answer, const struct step *step);

#endif
