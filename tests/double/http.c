/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

static enum http_progress bad(struct http_request *request, int status)
{
    request->bad_status = status;
    return HTTP_BAD;
}

bool http_equals(struct http_span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.data, text, span.len) == 0;
}

static bool equals_nocase(struct http_span span, const char *text)
{
    return span.len == strlen(text) &&
           strncasecmp(span.data, text, span.len) == 0;
}

struct http_span http_header(
    const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (equals_nocase(request->headers[i].name, name)) {
            return request->headers[i].value;
        }
    }
    return (struct http_span){NULL, 0};
}

static struct http_span trim(struct http_span span)
{
    while (span.len > 0 && (span.data[0] == ' ' || span.data[0] == '\t')) {
        span.data++;
        span.len--;
    }
    while (span.len > 0 && (span.data[span.len - 1] == ' ' ||
                               span.data[span.len - 1] == '\t')) {
        span.len--;
    }
    return span;
}

static bool is_token(struct http_span span)
{
    for (size_t i = 0; i < span.len; i++) {
        const unsigned char byte = (unsigned char)span.data[i];
        if (!isalnum(byte) && strchr("!#$%&'*+-.^_`|~", byte) == NULL) {
            return false;
        }
    }
    return span.len > 0;
}

/* Takes one CRLF-ended line off the front of `rest`. */
static struct http_span take_line(struct http_span *rest)
{
    const char *end = memmem(rest->data, rest->len, "\r\n", 2);
    const size_t len = end != NULL ? (size_t)(end - rest->data) : rest->len;
    const struct http_span line = {rest->data, len};
    const size_t used = end != NULL ? len + 2 : len;
    rest->data += used;
    rest->len -= used;
    return line;
}

static int parse_request_line(
    struct http_request *request, struct http_span line)
{
    const char *space = memchr(line.data, ' ', line.len);
    const char *last = memrchr(line.data, ' ', line.len);
    if (space == NULL || last == space) {
        return 400;
    }
    const size_t method_len = (size_t)(space - line.data);
    request->method = (struct http_span){line.data, method_len};
    request->target = (struct http_span){space + 1, (size_t)(last - space - 1)};
    const struct http_span version = {
        last + 1, line.len - (size_t)(last - line.data) - 1};
    if (http_equals(version, "HTTP/1.1")) {
        request->is_keep_alive = true;
    } else if (!http_equals(version, "HTTP/1.0")) {
        return 505;
    }
    if (!is_token(request->method) || request->target.len == 0 ||
        request->target.data[0] != '/') {
        return 400;
    }
    request->path = request->target;
    const char *mark = memchr(request->target.data, '?', request->target.len);
    if (mark != NULL) {
        request->path.len = (size_t)(mark - request->target.data);
        request->query = (struct http_span){
            mark + 1, request->target.len - request->path.len - 1};
    }
    return 0;
}

static int parse_length(
    struct http_request *request, struct http_span value, bool *has_length)
{
    size_t length = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9' ||
            length > SIZE_MAX / 16) {
            return 400;
        }
        length = length * 10 + (size_t)(value.data[i] - '0');
    }
    if (value.len == 0 || (*has_length && length != request->content_bytes)) {
        return 400;
    }
    *has_length = true;
    request->content_bytes = length;
    return length > HTTP_MAX_BODY_BYTES ? 413 : 0;
}

static int note_header(struct http_request *request,
    const struct http_header *header, bool *has_length)
{
    if (equals_nocase(header->name, "Content-Length")) {
        return parse_length(request, header->value, has_length);
    }
    if (equals_nocase(header->name, "Transfer-Encoding")) {
        request->is_chunked = equals_nocase(header->value, "chunked");
        return request->is_chunked ? 0 : 501;
    }
    if (equals_nocase(header->name, "Connection")) {
        if (equals_nocase(header->value, "close")) {
            request->is_keep_alive = false;
        } else if (equals_nocase(header->value, "keep-alive")) {
            request->is_keep_alive = true;
        }
    }
    if (equals_nocase(header->name, "Expect")) {
        request->is_continue_expected =
            equals_nocase(header->value, "100-continue");
    }
    return 0;
}

static int parse_headers(struct http_request *request, struct http_span rest)
{
    bool has_length = false;
    while (rest.len > 0) {
        const struct http_span line = take_line(&rest);
        const char *colon = memchr(line.data, ':', line.len);
        if (colon == NULL || memchr(line.data, '\r', line.len) != NULL ||
            memchr(line.data, '\n', line.len) != NULL) {
            return 400;
        }
        if (request->header_count == HTTP_MAX_HEADERS) {
            return 431;
        }
        struct http_header *header = &request->headers[request->header_count++];
        const size_t name_len = (size_t)(colon - line.data);
        header->name = (struct http_span){line.data, name_len};
        header->value =
            trim((struct http_span){colon + 1, line.len - name_len - 1});
        const int status = is_token(header->name)
                               ? note_header(request, header, &has_length)
                               : 400;
        if (status != 0) {
            return status;
        }
    }
    return request->is_chunked && has_length ? 400 : 0;
}

/* Reads the chunk size line at data[*at]; -1 bad, 0 not whole yet, 1 read. */
static int chunk_size(const char *data, size_t len, size_t *at, size_t *size)
{
    const size_t left = len - *at;
    const char *end = memmem(data + *at, left, "\r\n", 2);
    if (end == NULL) {
        return left > 1024 ? -1 : 0;
    }
    const char *digit = data + *at;
    size_t value = 0;
    while (digit < end && isxdigit((unsigned char)*digit)) {
        if (value > HTTP_MAX_BODY_BYTES) {
            return -1;
        }
        const int low = tolower((unsigned char)*digit);
        value = value * 16 + (size_t)(low <= '9' ? low - '0' : low - 'a' + 10);
        digit++;
    }
    if (digit == data + *at || (digit < end && *digit != ';')) {
        return -1;
    }
    *size = value;
    *at = (size_t)(end - data) + 2;
    return 1;
}

static enum http_progress parse_chunks(const char *data, size_t len,
    struct http_request *request, struct buf *chunks)
{
    size_t at = request->head.len;
    for (;;) {
        size_t size = 0;
        const int found = chunk_size(data, len, &at, &size);
        if (found <= 0) {
            return found < 0 ? bad(request, 400) : HTTP_NEED_BODY;
        }
        if (len - at < size + 2) {
            return HTTP_NEED_BODY;
        }
        if (memcmp(data + at + size, "\r\n", 2) != 0) {
            return bad(request, 400); /* trailers are not supported either */
        }
        if (size > HTTP_MAX_BODY_BYTES - chunks->len) {
            return bad(request, 413);
        }
        buf_append(chunks, data + at, size);
        at += size + 2;
        request->body = (struct http_span){chunks->data, chunks->len};
        if (size == 0) {
            request->whole_bytes = at;
            return HTTP_WHOLE;
        }
    }
}

/* All but the array of headers, which `header_count` empties. */
static void request_clear(struct http_request *request)
{
    memset(request, 0, offsetof(struct http_request, headers));
    request->header_count = 0;
    request->content_bytes = 0;
    request->whole_bytes = 0;
    request->is_chunked = false;
    request->is_keep_alive = false;
    request->is_continue_expected = false;
    request->bad_status = 0;
}

enum http_progress http_parse(const char *data, size_t len,
    struct http_request *request, struct buf *chunks)
{
    request_clear(request);
    const size_t window = len < HTTP_MAX_HEAD_BYTES ? len : HTTP_MAX_HEAD_BYTES;
    const char *end = len > 0 ? memmem(data, window, "\r\n\r\n", 4) : NULL;
    if (end == NULL) {
        request->head = (struct http_span){data, window};
        return window < HTTP_MAX_HEAD_BYTES ? HTTP_NEED_HEAD
                                            : bad(request, 431);
    }
    request->head = (struct http_span){data, (size_t)(end - data) + 4};
    if (memchr(data, '\0', request->head.len) != NULL) {
        return bad(request, 400);
    }
    struct http_span rest = {data, request->head.len - 2};
    int status = parse_request_line(request, take_line(&rest));
    if (status == 0) {
        status = parse_headers(request, rest);
    }
    if (status != 0) {
        return bad(request, status);
    }
    if (request->is_chunked) {
        buf_clear(chunks, HTTP_MAX_HEAD_BYTES);
        return parse_chunks(data, len, request, chunks);
    }
    const size_t there = len - request->head.len;
    const size_t content = request->content_bytes;
    request->body = (struct http_span){
        data + request->head.len, there < content ? there : content};
    request->whole_bytes = request->head.len + content;
    return there < content ? HTTP_NEED_BODY : HTTP_WHOLE;
}

static int hex_value(char digit)
{
    const int low = tolower((unsigned char)digit);
    return low <= '9' ? low - '0' : low - 'a' + 10;
}

static void append_decoded(struct buf *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char byte = data[i];
        if (byte == '%' && len - i > 2 &&
            isxdigit((unsigned char)data[i + 1]) &&
            isxdigit((unsigned char)data[i + 2])) {
            byte = (char)(hex_value(data[i + 1]) * 16 + hex_value(data[i + 2]));
            i += 2;
        } else if (byte == '+') {
            byte = ' ';
        }
        buf_append(out, &byte, 1);
    }
}

bool http_query(
    const struct http_request *request, const char *name, struct buf *out)
{
    const size_t name_len = strlen(name);
    struct http_span rest = request->query;
    while (rest.len > 0) {
        const char *end = memchr(rest.data, '&', rest.len);
        const size_t len = end != NULL ? (size_t)(end - rest.data) : rest.len;
        if (len > name_len && rest.data[name_len] == '=' &&
            memcmp(rest.data, name, name_len) == 0) {
            append_decoded(out, rest.data + name_len + 1, len - name_len - 1);
            return true;
        }
        const size_t used = end != NULL ? len + 1 : len;
        rest.data += used;
        rest.len -= used;
    }
    return false;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {422, "Unprocessable Content"},
        {425, "Too Early"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].status == status) {
            return reasons[i].reason;
        }
    }
    return "Scripted";
}
