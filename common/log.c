/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/time.h"

enum {
    LINE_MAX_BYTES = 32768, /* all fields at their longest, escaped */
    FIELD_MAX_BYTES = 256,
    TEXT_MAX_BYTES = 1024,
    EVENT_SLOTS = 64,
    LINES_PER_SECOND = 20
};

/* One event's lines in the running second. */
struct rate {
    const char *event; /* static; NULL: slot not used yet */
    int64_t since_us;
    unsigned lines;
    unsigned suppressed;
};

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};
_Static_assert(ARRAY_LEN(level_names) == LOG_LEVEL_COUNT, "a name a level");

/* The logger is the one module with state of its own (house rule 19). */
static _Atomic(const char *) program = "actionist";
static atomic_int threshold = LOG_INFO;
static pthread_mutex_t rates_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rate rates[EVENT_SLOTS];

void log_init(const char *prog)
{
    atomic_store(&program, prog);
}

int log_set_level(const char *level, struct err *err)
{
    for (int i = 0; i < LOG_LEVEL_COUNT; i++) {
        if (strcmp(level, level_names[i]) == 0) {
            atomic_store(&threshold, i);
            return 0;
        }
    }
    return err_set(err, ERR_FATAL, "BAD_SETTING",
        "log.level is \"%s\"; it must be error, warn, info or debug", level);
}

static void put_text(struct buf *line, const char *name, const char *value)
{
    if (name == NULL || value == NULL) {
        return;
    }
    json_put_name(line, name);
    json_put_string(line,
        (struct span){.ptr = value, .len = strnlen(value, FIELD_MAX_BYTES)});
}

static void put_fields(struct buf *line, const struct log_fields *fields)
{
    put_text(line, "action_id", fields->action_id);
    put_text(line, "tenant", fields->tenant);
    put_text(line, "connector", fields->connector);
    if (fields->err != NULL) {
        put_text(line, "err_code", fields->err->code);
        put_text(line, "err_class", err_class_name(fields->err->class));
        put_text(line, "err", fields->err->msg);
    }
    put_text(line, fields->name1, fields->value1);
    if (fields->number_name != NULL) {
        json_put_name(line, fields->number_name);
        buf_put_int(line, fields->number);
    }
}

/* The whole line in one call, so that lines of threads do not mix. */
static void write_line(const struct buf *line)
{
    const char *at = line->data;
    size_t left = line->len;
    while (left > 0) {
        const ssize_t done = write(STDERR_FILENO, at, left);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return; /* nobody to tell */
        }
        at += done;
        left -= (size_t)done;
    }
}

static void emit(enum log_level level, const char *event,
    const struct log_fields *fields, const char *text)
{
    struct buf line;
    buf_init(&line, LINE_MAX_BYTES);
    buf_put_char(&line, '{');
    json_put_name(&line, "ts");
    json_put_time(&line, now_wall_us());
    put_text(&line, "level", level_names[level]);
    put_text(&line, "prog", atomic_load(&program));
    json_put_name(&line, "pid");
    buf_put_int(&line, getpid());
    put_text(&line, "event", event);
    if (fields != NULL) {
        put_fields(&line, fields);
    }
    if (text[0] != '\0') {
        json_put_name(&line, "text");
        json_put_cstring(&line, text);
    }
    buf_put_str(&line, "}\n");
    write_line(&line);
    buf_fini(&line);
}

/* The event's slot, else the one whose second began longest ago. */
static struct rate *find_rate(const char *event)
{
    struct rate *oldest = &rates[0];
    for (size_t i = 0; i < EVENT_SLOTS; i++) {
        if (rates[i].event != NULL && strcmp(rates[i].event, event) == 0) {
            return &rates[i];
        }
        if (rates[i].since_us < oldest->since_us) {
            oldest = &rates[i];
        }
    }
    return oldest;
}

/* Takes out what was suppressed in a second that is over: at most one a
 * call, the others follow with the next lines. */
static struct rate take_suppressed(int64_t now_us)
{
    struct rate over = {.event = NULL};
    for (size_t i = 0; i < EVENT_SLOTS; i++) {
        if (rates[i].suppressed > 0 && now_us - rates[i].since_us >= US_PER_S) {
            over = rates[i];
            rates[i].suppressed = 0;
            break;
        }
    }
    return over;
}

/* Counts a line of the event; false if it must not be written. */
static bool admit(const char *event, int64_t now_us)
{
    struct rate *rate = find_rate(event);
    const bool is_same = rate->event != NULL && strcmp(rate->event, event) == 0;
    if (!is_same || now_us - rate->since_us >= US_PER_S) {
        *rate = (struct rate){.event = event, .since_us = now_us};
    }
    if (rate->lines >= LINES_PER_SECOND) {
        rate->suppressed++;
        return false;
    }
    rate->lines++;
    return true;
}

void log_write(enum log_level level, const char *event,
    const struct log_fields *fields, const char *fmt, ...)
{
    if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed)) {
        return;
    }
    const int saved_errno = errno;
    const int64_t now_us = now_mono_us();
    (void)pthread_mutex_lock(&rates_lock);
    const struct rate over = take_suppressed(now_us);
    const bool is_admitted = admit(event, now_us);
    (void)pthread_mutex_unlock(&rates_lock);
    if (over.event != NULL) {
        const struct log_fields counted = {.name1 = "of",
            .value1 = over.event,
            .number_name = "lines",
            .number = over.suppressed};
        emit(LOG_WARN, "suppressed", &counted, "");
    }
    if (is_admitted) {
        char text[TEXT_MAX_BYTES];
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        emit(level, event, fields, text);
    }
    errno = saved_errno;
}
