/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan: what the json_*.c files share. Not for anyone else; json.h is the
 * interface.
 */
#ifndef JSON_SCAN_H
#define JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/json.h"

/* Length of the well-formed UTF-8 sequence at `at` (1 to 4), 0 if there is
 * none: RFC 3629, so no surrogates, overlong forms or values past U+10FFFF. */
size_t utf8_sequence(const char *at, const char *end);
/* Writes the sequence of a code point (not a surrogate); its length. */
size_t utf8_encode(uint32_t code, char out[4]);

/* The value of the four hex digits at `at`; negative if one is not. */
int32_t json_hex4(const char *at);

/*
 * Steps over one decoded character of a checked string: 1 to 4 bytes go to
 * `out`, their number is returned. A whole surrogate pair is one character.
 */
size_t json_decode_step(const char **at, char out[4]);

/* Compares two raw names or contents of strings by their decoded bytes. */
int json_compare_decoded(struct span a, struct span b);
/* Appends one decoded character, escaped where JSON asks for it. */
void json_put_char(struct buf *out, const char *bytes, size_t len);

/* The type of a value by its first byte. */
enum json_type json_type_of(char first);

/* The ends of things in checked text. `at` is on their first byte. */
const char *json_string_end(const char *at); /* after the closing quote */
const char *json_value_end(const char *at, const char *end);
const char *json_skip_space(const char *at, const char *end);

#endif
