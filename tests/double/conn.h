/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client connection: reads requests, sends answers one after another as
 * the answer says (late, dripping, cut, reset, never). Non-blocking; a
 * function that returns false has closed and freed the connection.
 */
#ifndef DOUBLE_CONN_H
#define DOUBLE_CONN_H

#include "answer.h"
#include "provider.h"
#include "timers.h"

#include <stdbool.h>
#include <stdint.h>

/* What all connections share; borrowed from the server. */
struct conn_shared {
    struct provider *provider;
    struct timers *timers;
    struct conn *all;  /* list of the open ones */
    struct buf chunks; /* decoded body of the request being handled */
    int epoll_fd;
    char scratch[(size_t)128 * 1024]; /* what recv has just read */
    char fill[(size_t)16 * 1024];     /* `x`, for bodies of body_bytes */
};

enum conn_state {
    CONN_READING,
    CONN_WAITING, /* until the answer's delay is over */
    CONN_SENDING,
    CONN_HANGING, /* an answer that never comes */
    CONN_DRAINING /* sent all and said so; reads until the client leaves */
};

struct conn {
    struct timer timer; /* first, so that a timer leads to its connection */
    struct conn *next;
    struct conn *prev;
    int fd;
    enum conn_state state;
    uint32_t events; /* what epoll watches */
    struct buf in;
    size_t in_pos;     /* where in `in` the next request starts */
    bool is_head_seen; /* its head was looked at while the body is missing */
    struct answer answer;
    size_t sent; /* of answer.bytes */
};

/* Takes `fd` over. False when the connection could not be watched. */
bool conn_open(struct conn_shared *shared, int fd);
bool conn_on_event(
    struct conn_shared *shared, struct conn *conn, uint32_t events);
bool conn_on_timer(struct conn_shared *shared, struct conn *conn);
void conn_free(struct conn_shared *shared, struct conn *conn);

#endif
