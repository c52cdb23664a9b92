/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err: how every module says what went wrong.
 *
 * A struct err lives on the caller's stack, so reporting a failure never
 * allocates. Callers branch on the class, people read the message. A function
 * that succeeds leaves the struct untouched. Log an err once, where it is
 * handled; on the way up wrap it with what was being done.
 */
#ifndef ERR_H
#define ERR_H

#include <stddef.h>

enum err_class {
    ERR_NONE,
    ERR_TRANSIENT, /* the same call may succeed later */
    ERR_PERMANENT, /* bad input or a refusal: repeating cannot help */
    ERR_UNKNOWN,   /* it may or may not have happened: read back */
    ERR_FATAL,     /* wrong setting or lost invariant: stop the process */
    ERR_CLASS_COUNT
};

struct err {
    enum err_class class;
    const char *code; /* static upper case name, e.g. "PG_UNREACHABLE" */
    int sys_errno;    /* 0 when no system call was involved */
    char msg[256];
};

#define ERR_INIT                                                               \
    {                                                                          \
        .class = ERR_NONE                                                      \
    }

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Fills err (which may be NULL) and returns -1, so that a failing function
 * can end with `return err_set(...)`. code must be a static string.
 */
int err_set(struct err *err, enum err_class class, const char *code,
    const char *fmt, ...) PRINTF_LIKE(4, 5);

/* The same for a failed system call: appends strerror(errno). */
int err_set_errno(struct err *err, enum err_class class, const char *code,
    const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Puts "<text>: " in front of the message. Returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* "transient", "permanent", ... for logs. Static. */
const char *err_class_name(enum err_class class);

#endif
