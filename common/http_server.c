/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd in external epoll mode: its epoll fd is one descriptor of our
 * loop, everything runs on the loop's thread. Its own time-out starts again
 * with each byte, so the deadlines that are totals are kept here.
 */
#include "common/http_server.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http_private.h"
#include "common/log.h"
#include "common/time.h"

enum {
    TICK_MS = 1000,
    CONNECTION_MEMORY = 65536, /* headers of 32 KiB and their table */
    FILE_MAX_BYTES = 65536,
    MAX_RUN_AGAIN_MS = 1000
};

static void on_daemon_log(void *owner, const char *format, va_list args)
    PRINTF_LIKE(2, 0);

static void on_daemon_log(void *owner, const char *format, va_list args)
{
    char text[200];
    (void)owner;
    (void)vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\r\n")] = '\0';
    LOG(DEBUG, "http_daemon", NULL, "%s", text);
}

/* -- running --------------------------------------------------------------- */

static void plan_run(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    if (MHD_get_timeout(server->daemon, &wait_ms) != MHD_YES) {
        loop_timer_stop(server->run);
        return;
    }
    if (wait_ms > MAX_RUN_AGAIN_MS) {
        wait_ms = MAX_RUN_AGAIN_MS;
    }
    loop_timer_start(server->run, (int64_t)wait_ms, 0);
}

static void run_daemon(void *owner)
{
    struct http_server *server = owner;
    (void)MHD_run(server->daemon);
    plan_run(server);
}

static void on_ready(void *owner, int events)
{
    (void)events;
    run_daemon(owner);
}

void http_server_resume(
    struct http_server *server, struct MHD_Connection *connection)
{
    MHD_resume_connection(connection);
    /* Without threads of its own the daemon does not wake itself. */
    loop_timer_start(server->run, 0, 0);
}

/* -- connections ----------------------------------------------------------- */

static void add_conn(struct http_server *server,
    struct MHD_Connection *connection, void **context)
{
    struct http_conn *conn = mem_zalloc(1, sizeof(*conn));
    conn->linger_fd = -1;
    conn->fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
            ->connect_fd;
    conn->deadline_us =
        now_mono_us() + server->options.idle_timeout_s * US_PER_S;
    conn->next = server->conns;
    if (server->conns != NULL) {
        server->conns->prev = conn;
    }
    server->conns = conn;
    *context = conn;
}

static void remove_conn(struct http_server *server, struct http_conn *conn)
{
    if (conn->prev == NULL) {
        server->conns = conn->next;
    } else {
        conn->prev->next = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    if (conn->linger_fd >= 0) {
        http_linger_start(server, conn->linger_fd);
    }
    free(conn);
}

static void on_connection(void *owner, struct MHD_Connection *connection,
    void **context, enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        add_conn(owner, connection, context);
    } else if (*context != NULL) {
        remove_conn(owner, *context);
        *context = NULL;
    }
}

#define TIMEOUT_BODY                                                           \
    "{\"type\":\"about:blank\",\"title\":\"Request Timeout\",\"status\":408,"  \
    "\"detail\":\"the body took longer than this server waits\","              \
    "\"code\":\"TIMEOUT\"}"

/* libmicrohttpd takes no answer in the middle of a body: on a plain socket we
 * write it ourselves; under TLS the connection just ends. */
static void expire(struct http_server *server, struct http_conn *conn)
{
    const struct http_request *request = conn->request;
    if (server->options.cert_path == NULL && request != NULL &&
        request->has_started && request->path == NULL) {
        char answer[512];
        const int len = snprintf(answer, sizeof(answer),
            "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
            "Content-Type: application/problem+json\r\n"
            "Content-Length: %zu\r\n\r\n%s",
            strlen(TIMEOUT_BODY), TIMEOUT_BODY);
        (void)send(conn->fd, answer, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    conn->deadline_us = HTTP_NEVER;
    (void)shutdown(conn->fd, SHUT_RDWR);
}

static void on_tick(void *owner)
{
    struct http_server *server = owner;
    const int64_t now_us = now_mono_us();
    for (struct http_conn *conn = server->conns; conn != NULL;
         conn = conn->next) {
        if (conn->deadline_us <= now_us) {
            expire(server, conn);
        }
    }
    http_linger_expire(server, now_us);
}

/* -- opening --------------------------------------------------------------- */

static char *read_file(const char *path, struct err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        (void)err_set_errno(err, ERR_FATAL, "HTTP_TLS", "cannot open %s", path);
        return NULL;
    }
    char *text = mem_zalloc(1, FILE_MAX_BYTES + 1);
    const ssize_t got = read(fd, text, FILE_MAX_BYTES);
    (void)close(fd);
    if (got <= 0 || got == FILE_MAX_BYTES) {
        (void)err_set(err, ERR_FATAL, "HTTP_TLS",
            "%s is empty, larger than 64 KiB or cannot be read", path);
        free(text);
        return NULL;
    }
    return text;
}

/* cert and key: PEM text, or both NULL. They are only read during the call. */
static struct MHD_Daemon *start_daemon(
    struct http_server *server, char *cert, char *key)
{
    const struct http_options *options = &server->options;
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
                           MHD_USE_ERROR_LOG |
                           (cert == NULL ? 0U : MHD_USE_TLS);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, key},
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(flags, 0, NULL, NULL, http_on_request, server,
        MHD_OPTION_EXTERNAL_LOGGER, on_daemon_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, server->listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, options->max_connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        options->max_connections_per_address, MHD_OPTION_CONNECTION_TIMEOUT,
        options->idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_URI_LOG_CALLBACK,
        http_on_uri, server, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed,
        server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
        MHD_OPTION_ARRAY, cert == NULL ? &tls[2] : &tls[0], MHD_OPTION_END);
}

static int start(struct http_server *server, struct err *err)
{
    const struct http_options *options = &server->options;
    char *cert = NULL;
    char *key = NULL;
    if (options->cert_path != NULL) {
        cert = read_file(options->cert_path, err);
        if (cert == NULL ||
            conf_read_secret(options->key_path, &key, err) != 0) {
            free(cert);
            return -1;
        }
    }
    server->daemon = start_daemon(server, cert, key);
    if (server->daemon == NULL) {
        (void)err_set(err, ERR_FATAL, "HTTP_START",
            "the HTTP server on %s cannot start%s", server->address,
            cert == NULL ? "" : ": is this the key of this certificate?");
    }
    free(cert);
    if (key != NULL) {
        explicit_bzero(key, strlen(key));
        free(key);
    }
    return server->daemon == NULL ? -1 : 0;
}

struct http_server *http_server_open(struct loop *loop,
    const struct http_options *options, http_handler_fn handler, void *owner,
    struct err *err)
{
    if ((options->cert_path == NULL) != (options->key_path == NULL)) {
        (void)err_set(err, ERR_FATAL, "HTTP_TLS",
            "a certificate needs its key, and a key its certificate");
        return NULL;
    }
    struct http_server *server = mem_zalloc(1, sizeof(*server));
    server->loop = loop;
    server->options = *options;
    server->handler = handler;
    server->owner = owner;
    server->listen_fd = http_listen(options, server->address, err);
    if (server->listen_fd < 0) {
        free(server);
        return NULL;
    }
    if (start(server, err) != 0) {
        (void)close(server->listen_fd);
        free(server);
        return NULL;
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    server->watch = loop_fd_new(loop, info->epoll_fd, on_ready, server);
    loop_fd_want(server->watch, UV_READABLE);
    server->run = loop_timer_new(loop, run_daemon, server);
    server->tick = loop_timer_new(loop, on_tick, server);
    loop_timer_start(server->tick, TICK_MS, TICK_MS);
    return server;
}

/* -- ending ---------------------------------------------------------------- */

void http_server_drain(struct http_server *server)
{
    if (server->is_draining) {
        return;
    }
    server->is_draining = true;
    (void)MHD_quiesce_daemon(server->daemon);
    (void)close(server->listen_fd);
    server->listen_fd = -1;
    for (struct http_conn *conn = server->conns; conn != NULL;
         conn = conn->next) {
        if (conn->request == NULL) {
            (void)shutdown(conn->fd, SHUT_RDWR);
        }
    }
}

void http_server_close(struct http_server *server)
{
    if (server == NULL) {
        return;
    }
    http_server_drain(server);
    for (struct http_conn *conn = server->conns; conn != NULL;
         conn = conn->next) {
        if (conn->request != NULL) {
            http_request_orphan(conn->request);
        }
    }
    loop_fd_free(server->watch);
    loop_timer_free(server->run);
    loop_timer_free(server->tick);
    /* Takes in what was resumed; it may not be suspended when it stops. */
    (void)MHD_run(server->daemon);
    MHD_stop_daemon(server->daemon);
    http_linger_expire(server, HTTP_NEVER);
    free(server);
}

const char *http_server_address(const struct http_server *server)
{
    return server->address;
}

size_t http_server_open_requests(const struct http_server *server)
{
    return server->open_requests;
}
