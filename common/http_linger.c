/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lingering close. A client that is refused before we read its body may still
 * be sending. Closing the socket then would answer its bytes with a reset,
 * which can overtake our answer; so a copy of the descriptor stays open,
 * half closed, and reads away what comes (RFC 9112 section 9.6).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http_private.h"
#include "common/time.h"

enum {
    LINGER_S = 5,
    MAX_LINGERS = 256,
    READ_SIZE = 65536,
    READS_A_TURN = 8,
    MAX_BYTES = 16 * 1024 * 1024
};

struct http_linger {
    struct http_linger *prev;
    struct http_linger *next;
    struct http_server *server;
    struct loop_fd *watch;
    int fd;
    size_t bytes;
    int64_t until_us;
};

static void end(struct http_linger *linger)
{
    struct http_server *server = linger->server;
    if (linger->prev == NULL) {
        server->lingers = linger->next;
    } else {
        linger->prev->next = linger->next;
    }
    if (linger->next != NULL) {
        linger->next->prev = linger->prev;
    }
    server->linger_count--;
    loop_fd_free(linger->watch);
    (void)close(linger->fd);
    free(linger);
}

static void on_bytes(void *owner, int events)
{
    struct http_linger *linger = owner;
    char bytes[READ_SIZE];
    (void)events;
    for (int i = 0; i < READS_A_TURN; i++) {
        const ssize_t got =
            recv(linger->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (got <= 0) {
            end(linger);
            return;
        }
        linger->bytes += (size_t)got;
        if (linger->bytes > MAX_BYTES) {
            end(linger);
            return;
        }
    }
}

void http_linger_start(struct http_server *server, int fd)
{
    (void)shutdown(fd, SHUT_WR);
    if (server->linger_count >= MAX_LINGERS) {
        (void)close(fd);
        return;
    }
    struct http_linger *linger = mem_zalloc(1, sizeof(*linger));
    linger->server = server;
    linger->fd = fd;
    linger->until_us = now_mono_us() + LINGER_S * US_PER_S;
    linger->next = server->lingers;
    if (server->lingers != NULL) {
        server->lingers->prev = linger;
    }
    server->lingers = linger;
    server->linger_count++;
    linger->watch = loop_fd_new(server->loop, fd, on_bytes, linger);
    loop_fd_want(linger->watch, UV_READABLE);
}

void http_linger_expire(struct http_server *server, int64_t now_us)
{
    struct http_linger *linger = server->lingers;
    while (linger != NULL) {
        struct http_linger *next = linger->next;
        if (linger->until_us <= now_us) {
            end(linger);
        }
        linger = next;
    }
}
