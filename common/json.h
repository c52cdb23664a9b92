/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json: a strict scanner (RFC 8259) over bytes that stay where they are.
 *
 * Requests and payloads are never rebuilt: a value is a range of the original
 * text, so numbers and escapes pass byte for byte. Documents of our own are
 * written with the json_put_* functions.
 * json_parse() checks everything once: grammar, UTF-8 (no surrogates, no
 * overlong forms), raw control characters, lone surrogate escapes, duplicate
 * member names (compared decoded) and nesting. The other functions may only
 * be called on values that came from it; they do not check again.
 * No recursion: stack use does not grow with nesting.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

enum json_type {
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_TYPE_COUNT
};

struct json_value {
    enum json_type type;
    struct span raw; /* from the first to the last byte of the value */
};

struct json_member {
    struct span
        name; /* between the quotes, escapes not decoded; arrays: empty */
    struct json_value value;
};

struct json_cursor {
    const char *at;
    const char *end;
    bool is_object;
};

#define JSON_MAX_DEPTH 1024 /* hard limit of any max_depth */

/*
 * Checks text as one whole JSON value with optional white space around it.
 * max_depth (1..JSON_MAX_DEPTH) is how many containers may stand inside each
 * other: 1 allows a scalar or a flat container. On failure err is PERMANENT
 * with code MALFORMED_JSON, DUPLICATE_MEMBER or TOO_DEEP and a message that
 * names the byte offset. root borrows from text.
 */
int json_parse(struct span text, unsigned max_depth, struct json_value *root,
    struct err *err) MUST_CHECK;

/* Walks an object or array. */
struct json_cursor json_enter(struct json_value container);
bool json_next(struct json_cursor *cursor, struct json_member *member);

/* Finds a member by its decoded name. False if absent or not an object. */
bool json_find(
    struct json_value object, const char *name, struct json_value *value);
bool json_find_span(
    struct json_value object, struct span name, struct json_value *value);

/* RFC 6901; "" is the root. False when nothing is there. */
bool json_pointer(
    struct json_value root, struct span pointer, struct json_value *value);

/* Appends the decoded bytes of a string (or of a member's raw name). */
void json_decode(struct json_value string, struct buf *out);
void json_decode_name(struct span raw_name, struct buf *out);
/* True if the string decodes to exactly this text. */
bool json_string_is(struct json_value string, const char *text);
/* An integer without fraction or exponent that fits; false otherwise. */
bool json_to_int(struct json_value number, int64_t *value);

/*
 * Appends the canonical form that the fingerprint hashes: members sorted by
 * decoded name, strings decoded and re-encoded in one way, number text
 * unchanged, no white space. Equal JSON values (in the sense of CONTRACTS)
 * give equal bytes.
 */
void json_canonical(struct json_value value, struct buf *out);

/* Writing. A string is escaped; bytes that are not UTF-8 become U+FFFD. */
void json_put_string(struct buf *out, struct span text);
void json_put_cstring(struct buf *out, const char *text);
/* Appends `"name":`, preceded by a comma unless the buffer ends in { or [. */
void json_put_name(struct buf *out, const char *name);
void json_put_time(struct buf *out, int64_t wall_us); /* quoted RFC 3339 */

/* True if the bytes are well-formed UTF-8. */
bool utf8_is_valid(struct span text);

#endif
