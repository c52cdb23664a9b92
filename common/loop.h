/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop: the one event loop of a process (libuv), with what every program
 * needs around it: orderly stop on signals, timers that cannot be leaked,
 * descriptors of foreign libraries.
 *
 * Everything here belongs to the thread that runs the loop, except
 * loop_wake_send(), which any thread may call.
 */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"

typedef void (*loop_fn)(void *owner);

struct loop {
    uv_loop_t uv;
    uv_signal_t sigterm;
    uv_signal_t sigint;
    unsigned stop_requests;
    loop_fn on_stop;
    void *owner;
};

/* on_stop runs on the first SIGTERM or SIGINT (drain); the second one ends
 * the process at once with exit code 130. SIGPIPE is ignored. */
void loop_init(struct loop *loop, loop_fn on_stop, void *owner);
void loop_run(struct loop *loop); /* until loop_end() */
void loop_end(struct loop *loop); /* may be called from any callback */
/* Closes and frees what is left open: timers, watches and wakes must not be
 * touched after it. */
void loop_fini(struct loop *loop);

/* A timer. Heap-held by the loop until loop_timer_free(), which may be called
 * from its own callback. */
struct loop_timer;
struct loop_timer *loop_timer_new(struct loop *loop, loop_fn fn, void *owner);
void loop_timer_start(
    struct loop_timer *timer, int64_t after_ms, int64_t repeat_ms);
void loop_timer_stop(struct loop_timer *timer);
/* Waiting to run. */
bool loop_timer_is_active(const struct loop_timer *timer);
void loop_timer_free(struct loop_timer *timer); /* NULL allowed */

/* Watches a descriptor that stays owned by the caller, one watch a
 * descriptor; it begins paused. events: UV_READABLE | UV_WRITABLE. An error on
 * the descriptor is told as both. Free before closing the descriptor. */
typedef void (*loop_fd_fn)(void *owner, int events);
struct loop_fd;
struct loop_fd *loop_fd_new(
    struct loop *loop, int fd, loop_fd_fn fn, void *owner);
void loop_fd_want(struct loop_fd *watch, int events); /* 0: pause */
void loop_fd_free(struct loop_fd *watch);             /* NULL allowed */

/* Wakes the loop from another thread; several sends may become one call. */
struct loop_wake;
struct loop_wake *loop_wake_new(struct loop *loop, loop_fn fn, void *owner);
void loop_wake_send(struct loop_wake *wake);
void loop_wake_free(struct loop_wake *wake); /* NULL allowed */

#endif
