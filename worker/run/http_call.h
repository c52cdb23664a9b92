/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_call: one HTTP request, made exactly as declared.
 *
 * Never: redirects, proxies (also from the environment), netrc, cookies,
 * compressed answers, HTTP/0.9, a second send of the same request by libcurl.
 * A struct holds one libcurl handle and is used again for other calls of the
 * same tenant; every option that depends on a call is set anew for each.
 *
 * The owner (http_client.h) moves the transfer; this file fills the handle and
 * takes what comes, http_result.h says how it ended.
 */
#ifndef HTTP_CALL_H
#define HTTP_CALL_H

#include <curl/curl.h>

#include "worker/run/egress.h"
#include "worker/run/frame.h"
#include "worker/run/names.h"

/* Header lines that are kept of an answer; the rest is dropped. */
#define HTTP_KEPT_HEADER_BYTES ((size_t)16 << 10)
/* An answer with more header bytes is malformed. */
#define HTTP_MAX_HEADER_BYTES ((size_t)64 << 10)

/* What is the same for all calls of a runner. */
struct http_settings {
    struct egress_private allow;
    char *ca_file; /* NULL: the system's; borrowed */
    int64_t connect_timeout_ms;
};

struct http_call {
    struct http_call *next; /* of the owner's lists */
    void *owner;
    const struct http_settings *settings;
    CURL *easy;
    uint32_t index;
    uint64_t id;
    int64_t timeout_ms;
    int64_t started_us; /* monotonic */
    struct egress_target target;
    /* of the request: method, URL and body in one, then libcurl's lists */
    struct buf request;
    size_t url_at;
    size_t body_at;
    size_t body_len;
    bool has_body;
    struct curl_slist *header_list;
    struct curl_slist *resolve_list;
    /* of the answer */
    struct buf headers;
    struct buf body;
    size_t header_bytes;
    int64_t body_bytes;
    bool is_body_cut;
    bool has_body_begun;
    bool has_head_ended; /* with its empty line, and no 1xx */
    char length[24];     /* Content-Length as it was said first; "" : never */
    unsigned sends;      /* times that libcurl was about to send the request */
    bool is_refused;
    char error[CURL_ERROR_SIZE];
};

/* NULL when libcurl has no memory. */
struct http_call *http_call_new(
    const struct http_settings *settings, void *owner);
void http_call_free(struct http_call *call); /* NULL ok */

/*
 * Takes a job over (copied) and starts its clock. PERMANENT, to be reported as
 * CALL_DENIED, when the URL, the list, the method or a header is refused.
 */
int http_call_set(struct http_call *call, const struct frame_job *job,
    struct err *err) MUST_CHECK;

/* Checks every address of the answer and pins them; for a literal, answer is
 * NULL. PERMANENT when one is refused, TRANSIENT when there is none. */
int http_call_pin(struct http_call *call, const struct names_answer *answer,
    struct err *err) MUST_CHECK;

/* Fills the handle: ready to be added. TRANSIENT when the time is over. */
int http_call_prepare(struct http_call *call, struct err *err) MUST_CHECK;

int64_t http_call_left_ms(const struct http_call *call); /* may be negative */

/* Lets go of all that belonged to the call. */
void http_call_clear(struct http_call *call);

#endif
