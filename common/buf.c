/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 64, INT_TEXT_SIZE = 20 };

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.max = max};
}

void buf_fini(struct buf *buf)
{
    free(buf->data);
    buf->data = NULL;
    buf->len = 0;
    buf->cap = 0;
    buf->is_overflowed = false;
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->is_overflowed = false;
    if (buf->data != NULL) {
        buf->data[0] = '\0';
    }
}

/* Makes room for `need` bytes and the end. need is at most max. */
static void grow(struct buf *buf, size_t need)
{
    size_t cap = buf->cap < FIRST_CAP ? FIRST_CAP : buf->cap;
    while (cap <= need) {
        if (__builtin_mul_overflow(cap, 2, &cap)) {
            cap = need + 1;
            break;
        }
    }
    buf->data = mem_resize(buf->data, cap, 1);
    buf->cap = cap;
}

/* Bytes that may still be put, at most len; notes an overflow. */
static size_t admit(struct buf *buf, size_t len)
{
    if (buf->is_overflowed) {
        return 0;
    }
    const size_t room = buf->max - buf->len;
    if (len > room) {
        buf->is_overflowed = true;
        len = room;
    }
    if (buf->len + len >= buf->cap) {
        grow(buf, buf->len + len);
    }
    return len;
}

void buf_put(struct buf *buf, const void *bytes, size_t len)
{
    if (len == 0) {
        return;
    }
    len = admit(buf, len);
    if (len == 0) {
        return;
    }
    memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void buf_put_span(struct buf *buf, struct span span)
{
    buf_put(buf, span.ptr, span.len);
}

void buf_put_str(struct buf *buf, const char *text)
{
    buf_put(buf, text, strlen(text));
}

void buf_put_char(struct buf *buf, char c)
{
    buf_put(buf, &c, 1);
}

void buf_put_int(struct buf *buf, int64_t value)
{
    char text[INT_TEXT_SIZE];
    size_t at = sizeof(text);
    /* Unsigned, so that INT64_MIN has a positive counterpart. */
    uint64_t rest = (uint64_t)value;
    if (value < 0) {
        rest = 0 - rest;
    }
    do {
        at--;
        text[at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0) {
        at--;
        text[at] = '-';
    }
    buf_put(buf, text + at, sizeof(text) - at);
}

void buf_printf(struct buf *buf, const char *fmt, ...)
{
    char small[256];
    va_list args;
    va_start(args, fmt);
    const int wanted = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    if (wanted < 0) {
        buf->is_overflowed = true;
        return;
    }
    const size_t len = (size_t)wanted;
    if (len < sizeof(small)) {
        buf_put(buf, small, len);
        return;
    }
    char *large = mem_alloc(len + 1);
    va_start(args, fmt);
    (void)vsnprintf(large, len + 1, fmt, args);
    va_end(args);
    buf_put(buf, large, len);
    free(large);
}

char *buf_reserve(struct buf *buf, size_t len)
{
    if (buf->is_overflowed || len > buf->max - buf->len) {
        buf->is_overflowed = true;
        return NULL;
    }
    if (buf->len + len >= buf->cap) {
        grow(buf, buf->len + len);
    }
    return buf->data + buf->len;
}

void buf_drop_front(struct buf *buf, size_t len)
{
    if (len >= buf->len) {
        buf_clear(buf);
        return;
    }
    if (len == 0) {
        return;
    }
    buf->len -= len;
    memmove(buf->data, buf->data + len, buf->len);
    buf->data[buf->len] = '\0';
}

char *buf_take(struct buf *buf, size_t *len)
{
    char *data = buf->data;
    if (data == NULL) {
        data = mem_zalloc(1, 1);
    }
    data[buf->len] = '\0';
    if (len != NULL) {
        *len = buf->len;
    }
    buf_init(buf, buf->max);
    return data;
}

struct span buf_span(const struct buf *buf)
{
    return (struct span){.ptr = buf->data, .len = buf->len};
}

const char *buf_str(const struct buf *buf)
{
    return buf->len == 0 ? "" : buf->data;
}
