/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_hooks: what the files of `actionist bench webhooks` share: signed
 * deliveries at a fixed rate, each timed from the moment it was due, so that a
 * late start counts as a late answer.
 *
 *   bench_webhooks.c  the phases and the figures
 *   bench_hooks.c     the sender, and the slow connections beside it
 */
#ifndef BENCH_HOOKS_H
#define BENCH_HOOKS_H

#include <stdint.h>

#include "scheduler/ctl/bench.h"

#define HOOKS_SECRET "bench-of-webhooks"
#define HOOKS_SENDERS 128    /* connections of the sender */
#define HOOKS_AN_ADDRESS 500 /* slow ones of one address 127.0.x.y */

struct hooks_target {
    uint16_t port;    /* of the producer, on 127.0.0.1 */
    const char *path; /* /hooks/TENANT/SOURCE */
    const char *run;  /* in each delivery's id */
};

struct hooks_figures {
    int64_t sent;
    int64_t taken; /* answered 200 */
    double rate;   /* answers a second */
    struct bench_latency latency;
};

/* Sends rate a second for so many seconds, ids from *number on, and waits for
 * the answers. -1: err says what went wrong. */
int hooks_send(const struct hooks_target *target, int64_t rate, int64_t seconds,
    int64_t *number, struct hooks_figures *figures, struct err *err) MUST_CHECK;

/* Connections that begin a request and do not end it. */
struct hooks_slow;
struct hooks_slow *hooks_slow_open(const struct hooks_target *target,
    size_t count, struct err *err) MUST_CHECK;
/* How many of them the producer still holds. */
size_t hooks_slow_held(struct hooks_slow *slow);
void hooks_slow_close(struct hooks_slow *slow); /* NULL ok */

#endif
