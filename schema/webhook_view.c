/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/webhook_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "schema/form.h"

enum { BODY_DEPTH = 64, MAX_HEADERS = 128, MAX_FIELDS = 1000, MAX_NAME = 256 };

/* -- the body -------------------------------------------------------------- */

static bool is_form(const struct webhook_capture *capture)
{
    static const char FORM[] = "application/x-www-form-urlencoded";
    struct buf type;
    buf_init(&type, 256);
    const bool is_said = webhook_capture_header(capture, "Content-Type", &type);
    const char *parameters = strchr(buf_str(&type), ';');
    const struct span kind = {buf_str(&type),
        parameters == NULL ? type.len : (size_t)(parameters - buf_str(&type))};
    const bool result = is_said && span_is_nocase(kind, FORM);
    buf_fini(&type);
    return result;
}

static bool is_first(const struct form_field *fields, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (span_equal(fields[i].name, fields[at].name)) {
            return false;
        }
    }
    return true;
}

/* False: it cannot be one object. */
static bool put_fields(
    struct buf *out, const struct form_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!utf8_is_valid(fields[i].name)) {
            return false;
        }
    }
    buf_put_char(out, '{');
    for (size_t i = 0; i < count; i++) {
        if (is_first(fields, i)) {
            if (i > 0) {
                buf_put_char(out, ',');
            }
            json_put_string(out, fields[i].name);
            buf_put_char(out, ':');
            json_put_string(out, fields[i].value);
        }
    }
    buf_put_char(out, '}');
    return true;
}

static bool put_form(struct buf *out, struct span body)
{
    char *text = span_dup(body);
    struct form_field *fields = mem_zalloc(MAX_FIELDS, sizeof(*fields));
    size_t count = 0;
    const bool is_put =
        form_split(text, body.len, fields, MAX_FIELDS, &count) &&
        put_fields(out, fields, count);
    free(fields);
    free(text);
    return is_put;
}

static void put_body(struct buf *out, const struct webhook_capture *capture)
{
    const struct span body = buf_span(&capture->body);
    struct json_value root;
    if (json_parse(body, BODY_DEPTH, &root, NULL) == 0) {
        buf_put_span(out, root.raw);
    } else if (is_form(capture) && put_form(out, body)) {
        return;
    } else if (utf8_is_valid(body)) {
        json_put_string(out, body);
    } else {
        buf_put_str(out, "{\"base64\":\"");
        base64_put(out, body);
        buf_put_str(out, "\"}");
    }
}

/* -- the headers ----------------------------------------------------------- */

struct header {
    struct span name; /* raw JSON, between the quotes */
    struct span value;
};

static size_t read_headers(
    const struct webhook_capture *capture, struct header *headers)
{
    struct json_cursor cursor = json_enter(capture->headers);
    struct json_member pair;
    size_t count = 0;
    while (count < MAX_HEADERS && json_next(&cursor, &pair)) {
        struct json_cursor parts = json_enter(pair.value);
        struct json_member name;
        struct json_member value;
        if (json_next(&parts, &name) && json_next(&parts, &value)) {
            headers[count].name =
                (struct span){name.value.raw.ptr + 1, name.value.raw.len - 2};
            headers[count].value = value.value.raw;
            count++;
        }
    }
    return count;
}

/* Names of headers are tokens: no escapes, no control characters. Others are
 * left out. */
static bool put_lower(struct span name, char *out)
{
    if (name.len == 0 || name.len >= MAX_NAME) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        if (c <= ' ' || c == '"' || c == '\\' || c == 0x7F) {
            return false;
        }
        out[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    out[name.len] = '\0';
    return true;
}

static bool came_before(const struct header *headers, size_t at)
{
    char name[MAX_NAME];
    for (size_t i = 0; i < at; i++) {
        if (put_lower(headers[at].name, name) &&
            span_is_nocase(headers[i].name, name)) {
            return true;
        }
    }
    return false;
}

static void put_headers(struct buf *out, const struct webhook_capture *capture)
{
    struct header *headers = mem_zalloc(MAX_HEADERS, sizeof(*headers));
    const size_t count = read_headers(capture, headers);
    char name[MAX_NAME];
    buf_put_char(out, '{');
    for (size_t i = 0; i < count; i++) {
        if (put_lower(headers[i].name, name) && !came_before(headers, i)) {
            json_put_name(out, name);
            buf_put_span(out, headers[i].value);
        }
    }
    buf_put_char(out, '}');
    free(headers);
}

/* -- the rest -------------------------------------------------------------- */

static void put_text(struct buf *out, const char *name, struct span text)
{
    if (text.len > 0) {
        json_put_name(out, name);
        json_put_string(out, text);
    }
}

void webhook_view_put(
    struct buf *out, const struct webhook_capture *capture, struct span type)
{
    char id[UUID_TEXT_SIZE];
    uuid_format(capture->id, id);
    buf_put_str(out, "{\"body\":");
    put_body(out, capture);
    buf_put_str(out, ",\"headers\":");
    put_headers(out, capture);
    buf_put_str(out, ",\"webhook\":{");
    put_text(out, "id", span_of(id));
    put_text(out, "tenant", span_of(capture->tenant));
    put_text(out, "source", span_of(capture->source));
    put_text(out, "sender_id", buf_span(&capture->sender_id));
    put_text(out, "type", type);
    put_text(out, "method", capture->method);
    json_put_name(out, "received_at");
    json_put_time(out, capture->received_us);
    buf_put_str(out, "}}");
}
