/* SPDX-License-Identifier: Apache-2.0 */
/* The base64 part of crypt.h (RFC 4648). */
#include "common/crypt.h"

static const char STANDARD[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char URL_SAFE[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void put(
    struct buf *out, struct span bytes, const char *alphabet, bool is_padded)
{
    for (size_t i = 0; i < bytes.len; i += 3) {
        const size_t count = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t group = 0;
        for (size_t byte = 0; byte < 3; byte++) {
            const uint32_t value =
                byte < count ? (unsigned char)bytes.ptr[i + byte] : 0;
            group = group << 8 | value;
        }
        char four[4];
        for (size_t digit = 0; digit < 4; digit++) {
            four[digit] = digit <= count
                              ? alphabet[group >> (18 - 6 * digit) & 63U]
                              : '=';
        }
        buf_put(out, four, is_padded ? 4 : count + 1);
    }
}

void base64_put(struct buf *out, struct span bytes)
{
    put(out, bytes, STANDARD, true);
}

void base64url_put(struct buf *out, struct span bytes)
{
    put(out, bytes, URL_SAFE, false);
}

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    if (c == '+') {
        return 62;
    }
    return c == '/' ? 63 : -1;
}

/* Decodes four characters of which the last `padding` are '='. */
static bool decode_group(const char *four, size_t padding, struct buf *out)
{
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        const int value = i < 4 - padding ? digit_value(four[i]) : 0;
        if (value < 0) {
            return false;
        }
        group = group << 6 | (uint32_t)value;
    }
    /* Bits behind the last byte must be 0, so that each text is unique. */
    const uint32_t unused = padding == 0 ? 0 : padding == 1 ? 0xFF : 0xFFFF;
    if ((group & unused) != 0) {
        return false;
    }
    const char bytes[3] = {
        (char)(group >> 16), (char)(group >> 8 & 0xFF), (char)(group & 0xFF)};
    buf_put(out, bytes, 3 - padding);
    return true;
}

bool base64_decode(struct span text, struct buf *out)
{
    if (text.len % 4 != 0) {
        return false;
    }
    for (size_t i = 0; i < text.len; i += 4) {
        size_t padding = 0;
        if (i + 4 == text.len && text.ptr[i + 3] == '=') {
            padding = text.ptr[i + 2] == '=' ? 2 : 1;
        }
        if (!decode_group(text.ptr + i, padding, out)) {
            return false;
        }
    }
    return true;
}
