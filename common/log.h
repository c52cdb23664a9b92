/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log: one JSON object a line on standard error.
 *
 * First members: ts level prog pid event; then the fields given, then text.
 * event is a fixed snake_case name, the text is for people. Payloads and
 * secrets are never logged. The same event more than 20 times a second is
 * cut off and counted in a line of its own ("suppressed").
 * Thread rule: may be called from any thread; a line is one write().
 */
#ifndef LOG_H
#define LOG_H

#include "common/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVEL_COUNT };

/* Fields that travel with a line; leave out what is NULL or 0. */
struct log_fields {
    const char *action_id;
    const char *tenant;
    const char *connector;
    const struct err *err; /* gives err_code, err_class and its message */
    const char *name1;     /* one more text field */
    const char *value1;
    const char *number_name; /* one more number */
    long long number;
};

/* prog: static name of the program. Level: "error" "warn" "info" "debug". */
void log_init(const char *prog);
int log_set_level(const char *level, struct err *err) MUST_CHECK;

void log_write(enum log_level level, const char *event,
    const struct log_fields *fields, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* LOG(INFO, "claim_done", NULL, "claimed %d", n) */
#define LOG(level, event, fields, ...)                                         \
    log_write(LOG_##level, event, fields, __VA_ARGS__)

#endif
