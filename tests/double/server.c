/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "clock.h"
#include "conn.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_CONNECTIONS 20000
#define SPARE_FDS 32
#define BATCH 256

struct server {
    struct conn_shared shared;
    struct timers timers;
    int listen_fd;
    int signal_fd;
    uint64_t max_connections;
};

static uint64_t raise_fd_limit(void)
{
    struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t want = MAX_CONNECTIONS + SPARE_FDS;
    limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* soft only: always allowed */
    return limit.rlim_cur > SPARE_FDS ? limit.rlim_cur - SPARE_FDS : 1;
}

static int open_listener(
    struct server *server, uint16_t port, struct problem *problem)
{
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    server->listen_fd =
        socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->listen_fd < 0 ||
        setsockopt(
            server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(server->listen_fd, (const struct sockaddr *)&address, size) != 0 ||
        listen(server->listen_fd, SOMAXCONN) != 0 ||
        getsockname(server->listen_fd, (struct sockaddr *)&address, &size) !=
            0) {
        return problem_set(problem, "cannot listen on 127.0.0.1:%u: %s", port,
            strerror(errno));
    }
    (void)printf("listening 127.0.0.1:%u\n", ntohs(address.sin_port));
    if (fflush(stdout) != 0) {
        return problem_set(
            problem, "cannot write to standard output: %s", strerror(errno));
    }
    return 0;
}

/* Blocks the stop signals and turns them into a readable fd. */
static int open_signals(void)
{
    sigset_t stop;
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTERM);
    (void)sigaddset(&stop, SIGINT);
    return sigprocmask(SIG_BLOCK, &stop, NULL) == 0
               ? signalfd(-1, &stop, SFD_NONBLOCK | SFD_CLOEXEC)
               : -1;
}

static int watch_fd(const struct server *server, int fd, void *mark)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = mark};
    return epoll_ctl(server->shared.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int server_open(
    struct server *server, uint16_t port, struct problem *problem)
{
    server->signal_fd = open_signals();
    server->shared.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (server->signal_fd < 0 || server->shared.epoll_fd < 0) {
        return problem_set(
            problem, "cannot make the event loop: %s", strerror(errno));
    }
    if (open_listener(server, port, problem) != 0) {
        return -1;
    }
    if (watch_fd(server, server->listen_fd, &server->listen_fd) != 0 ||
        watch_fd(server, server->signal_fd, &server->signal_fd) != 0) {
        return problem_set(
            problem, "cannot watch the listener: %s", strerror(errno));
    }
    return 0;
}

static void accept_all(struct server *server)
{
    const struct provider_stats *stats = &server->shared.provider->stats;
    const int on = 1;
    for (int i = 0; i < BATCH; i++) {
        const int fd = accept4(
            server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        if (stats->connections_open >= server->max_connections) {
            server->shared.provider->stats.connections_refused++;
            (void)close(fd);
            continue;
        }
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)conn_open(&server->shared, fd); /* a failed one is closed */
    }
}

static int wait_ms(const struct server *server)
{
    const struct timer *first = timers_first(&server->timers);
    if (first == NULL) {
        return -1;
    }
    const int64_t left_us = first->due_us - clock_mono_us();
    if (left_us <= 0) {
        return 0;
    }
    const int64_t left_ms = (left_us + 999) / 1000;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static void run_timers(struct server *server)
{
    const int64_t now_us = clock_mono_us();
    struct timer *timer = timers_first(&server->timers);
    while (timer != NULL && timer->due_us <= now_us) {
        timers_stop(&server->timers, timer);
        /* A timer is the first member of its connection. */
        (void)conn_on_timer(&server->shared, (struct conn *)timer);
        timer = timers_first(&server->timers);
    }
}

static int loop(struct server *server, struct problem *problem)
{
    struct epoll_event events[BATCH];
    for (;;) {
        const int count =
            epoll_wait(server->shared.epoll_fd, events, BATCH, wait_ms(server));
        if (count < 0 && errno != EINTR) {
            return problem_set(problem, "epoll_wait: %s", strerror(errno));
        }
        for (int i = 0; i < count; i++) {
            void *mark = events[i].data.ptr;
            if (mark == &server->signal_fd) {
                return 0;
            }
            if (mark == &server->listen_fd) {
                accept_all(server);
                continue;
            }
            (void)conn_on_event(&server->shared, mark, events[i].events);
        }
        run_timers(server);
        reqlog_flush(&server->shared.provider->log);
    }
}

static void server_close(struct server *server)
{
    while (server->shared.all != NULL) {
        conn_free(&server->shared, server->shared.all);
    }
    const int fds[] = {
        server->listen_fd, server->signal_fd, server->shared.epoll_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    timers_fini(&server->timers);
    buf_fini(&server->shared.chunks);
}

int server_run(
    struct provider *provider, uint16_t port, struct problem *problem)
{
    struct server *server = mem_resize(NULL, sizeof *server);
    memset(server, 0, sizeof *server);
    memset(server->shared.fill, 'x', sizeof server->shared.fill);
    server->listen_fd = -1;
    server->max_connections = raise_fd_limit();
    server->shared.provider = provider;
    server->shared.timers = &server->timers;
    buf_init(&server->shared.chunks, HTTP_MAX_BODY_BYTES);
    int result = server_open(server, port, problem);
    if (result == 0) {
        result = loop(server, problem);
    }
    server_close(server);
    free(server);
    return result;
}
