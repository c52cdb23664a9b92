/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include "clock.h"

#include <stdlib.h>
#include <string.h>

#define KEEP_BYTES ((size_t)64 * 1024)

void answer_init(struct answer *answer)
{
    buf_init(&answer->bytes, ANSWER_MAX_BYTES);
    answer_clear(answer);
}

void answer_fini(struct answer *answer)
{
    buf_fini(&answer->bytes);
}

void answer_clear(struct answer *answer)
{
    buf_clear(&answer->bytes, KEEP_BYTES);
    const struct buf bytes = answer->bytes;
    *answer = (struct answer){.bytes = bytes,
        .status = 200,
        .retry_after_s = -1,
        .retry_date_us = -1,
        .end = ANSWER_KEEP};
}

static bool is_method(const struct http_request *request, const char *method)
{
    return http_equals(request->method, method);
}

static void end_head(
    struct answer *answer, const struct http_request *request, bool is_close)
{
    if (is_close || !request->is_keep_alive) {
        buf_text(&answer->bytes, "Connection: close\r\n");
        answer->end = ANSWER_CLOSE;
    }
    buf_text(&answer->bytes, "\r\n");
    answer->head_bytes = answer->bytes.len;
}

static void start_head(struct answer *answer, int status)
{
    answer->status = status;
    buf_printf(
        &answer->bytes, "HTTP/1.1 %d %s\r\n", status, http_reason(status));
}

void answer_json(struct answer *answer, const struct http_request *request,
    int status, const struct buf *body)
{
    start_head(answer, status);
    buf_printf(&answer->bytes,
        "Content-Type: application/json\r\n"
        "Content-Length: %zu\r\n",
        body->len);
    end_head(answer, request, false);
    if (!is_method(request, "HEAD")) {
        buf_append(&answer->bytes, body->data, body->len);
    }
}

void answer_json_text(struct answer *answer, const struct http_request *request,
    int status, const char *text)
{
    struct buf body;
    buf_init(&body, ANSWER_MAX_BYTES);
    buf_text(&body, text);
    answer_json(answer, request, status, &body);
    buf_fini(&body);
}

static void fill_in(struct buf *out, const struct step *step,
    const struct answer_context *context)
{
    const struct http_request *request = context->request;
    char number[24];
    const int number_len =
        snprintf(number, sizeof number, "%llu", (unsigned long long)context->n);
    const struct {
        const char *name;
        struct http_span value;
    } fields[] = {
        {"{{n}}", {number, (size_t)number_len}},
        {"{{key}}", context->key},
        {"{{path}}", request->path},
        {"{{body}}", request->body},
    };
    size_t i = 0;
    while (i < step->body_len) {
        size_t used = 0;
        for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
            const size_t len = strlen(fields[f].name);
            if (used == 0 && len <= step->body_len - i &&
                memcmp(step->body + i, fields[f].name, len) == 0) {
                buf_append(out, fields[f].value.data, fields[f].value.len);
                used = len;
            }
        }
        if (used == 0) {
            buf_append(out, step->body + i, 1);
        }
        i += used > 0 ? used : 1;
    }
}

static void make_body(struct buf *body, const struct step *step,
    const struct answer_context *context)
{
    if (step->fill_bytes >= 0) {
        return;
    }
    if (step->is_template) {
        fill_in(body, step, context);
    } else if (step->body != NULL) {
        buf_append(body, step->body, step->body_len);
    } else {
        const bool is_success = step->status >= 200 && step->status < 300;
        buf_text(body, is_success ? "{\"ok\":true}" : "{\"ok\":false}");
    }
}

static bool may_have_body(const struct step *step)
{
    return step->status >= 200 && step->status != 204 && step->status != 304;
}

static void add_dates(
    struct answer *answer, const struct step *step, int64_t sent_us)
{
    if (!step->has_date) {
        buf_text(&answer->bytes, "Date: ");
        clock_date(&answer->bytes, sent_us, DATE_FORMAT_IMF);
        buf_text(&answer->bytes, "\r\n");
    }
    if (step->retry_date_s >= 0) {
        /* Rounded up, so that the wait is never shorter than asked for. */
        const int64_t due_s = (sent_us + 999999) / 1000000;
        answer->retry_date_us = (due_s + step->retry_date_s) * 1000000;
        buf_text(&answer->bytes, "Retry-After: ");
        clock_date(&answer->bytes, answer->retry_date_us, step->date_format);
        buf_text(&answer->bytes, "\r\n");
    }
}

static void add_framing(
    struct answer *answer, const struct step *step, size_t body_len)
{
    if (!step->has_content_type) {
        buf_text(&answer->bytes, step->fill_bytes >= 0
                                     ? "Content-Type: text/plain\r\n"
                                     : "Content-Type: application/json\r\n");
    }
    if (step->is_chunked) {
        buf_text(&answer->bytes, "Transfer-Encoding: chunked\r\n");
    } else if (!step->has_length) {
        const size_t fill = step->fill_bytes > 0 ? (size_t)step->fill_bytes : 0;
        buf_printf(&answer->bytes, "Content-Length: %zu\r\n", body_len + fill);
    }
}

static void add_body(
    struct answer *answer, const struct step *step, const struct buf *body)
{
    if (!step->is_chunked) {
        buf_append(&answer->bytes, body->data, body->len);
        return;
    }
    if (body->len > 0) {
        buf_printf(&answer->bytes, "%zx\r\n", body->len);
        buf_append(&answer->bytes, body->data, body->len);
        buf_text(&answer->bytes, "\r\n");
    }
    buf_text(&answer->bytes, "0\r\n\r\n");
}

void answer_step(struct answer *answer, const struct step *step,
    const struct answer_context *context)
{
    answer->retry_after_s = step->retry_after_s;
    answer->status = step->status;
    if (step->raw != NULL) {
        buf_append(&answer->bytes, step->raw, step->raw_len);
        answer->end = ANSWER_CLOSE;
        return;
    }
    const bool has_body = may_have_body(step);
    struct buf body;
    buf_init(&body, ANSWER_MAX_BYTES / 2);
    make_body(&body, step, context);
    start_head(answer, step->status);
    add_dates(answer, step, context->wall_us + step->delay_us);
    if (step->headers != NULL) {
        buf_text(&answer->bytes, step->headers);
    }
    if (has_body) {
        add_framing(answer, step, body.len);
    }
    end_head(answer, context->request, step->is_close);
    if (has_body && !is_method(context->request, "HEAD")) {
        add_body(answer, step, &body);
        answer->fill_bytes = step->fill_bytes > 0 ? step->fill_bytes : 0;
    }
    if (body.is_over || answer->bytes.is_over) {
        answer_clear(answer);
        answer_json_text(answer, context->request, 500,
            "{\"error\":\"double: the answer is too large\"}");
    }
    buf_fini(&body);
}

static void truncate_body(struct answer *answer, int64_t keep)
{
    const int64_t body = (int64_t)(answer->bytes.len - answer->head_bytes);
    if (keep < body) {
        answer->bytes.len = answer->head_bytes + (size_t)keep;
    }
    const int64_t fill = keep > body ? keep - body : 0;
    if (fill < answer->fill_bytes) {
        answer->fill_bytes = fill;
    }
    answer->end = ANSWER_CLOSE;
}

void answer_spoil(struct answer *answer, const struct step *step)
{
    answer->delay_us = step->delay_us;
    answer->drip_bytes = step->drip_bytes;
    answer->drip_every_us = step->drip_every_us;
    if (step->truncate_bytes >= 0) {
        truncate_body(answer, step->truncate_bytes);
    }
    if (step->is_never || step->reset != STEP_RESET_NONE) {
        buf_clear(&answer->bytes, KEEP_BYTES);
        answer->head_bytes = 0;
        answer->fill_bytes = 0;
        answer->status = 0;
        answer->retry_after_s = -1;
        answer->retry_date_us = -1;
        answer->end = step->is_never ? ANSWER_HANG : ANSWER_RESET;
    }
}
