/* SPDX-License-Identifier: Apache-2.0 */
/* Faults and the JSON pointers in them: record.h and path.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "schema/path.h"

enum { PATH_MAX_FRAMES = 80, PATH_MAX_BYTES = 4096 };

/* Never leaves half a UTF-8 sequence at the end. */
static void copy_text(char *out, size_t size, struct span text)
{
    size_t len = text.len;
    if (len >= size) {
        len = size - 1;
        while (len > 0 && ((unsigned char)text.ptr[len] & 0xC0U) == 0x80U) {
            len--;
        }
    }
    if (len > 0) {
        memcpy(out, text.ptr, len);
    }
    out[len] = '\0';
}

/* The callers' own formats are checked where they are called. */
__attribute__((format(printf, 4, 0))) static void fill(struct fault *fault,
    enum code code, struct span pointer, const char *fmt, va_list args)
{
    fault->code = code;
    copy_text(fault->pointer, sizeof(fault->pointer), pointer);
    if (vsnprintf(fault->detail, sizeof(fault->detail), fmt, args) < 0) {
        fault->detail[0] = '\0';
    }
}

int fault_set(struct fault *fault, enum code code, const char *pointer,
    const char *fmt, ...)
{
    if (fmt == NULL) {
        return fault_set(fault, code, pointer, "%s", code_text(code));
    }
    va_list args;
    va_start(args, fmt);
    fill(fault, code, span_of(pointer), fmt, args);
    va_end(args);
    return -1;
}

struct path path_member(const struct path *up, const char *name)
{
    return path_span(up, span_of(name));
}

struct path path_span(const struct path *up, struct span name)
{
    return (struct path){.up = up, .name = name};
}

struct path path_index(const struct path *up, size_t index)
{
    return (struct path){.up = up, .index = index, .is_index = true};
}

void path_put_name(struct buf *out, struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        if (c == '~') {
            buf_put_str(out, "~0");
        } else if (c == '/') {
            buf_put_str(out, "~1");
        } else {
            buf_put_char(out, c == '\0' ? '?' : c);
        }
    }
}

void path_put(struct buf *out, const struct path *path)
{
    const struct path *frames[PATH_MAX_FRAMES];
    size_t count = 0;
    for (; path != NULL && count < PATH_MAX_FRAMES; path = path->up) {
        frames[count] = path;
        count++;
    }
    while (count > 0) {
        count--;
        buf_put_char(out, '/');
        if (frames[count]->is_index) {
            buf_put_int(out, (int64_t)frames[count]->index);
        } else {
            path_put_name(out, frames[count]->name);
        }
    }
}

int path_fault(struct fault *fault, enum code code, const struct path *path,
    const char *fmt, ...)
{
    struct buf pointer;
    buf_init(&pointer, PATH_MAX_BYTES);
    path_put(&pointer, path);
    va_list args;
    va_start(args, fmt);
    fill(fault, code, buf_span(&pointer), fmt, args);
    va_end(args);
    buf_fini(&pointer);
    return -1;
}
