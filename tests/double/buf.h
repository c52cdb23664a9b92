/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable byte buffer with a maximum. Going over the maximum sets
 * `is_over` and drops this and all later appends, so a writer checks once at
 * the end. Exhausted memory aborts the process. No thread safety.
 */
#ifndef DOUBLE_BUF_H
#define DOUBLE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* owned; NULL while nothing was ever appended */
    size_t len;
    size_t cap;
    size_t max;
    bool is_over;
};

/* malloc and realloc that abort when memory is exhausted. */
__attribute__((returns_nonnull)) void *mem_resize(void *old, size_t size);
/* A NUL-terminated copy of `len` bytes; the caller frees it. */
__attribute__((returns_nonnull)) char *mem_copy(const char *data, size_t len);

void buf_init(struct buf *buf, size_t max);
void buf_fini(struct buf *buf);
/* Forgets the content; gives memory back when it holds more than `keep`. */
void buf_clear(struct buf *buf, size_t keep);
/* Drops the first `len` bytes, which must be there. */
void buf_consume(struct buf *buf, size_t len);
/* Makes room for `len` more bytes; false (and is_over) over the maximum. */
bool buf_reserve(struct buf *buf, size_t len);

void buf_append(struct buf *buf, const char *data, size_t len);
void buf_text(struct buf *buf, const char *text);
__attribute__((format(printf, 2, 3))) void buf_printf(
    struct buf *buf, const char *format, ...);
/* Appends base64 (RFC 4648 section 4, padded). */
void buf_base64(struct buf *buf, const char *data, size_t len);
/* Appends the bytes decoded from base64; -1 when `text` is not base64. */
__attribute__((warn_unused_result)) int buf_unbase64(
    struct buf *buf, const char *text);
/* Appends a quoted JSON string; bytes that are no UTF-8 become U+FFFD. */
void buf_json(struct buf *buf, const char *data, size_t len);
/* The length of the valid UTF-8 sequence at data[0], or 0. */
size_t utf8_sequence(const char *data, size_t len);

#endif
