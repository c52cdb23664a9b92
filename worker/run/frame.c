/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/frame.h"

#include <string.h>

/* -- writing ---------------------------------------------------------------- */

#define PUT_NUMBER(name, type)                                                 \
    static void name(struct buf *buf, type value)                              \
    {                                                                          \
        buf_put(buf, &value, sizeof(value));                                   \
    }

PUT_NUMBER(put_u8, uint8_t)
PUT_NUMBER(put_u16, uint16_t)
PUT_NUMBER(put_u32, uint32_t)
PUT_NUMBER(put_u64, uint64_t)
PUT_NUMBER(put_i64, int64_t)

/* Length first, then the bytes. */
static void put_text(struct buf *buf, struct span text)
{
    put_u32(buf, (uint32_t)text.len);
    buf_put_span(buf, text);
}

static size_t begin(struct buf *buf, enum frame_type type)
{
    const size_t start = buf->len;
    put_u32(buf, 0);
    put_u8(buf, (uint8_t)type);
    return start;
}

/* Writes the length of the frame that began at start, or takes it back. */
static int end(struct buf *buf, size_t start)
{
    const size_t len = buf->len - start;
    if (buf->is_overflowed || len > FRAME_MAX) {
        buf->len = start;
        buf->is_overflowed = false;
        return -1;
    }
    const uint32_t size = (uint32_t)len;
    memcpy(buf->data + start, &size, sizeof(size));
    return 0;
}

int frame_put_setup(struct buf *buf, const struct frame_setup *setup)
{
    const size_t start = begin(buf, FRAME_SETUP);
    put_u32(buf, setup->max_calls);
    put_i64(buf, setup->connect_timeout_ms);
    put_text(buf, setup->private_allow);
    put_text(buf, setup->ca_file);
    return end(buf, start);
}

int frame_put_ready(struct buf *buf)
{
    return end(buf, begin(buf, FRAME_READY));
}

static bool is_within(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static int put_echo(struct buf *buf, uint32_t index, const struct run_job *job)
{
    /* The body comes back, so it is capped as a result is. */
    if (job->call->body.len > job->max_result_bytes) {
        return -1;
    }
    const size_t start = begin(buf, FRAME_ECHO);
    put_u32(buf, index);
    put_u64(buf, job->id);
    put_text(buf, job->call->body);
    return end(buf, start);
}

int frame_put_job(struct buf *buf, uint32_t index, const struct run_job *job)
{
    const struct call *call = job->call;
    if (job->egress_count > FRAME_MAX_EGRESS ||
        call->header_count > CALL_MAX_HEADERS || call->body.len > FRAME_MAX ||
        call->url.len > CALL_MAX_URL || job->max_result_bytes > FRAME_MAX ||
        !is_within(job->timeout_ms, 1, FRAME_MAX_TIMEOUT_MS)) {
        return -1;
    }
    if (call->is_echo) {
        return put_echo(buf, index, job);
    }
    const size_t start = begin(buf, FRAME_JOB);
    put_u32(buf, index);
    put_u64(buf, job->id);
    put_i64(buf, job->timeout_ms);
    put_u32(buf, (uint32_t)job->max_result_bytes);
    put_text(buf, span_of(call->method));
    put_text(buf, call->url);
    put_u8(buf, call->body.ptr != NULL);
    put_text(buf, call->body);
    put_u16(buf, (uint16_t)call->header_count);
    for (size_t i = 0; i < call->header_count; i++) {
        put_text(buf, call->headers[i].name);
        put_text(buf, call->headers[i].value);
    }
    put_u16(buf, (uint16_t)job->egress_count);
    for (size_t i = 0; i < job->egress_count; i++) {
        put_text(buf, span_of(job->egress[i].host));
        put_u16(buf, job->egress[i].port);
    }
    return end(buf, start);
}

int frame_put_result(
    struct buf *buf, uint32_t index, const struct run_result *result)
{
    const size_t start = begin(buf, FRAME_RESULT);
    put_u32(buf, index);
    put_u64(buf, result->id);
    put_u8(buf, (uint8_t)result->end);
    put_u16(buf, (uint16_t)result->code);
    put_u16(buf, (uint16_t)result->http_status);
    put_u8(buf, result->is_body_cut);
    put_i64(buf, result->body_bytes);
    put_i64(buf, result->egress_bytes);
    put_i64(buf, result->wall_ms);
    put_i64(buf, result->cpu_ms);
    put_i64(buf, result->memory_peak_bytes);
    put_text(buf, span_of(result->message));
    put_text(buf, result->headers);
    put_text(buf, result->body);
    return end(buf, start);
}

/* -- reading ---------------------------------------------------------------- */

struct reader {
    struct span rest;
    bool is_bad; /* something did not fit; stays so */
};

static void get_bytes(struct reader *reader, void *value, size_t size)
{
    if (reader->is_bad || reader->rest.len < size) {
        reader->is_bad = true;
        memset(value, 0, size);
        return;
    }
    memcpy(value, reader->rest.ptr, size);
    reader->rest.ptr += size;
    reader->rest.len -= size;
}

#define GET_NUMBER(name, type)                                                 \
    static type name(struct reader *reader)                                    \
    {                                                                          \
        type value;                                                            \
        get_bytes(reader, &value, sizeof(value));                              \
        return value;                                                          \
    }

GET_NUMBER(get_u8, uint8_t)
GET_NUMBER(get_u16, uint16_t)
GET_NUMBER(get_u32, uint32_t)
GET_NUMBER(get_u64, uint64_t)
GET_NUMBER(get_i64, int64_t)

static struct span get_text(struct reader *reader)
{
    const size_t len = get_u32(reader);
    if (reader->is_bad || reader->rest.len < len) {
        reader->is_bad = true;
        return (struct span){.ptr = NULL};
    }
    const struct span text = {.ptr = reader->rest.ptr, .len = len};
    reader->rest.ptr += len;
    reader->rest.len -= len;
    return text;
}

static bool get_bool(struct reader *reader)
{
    const uint8_t value = get_u8(reader);
    reader->is_bad = reader->is_bad || value > 1;
    return value == 1;
}

/* A count of things still to come. */
static size_t get_count(struct reader *reader, size_t most)
{
    const size_t count = get_u16(reader);
    reader->is_bad = reader->is_bad || count > most;
    return reader->is_bad ? 0 : count;
}

static int finish(const struct reader *reader)
{
    return reader->is_bad || reader->rest.len > 0 ? -1 : 0;
}

int frame_next(struct span bytes, struct frame *frame, size_t *used)
{
    *used = 0;
    if (bytes.len < FRAME_HEAD) {
        return 0;
    }
    uint32_t len = 0;
    memcpy(&len, bytes.ptr, sizeof(len));
    const uint8_t type = (uint8_t)bytes.ptr[sizeof(len)];
    if (len < FRAME_HEAD || len > FRAME_MAX || type < FRAME_SETUP ||
        type >= FRAME_TYPE_COUNT) {
        return -1;
    }
    *used = len;
    if (bytes.len < len) {
        return 0;
    }
    frame->type = (enum frame_type)type;
    frame->content.ptr = bytes.ptr + FRAME_HEAD;
    frame->content.len = len - FRAME_HEAD;
    return 1;
}

int frame_get_setup(struct span content, struct frame_setup *setup)
{
    struct reader reader = {.rest = content};
    setup->max_calls = get_u32(&reader);
    setup->connect_timeout_ms = get_i64(&reader);
    setup->private_allow = get_text(&reader);
    setup->ca_file = get_text(&reader);
    if (!is_within(setup->max_calls, 1, FRAME_MAX_CALLS) ||
        !is_within(setup->connect_timeout_ms, 1, FRAME_MAX_TIMEOUT_MS)) {
        return -1;
    }
    return finish(&reader);
}

int frame_get_job(struct span content, struct frame_job *job)
{
    struct reader reader = {.rest = content};
    job->index = get_u32(&reader);
    job->id = get_u64(&reader);
    job->timeout_ms = get_i64(&reader);
    job->max_result_bytes = get_u32(&reader);
    job->method = get_text(&reader);
    job->url = get_text(&reader);
    const bool has_body = get_bool(&reader);
    job->body = get_text(&reader);
    reader.is_bad = reader.is_bad || (!has_body && job->body.len > 0);
    if (!has_body) {
        job->body.ptr = NULL;
    }
    job->header_count = get_count(&reader, CALL_MAX_HEADERS);
    for (size_t i = 0; i < job->header_count; i++) {
        job->headers[i].name = get_text(&reader);
        job->headers[i].value = get_text(&reader);
    }
    job->egress_count = get_count(&reader, FRAME_MAX_EGRESS);
    for (size_t i = 0; i < job->egress_count; i++) {
        job->egress[i].host = get_text(&reader);
        job->egress[i].port = get_u16(&reader);
    }
    if (job->url.len > CALL_MAX_URL || job->max_result_bytes > FRAME_MAX ||
        !is_within(job->timeout_ms, 1, FRAME_MAX_TIMEOUT_MS)) {
        return -1;
    }
    return finish(&reader);
}

int frame_get_echo(struct span content, struct frame_echo *echo)
{
    struct reader reader = {.rest = content};
    echo->index = get_u32(&reader);
    echo->id = get_u64(&reader);
    echo->body = get_text(&reader);
    return finish(&reader);
}

int frame_get_result(
    struct span content, uint32_t *index, struct run_result *result)
{
    struct reader reader = {.rest = content};
    *index = get_u32(&reader);
    result->id = get_u64(&reader);
    const uint8_t end_no = get_u8(&reader);
    const uint16_t code_no = get_u16(&reader);
    result->http_status = get_u16(&reader);
    result->is_body_cut = get_bool(&reader);
    result->body_bytes = get_i64(&reader);
    result->egress_bytes = get_i64(&reader);
    result->wall_ms = get_i64(&reader);
    result->cpu_ms = get_i64(&reader);
    result->memory_peak_bytes = get_i64(&reader);
    const struct span message = get_text(&reader);
    result->headers = get_text(&reader);
    result->body = get_text(&reader);
    if (end_no >= CALL_END_COUNT || code_no >= CODE_COUNT ||
        message.len >= sizeof(result->message) || result->body_bytes < 0 ||
        result->egress_bytes < 0 ||
        !is_within(result->wall_ms, 0, FRAME_MAX_WALL_MS) ||
        result->cpu_ms < 0 || result->memory_peak_bytes < 0) {
        return -1;
    }
    result->end = (enum call_end)end_no;
    result->code = (enum code)code_no;
    if (message.len > 0) {
        memcpy(result->message, message.ptr, message.len);
    }
    result->message[message.len] = '\0';
    return finish(&reader);
}
