/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/json.h"
#include "common/json_scan.h"

static bool is_continuation(unsigned char c)
{
    return (c & 0xC0U) == 0x80U;
}

/* Table 3-7 of the Unicode standard: only the second byte's range depends on
 * the first. */
static bool is_second(unsigned char first, unsigned char second)
{
    unsigned low = 0x80;
    unsigned high = 0xBF;
    if (first == 0xE0) {
        low = 0xA0;
    } else if (first == 0xED) {
        high = 0x9F;
    } else if (first == 0xF0) {
        low = 0x90;
    } else if (first == 0xF4) {
        high = 0x8F;
    }
    return second >= low && second <= high;
}

size_t utf8_sequence(const char *at, const char *end)
{
    const size_t left = (size_t)(end - at);
    if (left == 0) {
        return 0;
    }
    const unsigned char first = (unsigned char)at[0];
    size_t len = 0;
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        len = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        len = 3;
    } else if (first >= 0xF0 && first <= 0xF4) {
        len = 4;
    }
    if (len == 0 || left < len || !is_second(first, (unsigned char)at[1])) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if (!is_continuation((unsigned char)at[i])) {
            return 0;
        }
    }
    return len;
}

size_t utf8_encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0U | code >> 6);
        out[1] = (char)(0x80U | (code & 0x3FU));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0U | code >> 12);
        out[1] = (char)(0x80U | (code >> 6 & 0x3FU));
        out[2] = (char)(0x80U | (code & 0x3FU));
        return 3;
    }
    out[0] = (char)(0xF0U | code >> 18);
    out[1] = (char)(0x80U | (code >> 12 & 0x3FU));
    out[2] = (char)(0x80U | (code >> 6 & 0x3FU));
    out[3] = (char)(0x80U | (code & 0x3FU));
    return 4;
}

bool utf8_is_valid(struct span text)
{
    if (text.len == 0) {
        return true;
    }
    const char *at = text.ptr;
    const char *end = text.ptr + text.len;
    while (at < end) {
        const size_t len = utf8_sequence(at, end);
        if (len == 0) {
            return false;
        }
        at += len;
    }
    return true;
}
