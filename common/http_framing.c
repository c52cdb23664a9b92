/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 9112 framing, strictly. libmicrohttpd looks at the first of several
 * headers and lets one win over the other; a proxy in front may choose
 * otherwise, and then they disagree where the next request starts. So whatever
 * can be read in two ways is refused.
 */
#include <string.h>
#include <strings.h>

#include "common/http_private.h"

/* What the headers say about framing. */
struct framing {
    unsigned content_lengths;
    unsigned transfer_encodings;
    unsigned hosts;
    bool is_malformed;
    bool has_unknown_expectation;
    struct span content_length;
    struct span transfer_encoding;
};

/* RFC 9110 section 5.6.2. */
static bool is_token(const char *text, size_t len)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        const bool is_alnum = (c >= '0' && c <= '9') ||
                              (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_alnum && (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return len > 0;
}

static bool has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return true;
        }
    }
    return false;
}

static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind,
    const char *name, size_t name_len, const char *value, size_t value_len)
{
    struct framing *framing = arg;
    (void)kind;
    if (!is_token(name, name_len) || has_control(value, value_len)) {
        framing->is_malformed = true;
        return MHD_NO;
    }
    const struct span text = {.ptr = value, .len = value_len};
    if (strcasecmp(name, "content-length") == 0) {
        framing->content_lengths++;
        framing->content_length = text;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        framing->transfer_encodings++;
        framing->transfer_encoding = text;
    } else if (strcasecmp(name, "host") == 0) {
        framing->hosts++;
    } else if (strcasecmp(name, "expect") == 0 &&
               !span_is_nocase(text, "100-continue")) {
        framing->has_unknown_expectation = true;
    }
    return MHD_YES;
}

static bool is_digits(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
    }
    return text.len > 0;
}

static bool set_fault(struct http_fault *fault, unsigned status,
    const char *code, const char *detail)
{
    *fault =
        (struct http_fault){.status = status, .code = code, .detail = detail};
    return false;
}

static bool check_length(const struct framing *framing, size_t max_body_bytes,
    struct http_fault *fault)
{
    if (!is_digits(framing->content_length)) {
        return set_fault(fault, MHD_HTTP_BAD_REQUEST, "BAD_REQUEST",
            "Content-Length is not a decimal number");
    }
    int64_t length = 0;
    if (!span_to_int(framing->content_length, &length) ||
        (uint64_t)length > max_body_bytes) {
        return set_fault(fault, MHD_HTTP_CONTENT_TOO_LARGE, "TOO_LARGE",
            "the body is larger than this server takes");
    }
    return true;
}

static bool check_body(const struct framing *framing, const char *version,
    size_t max_body_bytes, struct http_fault *fault)
{
    if (framing->content_lengths > 1 || framing->transfer_encodings > 1 ||
        (framing->content_lengths > 0 && framing->transfer_encodings > 0)) {
        return set_fault(fault, MHD_HTTP_BAD_REQUEST, "BAD_REQUEST",
            "more than one header says how long the body is");
    }
    if (framing->transfer_encodings > 0 &&
        (!span_is_nocase(framing->transfer_encoding, "chunked") ||
            strcmp(version, MHD_HTTP_VERSION_1_1) != 0)) {
        return set_fault(fault, MHD_HTTP_BAD_REQUEST, "BAD_REQUEST",
            "Transfer-Encoding is not chunked, or not allowed here");
    }
    if (framing->content_lengths > 0) {
        return check_length(framing, max_body_bytes, fault);
    }
    return true;
}

bool http_framing_check(struct MHD_Connection *connection, const char *version,
    size_t max_body_bytes, struct http_fault *fault)
{
    struct framing framing = {.content_lengths = 0};
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (info != NULL && info->header_size > HTTP_MAX_HEADER_BYTES) {
        return set_fault(fault, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
            "HEADERS_TOO_LARGE", "the headers are larger than 32 KiB");
    }
    (void)MHD_get_connection_values_n(
        connection, MHD_HEADER_KIND, on_header, &framing);
    if (framing.is_malformed) {
        return set_fault(fault, MHD_HTTP_BAD_REQUEST, "BAD_HEADER",
            "a header's name or value has a character that is not allowed");
    }
    if (framing.hosts > 1) {
        return set_fault(fault, MHD_HTTP_BAD_REQUEST, "BAD_HEADER",
            "there is more than one Host header");
    }
    if (!check_body(&framing, version, max_body_bytes, fault)) {
        return false;
    }
    if (framing.has_unknown_expectation) {
        return set_fault(fault, MHD_HTTP_EXPECTATION_FAILED,
            "EXPECTATION_FAILED", "only 100-continue can be expected");
    }
    return true;
}
