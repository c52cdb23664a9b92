/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/http_call.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/time.h"
#include "worker/run/http_judge.h"
#include "worker/run/http_tls.h"

enum { MAX_METHOD = 16, MAX_PINNED = 8, SWITCHING_PROTOCOLS = 101 };
#define USER_AGENT "actionist"
/* Idle connections older than this are not used again. Many servers close
 * after 5 s; a request sent at that moment could not be told from one that
 * was carried out. */
#define MAX_IDLE_S 4L

/* -- what libcurl asks and tells ------------------------------------------------ */

/* Sees each address that is about to be connected to: the second wall behind
 * http_call_pin(). */
static curl_socket_t open_socket(
    void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct http_call *call = arg;
    struct egress_address address;
    (void)purpose;
    if (!egress_address_of(&to->addr, &address) ||
        !egress_is_allowed(
            &call->settings->allow, &address, call->target.port)) {
        call->is_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Runs when the connection stands and the request is next. libcurl repeats a
 * request by itself when a kept connection turns out dead; whether the first
 * one was carried out is not its to guess. */
static int before_send(
    void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct http_call *call = arg;
    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (call->sends > 0) {
        return CURL_PREREQFUNC_ABORT;
    }
    call->sends++;
    return CURL_PREREQFUNC_OK;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* False: two lengths that differ, so nobody knows where the body ends. */
static bool check_length(
    struct http_call *call, struct span name, struct span value)
{
    if (!span_is_nocase(name, "content-length")) {
        return true;
    }
    if (call->length[0] != '\0') {
        return span_is(value, call->length);
    }
    if (value.len < sizeof(call->length)) {
        memcpy(call->length, value.ptr, value.len);
        call->length[value.len] = '\0';
    }
    return true;
}

/* Keeps "lower-case-name: value\n", if it still fits as a whole. False when
 * the answer is malformed. */
static bool keep_header(struct http_call *call, struct span line)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    if (colon == NULL || is_blank(line.ptr[0])) {
        return true;
    }
    const size_t name_len = (size_t)(colon - line.ptr);
    const char *value = colon + 1;
    const char *end = line.ptr + line.len;
    while (value < end && is_blank(*value)) {
        value++;
    }
    while (end > value && is_blank(end[-1])) {
        end--;
    }
    if (!check_length(call, (struct span){line.ptr, name_len},
            (struct span){value, (size_t)(end - value)})) {
        return false;
    }
    const size_t need = name_len + 2 + (size_t)(end - value) + 1;
    if (call->headers.len + need > HTTP_KEPT_HEADER_BYTES) {
        return true;
    }
    for (size_t i = 0; i < name_len; i++) {
        buf_put_char(&call->headers, lower(line.ptr[i]));
    }
    buf_put(&call->headers, ": ", 2);
    buf_put(&call->headers, value, (size_t)(end - value));
    buf_put_char(&call->headers, '\n');
    return true;
}

static void begin_head(struct http_call *call)
{
    buf_clear(&call->headers); /* what came before was a 1xx */
    call->has_head_ended = false;
    call->length[0] = '\0';
}

/* libcurl passes over interim answers, takes 101 as the last one, and any
 * number above for a status. What follows such a head is not waited for. */
static bool can_head_end(const struct http_call *call)
{
    long status = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    return http_judge_is_final(status) ||
           (status >= 100 && status < 200 && status != SWITCHING_PROTOCOLS);
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct http_call *call = arg;
    const size_t len = size * count;
    call->header_bytes += len;
    if (call->header_bytes > HTTP_MAX_HEADER_BYTES) {
        return 0;
    }
    if (call->has_body_begun) {
        return len; /* trailers change nothing */
    }
    if (len >= 5 && memcmp(data, "HTTP/", 5) == 0) {
        begin_head(call);
        return len;
    }
    if (len > 0 && (data[0] == '\r' || data[0] == '\n')) {
        call->has_head_ended = true;
        return can_head_end(call) ? len : 0;
    }
    return len > 0 && !keep_header(call, (struct span){data, len}) ? 0 : len;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct http_call *call = arg;
    const size_t len = size * count;
    const size_t room = call->body.max - call->body.len;
    call->has_body_begun = true;
    call->body_bytes += (int64_t)len;
    buf_put(&call->body, data, len < room ? len : room);
    if (len > room) {
        call->is_body_cut = true;
        return CURL_WRITEFUNC_ERROR;
    }
    return len;
}

/* -- life ------------------------------------------------------------------------- */

static void set_lasting_options(struct http_call *call)
{
    CURL *easy = call->easy;
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(
        easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    http_tls_set(easy, &call->target);
    (void)curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, MAX_IDLE_S);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, USER_AGENT);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_send);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    if (call->settings->ca_file != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, call->settings->ca_file);
    }
}

struct http_call *http_call_new(
    const struct http_settings *settings, void *owner)
{
    struct http_call *call = mem_zalloc(1, sizeof(*call));
    call->settings = settings;
    call->owner = owner;
    call->easy = curl_easy_init();
    if (call->easy == NULL) {
        free(call);
        return NULL;
    }
    buf_init(&call->request, FRAME_MAX + CALL_MAX_URL);
    buf_init(&call->headers, HTTP_KEPT_HEADER_BYTES);
    buf_init(&call->body, FRAME_MAX);
    set_lasting_options(call);
    return call;
}

void http_call_clear(struct http_call *call)
{
    curl_slist_free_all(call->header_list);
    curl_slist_free_all(call->resolve_list);
    call->header_list = NULL;
    call->resolve_list = NULL;
    /* Bodies may be large: an idle call keeps no memory for them. */
    buf_fini(&call->request);
    buf_fini(&call->body);
    buf_clear(&call->headers);
    call->header_bytes = 0;
    call->body_bytes = 0;
    call->is_body_cut = false;
    call->has_body_begun = false;
    call->has_head_ended = false;
    call->length[0] = '\0';
    call->sends = 0;
    call->is_refused = false;
    call->error[0] = '\0';
}

void http_call_free(struct http_call *call)
{
    if (call == NULL) {
        return;
    }
    curl_easy_cleanup(call->easy);
    http_call_clear(call);
    buf_fini(&call->headers);
    free(call);
}

/* -- taking a job ------------------------------------------------------------------- */

static int refuse(struct err *err, const char *rule)
{
    return err_set(err, ERR_PERMANENT, "TEMPLATE_INVALID", "%s", rule);
}

static bool is_token(struct span text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        const char l = lower(c);
        if (!(l >= 'a' && l <= 'z') && !(c >= '0' && c <= '9') &&
            (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return text.len > 0;
}

/* Headers that frame the message or choose its way are libcurl's. */
static bool is_reserved(struct span name)
{
    static const char *const names[] = {"host", "content-length",
        "transfer-encoding", "connection", "keep-alive", "te", "trailer",
        "upgrade", "expect", "proxy-authorization", "proxy-connection"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (span_is_nocase(name, names[i])) {
            return true;
        }
    }
    return false;
}

static bool is_header_value(struct span value)
{
    for (size_t i = 0; i < value.len; i++) {
        const char c = value.ptr[i];
        if (c == '\r' || c == '\n' || c == '\0') {
            return false;
        }
    }
    return true;
}

static void add_line(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer == NULL) {
        abort(); /* out of memory */
    }
    *list = longer;
}

static int add_headers(
    struct http_call *call, const struct frame_job *job, struct err *err)
{
    bool has_type = false;
    struct buf line;
    buf_init(&line, FRAME_MAX);
    int rc = 0;
    for (size_t i = 0; i < job->header_count && rc == 0; i++) {
        const struct call_header *header = &job->headers[i];
        if (!is_token(header->name) || is_reserved(header->name)) {
            rc = refuse(err, "a header's name is not allowed");
        } else if (!is_header_value(header->value)) {
            rc = refuse(err, "a header's value has a CR, LF or NUL");
        } else {
            has_type = has_type || span_is_nocase(header->name, "content-type");
            buf_clear(&line);
            buf_put_span(&line, header->name);
            /* libcurl's way to write an empty header */
            buf_put_str(&line, header->value.len > 0 ? ": " : ";");
            buf_put_span(&line, header->value);
            add_line(&call->header_list, buf_str(&line));
        }
    }
    buf_fini(&line);
    if (!has_type) {
        add_line(&call->header_list, "Content-Type:"); /* not libcurl's own */
    }
    add_line(&call->header_list, "Expect:");
    return rc;
}

static int check_method(struct span method, struct err *err)
{
    if (method.len > MAX_METHOD || !is_token(method) ||
        span_is_nocase(method, "CONNECT") || span_is_nocase(method, "TRACE")) {
        return refuse(err, "the method is not allowed");
    }
    return 0;
}

static int check_listed(const struct egress_target *target,
    const struct frame_job *job, struct err *err)
{
    for (size_t i = 0; i < job->egress_count; i++) {
        if (egress_is_listed(
                job->egress[i].host, job->egress[i].port, target)) {
            return 0;
        }
    }
    return err_set(err, ERR_PERMANENT, "EGRESS_DENIED",
        "the connector's egress list does not have %s:%u", target->host,
        target->port);
}

/* The URL that libcurl gets is built from what was checked, so that no other
 * parser has a say in where the request goes. */
static void put_request(struct http_call *call, const struct frame_job *job)
{
    struct buf *buf = &call->request;
    const struct egress_target *target = &call->target;
    buf_put_span(buf, job->method);
    buf_put_char(buf, '\0');
    call->url_at = buf->len;
    buf_printf(buf, "%s://%s:%u", target->is_tls ? "https" : "http",
        target->host, target->port);
    if (target->rest.len == 0 || target->rest.ptr[0] != '/') {
        buf_put_char(buf, '/');
    }
    buf_put_span(buf, target->rest);
    buf_put_char(buf, '\0');
    call->has_body = job->body.ptr != NULL;
    call->body_at = buf->len;
    call->body_len = job->body.len;
    buf_put_span(buf, job->body);
    call->target.rest = (struct span){.ptr = NULL}; /* was the frame's */
}

int http_call_set(
    struct http_call *call, const struct frame_job *job, struct err *err)
{
    call->index = job->index;
    call->id = job->id;
    call->timeout_ms = job->timeout_ms;
    call->started_us = now_mono_us();
    buf_init(&call->body, job->max_result_bytes);
    if (egress_parse_url(job->url, &call->target, err) != 0 ||
        check_listed(&call->target, job, err) != 0 ||
        check_method(job->method, err) != 0 ||
        add_headers(call, job, err) != 0) {
        return -1;
    }
    put_request(call, job);
    return 0;
}

/* -- addresses -------------------------------------------------------------------------- */

static int deny_address(const struct http_call *call,
    const struct egress_address *address, struct err *err)
{
    char text[INET6_ADDRSTRLEN] = "?";
    (void)inet_ntop(address->family, address->bytes, text, sizeof(text));
    return err_set(err, ERR_PERMANENT, "EGRESS_DENIED",
        "%s is not a public address and not in egress.private_allow (%s:%u)",
        text, call->target.host, call->target.port);
}

static int check_addresses(const struct http_call *call,
    const struct egress_address *addresses, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!egress_is_allowed(
                &call->settings->allow, &addresses[i], call->target.port)) {
            return deny_address(call, &addresses[i], err);
        }
    }
    return 0;
}

int http_call_pin(
    struct http_call *call, const struct names_answer *answer, struct err *err)
{
    if (answer == NULL) {
        return check_addresses(call, &call->target.address, 1, err);
    }
    if (answer->error != 0 || answer->count == 0) {
        return err_set(err, ERR_TRANSIENT, "DNS_FAILED", "%s: %s",
            call->target.host,
            answer->error != 0 ? gai_strerror(answer->error) : "no address");
    }
    if (check_addresses(call, answer->addresses, answer->count, err) != 0) {
        return -1;
    }
    struct buf line;
    buf_init(&line, 1024);
    buf_printf(&line, "%s:%u:", call->target.host, call->target.port);
    for (size_t i = 0; i < answer->count && i < MAX_PINNED; i++) {
        const struct egress_address *address = &answer->addresses[i];
        char text[INET6_ADDRSTRLEN] = "";
        (void)inet_ntop(address->family, address->bytes, text, sizeof(text));
        buf_printf(&line, address->family == AF_INET6 ? "%s[%s]" : "%s%s",
            i == 0 ? "" : ",", text);
    }
    add_line(&call->resolve_list, buf_str(&line));
    buf_fini(&line);
    return 0;
}

/* -- the transfer ----------------------------------------------------------------------- */

int64_t http_call_left_ms(const struct http_call *call)
{
    return call->timeout_ms - (now_mono_us() - call->started_us) / US_PER_MS;
}

/* A method that has a body by its meaning says Content-Length: 0 without. */
static bool needs_length(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

static void set_method(struct http_call *call)
{
    CURL *easy = call->easy;
    const char *method = call->request.data;
    const bool is_head = strcmp(method, "HEAD") == 0;
    (void)curl_easy_setopt(easy, CURLOPT_NOBODY, is_head ? 1L : 0L);
    if (!is_head && (call->has_body || needs_length(method))) {
        (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(
            easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
            call->body_len > 0 ? call->request.data + call->body_at : "");
    } else if (!is_head) {
        (void)curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
}

int http_call_prepare(struct http_call *call, struct err *err)
{
    const int64_t left_ms = http_call_left_ms(call);
    if (left_ms <= 0) {
        return err_set(err, ERR_TRANSIENT, "EXECUTION_TIMEOUT",
            "the time was over before a connection was made");
    }
    CURL *easy = call->easy;
    const int64_t connect_ms = call->settings->connect_timeout_ms;
    set_method(call);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->header_list);
    (void)curl_easy_setopt(easy, CURLOPT_RESOLVE, call->resolve_list);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    if (curl_easy_setopt(
            easy, CURLOPT_URL, call->request.data + call->url_at) != CURLE_OK) {
        abort(); /* out of memory */
    }
    return 0;
}
