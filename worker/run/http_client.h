/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_client: many HTTP calls at once. libcurl's multi interface over the
 * caller's epoll, the resolver, and a pool of handles whose connections are
 * kept and used again.
 *
 * Single-threaded; nothing blocks. The caller waits on the epoll descriptor
 * no longer than http_client_wait_ms(), hands over what became ready, and
 * calls http_client_run() once a round.
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "worker/run/http_call.h"

struct http_client;

/* result is borrowed until the callback returns. Runs once for each started
 * job, from http_client_start() or later. */
typedef void (*http_done_fn)(
    void *owner, uint32_t index, const struct run_result *result);

/* settings is borrowed for the client's life. Descriptors are added to epoll
 * with their number as data. Aborts when libcurl cannot be set up. */
struct http_client *http_client_new(const struct http_settings *settings,
    uint32_t max_calls, int epoll, http_done_fn done, void *owner);

/* Ends the calls without a result. NULL ok */
void http_client_free(struct http_client *client);

/* Copies the job. */
void http_client_start(struct http_client *client, const struct frame_job *job);

size_t http_client_active(const struct http_client *client);

/* How long may be waited: milliseconds, -1 for ever. */
int http_client_wait_ms(const struct http_client *client);

/* fd became ready; events as of epoll. */
void http_client_on_event(struct http_client *client, int fd, uint32_t events);

/* Timers, and the ends of calls. */
void http_client_run(struct http_client *client);

#endif
