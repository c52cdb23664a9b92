/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/time.h"
#include "worker/run/filter.h"
#include "worker/run/http_client.h"

enum { EVENTS = 128, EXIT_PROTOCOL = 76, READ_BYTES = 256 << 10 };
#define OUT_MAX ((size_t)2 << 30)

struct runner {
    int socket;
    int memory;
    int epoll;
    struct http_settings settings;
    struct http_client *client; /* NULL until set up */
    uint32_t max_calls;
    struct buf in;
    struct buf out;
    size_t out_at; /* bytes of out that are gone already */
    bool is_watching_out;
    bool is_over;
    int exit_code;
    int64_t cpu_us; /* as far as it was given to results */
    int64_t peak_bytes;
    int64_t peak_at_us;
};

static void fail(struct runner *runner, const char *what)
{
    LOG(ERROR, "runner_protocol", NULL, "%s", what);
    runner->is_over = true;
    runner->exit_code = EXIT_PROTOCOL;
}

/* -- usage ------------------------------------------------------------------------ */

/* Processor time since the last result, in whole ms; the rest is carried. */
static int64_t take_cpu_ms(struct runner *runner)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    const int64_t total_us =
        (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
    const int64_t spent_ms = (total_us - runner->cpu_us) / US_PER_MS;
    runner->cpu_us += spent_ms * US_PER_MS;
    return spent_ms;
}

/* Read at most once a second. */
static int64_t peak_bytes(struct runner *runner)
{
    const int64_t now_us = now_mono_us();
    if (runner->peak_at_us != 0 && now_us - runner->peak_at_us < US_PER_S) {
        return runner->peak_bytes;
    }
    char text[32];
    const ssize_t got = pread(runner->memory, text, sizeof(text), 0);
    int64_t value = 0;
    if (got > 1 && span_to_int((struct span){text, (size_t)got - 1}, &value) &&
        value > runner->peak_bytes) {
        runner->peak_bytes = value;
    }
    runner->peak_at_us = now_us;
    return runner->peak_bytes;
}

/* -- frames out ------------------------------------------------------------------- */

static void watch(struct runner *runner, bool is_watching_out)
{
    runner->is_watching_out = is_watching_out;
    struct epoll_event event = {.data.fd = runner->socket};
    event.events = is_watching_out ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (epoll_ctl(runner->epoll, EPOLL_CTL_MOD, runner->socket, &event) != 0) {
        abort();
    }
}

static void flush(struct runner *runner)
{
    while (runner->out_at < runner->out.len) {
        const ssize_t sent =
            send(runner->socket, runner->out.data + runner->out_at,
                runner->out.len - runner->out_at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            if (errno != EAGAIN) {
                runner->is_over = true; /* the worker is gone */
            } else if (!runner->is_watching_out) {
                watch(runner, true);
            }
            buf_drop_front(&runner->out, runner->out_at);
            runner->out_at = 0;
            return;
        }
        runner->out_at += (size_t)sent;
    }
    buf_clear(&runner->out);
    runner->out_at = 0;
    if (runner->is_watching_out) {
        watch(runner, false);
    }
}

static void on_done(
    void *owner, uint32_t index, const struct run_result *result)
{
    struct runner *runner = owner;
    struct run_result whole = *result;
    whole.cpu_ms = take_cpu_ms(runner);
    whole.memory_peak_bytes = peak_bytes(runner);
    if (frame_put_result(&runner->out, index, &whole) != 0) {
        fail(runner, "a result does not fit into its frame");
    }
}

/* -- frames in -------------------------------------------------------------------- */

static void on_setup(struct runner *runner, struct span content)
{
    struct frame_setup setup;
    struct err err = ERR_INIT;
    if (runner->client != NULL || frame_get_setup(content, &setup) != 0) {
        fail(runner, "a malformed setup frame");
        return;
    }
    if (egress_parse_private(
            setup.private_allow, &runner->settings.allow, &err) != 0) {
        fail(runner, err.msg);
        return;
    }
    runner->settings.connect_timeout_ms = setup.connect_timeout_ms;
    runner->settings.ca_file =
        setup.ca_file.len > 0 ? span_dup(setup.ca_file) : NULL;
    runner->max_calls = setup.max_calls;
    runner->client = http_client_new(
        &runner->settings, setup.max_calls, runner->epoll, on_done, runner);
    if (frame_put_ready(&runner->out) != 0) {
        fail(runner, "no room for the ready frame");
    }
}

static void on_job(struct runner *runner, struct span content)
{
    struct frame_job job;
    if (runner->client == NULL || frame_get_job(content, &job) != 0) {
        fail(runner, "a malformed job frame");
        return;
    }
    if (http_client_active(runner->client) >= runner->max_calls) {
        fail(runner, "more jobs than agreed");
        return;
    }
    http_client_start(runner->client, &job);
}

/* There and back, and nothing else: the price of the channel itself. */
static void on_echo(struct runner *runner, struct span content)
{
    struct frame_echo echo;
    if (frame_get_echo(content, &echo) != 0) {
        fail(runner, "a malformed echo frame");
        return;
    }
    const struct run_result result = {
        .id = echo.id,
        .end = CALL_ANSWERED,
        .http_status = 200,
        .body = echo.body,
        .body_bytes = (int64_t)echo.body.len,
    };
    on_done(runner, echo.index, &result);
}

static void take_frames(struct runner *runner)
{
    size_t at = 0;
    while (!runner->is_over) {
        const struct span rest = {
            .ptr = runner->in.data + at, .len = runner->in.len - at};
        struct frame frame;
        size_t used = 0;
        const int found = frame_next(rest, &frame, &used);
        if (found < 0) {
            fail(runner, "what came is not a frame");
        }
        if (found <= 0) {
            break;
        }
        if (frame.type == FRAME_SETUP) {
            on_setup(runner, frame.content);
        } else if (frame.type == FRAME_JOB) {
            on_job(runner, frame.content);
        } else if (frame.type == FRAME_ECHO) {
            on_echo(runner, frame.content);
        } else {
            fail(runner, "a frame of the wrong type");
        }
        at += used;
    }
    buf_drop_front(&runner->in, at);
}

static void read_frames(struct runner *runner)
{
    char *room = buf_reserve(&runner->in, READ_BYTES);
    if (room == NULL) {
        fail(runner, "a frame is too long");
        return;
    }
    const ssize_t got = recv(runner->socket, room, READ_BYTES, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0) {
        runner->is_over = true; /* the worker wants no more */
        return;
    }
    runner->in.len += (size_t)got;
    take_frames(runner);
}

/* -- the loop --------------------------------------------------------------------- */

static int open_runner(struct runner *runner)
{
    buf_init(&runner->in, FRAME_MAX + READ_BYTES);
    buf_init(&runner->out, OUT_MAX);
    runner->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = runner->socket};
    if (runner->epoll < 0 || fcntl(runner->socket, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(runner->epoll, EPOLL_CTL_ADD, runner->socket, &event) != 0) {
        return -1;
    }
    return 0;
}

static void run_once(struct runner *runner)
{
    const int wait_ms =
        runner->client == NULL ? -1 : http_client_wait_ms(runner->client);
    struct epoll_event events[EVENTS];
    const int count = epoll_wait(runner->epoll, events, EVENTS, wait_ms);
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd != runner->socket) {
            http_client_on_event(
                runner->client, events[i].data.fd, events[i].events);
        } else if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
            read_frames(runner);
        }
    }
    if (runner->client != NULL) {
        http_client_run(runner->client);
    }
    flush(runner);
}

static int serve(int socket, int memory)
{
    struct runner runner = {.socket = socket, .memory = memory, .epoll = -1};
    if (open_runner(&runner) != 0) {
        return EXIT_FAILURE;
    }
    while (!runner.is_over) {
        run_once(&runner);
    }
    http_client_free(runner.client);
    free(runner.settings.ca_file);
    buf_fini(&runner.in);
    buf_fini(&runner.out);
    (void)close(runner.epoll);
    return runner.exit_code;
}

int runner_main(void)
{
    log_init("actionist-runner");
    /* exec made it dumpable again; nobody of its uid shall look inside. */
    if (prctl(PR_SET_DUMPABLE, 0) != 0 ||
        fcntl(RUNNER_FD_SOCKET, F_GETFD) < 0 ||
        fcntl(RUNNER_FD_MEMORY, F_GETFD) < 0) {
        LOG(ERROR, "runner_start", NULL,
            "actionist-runner is started by actionist-worker alone");
        return EXIT_FAILURE;
    }
    struct err err = ERR_INIT;
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL ||
        curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        LOG(ERROR, "runner_start", NULL, "libcurl cannot be set up");
        return EXIT_FAILURE;
    }
    if (filter_load(&err) != 0) {
        const struct log_fields fields = {.err = &err};
        LOG(ERROR, "runner_start", &fields, "the runner cannot be confined");
        return EXIT_FAILURE;
    }
    return serve(RUNNER_FD_SOCKET, RUNNER_FD_MEMORY);
}
