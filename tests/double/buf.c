/* SPDX-License-Identifier: Apache-2.0 */
#include "buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void *mem_resize(void *old, size_t size)
{
    void *memory = realloc(old, size > 0 ? size : 1);
    if (memory == NULL) {
        (void)fputs("provider-double: out of memory\n", stderr);
        abort();
    }
    return memory;
}

char *mem_copy(const char *data, size_t len)
{
    char *copy = mem_resize(NULL, len + 1);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    copy[len] = '\0';
    return copy;
}

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.max = max};
}

void buf_fini(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){.max = buf->max};
}

void buf_clear(struct buf *buf, size_t keep)
{
    if (buf->cap > keep) {
        buf_fini(buf);
    }
    buf->len = 0;
    buf->is_over = false;
}

void buf_consume(struct buf *buf, size_t len)
{
    if (len == 0) {
        return;
    }
    buf->len -= len;
    memmove(buf->data, buf->data + len, buf->len);
}

bool buf_reserve(struct buf *buf, size_t len)
{
    if (buf->is_over || len > buf->max - buf->len) {
        buf->is_over = true;
        return false;
    }
    const size_t need = buf->len + len;
    if (need > buf->cap || buf->data == NULL) {
        size_t cap = buf->cap * 2 > 512 ? buf->cap * 2 : 512;
        cap = cap > need ? cap : need;
        buf->data = mem_resize(buf->data, cap);
        buf->cap = cap;
    }
    return true;
}

void buf_append(struct buf *buf, const char *data, size_t len)
{
    if (len > 0 && buf_reserve(buf, len)) {
        memcpy(buf->data + buf->len, data, len);
        buf->len += len;
    }
}

void buf_text(struct buf *buf, const char *text)
{
    buf_append(buf, text, strlen(text));
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof text) {
        buf->is_over = true;
        return;
    }
    buf_append(buf, text, (size_t)len);
}

void buf_base64(struct buf *buf, const char *data, size_t len)
{
    const size_t out_len = (len + 2) / 3 * 4;
    if (!buf_reserve(buf, out_len)) {
        return;
    }
    char *out = buf->data + buf->len;
    for (size_t i = 0; i < len; i += 3) {
        const size_t left = len - i;
        uint32_t bits = (uint32_t)(unsigned char)data[i] << 16;
        bits |= left > 1 ? (uint32_t)(unsigned char)data[i + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)(unsigned char)data[i + 2] : 0;
        *out++ = base64_digits[bits >> 18];
        *out++ = base64_digits[bits >> 12 & 63];
        *out++ = left > 1 ? base64_digits[bits >> 6 & 63] : '=';
        *out++ = left > 2 ? base64_digits[bits & 63] : '=';
    }
    buf->len += out_len;
}

int buf_unbase64(struct buf *buf, const char *text)
{
    const size_t len = strlen(text);
    if (len % 4 != 0) {
        return -1;
    }
    size_t pad = 0;
    while (pad < 2 && pad < len && text[len - 1 - pad] == '=') {
        pad++;
    }
    for (size_t i = 0; i < len; i += 4) {
        uint32_t bits = 0;
        for (size_t j = i; j < i + 4; j++) {
            const char *digit = strchr(base64_digits, text[j]);
            if (digit == NULL && j < len - pad) {
                return -1;
            }
            bits = bits << 6;
            bits |= j < len - pad ? (uint32_t)(digit - base64_digits) : 0;
        }
        const char out[3] = {(char)(bits >> 16), (char)(bits >> 8), (char)bits};
        buf_append(buf, out, i + 4 < len ? 3 : 3 - pad);
    }
    return 0;
}

size_t utf8_sequence(const char *data, size_t len)
{
    const unsigned char *in = (const unsigned char *)data;
    if (len == 0) {
        return 0;
    }
    if (in[0] < 0x80) {
        return 1;
    }
    const size_t need = in[0] >= 0xf0 ? 4 : in[0] >= 0xe0 ? 3 : 2;
    if (in[0] < 0xc2 || in[0] > 0xf4 || len < need) {
        return 0;
    }
    for (size_t i = 1; i < need; i++) {
        if ((in[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Overlong forms, surrogates, and what lies beyond U+10FFFF. */
    if ((in[0] == 0xe0 && in[1] < 0xa0) || (in[0] == 0xed && in[1] > 0x9f) ||
        (in[0] == 0xf0 && in[1] < 0x90) || (in[0] == 0xf4 && in[1] > 0x8f)) {
        return 0;
    }
    return need;
}

void buf_json(struct buf *buf, const char *data, size_t len)
{
    buf_append(buf, "\"", 1);
    size_t i = 0;
    while (i < len) {
        const size_t sequence = utf8_sequence(data + i, len - i);
        const unsigned char byte = (unsigned char)data[i];
        if (sequence == 0) {
            buf_text(buf, "\xef\xbf\xbd");
        } else if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f) {
            buf_printf(buf, "\\u%04x", byte);
        } else {
            buf_append(buf, data + i, sequence);
        }
        i += sequence > 0 ? sequence : 1;
    }
    buf_append(buf, "\"", 1);
}
