/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary heap of timers, the earliest on top. A timer is embedded in what
 * it wakes; the heap never owns it. Monotonic microseconds.
 */
#ifndef DOUBLE_TIMERS_H
#define DOUBLE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

struct timer {
    int64_t due_us;
    size_t place; /* in the heap, from 1; 0 = not set. Starts as 0. */
};

struct timers {
    struct timer **heap; /* owned array of borrowed timers */
    size_t count;
    size_t cap;
};

/* An all-zero struct is empty and ready. */
void timers_fini(struct timers *timers);
/* Sets or moves the timer. */
void timers_set(struct timers *timers, struct timer *timer, int64_t due_us);
void timers_stop(struct timers *timers, struct timer *timer);
/* The earliest one, or NULL. */
struct timer *timers_first(const struct timers *timers);

#endif
