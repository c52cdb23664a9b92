/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading half of json.h. Everything here relies on text that json_parse() has
 * checked: no bounds or grammar are looked at again, except where a value
 * ends.
 */
#include <string.h>

#include "common/json.h"
#include "common/json_scan.h"

/* -- decoding -------------------------------------------------------------- */

static bool has_escape(struct span raw)
{
    return raw.len > 0 && memchr(raw.ptr, '\\', raw.len) != NULL;
}

static char short_escape(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c; /* quote, backslash, slash */
    }
}

size_t json_decode_step(const char **at, char out[4])
{
    const char *from = *at;
    if (from[0] != '\\') {
        out[0] = from[0];
        *at = from + 1;
        return 1;
    }
    if (from[1] != 'u') {
        out[0] = short_escape(from[1]);
        *at = from + 2;
        return 1;
    }
    uint32_t code = (uint32_t)json_hex4(from + 2);
    *at = from + 6;
    if (code >= 0xD800 && code <= 0xDBFF) {
        const uint32_t low = (uint32_t)json_hex4(from + 8);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        *at = from + 12;
    }
    return utf8_encode(code, out);
}

/* Hands out the decoded bytes of a raw string one by one. */
struct decoder {
    const char *at;
    const char *end;
    char bytes[4];
    size_t used;
    size_t count;
};

static struct decoder decoder_of(struct span raw)
{
    struct decoder decoder = {.at = raw.ptr, .end = raw.ptr};
    if (raw.len > 0) {
        decoder.end = raw.ptr + raw.len;
    }
    return decoder;
}

/* The next byte, -1 at the end. */
static int next_byte(struct decoder *decoder)
{
    if (decoder->used == decoder->count) {
        if (decoder->at == decoder->end) {
            return -1;
        }
        decoder->count = json_decode_step(&decoder->at, decoder->bytes);
        decoder->used = 0;
    }
    return (unsigned char)decoder->bytes[decoder->used++];
}

int json_compare_decoded(struct span a, struct span b)
{
    if (!has_escape(a) && !has_escape(b)) {
        const size_t common = a.len < b.len ? a.len : b.len;
        const int order = common == 0 ? 0 : memcmp(a.ptr, b.ptr, common);
        return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
    }
    struct decoder left = decoder_of(a);
    struct decoder right = decoder_of(b);
    int from_left = 0;
    int from_right = 0;
    do {
        from_left = next_byte(&left);
        from_right = next_byte(&right);
    } while (from_left == from_right && from_left >= 0);
    return from_left - from_right;
}

/* True if a raw string decodes to exactly these plain bytes. */
static bool decodes_to(struct span raw, struct span plain)
{
    if (!has_escape(raw)) {
        return span_equal(raw, plain);
    }
    struct decoder decoder = decoder_of(raw);
    for (size_t i = 0; i < plain.len; i++) {
        if (next_byte(&decoder) != (unsigned char)plain.ptr[i]) {
            return false;
        }
    }
    return next_byte(&decoder) < 0;
}

static struct span inside_quotes(struct json_value string)
{
    return (struct span){.ptr = string.raw.ptr + 1, .len = string.raw.len - 2};
}

void json_decode_name(struct span raw_name, struct buf *out)
{
    if (!has_escape(raw_name)) {
        buf_put_span(out, raw_name);
        return;
    }
    const char *at = raw_name.ptr;
    const char *end = at + raw_name.len;
    while (at < end) {
        char bytes[4];
        const size_t len = json_decode_step(&at, bytes);
        buf_put(out, bytes, len);
    }
}

void json_decode(struct json_value string, struct buf *out)
{
    json_decode_name(inside_quotes(string), out);
}

bool json_string_is(struct json_value string, const char *text)
{
    return string.type == JSON_STRING &&
           decodes_to(inside_quotes(string), span_of(text));
}

bool json_to_int(struct json_value number, int64_t *value)
{
    return number.type == JSON_NUMBER && span_to_int(number.raw, value);
}

/* -- walking --------------------------------------------------------------- */

enum json_type json_type_of(char first)
{
    switch (first) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

const char *json_string_end(const char *at)
{
    const char *quote = at;
    size_t backslashes;
    /* It was checked, so there is a closing one: the first that no odd run of
     * backslashes escapes. */
    do {
        quote = rawmemchr(quote + 1, '"');
        backslashes = 0;
        while (quote[-1 - (ptrdiff_t)backslashes] == '\\') {
            backslashes++;
        }
    } while (backslashes % 2 == 1);
    return quote + 1;
}

/* After the bracket that matches the one at `at`. */
static const char *container_end(const char *at)
{
    unsigned depth = 0;
    do {
        switch (*at) {
        case '"':
            at = json_string_end(at);
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            depth--;
            break;
        default:
            break;
        }
        at++;
    } while (depth > 0);
    return at;
}

const char *json_value_end(const char *at, const char *end)
{
    if (*at == '{' || *at == '[') {
        return container_end(at);
    }
    if (*at == '"') {
        return json_string_end(at);
    }
    while (at < end && strchr(" \t\r\n,]}", *at) == NULL) {
        at++;
    }
    return at;
}

struct json_cursor json_enter(struct json_value container)
{
    /* end is the closing bracket. */
    return (struct json_cursor){.at = container.raw.ptr + 1,
        .end = container.raw.ptr + container.raw.len - 1,
        .is_object = container.type == JSON_OBJECT};
}

bool json_next(struct json_cursor *cursor, struct json_member *member)
{
    const char *end = cursor->end;
    const char *at = json_skip_space(cursor->at, end);
    if (at < end && *at == ',') {
        at = json_skip_space(at + 1, end);
    }
    if (at >= end) {
        cursor->at = end;
        return false;
    }
    *member = (struct json_member){.name = {.len = 0}};
    if (cursor->is_object) {
        const char *name_end = json_string_end(at);
        member->name =
            (struct span){.ptr = at + 1, .len = (size_t)(name_end - at) - 2};
        at = json_skip_space(name_end, end);
        at = json_skip_space(at + 1, end); /* the colon */
    }
    const char *value_end = json_value_end(at, end);
    member->value = (struct json_value){.type = json_type_of(*at),
        .raw = {.ptr = at, .len = (size_t)(value_end - at)}};
    cursor->at = value_end;
    return true;
}

bool json_find_span(
    struct json_value object, struct span name, struct json_value *value)
{
    if (object.type != JSON_OBJECT) {
        return false;
    }
    struct json_cursor cursor = json_enter(object);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        if (decodes_to(member.name, name)) {
            *value = member.value;
            return true;
        }
    }
    return false;
}

bool json_find(
    struct json_value object, const char *name, struct json_value *value)
{
    return json_find_span(object, span_of(name), value);
}

/* -- pointers -------------------------------------------------------------- */

static bool find_element(
    struct json_value array, struct span token, struct json_value *value)
{
    int64_t index = 0;
    if (token.len == 0 || token.ptr[0] == '-' ||
        (token.len > 1 && token.ptr[0] == '0') || !span_to_int(token, &index)) {
        return false;
    }
    struct json_cursor cursor = json_enter(array);
    struct json_member member;
    for (int64_t at = 0; json_next(&cursor, &member); at++) {
        if (at == index) {
            *value = member.value;
            return true;
        }
    }
    return false;
}

/* Appends the token with ~1 and ~0 decoded; false on another tilde. */
static bool decode_token(struct span token, struct buf *out)
{
    for (size_t i = 0; i < token.len; i++) {
        char c = token.ptr[i];
        if (c == '~') {
            i++;
            if (i == token.len ||
                (token.ptr[i] != '0' && token.ptr[i] != '1')) {
                return false;
            }
            c = token.ptr[i] == '0' ? '~' : '/';
        }
        buf_put_char(out, c);
    }
    return true;
}

static bool descend(struct json_value *value, struct span token)
{
    if (value->type == JSON_ARRAY) {
        return find_element(*value, token, value);
    }
    if (token.len == 0 || memchr(token.ptr, '~', token.len) == NULL) {
        return json_find_span(*value, token, value);
    }
    struct buf plain;
    buf_init(&plain, token.len);
    const bool is_found = decode_token(token, &plain) &&
                          json_find_span(*value, buf_span(&plain), value);
    buf_fini(&plain);
    return is_found;
}

bool json_pointer(
    struct json_value root, struct span pointer, struct json_value *value)
{
    struct json_value here = root;
    while (pointer.len > 0) {
        if (pointer.ptr[0] != '/') {
            return false;
        }
        pointer.ptr++;
        pointer.len--;
        const char *slash =
            pointer.len == 0 ? NULL : memchr(pointer.ptr, '/', pointer.len);
        const struct span token = {.ptr = pointer.ptr,
            .len = slash == NULL ? pointer.len : (size_t)(slash - pointer.ptr)};
        if (!descend(&here, token)) {
            return false;
        }
        pointer.ptr += token.len;
        pointer.len -= token.len;
    }
    *value = here;
    return true;
}
