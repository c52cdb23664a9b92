/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/template_internal.h"

#include <string.h>

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

void percent_put(struct buf *out, struct span text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        if (is_unreserved((char)c)) {
            buf_put_char(out, (char)c);
        } else {
            const char escape[3] = {'%', digits[c >> 4], digits[c & 15U]};
            buf_put(out, escape, sizeof(escape));
        }
    }
}

static bool is_of_payload(const struct piece *piece)
{
    return piece->kind == PIECE_PAYLOAD || piece->kind == PIECE_VIEW;
}

static int misfit(
    struct fault *fault, const struct piece *piece, const char *what)
{
    struct buf pointer;
    buf_init(&pointer, 4096);
    if (piece->kind == PIECE_PAYLOAD) {
        buf_put_str(&pointer, "/payload");
    }
    if (is_of_payload(piece)) {
        buf_put_span(&pointer, piece->text);
    } else if (piece->kind == PIECE_KEY) {
        buf_put_str(&pointer, "/idempotency_key");
    }
    (void)fault_set(fault, CODE_TEMPLATE_INVALID, buf_str(&pointer), "%s",
        what); /* fills fault */
    buf_fini(&pointer);
    return -1;
}

/* The payload's value a piece names. */
static int find_value(const struct piece *piece, const struct record *record,
    struct json_value *value, struct fault *fault)
{
    if (!json_pointer(record->payload, piece->text, value)) {
        return misfit(
            fault, piece, "is missing, and the request template needs it");
    }
    return 0;
}

/* What is not of the payload: plain text. */
static int put_own(const struct piece *piece, const struct record *record,
    struct buf *out, struct fault *fault)
{
    char id[UUID_TEXT_SIZE];
    switch (piece->kind) {
    case PIECE_ID:
        uuid_format(record_effect_id(record), id);
        buf_put_str(out, id);
        break;
    case PIECE_TENANT:
        buf_put_str(out, record->tenant);
        break;
    case PIECE_KEY:
        if (record->key[0] == '\0') {
            return misfit(
                fault, piece, "is missing, and the request template needs it");
        }
        buf_put_str(out, record->key);
        break;
    case PIECE_FIXED:
    case PIECE_PAYLOAD:
    case PIECE_VIEW:
        break;
    }
    return 0;
}

static int put_payload(const struct piece *piece, enum template_use use,
    const struct record *record, struct buf *out, struct fault *fault)
{
    struct json_value value;
    if (find_value(piece, record, &value, fault) != 0) {
        return -1;
    }
    if (value.type == JSON_STRING) {
        json_decode(value, out);
        return 0;
    }
    const bool is_scalar = value.type == JSON_NUMBER ||
                           value.type == JSON_TRUE || value.type == JSON_FALSE;
    if (!is_scalar && use != TEMPLATE_TEXT) {
        return misfit(
            fault, piece, "must be a string, a number, true or false here");
    }
    buf_put_span(out, value.raw);
    return 0;
}

static int put_value(const struct piece *piece, enum template_use use,
    const struct record *record, struct buf *out, struct fault *fault)
{
    if (is_of_payload(piece)) {
        return put_payload(piece, use, record, out, fault);
    }
    return put_own(piece, record, out, fault);
}

/* What a value must not be where it goes; NULL: it is fine. */
static const char *objection(enum template_use use, struct span text)
{
    if (use == TEMPLATE_SEGMENT) {
        return text.len == 0 || span_is(text, ".") || span_is(text, "..")
                   ? "must not be empty, \".\" or \"..\" in a path"
                   : NULL;
    }
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7F) {
            return "must not have line breaks or other control characters "
                   "in a header";
        }
    }
    return NULL;
}

/* A value that is looked at before it goes out. */
static int put_checked(const struct piece *piece, enum template_use use,
    const struct record *record, struct buf *out, struct fault *fault)
{
    struct buf text;
    buf_init(&text, out->max);
    int result = put_value(piece, use, record, &text, fault);
    if (result == 0) {
        const char *what = objection(use, buf_span(&text));
        result = what == NULL ? 0 : misfit(fault, piece, what);
    }
    if (result == 0 && use == TEMPLATE_SEGMENT) {
        percent_put(out, buf_span(&text));
    } else if (result == 0) {
        buf_put_span(out, buf_span(&text));
    }
    out->is_overflowed = out->is_overflowed || text.is_overflowed;
    buf_fini(&text);
    return result;
}

int template_put(const struct text_template *template, enum template_use use,
    const struct record *record, struct buf *out, struct fault *fault)
{
    for (size_t i = 0; i < template->count; i++) {
        const struct piece *piece = &template->pieces[i];
        int result = 0;
        if (piece->kind == PIECE_FIXED) {
            buf_put_span(out, piece->text);
        } else if (use == TEMPLATE_SEGMENT || use == TEMPLATE_HEADER) {
            result = put_checked(piece, use, record, out, fault);
        } else {
            result = put_value(piece, use, record, out, fault);
        }
        if (result != 0) {
            return -1;
        }
    }
    return 0;
}

/* A JSON string with placeholders: the value itself if it is just one. */
static int put_json_string(const struct text_template *template,
    const struct record *record, struct buf *out, struct fault *fault)
{
    const struct piece *first = &template->pieces[0];
    if (template->count == 1 && is_of_payload(first)) {
        struct json_value value;
        if (find_value(first, record, &value, fault) != 0) {
            return -1;
        }
        buf_put_span(out, value.raw);
        return 0;
    }
    struct buf text;
    buf_init(&text, out->max);
    const int result =
        template_put(template, TEMPLATE_TEXT, record, &text, fault);
    if (result == 0) {
        json_put_string(out, buf_span(&text));
        out->is_overflowed = out->is_overflowed || text.is_overflowed;
    }
    buf_fini(&text);
    return result;
}

int json_template_put(const struct json_template *template,
    const struct record *record, struct buf *out, struct fault *fault)
{
    for (size_t i = 0; i < template->count; i++) {
        const struct json_piece *piece = &template->pieces[i];
        if (piece->string == NULL) {
            buf_put_span(out, piece->fixed);
        } else if (put_json_string(piece->string, record, out, fault) != 0) {
            return -1;
        }
    }
    return 0;
}
