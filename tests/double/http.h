/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one HTTP/1.x request (RFC 9112) from the front of a byte buffer.
 * Stateless: called again with more bytes until the request is whole. It
 * does no I/O. Every span points into the caller's bytes and dies with them.
 */
#ifndef DOUBLE_HTTP_H
#define DOUBLE_HTTP_H

#include "buf.h"

#include <stdbool.h>
#include <stddef.h>

#define HTTP_MAX_HEAD_BYTES ((size_t)64 * 1024)
#define HTTP_MAX_BODY_BYTES ((size_t)16 * 1024 * 1024)
#define HTTP_MAX_HEADERS 100

struct http_span {
    const char *data;
    size_t len;
};

struct http_header {
    struct http_span name;
    struct http_span value; /* without white space around it */
};

enum http_progress {
    HTTP_NEED_HEAD, /* the head is not whole yet */
    HTTP_NEED_BODY, /* the head is whole and read, the body is not */
    HTTP_WHOLE,
    HTTP_BAD /* answer `bad_status` and close */
};

struct http_request {
    struct http_span head; /* with the empty line at its end */
    struct http_span body; /* what is there of it; decoded when chunked */
    struct http_span method;
    struct http_span target;
    struct http_span path; /* the target up to `?` */
    struct http_span query;
    struct http_header headers[HTTP_MAX_HEADERS];
    size_t header_count;
    size_t content_bytes;
    size_t whole_bytes; /* head and body as they came over the wire */
    bool is_chunked;
    bool is_keep_alive;
    bool is_continue_expected;
    int bad_status;
};

/*
 * Fills `request` from data[0..len). `chunks` receives the decoded body of a
 * chunked request and must live as long as the request.
 */
enum http_progress http_parse(const char *data, size_t len,
    struct http_request *request, struct buf *chunks);

/* The value of the first header of that name; data is NULL without one. */
struct http_span http_header(
    const struct http_request *request, const char *name);
/*
 * Appends the percent-decoded value of a query parameter to `out`; false
 * when the query has no such parameter.
 */
bool http_query(
    const struct http_request *request, const char *name, struct buf *out);
bool http_equals(struct http_span span, const char *text);
const char *http_reason(int status);

#endif
