/* SPDX-License-Identifier: Apache-2.0 */
/* What a sender signed, built again from the raw bytes. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "schema/form.h"
#include "schema/signature_internal.h"

/* -- forms ----------------------------------------------------------------- */

static int compare_spans(struct span a, struct span b)
{
    const size_t len = a.len < b.len ? a.len : b.len;
    const int order = len == 0 ? 0 : memcmp(a.ptr, b.ptr, len);
    if (order != 0) {
        return order;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

static int compare_fields(const void *a, const void *b)
{
    const struct form_field *left = a;
    const struct form_field *right = b;
    const int order = compare_spans(left->name, right->name);
    return order != 0 ? order : compare_spans(left->value, right->value);
}

/* Names in order, each with its value; what occurs twice counts once. */
static bool put_form(struct span body, struct buf *out)
{
    char *text = span_dup(body);
    struct form_field *fields = mem_zalloc(SIGNATURE_MAX_FORM, sizeof(*fields));
    size_t count = 0;
    const bool is_form =
        form_split(text, body.len, fields, SIGNATURE_MAX_FORM, &count);
    qsort(fields, count, sizeof(*fields), compare_fields);
    for (size_t i = 0; is_form && i < count; i++) {
        if (i == 0 || compare_fields(&fields[i - 1], &fields[i]) != 0) {
            buf_put_span(out, fields[i].name);
            buf_put_span(out, fields[i].value);
        }
    }
    free(fields);
    free(text);
    return is_form;
}

/*
 * Twilio's way: the fields of a form follow the URL; for any other body the
 * URL itself carries the digest, which is put here from the body that came.
 */
static bool put_form_or_digest(
    const struct signature_input *input, struct span url, struct buf *out)
{
    static const char FORM[] = "application/x-www-form-urlencoded";
    const char *type = input->header(input->arg, "Content-Type");
    if (input->body.len == 0) {
        return true;
    }
    if (type != NULL && strncasecmp(type, FORM, sizeof(FORM) - 1) == 0) {
        return put_form(input->body, out);
    }
    uint8_t digest[SHA256_SIZE];
    sha256(input->body, digest);
    buf_put_char(out, memchr(url.ptr, '?', url.len) == NULL ? '?' : '&');
    buf_put_str(out, "bodySHA256=");
    hex_put(out, (struct span){(const char *)digest, sizeof(digest)});
    return true;
}

/* -- pieces ---------------------------------------------------------------- */

/* CRC-32 of zlib and IEEE 802.3. */
static uint32_t crc32_of(struct span bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes.len; i++) {
        crc ^= (unsigned char)bytes.ptr[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 1U) != 0 ? crc >> 1 ^ 0xEDB88320U : crc >> 1;
        }
    }
    return ~crc;
}

static bool put_piece(struct span name, const struct signature_input *input,
    const struct signature_parts *parts, struct buf *out)
{
    if (span_is(name, "body")) {
        buf_put_span(out, input->body);
    } else if (span_is(name, "time")) {
        buf_put_span(out, parts->time);
    } else if (span_is(name, "id")) {
        buf_put_span(out, parts->id);
    } else if (span_is(name, "url")) {
        buf_put_span(out, parts->url);
    } else if (span_is(name, "parameter")) {
        buf_put_span(out, input->parameter);
    } else if (span_is(name, "method")) {
        buf_put_str(out, input->method);
    } else if (span_is(name, "crc32")) {
        buf_put_int(out, crc32_of(input->body));
    } else {
        return put_form_or_digest(input, parts->url, out);
    }
    return true;
}

bool signature_put_message(const struct signature_scheme *scheme,
    const struct signature_input *input, const struct signature_parts *parts,
    struct buf *out)
{
    const char *at = scheme->message;
    while (*at != '\0') {
        const size_t literal = strcspn(at, "{");
        buf_put(out, at, literal);
        at += literal;
        if (*at == '{') {
            const size_t len = strcspn(at + 1, "}");
            if (!put_piece((struct span){at + 1, len}, input, parts, out)) {
                return false;
            }
            at += len + 2;
        }
    }
    return !out->is_overflowed;
}

/* -- URLs ------------------------------------------------------------------ */

bool signature_put_other_url(struct span url, struct buf *out)
{
    static const struct {
        const char *scheme;
        const char *port;
    } KINDS[] = {{"https://", ":443"}, {"http://", ":80"}};
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        const size_t begin = strlen(KINDS[i].scheme);
        const size_t port_len = strlen(KINDS[i].port);
        if (url.len < begin ||
            strncasecmp(url.ptr, KINDS[i].scheme, begin) != 0) {
            continue;
        }
        size_t end = begin;
        while (end < url.len && strchr("/?#", url.ptr[end]) == NULL) {
            end++;
        }
        size_t host = end;
        const char *colon = memrchr(url.ptr + begin, ':', end - begin);
        if (colon != NULL &&
            memchr(colon, ']', end - (size_t)(colon - url.ptr)) == NULL) {
            host = (size_t)(colon - url.ptr);
        }
        const struct span port = {url.ptr + host, end - host};
        if (port.len != 0 && !span_is(port, KINDS[i].port)) {
            return false;
        }
        buf_put(out, url.ptr, host);
        buf_put(out, KINDS[i].port, port.len == 0 ? port_len : 0);
        buf_put(out, url.ptr + end, url.len - end);
        return true;
    }
    return false;
}
