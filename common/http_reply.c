/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/http_private.h"
#include "common/json.h"
#include "common/time.h"

enum { PROBLEM_MAX_BYTES = 8192, SEND_DEADLINE_S = 60 };

void http_reply_header(
    struct http_request *request, const char *name, const char *value)
{
    assert(request->header_count < HTTP_MAX_REPLY_HEADERS);
    struct http_header *header = &request->headers[request->header_count];
    header->name = mem_strdup(name);
    header->value = mem_strdup(value);
    request->header_count++;
}

static struct MHD_Response *make_response(
    struct http_request *request, const char *content_type, struct span body)
{
    char *copy = mem_alloc(body.len);
    if (body.len > 0) {
        memcpy(copy, body.ptr, body.len);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body.len, copy, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        (void)fputs("out of memory\n", stderr);
        abort();
    }
    /* A header with a line break in its value is refused here and left out:
     * the answer stays whole. */
    if (content_type != NULL) {
        (void)MHD_add_response_header(
            response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    }
    for (size_t i = 0; i < request->header_count; i++) {
        (void)MHD_add_response_header(
            response, request->headers[i].name, request->headers[i].value);
    }
    if (request->must_close || request->server->is_draining) {
        (void)MHD_add_response_header(
            response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    return response;
}

void http_reply(struct http_request *request, unsigned status,
    const char *content_type, struct span body)
{
    assert(request->has_handler);
    request->has_handler = false;
    http_request_stop_gone(request);
    if (request->server == NULL) {
        http_request_release(request);
        return;
    }
    request->status = status;
    request->response = make_response(request, content_type, body);
    if (request->is_suspended) {
        request->is_suspended = false;
        http_server_resume(request->server, request->connection);
    }
}

enum MHD_Result http_reply_queue(struct http_request *request)
{
    request->conn->deadline_us = now_mono_us() + SEND_DEADLINE_S * US_PER_S;
    const enum MHD_Result result = MHD_queue_response(
        request->connection, request->status, request->response);
    MHD_destroy_response(request->response);
    request->response = NULL;
    return result;
}

/* -- problems -------------------------------------------------------------- */

static void put_text(struct buf *out, const char *name, const char *value)
{
    json_put_name(out, name);
    json_put_cstring(out, value);
}

static void put_problem(struct buf *out, unsigned status, const char *code,
    const char *pointer, const char *detail)
{
    buf_put_char(out, '{');
    put_text(out, "type", "about:blank");
    put_text(out, "title", MHD_get_reason_phrase_for(status));
    json_put_name(out, "status");
    buf_put_int(out, status);
    put_text(out, "detail", detail);
    put_text(out, "code", code);
    if (pointer != NULL) {
        put_text(out, "pointer", pointer);
    }
    buf_put_char(out, '}');
}

void http_problem(struct http_request *request, unsigned status,
    const char *code, const char *pointer, const char *detail)
{
    struct buf body;
    buf_init(&body, PROBLEM_MAX_BYTES);
    put_problem(&body, status, code, pointer, detail);
    if (body.is_overflowed) {
        buf_clear(&body);
        put_problem(&body, status, code, NULL, "");
    }
    http_reply(request, status, "application/problem+json", buf_span(&body));
    buf_fini(&body);
}

void http_reply_fault(
    struct http_request *request, const struct http_fault *fault)
{
    request->must_close = true;
    request->has_handler = true; /* the server stands in for the handler */
    http_problem(request, fault->status, fault->code, NULL, fault->detail);
}
