/* SPDX-License-Identifier: Apache-2.0 */
#include "common/loop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/buf.h"

enum { EXIT_SECOND_SIGNAL = 130 };

/*
 * The libuv handle comes first in each, and its data points at itself: the
 * mark by which loop_fini() knows the handles it has to free.
 */
struct loop_timer {
    uv_timer_t uv;
    loop_fn fn;
    void *owner;
};

struct loop_fd {
    uv_poll_t uv;
    loop_fd_fn fn;
    void *owner;
    int wanted;
};

struct loop_wake {
    uv_async_t uv;
    loop_fn fn;
    void *owner;
};

/* These calls fail for wrong arguments or when descriptors are exhausted at
 * start; neither can be handled by a caller. */
static void require(int status, const char *what)
{
    if (status < 0) {
        (void)fprintf(stderr, "%s: %s\n", what, uv_strerror(status));
        abort();
    }
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle)) {
        uv_close(handle, handle->data == handle ? free_handle : NULL);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct loop *loop = handle->data;
    (void)number;
    loop->stop_requests++;
    if (loop->stop_requests > 1) {
        _exit(EXIT_SECOND_SIGNAL);
    }
    if (loop->on_stop != NULL) {
        loop->on_stop(loop->owner);
    } else {
        loop_end(loop);
    }
}

void loop_init(struct loop *loop, loop_fn on_stop, void *owner)
{
    *loop = (struct loop){.on_stop = on_stop, .owner = owner};
    require(uv_loop_init(&loop->uv), "event loop");
    require(uv_signal_init(&loop->uv, &loop->sigterm), "signal handle");
    require(uv_signal_init(&loop->uv, &loop->sigint), "signal handle");
    loop->sigterm.data = loop;
    loop->sigint.data = loop;
    require(uv_signal_start(&loop->sigterm, on_signal, SIGTERM), "SIGTERM");
    require(uv_signal_start(&loop->sigint, on_signal, SIGINT), "SIGINT");
    (void)signal(SIGPIPE, SIG_IGN);
}

void loop_run(struct loop *loop)
{
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_end(struct loop *loop)
{
    uv_stop(&loop->uv);
}

static void close_walked(uv_handle_t *handle, void *arg)
{
    (void)arg;
    close_handle(handle);
}

void loop_fini(struct loop *loop)
{
    uv_walk(&loop->uv, close_walked, NULL);
    while (uv_loop_close(&loop->uv) == UV_EBUSY) {
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    }
}

/* -- timers ---------------------------------------------------------------- */

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *timer = handle->data;
    timer->fn(timer->owner);
}

struct loop_timer *loop_timer_new(struct loop *loop, loop_fn fn, void *owner)
{
    struct loop_timer *timer = mem_zalloc(1, sizeof(*timer));
    timer->fn = fn;
    timer->owner = owner;
    require(uv_timer_init(&loop->uv, &timer->uv), "timer");
    timer->uv.data = timer;
    return timer;
}

void loop_timer_start(
    struct loop_timer *timer, int64_t after_ms, int64_t repeat_ms)
{
    /* The loop's own idea of now is as old as the turn: a timer started late
     * in a long turn would fire too early. */
    uv_update_time(timer->uv.loop);
    require(uv_timer_start(&timer->uv, on_timer,
                after_ms > 0 ? (uint64_t)after_ms : 0,
                repeat_ms > 0 ? (uint64_t)repeat_ms : 0),
        "timer start");
}

void loop_timer_stop(struct loop_timer *timer)
{
    (void)uv_timer_stop(&timer->uv);
}

bool loop_timer_is_active(const struct loop_timer *timer)
{
    return uv_is_active((const uv_handle_t *)&timer->uv) != 0;
}

void loop_timer_free(struct loop_timer *timer)
{
    if (timer != NULL) {
        close_handle((uv_handle_t *)&timer->uv);
    }
}

/* -- descriptors ----------------------------------------------------------- */

static void on_fd(uv_poll_t *handle, int status, int events);

static void start_fd(struct loop_fd *watch)
{
    require(uv_poll_start(&watch->uv, watch->wanted, on_fd), "watch start");
}

static void on_fd(uv_poll_t *handle, int status, int events)
{
    struct loop_fd *watch = handle->data;
    if (status >= 0) {
        watch->fn(watch->owner, events);
        return;
    }
    /* libuv stops the watch on an error. The owner meets the error when it
     * reads or writes; what it still wants then is watched again. */
    watch->fn(watch->owner, UV_READABLE | UV_WRITABLE);
    if (!uv_is_closing((uv_handle_t *)handle) && watch->wanted != 0) {
        start_fd(watch);
    }
}

struct loop_fd *loop_fd_new(
    struct loop *loop, int fd, loop_fd_fn fn, void *owner)
{
    struct loop_fd *watch = mem_zalloc(1, sizeof(*watch));
    watch->fn = fn;
    watch->owner = owner;
    require(uv_poll_init(&loop->uv, &watch->uv, fd), "watch");
    watch->uv.data = watch;
    return watch;
}

void loop_fd_want(struct loop_fd *watch, int events)
{
    if (watch->wanted == events) {
        return;
    }
    watch->wanted = events;
    if (events == 0) {
        (void)uv_poll_stop(&watch->uv);
    } else {
        start_fd(watch);
    }
}

void loop_fd_free(struct loop_fd *watch)
{
    if (watch != NULL) {
        close_handle((uv_handle_t *)&watch->uv);
    }
}

/* -- wakes ----------------------------------------------------------------- */

static void on_wake(uv_async_t *handle)
{
    struct loop_wake *wake = handle->data;
    wake->fn(wake->owner);
}

struct loop_wake *loop_wake_new(struct loop *loop, loop_fn fn, void *owner)
{
    struct loop_wake *wake = mem_zalloc(1, sizeof(*wake));
    wake->fn = fn;
    wake->owner = owner;
    require(uv_async_init(&loop->uv, &wake->uv, on_wake), "wake");
    wake->uv.data = wake;
    return wake;
}

void loop_wake_send(struct loop_wake *wake)
{
    require(uv_async_send(&wake->uv), "wake send");
}

void loop_wake_free(struct loop_wake *wake)
{
    if (wake != NULL) {
        close_handle((uv_handle_t *)&wake->uv);
    }
}
