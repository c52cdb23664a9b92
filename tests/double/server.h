/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listener and the epoll loop: accepts, hands events and timers to the
 * connections, ends on SIGTERM or SIGINT. One thread; blocks only in
 * epoll_wait.
 */
#ifndef DOUBLE_SERVER_H
#define DOUBLE_SERVER_H

#include "problem.h"
#include "provider.h"

#include <stdint.h>

/*
 * Listens on 127.0.0.1:`port` (0 = a free one), prints the line
 * `listening 127.0.0.1:PORT` on standard output and serves until a signal
 * says stop (0), or -1 and `problem`.
 */
int server_run(
    struct provider *provider, uint16_t port, struct problem *problem);

#endif
