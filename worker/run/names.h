/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names: host names to addresses, without blocking the runner's loop.
 *
 * A few threads call getaddrinfo(); questions for the same name are asked
 * once. Answers are kept for 30 s. The answer is the whole list, so that the
 * caller can refuse a name for one bad address (policy P10).
 *
 * Thread rule: all functions belong to the loop's thread. The threads share
 * only the queue, under its lock, and signal through a descriptor.
 */
#ifndef NAMES_H
#define NAMES_H

#include "worker/run/egress.h"

#define NAMES_MAX_ADDRESSES 32

struct names_answer {
    int error; /* of getaddrinfo(), 0 if none */
    size_t count;
    struct egress_address addresses[NAMES_MAX_ADDRESSES];
};

/* answer is borrowed until the callback returns. */
typedef void (*names_fn)(void *owner, const struct names_answer *answer);

struct names;

/* Starts the threads. Aborts when they cannot be made. */
struct names *names_new(void);

/* Becomes readable when answers are there. */
int names_fd(const struct names *names);

/* Hands out the answers that are there; runs the callbacks. */
void names_run(struct names *names);

/* A kept answer, borrowed until the next call; NULL if there is none. */
const struct names_answer *names_find(struct names *names, const char *host);

/* Asks for host (copied); done runs from names_run(), once. */
void names_start(
    struct names *names, const char *host, names_fn done, void *owner);

/* Forgets the questions of owner; its callback will not run. */
void names_cancel(struct names *names, const void *owner);

#endif
