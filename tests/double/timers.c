/* SPDX-License-Identifier: Apache-2.0 */
#include "timers.h"

#include "buf.h"

#include <stdlib.h>

void timers_fini(struct timers *timers)
{
    free(timers->heap);
    *timers = (struct timers){0};
}

static void put(struct timers *timers, size_t place, struct timer *timer)
{
    timers->heap[place - 1] = timer;
    timer->place = place;
}

/* Moves the timer from an empty place to where it belongs. */
static void settle(struct timers *timers, size_t place, struct timer *timer)
{
    while (place > 1 && timers->heap[place / 2 - 1]->due_us > timer->due_us) {
        put(timers, place, timers->heap[place / 2 - 1]);
        place /= 2;
    }
    while (place * 2 <= timers->count) {
        size_t child = place * 2;
        if (child < timers->count &&
            timers->heap[child]->due_us < timers->heap[child - 1]->due_us) {
            child++;
        }
        if (timers->heap[child - 1]->due_us >= timer->due_us) {
            break;
        }
        put(timers, place, timers->heap[child - 1]);
        place = child;
    }
    put(timers, place, timer);
}

void timers_set(struct timers *timers, struct timer *timer, int64_t due_us)
{
    timer->due_us = due_us;
    if (timer->place == 0) {
        if (timers->count == timers->cap) {
            timers->cap = timers->cap > 0 ? timers->cap * 2 : 64;
            timers->heap =
                mem_resize(timers->heap, timers->cap * sizeof(struct timer *));
        }
        timers->count++;
        timer->place = timers->count;
    }
    settle(timers, timer->place, timer);
}

void timers_stop(struct timers *timers, struct timer *timer)
{
    if (timer->place == 0) {
        return;
    }
    struct timer *last = timers->heap[timers->count - 1];
    const size_t place = timer->place;
    timers->count--;
    timer->place = 0;
    if (last != timer) {
        settle(timers, place, last);
    }
}

struct timer *timers_first(const struct timers *timers)
{
    return timers->count > 0 ? timers->heap[0] : NULL;
}
