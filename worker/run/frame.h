/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame: what worker and runner say to each other over their stream socket.
 *
 * A frame is a length (4 bytes, of the whole frame), a type (1 byte) and fixed
 * fields followed by the bytes they measure. Numbers are in host order: both
 * ends are the same build on the same machine. Each reader checks every
 * length; a frame that does not add up ends the connection.
 *
 *   worker -> runner   SETUP (once), JOB and ECHO ...
 *   runner -> worker   READY (once), RESULT ...
 *
 * No I/O here. Nothing below allocates except the buffer that is put into.
 */
#ifndef FRAME_H
#define FRAME_H

#include "common/buf.h"
#include "worker/run/run.h"

#define FRAME_MAX ((size_t)8 << 20)
#define FRAME_HEAD 5
#define FRAME_MAX_EGRESS 64
#define FRAME_MAX_TIMEOUT_MS INT64_C(86400000)
#define FRAME_MAX_CALLS 65536
/* Far beyond every call; in microseconds it is still a time. */
#define FRAME_MAX_WALL_MS (INT64_C(1) << 50)

enum frame_type {
    FRAME_SETUP = 1,
    FRAME_JOB,
    FRAME_READY,
    FRAME_RESULT,
    FRAME_ECHO,
    FRAME_TYPE_COUNT
};

/* The content of one frame; borrowed from the bytes it was found in. */
struct frame {
    enum frame_type type;
    struct span content;
};

/* What a runner must know before its first call. */
struct frame_setup {
    struct span private_allow; /* setting egress.private_allow */
    struct span ca_file;       /* empty: the system's */
    uint32_t max_calls;
    int64_t connect_timeout_ms;
};

/* A job as the runner reads it. Spans borrow from the frame. */
struct frame_job {
    uint32_t index; /* of the worker's table, comes back with the result */
    uint64_t id;
    int64_t timeout_ms;
    uint32_t max_result_bytes;
    struct span method;
    struct span url;
    struct span body; /* ptr NULL: none */
    size_t header_count;
    struct call_header headers[CALL_MAX_HEADERS];
    size_t egress_count;
    struct {
        struct span host;
        uint16_t port;
    } egress[FRAME_MAX_EGRESS];
};

/* A job that is answered with its own body. */
struct frame_echo {
    uint32_t index;
    uint64_t id;
    struct span body;
};

/*
 * Takes the first frame of bytes. 1: found, *used is its size; 0: not whole
 * yet, *used is the size it will have, or 0 while that is unknown; -1: not a
 * frame.
 */
int frame_next(struct span bytes, struct frame *frame, size_t *used);

/* Each appends one whole frame, or nothing when that would pass buf's maximum
 * (then -1). */
int frame_put_setup(
    struct buf *buf, const struct frame_setup *setup) MUST_CHECK;
/* A JOB or, for an echo, an ECHO. -1 also for a job that is larger than a frame
 * may be. */
int frame_put_job(
    struct buf *buf, uint32_t index, const struct run_job *job) MUST_CHECK;
int frame_put_ready(struct buf *buf) MUST_CHECK;
int frame_put_result(struct buf *buf, uint32_t index,
    const struct run_result *result) MUST_CHECK;

/* Each reads the content of a frame of its type; -1 when it does not add up.
 * What they fill borrows from content; private_allow and ca_file are not
 * terminated. */
int frame_get_setup(struct span content, struct frame_setup *setup) MUST_CHECK;
int frame_get_job(struct span content, struct frame_job *job) MUST_CHECK;
int frame_get_echo(struct span content, struct frame_echo *echo) MUST_CHECK;
int frame_get_result(
    struct span content, uint32_t *index, struct run_result *result) MUST_CHECK;

#endif
