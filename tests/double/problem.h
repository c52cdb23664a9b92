/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of text that says what is wrong with an input, for the person who
 * wrote it. The double shares no code with the programs it tests, so it has
 * its own instead of common/err.h. Lives on the caller's stack.
 */
#ifndef DOUBLE_PROBLEM_H
#define DOUBLE_PROBLEM_H

#include <stdarg.h>
#include <stdio.h>

struct problem {
    char msg[256];
};

/* Writes the text (cut at the buffer) and returns -1, for `return`. */
__attribute__((format(printf, 2, 3))) static inline int problem_set(
    struct problem *problem, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem->msg, sizeof problem->msg, format, args);
    va_end(args);
    return -1;
}

#endif
