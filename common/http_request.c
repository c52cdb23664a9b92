/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd calls for the URI, then for the headers, then for each piece
 * of the body, then once more with none: that is when the handler gets the
 * request. One that the handler does not answer at once is suspended by the
 * call after that, and resumed by its reply, after which comes one more call,
 * for the answer. Suspended any earlier, the connection would still count as
 * one to be read from: resumed, it would find the end of what a half-closed
 * client sends, and be dropped without its answer.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/http_private.h"
#include "common/time.h"

/* How much of a body over the limit is read away, so that the client sees the
 * answer instead of a reset. */
enum { MAX_SINK_FACTOR = 4 };

/* -- life ------------------------------------------------------------------ */

void http_request_release(struct http_request *request)
{
    if (request->connection != NULL || request->has_handler ||
        request->is_in_handler) {
        return;
    }
    http_request_stop_gone(request);
    if (request->response != NULL) {
        MHD_destroy_response(request->response);
    }
    for (size_t i = 0; i < request->header_count; i++) {
        free(request->headers[i].name);
        free(request->headers[i].value);
    }
    free(request->method);
    free(request->path);
    buf_fini(&request->body);
    free(request);
}

static struct http_conn *conn_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info->socket_context;
}

void *http_on_uri(
    void *owner, const char *uri, struct MHD_Connection *connection)
{
    struct http_server *server = owner;
    struct http_request *request = mem_zalloc(1, sizeof(*request));
    request->server = server;
    request->connection = connection;
    request->conn = conn_of(connection);
    request->conn->request = request;
    request->has_bad_uri = strstr(uri, "%00") != NULL;
    buf_init(&request->body, server->options.max_body_bytes);
    return request;
}

void http_on_completed(void *owner, struct MHD_Connection *connection,
    void **context, enum MHD_RequestTerminationCode code)
{
    struct http_server *server = owner;
    struct http_request *request = *context;
    (void)connection;
    (void)code;
    if (request == NULL) {
        return;
    }
    *context = NULL;
    request->conn->request = NULL;
    request->conn->deadline_us =
        now_mono_us() + server->options.idle_timeout_s * US_PER_S;
    if (request->path != NULL) {
        server->open_requests--;
    }
    request->connection = NULL;
    request->conn = NULL;
    http_request_release(request);
}

void http_request_orphan(struct http_request *request)
{
    http_request_stop_gone(request);
    request->server = NULL;
    if (request->is_suspended) {
        request->is_suspended = false;
        MHD_resume_connection(request->connection);
    }
}

/* -- the calls ------------------------------------------------------------- */

static enum MHD_Result refuse(
    struct http_request *request, const struct http_fault *fault)
{
    /* A close with unread bytes would reset the connection, and the client
     * might never see the answer. */
    struct http_conn *conn = request->conn;
    if (conn->linger_fd < 0) {
        conn->linger_fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 0);
    }
    http_reply_fault(request, fault);
    return http_reply_queue(request);
}

static enum MHD_Result judge(struct http_request *request, const char *version)
{
    const struct http_options *options = &request->server->options;
    struct http_fault fault = {.status = 0};
    request->has_started = true;
    request->conn->deadline_us =
        now_mono_us() + options->body_timeout_s * US_PER_S;
    if (request->has_bad_uri) {
        fault = (struct http_fault){.status = MHD_HTTP_BAD_REQUEST,
            .code = "BAD_REQUEST",
            .detail = "the URI holds an encoded NUL"};
        return refuse(request, &fault);
    }
    if (!http_framing_check(
            request->connection, version, options->max_body_bytes, &fault)) {
        return refuse(request, &fault);
    }
    return MHD_YES;
}

static enum MHD_Result take_body(
    struct http_request *request, const char *upload, size_t *upload_size)
{
    const size_t max = request->server->options.max_body_bytes;
    if (request->is_too_large) {
        request->sunk += *upload_size;
        *upload_size = 0;
        return request->sunk / MAX_SINK_FACTOR > max ? MHD_NO : MHD_YES;
    }
    buf_put(&request->body, upload, *upload_size);
    *upload_size = 0;
    if (request->body.is_overflowed) {
        buf_fini(&request->body);
        request->is_too_large = true;
    }
    return MHD_YES;
}

static enum MHD_Result hand_over(
    struct http_request *request, const char *url, const char *method)
{
    struct http_server *server = request->server;
    if (request->is_too_large) {
        return refuse(request,
            &(struct http_fault){.status = MHD_HTTP_CONTENT_TOO_LARGE,
                .code = "TOO_LARGE",
                .detail = "the body is larger than this server takes"});
    }
    request->conn->deadline_us = HTTP_NEVER;
    request->method = mem_strdup(method);
    request->path = mem_strdup(url);
    request->has_handler = true;
    server->open_requests++;
    request->is_in_handler = true;
    server->handler(server->owner, request);
    request->is_in_handler = false;
    if (request->response != NULL) {
        return http_reply_queue(request);
    }
    return MHD_YES;
}

enum MHD_Result http_on_request(void *owner, struct MHD_Connection *connection,
    const char *url, const char *method, const char *version,
    const char *upload, size_t *upload_size, void **context)
{
    struct http_request *request = *context;
    (void)owner;
    if (request->server == NULL) {
        return MHD_NO; /* the server closes */
    }
    if (!request->has_started) {
        return judge(request, version);
    }
    if (*upload_size > 0) {
        return take_body(request, upload, upload_size);
    }
    if (request->response != NULL) {
        return http_reply_queue(request);
    }
    if (request->path != NULL) {
        request->is_suspended = true;
        MHD_suspend_connection(connection);
        return MHD_YES;
    }
    return hand_over(request, url, method);
}

/* -- accessors ------------------------------------------------------------- */

const char *http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

static const char *lookup(const struct http_request *request,
    enum MHD_ValueKind kind, const char *name)
{
    if (request->connection == NULL) {
        return NULL;
    }
    return MHD_lookup_connection_value(request->connection, kind, name);
}

const char *http_query(const struct http_request *request, const char *name)
{
    return lookup(request, MHD_GET_ARGUMENT_KIND, name);
}

const char *http_header(const struct http_request *request, const char *name)
{
    return lookup(request, MHD_HEADER_KIND, name);
}

struct each {
    http_each_fn fn;
    void *arg;
    const char *wanted;
    unsigned count;
};

static enum MHD_Result on_each(
    void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct each *each = arg;
    (void)kind;
    if (each->fn != NULL) {
        each->fn(each->arg, name, value == NULL ? "" : value);
    } else if (strcasecmp(name, each->wanted) == 0) {
        each->count++;
    }
    return MHD_YES;
}

unsigned http_header_count(const struct http_request *request, const char *name)
{
    struct each each = {.wanted = name};
    if (request->connection != NULL) {
        (void)MHD_get_connection_values(
            request->connection, MHD_HEADER_KIND, on_each, &each);
    }
    return each.count;
}

void http_each_header(
    const struct http_request *request, http_each_fn fn, void *arg)
{
    struct each each = {.fn = fn, .arg = arg};
    if (request->connection != NULL) {
        (void)MHD_get_connection_values(
            request->connection, MHD_HEADER_KIND, on_each, &each);
    }
}

struct span http_body(const struct http_request *request)
{
    return buf_span(&request->body);
}

/* -- gone clients ---------------------------------------------------------- */

void http_request_stop_gone(struct http_request *request)
{
    loop_fd_free(request->gone_watch);
    request->gone_watch = NULL;
}

static void on_gone_event(void *owner, int events)
{
    struct http_request *request = owner;
    (void)events;
    http_request_stop_gone(request);
    request->is_gone = true;
    if (request->on_gone != NULL) {
        request->on_gone(request->on_gone_owner);
    }
}

bool http_is_gone(const struct http_request *request)
{
    return request->is_gone || request->server == NULL;
}

void http_on_gone(struct http_request *request, loop_fn fn, void *owner)
{
    request->on_gone = fn;
    request->on_gone_owner = owner;
    if (request->gone_watch != NULL || request->conn == NULL) {
        return;
    }
    /* libmicrohttpd does not look at a suspended connection's socket. */
    request->gone_watch = loop_fd_new(
        request->server->loop, request->conn->fd, on_gone_event, request);
    loop_fd_want(request->gone_watch, UV_DISCONNECT);
}
