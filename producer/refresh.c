/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/refresh.h"

#include <stdlib.h>

#include "common/buf.h"
#include "common/time.h"

struct refresh {
    struct refresh_options options;
    struct loop_timer *timer; /* runs unless a reading does */
    struct refresh_wait *waiting;
    int64_t began_us; /* of the last reading, completed or not */
    int64_t since_us; /* of the last one that was completed */
    bool is_reading;
};

static void plan(struct refresh *refresh)
{
    const int64_t pause_ms = refresh->waiting != NULL
                                 ? refresh->options.apart_ms
                                 : refresh->options.every_ms;
    const int64_t since_ms = (now_mono_us() - refresh->began_us) / US_PER_MS;
    loop_timer_start(
        refresh->timer, since_ms < pause_ms ? pause_ms - since_ms : 0, 0);
}

static void on_timer(void *owner)
{
    struct refresh *refresh = owner;
    refresh->is_reading = true;
    refresh->began_us = now_mono_us();
    refresh->options.read(refresh->options.owner);
}

struct refresh *refresh_open(
    struct loop *loop, const struct refresh_options *options)
{
    struct refresh *refresh = mem_zalloc(1, sizeof(*refresh));
    refresh->options = *options;
    refresh->timer = loop_timer_new(loop, on_timer, refresh);
    loop_timer_start(refresh->timer, 0, 0);
    return refresh;
}

void refresh_close(struct refresh *refresh)
{
    if (refresh != NULL) {
        loop_timer_free(refresh->timer);
        free(refresh);
    }
}

int64_t refresh_since_us(const struct refresh *refresh)
{
    return refresh->since_us;
}

void refresh_wait(struct refresh *refresh, struct refresh_wait *wait)
{
    wait->asked_us = now_mono_us();
    wait->next = refresh->waiting;
    refresh->waiting = wait;
    if (!refresh->is_reading) {
        plan(refresh);
    }
}

void refresh_end(struct refresh *refresh, bool is_read)
{
    struct refresh_wait *later = NULL;
    struct refresh_wait *ready = NULL;
    refresh->is_reading = false;
    if (is_read) {
        refresh->since_us = refresh->began_us;
    }
    while (refresh->waiting != NULL) {
        struct refresh_wait *wait = refresh->waiting;
        struct refresh_wait **list =
            wait->asked_us <= refresh->began_us ? &ready : &later;
        refresh->waiting = wait->next;
        wait->next = *list;
        *list = wait;
    }
    refresh->waiting = later;
    plan(refresh);
    while (ready != NULL) {
        struct refresh_wait *wait = ready;
        ready = wait->next;
        wait->done(wait->arg, is_read);
    }
}
