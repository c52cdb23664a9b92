/* SPDX-License-Identifier: Apache-2.0 */
#include "conn.h"

#include "clock.h"
#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_IN_BYTES (HTTP_MAX_HEAD_BYTES + 2 * HTTP_MAX_BODY_BYTES)
#define KEEP_IN_BYTES ((size_t)16 * 1024)
#define DRAIN_US ((int64_t)1000 * 1000)

static bool watch(
    struct conn_shared *shared, struct conn *conn, uint32_t events)
{
    if (conn->events == events) {
        return true;
    }
    struct epoll_event event = {.events = events, .data.ptr = conn};
    const int op = conn->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    conn->events = events;
    return epoll_ctl(shared->epoll_fd, op, conn->fd, &event) == 0;
}

void conn_free(struct conn_shared *shared, struct conn *conn)
{
    timers_stop(shared->timers, &conn->timer);
    if (conn->prev != NULL) {
        conn->prev->next = conn->next;
    } else {
        shared->all = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    (void)close(conn->fd); /* nothing to do about it */
    buf_fini(&conn->in);
    answer_fini(&conn->answer);
    free(conn);
    shared->provider->stats.connections_open--;
}

static bool drop(struct conn_shared *shared, struct conn *conn)
{
    conn_free(shared, conn);
    return false;
}

static bool reset(struct conn_shared *shared, struct conn *conn)
{
    /* With a linger time of zero, close sends RST instead of FIN. */
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    return drop(shared, conn);
}

bool conn_open(struct conn_shared *shared, int fd)
{
    struct conn *conn = mem_resize(NULL, sizeof *conn);
    *conn = (struct conn){.fd = fd, .state = CONN_READING};
    buf_init(&conn->in, MAX_IN_BYTES);
    answer_init(&conn->answer);
    conn->next = shared->all;
    if (shared->all != NULL) {
        shared->all->prev = conn;
    }
    shared->all = conn;
    shared->provider->stats.connections++;
    shared->provider->stats.connections_open++;
    return watch(shared, conn, EPOLLIN) || drop(shared, conn);
}

/* Closing with unread bytes would send RST, so the client goes first. */
static bool start_drain(struct conn_shared *shared, struct conn *conn)
{
    (void)shutdown(conn->fd, SHUT_WR); /* fails when the client has left */
    conn->state = CONN_DRAINING;
    timers_set(shared->timers, &conn->timer, clock_mono_us() + DRAIN_US);
    return watch(shared, conn, EPOLLIN) || drop(shared, conn);
}

static void note_answered(struct conn_shared *shared, struct conn *conn)
{
    if (conn->answer.seq != 0) {
        reqlog_answered(&shared->provider->log, &conn->answer, clock_wall_us());
        shared->provider->stats.answered++;
    }
}

/* All is sent: what comes after it? */
static bool finish(struct conn_shared *shared, struct conn *conn)
{
    const enum answer_end end = conn->answer.end;
    if (end == ANSWER_KEEP || end == ANSWER_CLOSE) {
        note_answered(shared, conn);
    }
    answer_clear(&conn->answer);
    switch (end) {
    case ANSWER_KEEP:
        conn->state = CONN_READING;
        return watch(shared, conn, EPOLLIN) || drop(shared, conn);
    case ANSWER_CLOSE:
        return start_drain(shared, conn);
    case ANSWER_HANG:
        conn->state = CONN_HANGING;
        return watch(shared, conn, EPOLLRDHUP) || drop(shared, conn);
    case ANSWER_RESET:
        break;
    }
    return reset(shared, conn);
}

/* The next bytes to send, at most `limit` of them. */
static struct http_span next_bytes(
    const struct conn_shared *shared, const struct conn *conn, int64_t limit)
{
    const struct answer *answer = &conn->answer;
    struct http_span bytes = {shared->fill, sizeof shared->fill};
    if (conn->sent < answer->bytes.len) {
        bytes.data = answer->bytes.data + conn->sent;
        bytes.len = answer->bytes.len - conn->sent;
    } else if ((int64_t)bytes.len > answer->fill_bytes) {
        bytes.len = (size_t)answer->fill_bytes;
    }
    if ((int64_t)bytes.len > limit) {
        bytes.len = (size_t)limit;
    }
    return bytes;
}

/* Sends up to `limit` bytes; -1 gone, 0 blocked, 1 all of them or the end. */
static int send_some(
    const struct conn_shared *shared, struct conn *conn, int64_t limit)
{
    while (limit > 0) {
        const struct http_span bytes = next_bytes(shared, conn, limit);
        if (bytes.len == 0) {
            return 1;
        }
        const ssize_t sent =
            send(conn->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        }
        if (conn->sent < conn->answer.bytes.len) {
            conn->sent += (size_t)sent;
        } else {
            conn->answer.fill_bytes -= sent;
        }
        limit -= sent;
    }
    return 1;
}

static bool is_all_sent(const struct conn *conn)
{
    return conn->sent >= conn->answer.bytes.len && conn->answer.fill_bytes == 0;
}

static bool go_on_sending(struct conn_shared *shared, struct conn *conn)
{
    const struct answer *answer = &conn->answer;
    const bool is_dripping = answer->drip_bytes > 0;
    int64_t limit = INT64_MAX;
    conn->state = CONN_SENDING;
    if (is_dripping) {
        limit = conn->sent < answer->head_bytes
                    ? (int64_t)(answer->head_bytes - conn->sent)
                    : answer->drip_bytes;
    }
    const int result = send_some(shared, conn, limit);
    if (result < 0) {
        shared->provider->stats.clients_gone++;
        return drop(shared, conn);
    }
    if (is_all_sent(conn)) {
        return finish(shared, conn);
    }
    if (result > 0 && is_dripping) {
        timers_set(shared->timers, &conn->timer,
            clock_mono_us() + answer->drip_every_us);
        return watch(shared, conn, EPOLLRDHUP) || drop(shared, conn);
    }
    return watch(shared, conn, EPOLLOUT) || drop(shared, conn);
}

static bool start_answer(struct conn_shared *shared, struct conn *conn)
{
    conn->sent = 0;
    if (conn->answer.delay_us == 0) {
        return go_on_sending(shared, conn);
    }
    conn->state = CONN_WAITING;
    timers_set(
        shared->timers, &conn->timer, clock_mono_us() + conn->answer.delay_us);
    return watch(shared, conn, EPOLLRDHUP) || drop(shared, conn);
}

static bool on_head(struct conn_shared *shared, struct conn *conn,
    const struct http_request *request)
{
    if (conn->is_head_seen) {
        return true;
    }
    conn->is_head_seen = true;
    if (!control_owns(request) &&
        provider_resets_early(shared->provider, request, clock_wall_us())) {
        return reset(shared, conn);
    }
    if (request->is_continue_expected) {
        /* Lost when the socket is full; then the client sends unasked. */
        static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
        (void)send(conn->fd, go, sizeof go - 1, MSG_NOSIGNAL);
    }
    return true;
}

static bool on_request(struct conn_shared *shared, struct conn *conn,
    const struct http_request *request)
{
    conn->in_pos += request->whole_bytes;
    conn->is_head_seen = false;
    if (control_owns(request)) {
        control_answer(shared->provider, request, &conn->answer);
    } else {
        provider_answer(
            shared->provider, request, clock_wall_us(), &conn->answer);
    }
    return start_answer(shared, conn);
}

static bool on_bad_request(struct conn_shared *shared, struct conn *conn,
    const struct http_request *request)
{
    provider_refuse(shared->provider, request, clock_wall_us(), &conn->answer);
    conn->in_pos = conn->in.len;
    return start_answer(shared, conn);
}

/* Handles the requests that are there, until one has to wait. */
static bool process(struct conn_shared *shared, struct conn *conn)
{
    struct http_request request;
    bool is_open = true;
    while (
        is_open && conn->state == CONN_READING && conn->in_pos < conn->in.len) {
        const enum http_progress progress =
            http_parse(conn->in.data + conn->in_pos,
                conn->in.len - conn->in_pos, &request, &shared->chunks);
        if (progress == HTTP_NEED_HEAD) {
            break;
        }
        if (progress == HTTP_NEED_BODY) {
            is_open = on_head(shared, conn, &request);
            break;
        }
        is_open = progress == HTTP_WHOLE
                      ? on_request(shared, conn, &request)
                      : on_bad_request(shared, conn, &request);
    }
    if (is_open) {
        buf_consume(&conn->in, conn->in_pos);
        conn->in_pos = 0;
        if (conn->in.len == 0) {
            buf_clear(&conn->in, KEEP_IN_BYTES);
        }
    }
    return is_open;
}

/* The client left: a request cut off in its body is worth a note. */
static bool on_end(struct conn_shared *shared, struct conn *conn)
{
    struct http_request request;
    if (conn->state == CONN_READING && conn->in.len > 0 &&
        http_parse(conn->in.data, conn->in.len, &request, &shared->chunks) ==
            HTTP_NEED_BODY &&
        !control_owns(&request)) {
        provider_abandon(shared->provider, &request, clock_wall_us());
    }
    return drop(shared, conn);
}

static bool on_readable(struct conn_shared *shared, struct conn *conn)
{
    const ssize_t got =
        recv(conn->fd, shared->scratch, sizeof shared->scratch, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (got <= 0) {
        return on_end(shared, conn);
    }
    if (conn->state == CONN_DRAINING) {
        return true;
    }
    buf_append(&conn->in, shared->scratch, (size_t)got);
    if (conn->in.is_over) {
        /* Only a body in absurdly small chunks gets here. */
        shared->provider->stats.bad_requests++;
        return reset(shared, conn);
    }
    return process(shared, conn);
}

bool conn_on_event(
    struct conn_shared *shared, struct conn *conn, uint32_t events)
{
    if (conn->state == CONN_READING || conn->state == CONN_DRAINING) {
        return on_readable(shared, conn);
    }
    if ((events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0) {
        shared->provider->stats.clients_gone++;
        return drop(shared, conn);
    }
    return go_on_sending(shared, conn) && process(shared, conn);
}

bool conn_on_timer(struct conn_shared *shared, struct conn *conn)
{
    if (conn->state == CONN_DRAINING) {
        return drop(shared, conn);
    }
    return go_on_sending(shared, conn) && process(shared, conn);
}
