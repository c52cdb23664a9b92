/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path: where in a JSON document the caller is, as frames on the stack, so
 * that a fault can name its JSON pointer without anyone building one before.
 */
#ifndef PATH_H
#define PATH_H

#include "schema/record.h"

struct path {
    const struct path *up; /* NULL at the root */
    struct span name;      /* decoded or plain; unused if is_index */
    size_t index;
    bool is_index;
};

struct path path_member(const struct path *up, const char *name);
struct path path_span(const struct path *up, struct span name);
struct path path_index(const struct path *up, size_t index);

/* Appends the pointer (RFC 6901); path NULL: nothing. */
void path_put(struct buf *out, const struct path *path);

/* fault_set() with the pointer of path. Returns -1. */
int path_fault(struct fault *fault, enum code code, const struct path *path,
    const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Appends a name with ~ and / escaped; a NUL, which no C string can hold,
 * becomes '?'. */
void path_put_name(struct buf *out, struct span name);

#endif
