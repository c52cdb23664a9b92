/* SPDX-License-Identifier: Apache-2.0 */
/* The span half of buf.h. */
#include <string.h>

#include "common/buf.h"

struct span span_of(const char *text)
{
    return (struct span){.ptr = text, .len = text == NULL ? 0 : strlen(text)};
}

bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool span_is(struct span span, const char *text)
{
    return span_equal(span, span_of(text));
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool span_is_nocase(struct span span, const char *text)
{
    if (span.len != strlen(text)) {
        return false;
    }
    for (size_t i = 0; i < span.len; i++) {
        if (lower(span.ptr[i]) != lower(text[i])) {
            return false;
        }
    }
    return true;
}

char *span_dup(struct span span)
{
    char *copy = mem_alloc(span.len + 1);
    if (span.len > 0) {
        memcpy(copy, span.ptr, span.len);
    }
    copy[span.len] = '\0';
    return copy;
}

bool span_to_int(struct span span, int64_t *value)
{
    const bool is_negative = span.len > 0 && span.ptr[0] == '-';
    size_t at = is_negative ? 1 : 0;
    int64_t sum = 0;
    if (at == span.len) {
        return false;
    }
    for (; at < span.len; at++) {
        const char c = span.ptr[at];
        if (c < '0' || c > '9') {
            return false;
        }
        const int64_t digit = is_negative ? -(c - '0') : c - '0';
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, digit, &sum)) {
            return false;
        }
    }
    *value = sum;
    return true;
}
