/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/loop.h"
#include "common/time.h"

enum { PATIENCE_MS = 30000 };

/* What the callbacks of one test see. */
struct fixture {
    struct loop loop;
    struct loop_timer *patience; /* ends a test that would hang */
    struct loop_timer *timer;
    struct loop_fd *watch;
    struct loop_wake *wake;
    int pipe_fds[2];
    int calls;
    int stops;
    bool is_late;
};

static void on_patience(void *owner)
{
    struct fixture *fixture = owner;
    fixture->is_late = true;
    loop_end(&fixture->loop);
}

static void on_stop(void *owner)
{
    struct fixture *fixture = owner;
    fixture->stops++;
    loop_end(&fixture->loop);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    if (fixture == NULL) {
        return -1;
    }
    loop_init(&fixture->loop, on_stop, fixture);
    fixture->patience = loop_timer_new(&fixture->loop, on_patience, fixture);
    loop_timer_start(fixture->patience, PATIENCE_MS, 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    loop_fini(&fixture->loop);
    free(fixture);
    return 0;
}

static void run(struct fixture *fixture)
{
    loop_run(&fixture->loop);
    assert_false(fixture->is_late);
}

static void on_third_call(void *owner)
{
    struct fixture *fixture = owner;
    fixture->calls++;
    if (fixture->calls == 3) {
        loop_timer_stop(fixture->timer);
        loop_end(&fixture->loop);
    }
}

static void a_timer_repeats_until_it_is_stopped(void **state)
{
    struct fixture *fixture = *state;
    fixture->timer = loop_timer_new(&fixture->loop, on_third_call, fixture);
    assert_false(loop_timer_is_active(fixture->timer));
    loop_timer_start(fixture->timer, 1, 1);
    assert_true(loop_timer_is_active(fixture->timer));
    run(fixture);
    assert_int_equal(fixture->calls, 3);
    assert_false(loop_timer_is_active(fixture->timer));
    loop_timer_free(fixture->timer);
    loop_timer_free(NULL);
}

static void free_own_timer(void *owner)
{
    struct fixture *fixture = owner;
    fixture->calls++;
    loop_timer_free(fixture->timer);
    loop_end(&fixture->loop);
}

static void a_timer_may_be_freed_by_its_own_callback(void **state)
{
    struct fixture *fixture = *state;
    fixture->timer = loop_timer_new(&fixture->loop, free_own_timer, fixture);
    loop_timer_start(fixture->timer, 0, 1);
    run(fixture);
    assert_int_equal(fixture->calls, 1);
}

static void count_and_end(void *owner)
{
    struct fixture *fixture = owner;
    fixture->calls++;
    loop_end(&fixture->loop);
}

static void a_timer_counts_from_its_start_not_from_the_turn(void **state)
{
    struct fixture *fixture = *state;
    enum { AFTER_MS = 50 };
    fixture->timer = loop_timer_new(&fixture->loop, count_and_end, fixture);
    /* The loop's clock stands still while we are busy here. */
    const int64_t busy_until_us = now_mono_us() + 60 * US_PER_MS;
    while (now_mono_us() < busy_until_us) {
    }
    const int64_t start_us = now_mono_us();
    loop_timer_start(fixture->timer, AFTER_MS, 0);
    run(fixture);
    /* libuv counts whole milliseconds. */
    assert_true(now_mono_us() - start_us >= (AFTER_MS - 2) * US_PER_MS);
}

static void *send_from_thread(void *arg)
{
    struct fixture *fixture = arg;
    loop_wake_send(fixture->wake);
    return NULL;
}

static void another_thread_wakes_the_loop(void **state)
{
    struct fixture *fixture = *state;
    pthread_t thread;
    fixture->wake = loop_wake_new(&fixture->loop, count_and_end, fixture);
    assert_int_equal(
        pthread_create(&thread, NULL, send_from_thread, fixture), 0);
    run(fixture);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(fixture->calls, 1);
    loop_wake_free(fixture->wake);
    loop_wake_free(NULL);
}

static void read_byte(void *owner, int events)
{
    struct fixture *fixture = owner;
    char byte = 0;
    assert_true((events & UV_READABLE) != 0);
    assert_int_equal(read(fixture->pipe_fds[0], &byte, 1), 1);
    fixture->calls++;
    loop_fd_want(fixture->watch, 0);
    loop_timer_start(fixture->timer, 1, 0);
    if (byte == 'z') {
        loop_end(&fixture->loop);
    }
}

static void want_again(void *owner)
{
    struct fixture *fixture = owner;
    assert_int_equal(fixture->calls, 1); /* it was paused with a byte left */
    loop_fd_want(fixture->watch, UV_READABLE);
}

static void a_paused_watch_is_silent_until_wanted(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(pipe(fixture->pipe_fds), 0);
    assert_int_equal(write(fixture->pipe_fds[1], "az", 2), 2);
    fixture->timer = loop_timer_new(&fixture->loop, want_again, fixture);
    fixture->watch =
        loop_fd_new(&fixture->loop, fixture->pipe_fds[0], read_byte, fixture);
    loop_fd_want(fixture->watch, UV_READABLE);
    run(fixture);
    assert_int_equal(fixture->calls, 2);
    loop_fd_free(fixture->watch);
    loop_fd_free(NULL);
    (void)close(fixture->pipe_fds[0]);
    (void)close(fixture->pipe_fds[1]);
}

static void what_is_left_open_is_freed_by_fini(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(pipe(fixture->pipe_fds), 0);
    fixture->timer = loop_timer_new(&fixture->loop, count_and_end, fixture);
    fixture->wake = loop_wake_new(&fixture->loop, count_and_end, fixture);
    fixture->watch =
        loop_fd_new(&fixture->loop, fixture->pipe_fds[0], read_byte, fixture);
    loop_fd_want(fixture->watch, UV_READABLE | UV_WRITABLE);
    loop_timer_start(fixture->timer, 1, 1);
    run(fixture);
    (void)close(fixture->pipe_fds[1]);
    /* The teardown ends the loop; ASan tells what is not freed. */
}

static void raise_sigterm(void *owner)
{
    (void)owner;
    (void)raise(SIGTERM);
}

static void sigterm_asks_for_an_orderly_stop(void **state)
{
    struct fixture *fixture = *state;
    fixture->timer = loop_timer_new(&fixture->loop, raise_sigterm, fixture);
    loop_timer_start(fixture->timer, 1, 0);
    run(fixture);
    assert_int_equal(fixture->stops, 1);
}

static void ignore_stop(void *owner)
{
    struct loop *loop = owner;
    (void)loop;
    (void)raise(SIGINT);
}

static void a_second_signal_ends_the_process(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct loop loop;
        (void)alarm(PATIENCE_MS / 1000);
        loop_init(&loop, ignore_stop, &loop);
        struct loop_timer *timer = loop_timer_new(&loop, raise_sigterm, NULL);
        loop_timer_start(timer, 1, 0);
        loop_run(&loop);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
}

#define LOOP_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_timer_repeats_until_it_is_stopped),
        LOOP_TEST(a_timer_may_be_freed_by_its_own_callback),
        LOOP_TEST(a_timer_counts_from_its_start_not_from_the_turn),
        LOOP_TEST(another_thread_wakes_the_loop),
        LOOP_TEST(a_paused_watch_is_silent_until_wanted),
        LOOP_TEST(what_is_left_open_is_freed_by_fini),
        LOOP_TEST(sigterm_asks_for_an_orderly_stop),
        cmocka_unit_test(a_second_signal_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
