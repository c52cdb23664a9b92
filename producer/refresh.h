/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refresh: when to read a table again. It is read every so often, and at once
 * when somebody asks for something that is not there: who asks waits for the
 * end of a reading that began after the question, so that a "no" is true, and
 * all who ask at the same time share one reading.
 */
#ifndef REFRESH_H
#define REFRESH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"

struct refresh;

struct refresh_options {
    int64_t every_ms; /* in any case */
    int64_t apart_ms; /* between the starts of two readings, at least */
    loop_fn read;     /* starts a reading, which ends in refresh_end() */
    void *owner;
};

/* Is part of the waiting object, which owns it. */
struct refresh_wait {
    struct refresh_wait *next;
    int64_t asked_us; /* monotonic */
    void (*done)(void *arg, bool is_read);
    void *arg;
};

struct refresh *refresh_open(
    struct loop *loop, const struct refresh_options *options);
/* Forgets who waits. NULL allowed. */
void refresh_close(struct refresh *refresh);
/* The reading under way ended; is_read: with the whole table. */
void refresh_end(struct refresh *refresh, bool is_read);
/* Start of the last reading that was completed, monotonic; 0: none yet. */
int64_t refresh_since_us(const struct refresh *refresh);
/* done runs later, once, when a reading that began after now has ended. */
void refresh_wait(struct refresh *refresh, struct refresh_wait *wait);

#endif
