/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/http_client.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "common/time.h"
#include "worker/run/http_result.h"

/* How often calls that wait for a name are looked at for their time-out. */
enum { NAME_CHECK_MS = 100 };

struct http_client {
    CURLM *multi;
    int epoll;
    struct names *names;
    const struct http_settings *settings;
    http_done_fn done;
    void *owner;
    struct http_call *idle;    /* the pool */
    struct http_call *waiting; /* for a name */
    struct http_call *running; /* given to libcurl; not ordered */
    size_t active;
    int64_t due_us; /* libcurl's timer, -1: none */
};

/* -- libcurl's wishes ------------------------------------------------------------- */

static int on_socket(
    CURL *easy, curl_socket_t fd, int what, void *arg, void *is_known)
{
    struct http_client *client = arg;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        /* The descriptor may be closed already, and thereby removed. */
        (void)epoll_ctl(client->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    struct epoll_event event = {.data.fd = fd};
    event.events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0U) |
                   (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0U);
    const int first = is_known != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    const int other = is_known != NULL ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(client->epoll, first, fd, &event) != 0 &&
        epoll_ctl(client->epoll, other, fd, &event) != 0) {
        return -1;
    }
    (void)curl_multi_assign(client->multi, fd, client);
    return 0;
}

static int on_timer(CURLM *multi, long wait_ms, void *arg)
{
    struct http_client *client = arg;
    (void)multi;
    client->due_us =
        wait_ms < 0 ? -1 : now_mono_us() + (int64_t)wait_ms * US_PER_MS;
    return 0;
}

/* -- lists ------------------------------------------------------------------------ */

static void push(struct http_call **list, struct http_call *call)
{
    call->next = *list;
    *list = call;
}

static void take_out(struct http_call **list, const struct http_call *call)
{
    while (*list != call) {
        list = &(*list)->next;
    }
    *list = call->next;
}

static struct http_call *take_idle(struct http_client *client)
{
    struct http_call *call = client->idle;
    if (call != NULL) {
        client->idle = call->next;
        return call;
    }
    call = http_call_new(client->settings, client);
    if (call == NULL) {
        abort(); /* out of memory */
    }
    return call;
}

/* -- ends ------------------------------------------------------------------------- */

/* Reports; the call goes back to the pool. It is on no list. */
static void finish(struct http_client *client, struct http_call *call,
    const struct run_result *result)
{
    client->active--;
    client->done(client->owner, call->index, result);
    http_call_clear(call);
    push(&client->idle, call);
}

static void finish_unsent(struct http_client *client, struct http_call *call,
    enum call_end end, const struct err *err)
{
    enum code code = CODE_NONE;
    if (!code_parse(span_of(err->code), &code)) {
        abort(); /* our codes are names of the list */
    }
    struct run_result result;
    http_result_unsent(call, end, code, err->msg, &result);
    finish(client, call, &result);
}

/* Gives a call with checked addresses to libcurl. */
static void launch(struct http_client *client, struct http_call *call)
{
    struct err err = ERR_INIT;
    if (http_call_prepare(call, &err) != 0) {
        finish_unsent(client, call, CALL_TIMED_OUT_EARLY, &err);
        return;
    }
    if (curl_multi_add_handle(client->multi, call->easy) != CURLM_OK) {
        abort(); /* out of memory */
    }
    push(&client->running, call);
}

static void pin_and_launch(struct http_client *client, struct http_call *call,
    const struct names_answer *answer)
{
    struct err err = ERR_INIT;
    if (http_call_pin(call, answer, &err) != 0) {
        finish_unsent(client, call,
            err.class == ERR_PERMANENT ? CALL_DENIED : CALL_NOT_SENT, &err);
        return;
    }
    launch(client, call);
}

static void on_name(void *owner, const struct names_answer *answer)
{
    struct http_call *call = owner;
    struct http_client *client = call->owner;
    take_out(&client->waiting, call);
    pin_and_launch(client, call, answer);
}

void http_client_start(struct http_client *client, const struct frame_job *job)
{
    struct http_call *call = take_idle(client);
    struct err err = ERR_INIT;
    client->active++;
    if (http_call_set(call, job, &err) != 0) {
        finish_unsent(client, call, CALL_DENIED, &err);
        return;
    }
    const struct names_answer *answer =
        call->target.is_literal ? NULL
                                : names_find(client->names, call->target.host);
    if (call->target.is_literal || answer != NULL) {
        pin_and_launch(client, call, answer);
        return;
    }
    push(&client->waiting, call);
    names_start(client->names, call->target.host, on_name, call);
}

static void expire_waiting(struct http_client *client)
{
    struct http_call *call = client->waiting;
    while (call != NULL) {
        struct http_call *next = call->next;
        if (http_call_left_ms(call) <= 0) {
            struct err err = ERR_INIT;
            (void)err_set(&err, ERR_TRANSIENT, "EXECUTION_TIMEOUT",
                "the name %s was not resolved in time", call->target.host);
            names_cancel(client->names, call);
            take_out(&client->waiting, call);
            finish_unsent(client, call, CALL_TIMED_OUT_EARLY, &err);
        }
        call = next;
    }
}

static void take_ends(struct http_client *client)
{
    int left = 0;
    const CURLMsg *message = curl_multi_info_read(client->multi, &left);
    while (message != NULL) {
        const CURLcode code = message->data.result;
        CURL *easy = message->easy_handle;
        char *private = NULL;
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
        struct http_call *call = (struct http_call *)(void *)private;
        (void)curl_multi_remove_handle(client->multi, easy);
        take_out(&client->running, call);
        struct run_result result;
        http_result_fill(call, code, &result);
        finish(client, call, &result);
        message = curl_multi_info_read(client->multi, &left);
    }
}

/* -- the caller's loop ------------------------------------------------------------ */

struct http_client *http_client_new(const struct http_settings *settings,
    uint32_t max_calls, int epoll, http_done_fn done, void *owner)
{
    struct http_client *client = mem_zalloc(1, sizeof(*client));
    client->settings = settings;
    client->epoll = epoll;
    client->done = done;
    client->owner = owner;
    client->due_us = -1;
    client->names = names_new();
    client->multi = curl_multi_init();
    struct epoll_event event = {
        .events = EPOLLIN, .data.fd = names_fd(client->names)};
    if (client->multi == NULL ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event) != 0) {
        abort();
    }
    (void)curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    (void)curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    (void)curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    (void)curl_multi_setopt(
        client->multi, CURLMOPT_MAXCONNECTS, (long)max_calls);
    return client;
}

void http_client_free(struct http_client *client)
{
    if (client == NULL) {
        return;
    }
    for (struct http_call *call = client->running; call != NULL;
         call = call->next) {
        (void)curl_multi_remove_handle(client->multi, call->easy);
    }
    struct http_call *lists[] = {
        client->idle, client->waiting, client->running};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        while (lists[i] != NULL) {
            struct http_call *call = lists[i];
            lists[i] = call->next;
            http_call_free(call);
        }
    }
    (void)curl_multi_cleanup(client->multi);
    /* The resolver's threads may be inside getaddrinfo(): it stays, as the
     * process ends next. */
    free(client);
}

size_t http_client_active(const struct http_client *client)
{
    return client->active;
}

int http_client_wait_ms(const struct http_client *client)
{
    int64_t wait_ms = client->waiting != NULL ? NAME_CHECK_MS : -1;
    if (client->due_us >= 0) {
        const int64_t left_us = client->due_us - now_mono_us();
        const int64_t left_ms =
            left_us <= 0 ? 0 : (left_us + US_PER_MS - 1) / US_PER_MS;
        if (wait_ms < 0 || left_ms < wait_ms) {
            wait_ms = left_ms;
        }
    }
    return wait_ms > INT32_MAX ? INT32_MAX : (int)wait_ms;
}

void http_client_on_event(struct http_client *client, int fd, uint32_t events)
{
    if (fd == names_fd(client->names)) {
        names_run(client->names);
        return;
    }
    const int mask = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                     (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                     (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running = 0;
    (void)curl_multi_socket_action(client->multi, fd, mask, &running);
}

void http_client_run(struct http_client *client)
{
    if (client->due_us >= 0 && client->due_us <= now_mono_us()) {
        client->due_us = -1;
        int running = 0;
        (void)curl_multi_socket_action(
            client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    take_ends(client);
    if (client->waiting != NULL) {
        expire_waiting(client);
    }
}
