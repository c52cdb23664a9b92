/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(
    struct err *err, enum err_class class, const char *code, int sys_errno)
{
    err->class = class;
    err->code = code;
    err->sys_errno = sys_errno;
}

int err_set(struct err *err, enum err_class class, const char *code,
    const char *fmt, ...)
{
    if (err == NULL) {
        return -1;
    }
    /* The arguments may point into err->msg itself. */
    char text[sizeof(err->msg)];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fill(err, class, code, 0);
    memcpy(err->msg, text, sizeof(text));
    return -1;
}

/* Appends to the terminated text of the given size; cuts what is too long. */
static void append(char *text, size_t size, const char *more)
{
    const size_t used = strlen(text);
    const size_t room = size - used - 1;
    const size_t len = strnlen(more, room);
    memcpy(text + used, more, len);
    text[used + len] = '\0';
}

int err_set_errno(struct err *err, enum err_class class, const char *code,
    const char *fmt, ...)
{
    const int sys_errno = errno;
    if (err == NULL) {
        return -1;
    }
    char text[sizeof(err->msg)];
    char reason_text[128];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    /* The GNU strerror_r returns the text, which may not be in the array. */
    const char *reason =
        strerror_r(sys_errno, reason_text, sizeof(reason_text));
    append(text, sizeof(text), ": ");
    append(text, sizeof(text), reason);
    fill(err, class, code, sys_errno);
    memcpy(err->msg, text, sizeof(text));
    return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    if (err == NULL) {
        return -1;
    }
    char text[sizeof(err->msg)];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    append(text, sizeof(text), ": ");
    append(text, sizeof(text), err->msg);
    memcpy(err->msg, text, sizeof(text));
    return -1;
}

const char *err_class_name(enum err_class class)
{
    static const char *const names[] = {
        [ERR_NONE] = "none",
        [ERR_TRANSIENT] = "transient",
        [ERR_PERMANENT] = "permanent",
        [ERR_UNKNOWN] = "unknown",
        [ERR_FATAL] = "fatal",
    };
    _Static_assert(ARRAY_LEN(names) == ERR_CLASS_COUNT, "a name a class");
    return class < ERR_CLASS_COUNT ? names[class] : "none";
}
