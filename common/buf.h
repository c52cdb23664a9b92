/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf: the one growable byte buffer, and span, a borrowed range of bytes.
 *
 * A buffer is made with a maximum. Going over it sets is_overflowed, which
 * stays set until buf_clear(); bytes past the maximum are dropped, so a writer
 * may put many things and ask once at the end. Exhausted memory aborts.
 */
#ifndef BUF_H
#define BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct span {
    const char *ptr; /* borrowed; not terminated; NULL only if len is 0 */
    size_t len;
};

#define SPAN_LIT(text) ((struct span){.ptr = (text), .len = sizeof(text) - 1})

struct buf {
    char *data; /* owned; data[len] is always 0 once something was put */
    size_t len;
    size_t cap;
    size_t max;
    bool is_overflowed;
};

void buf_init(struct buf *buf, size_t max);
void buf_fini(struct buf *buf);  /* may be called twice */
void buf_clear(struct buf *buf); /* keeps the memory */

void buf_put(struct buf *buf, const void *bytes, size_t len);
void buf_put_span(struct buf *buf, struct span span);
void buf_put_str(struct buf *buf, const char *text);
void buf_put_char(struct buf *buf, char c);
void buf_put_int(struct buf *buf, int64_t value); /* decimal */
void buf_printf(struct buf *buf, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Room for len more bytes to be written by the caller, who then adds to len.
 * NULL (and overflowed) if that would pass the maximum. */
char *buf_reserve(struct buf *buf, size_t len);

/* Removes the first len bytes. */
void buf_drop_front(struct buf *buf, size_t len);

/* Moves the memory to the caller, who frees it; the buffer is empty after. */
char *buf_take(struct buf *buf, size_t *len);

/* The content, borrowed until the next change. data may be NULL if empty. */
struct span buf_span(const struct buf *buf);
/* The content as a terminated string, "" if empty. */
const char *buf_str(const struct buf *buf);

struct span span_of(const char *text); /* of a terminated string; NULL: empty */
bool span_equal(struct span a, struct span b);
bool span_is(struct span span, const char *text);
bool span_is_nocase(struct span span, const char *text); /* ASCII */
/* A terminated copy, freed by the caller; aborts when memory is exhausted. */
char *span_dup(struct span span);
/* Parses a whole decimal integer, optional '-'; false on anything else. */
bool span_to_int(struct span span, int64_t *value);

/* malloc, calloc, strdup that abort when memory is exhausted (house rule 28:
 * small fixed sizes only). */
void *mem_alloc(size_t size);
void *mem_zalloc(size_t count, size_t size);
void *mem_resize(void *ptr, size_t count, size_t size);
char *mem_strdup(const char *text);

#endif
