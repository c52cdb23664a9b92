/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/bench_hooks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/crypt.h"
#include "common/time.h"
#include "scheduler/ctl/dev_process.h"

enum { ANSWER_BYTES = 2048, REQUEST_BYTES = 2048, EVENTS = 256 };
#define ANSWER_WAIT_US (10 * US_PER_S)

/* -- sockets ----------------------------------------------------------------------- */

/* From that address of this machine, in network order; 0: any. */
static int connect_from(uint16_t port, in_addr_t from, struct err *err)
{
    const struct sockaddr_in local = {
        .sin_family = AF_INET, .sin_addr.s_addr = from};
    const struct sockaddr_in peer = {.sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        ((from != 0 &&
             bind(fd, (const struct sockaddr *)&local, sizeof local) != 0) ||
            connect(fd, (const struct sockaddr *)&peer, sizeof peer) != 0 ||
            fcntl(fd, F_SETFL, O_NONBLOCK) != 0)) {
        const int saved = errno;
        close(fd);
        fd = -1;
        errno = saved;
    }
    if (fd < 0)
        (void)err_set_errno(
            err, ERR_TRANSIENT, "HTTP", "connection to the producer");
    return fd;
}

/* -- the sender -------------------------------------------------------------------- */

struct sender {
    int fd;
    bool is_waiting; /* for an answer */
    int64_t due_us;
    size_t answer_len;
    char answer[ANSWER_BYTES + 1];
};

struct sending {
    const struct hooks_target *target;
    int epoll;
    struct sender senders[HOOKS_SENDERS];
    size_t free_ones[HOOKS_SENDERS]; /* a stack of indexes */
    size_t free_count;
    uint32_t *waits; /* microseconds, one an answer */
    struct hooks_figures *figures;
    int64_t last_us; /* of the last answer */
};

static void put_delivery(
    struct buf *out, const struct hooks_target *target, int64_t number)
{
    uint8_t digest[SHA256_SIZE];
    struct buf body;
    buf_init(&body, REQUEST_BYTES);
    buf_printf(&body, "{\"n\":%" PRId64 ",\"run\":\"%s\",\"text\":\"", number,
        target->run);
    while (body.len < BENCH_RECORD_BYTES - 2)
        buf_put_char(&body, 'x');
    buf_put_str(&body, "\"}");
    hmac_sha256(SPAN_LIT(HOOKS_SECRET), buf_span(&body), digest);
    buf_printf(out,
        "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        "X-GitHub-Event: push\r\nX-GitHub-Delivery: %s-%" PRId64
        "\r\nContent-Length: %zu\r\nX-Hub-Signature-256: sha256=",
        target->path, target->run, number, body.len);
    hex_put(out, (struct span){(const char *)digest, sizeof digest});
    buf_put_str(out, "\r\n\r\n");
    buf_put_span(out, buf_span(&body));
    buf_fini(&body);
}

/* A request fits the socket's empty buffer. */
static int send_one(
    struct sending *sending, int64_t due_us, int64_t number, struct err *err)
{
    struct buf request;
    struct sender *sender =
        &sending->senders[sending->free_ones[--sending->free_count]];
    buf_init(&request, REQUEST_BYTES);
    put_delivery(&request, sending->target, number);
    sender->is_waiting = true;
    sender->due_us = due_us;
    sender->answer_len = 0;
    const ssize_t sent =
        send(sender->fd, request.data, request.len, MSG_NOSIGNAL);
    const bool is_sent = sent == (ssize_t)request.len;
    buf_fini(&request);
    if (!is_sent)
        return err_set(err, ERR_TRANSIENT, "HTTP",
            "the producer does not take a request of a few hundred bytes");
    sending->figures->sent++;
    return 0;
}

static int take_answer(
    struct sending *sending, struct sender *sender, struct err *err)
{
    const int64_t now_us = now_mono_us();
    if (strncmp(sender->answer, "HTTP/1.1 200 ", 13) != 0)
        return err_set(err, ERR_PERMANENT, "HTTP",
            "a delivery was answered with '%.40s'", sender->answer);
    sending->waits[sending->figures->taken++] =
        (uint32_t)(now_us - sender->due_us);
    sending->last_us = now_us;
    sender->is_waiting = false;
    sending->free_ones[sending->free_count++] =
        (size_t)(sender - sending->senders);
    return 0;
}

static int read_answer(
    struct sending *sending, struct sender *sender, struct err *err)
{
    const ssize_t got = recv(sender->fd, sender->answer + sender->answer_len,
        ANSWER_BYTES - sender->answer_len, 0);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got <= 0)
        return err_set(
            err, ERR_TRANSIENT, "HTTP", "the producer closed a connection");
    sender->answer_len += (size_t)got;
    sender->answer[sender->answer_len] = '\0';
    if (strstr(sender->answer, "\r\n\r\n") == NULL)
        return sender->answer_len == ANSWER_BYTES
                   ? err_set(err, ERR_PERMANENT, "HTTP", "the answer is long")
                   : 0;
    return take_answer(sending, sender, err);
}

static int take_events(struct sending *sending, int wait_ms, struct err *err)
{
    struct epoll_event events[EVENTS];
    const int count = epoll_wait(sending->epoll, events, EVENTS, wait_ms);
    for (int i = 0; i < count; i++)
        if (read_answer(sending, events[i].data.ptr, err) != 0)
            return -1;
    return 0;
}

static int open_senders(struct sending *sending, struct err *err)
{
    sending->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < HOOKS_SENDERS; i++) {
        struct sender *sender = &sending->senders[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = sender};
        sender->fd = connect_from(sending->target->port, 0, err);
        if (sender->fd < 0)
            return -1;
        if (epoll_ctl(sending->epoll, EPOLL_CTL_ADD, sender->fd, &event) != 0)
            return err_set_errno(err, ERR_FATAL, "HTTP", "epoll");
        sending->free_ones[sending->free_count++] = i;
    }
    return 0;
}

static void close_senders(struct sending *sending)
{
    for (size_t i = 0; i < HOOKS_SENDERS; i++)
        if (sending->senders[i].fd >= 0)
            close(sending->senders[i].fd);
    if (sending->epoll >= 0)
        close(sending->epoll);
}

/* Each is due at its time, whether or not a connection is free. */
static int run(struct sending *sending, int64_t rate, int64_t total,
    int64_t *number, struct err *err)
{
    const int64_t start_us = now_mono_us();
    const int64_t end_us = start_us + total * US_PER_S / rate + ANSWER_WAIT_US;
    int64_t done = 0;
    while (sending->figures->taken < total) {
        const int64_t now_us = now_mono_us();
        if (now_us > end_us || dev_is_interrupted())
            return err_set(err, ERR_TRANSIENT, "HTTP",
                "%" PRId64 " of %" PRId64 " deliveries are not answered",
                total - sending->figures->taken, total);
        while (done < total && sending->free_count > 0 &&
               start_us + done * US_PER_S / rate <= now_us) {
            if (send_one(sending, start_us + done * US_PER_S / rate,
                    (*number)++, err) != 0)
                return -1;
            done++;
        }
        if (take_events(sending, done < total ? 1 : 100, err) != 0)
            return -1;
    }
    sending->figures->rate = (double)total * (double)US_PER_S /
                             (double)(sending->last_us - start_us);
    return 0;
}

static int compare_waits(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a;
    const uint32_t right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static double part_of(const uint32_t *sorted, int64_t count, double part)
{
    const int64_t at = (int64_t)((double)count * part);
    return sorted[at < count ? at : count - 1] / 1000.0;
}

int hooks_send(const struct hooks_target *target, int64_t rate, int64_t seconds,
    int64_t *number, struct hooks_figures *figures, struct err *err)
{
    const int64_t total = rate * seconds;
    struct sending *sending = mem_zalloc(1, sizeof(*sending));
    *figures = (struct hooks_figures){.sent = 0};
    sending->target = target;
    sending->figures = figures;
    sending->waits = mem_zalloc((size_t)total, sizeof(uint32_t));
    for (size_t i = 0; i < HOOKS_SENDERS; i++)
        sending->senders[i].fd = -1;
    int rc = open_senders(sending, err);
    if (rc == 0)
        rc = run(sending, rate, total, number, err);
    close_senders(sending);
    if (rc == 0) {
        qsort(sending->waits, (size_t)total, sizeof(uint32_t), compare_waits);
        figures->latency = (struct bench_latency){
            .p50_ms = part_of(sending->waits, total, 0.5),
            .p99_ms = part_of(sending->waits, total, 0.99),
            .p999_ms = part_of(sending->waits, total, 0.999)};
    }
    free(sending->waits);
    free(sending);
    return rc;
}

/* -- slow connections -------------------------------------------------------------- */

struct hooks_slow {
    size_t count;
    int *fds; /* owned */
};

struct hooks_slow *hooks_slow_open(
    const struct hooks_target *target, size_t count, struct err *err)
{
    struct hooks_slow *slow = mem_zalloc(1, sizeof(*slow));
    struct buf head;
    slow->fds = mem_zalloc(count + 1, sizeof(int));
    buf_init(&head, REQUEST_BYTES);
    buf_printf(&head,
        "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Length: 1000\r\n\r\n{",
        target->path);
    while (slow->count < count) {
        const size_t address = 1 + slow->count / HOOKS_AN_ADDRESS;
        const int fd = connect_from(target->port,
            htonl(INADDR_LOOPBACK + 256 + (in_addr_t)address), err);
        if (fd < 0 || dev_is_interrupted() ||
            send(fd, head.data, head.len, MSG_NOSIGNAL) != (ssize_t)head.len) {
            if (fd >= 0)
                close(fd);
            break;
        }
        slow->fds[slow->count++] = fd;
    }
    buf_fini(&head);
    if (slow->count == count)
        return slow;
    hooks_slow_close(slow);
    if (err->class == ERR_NONE)
        (void)err_set(err, ERR_TRANSIENT, "HTTP", "no more connections");
    return NULL;
}

size_t hooks_slow_held(struct hooks_slow *slow)
{
    size_t held = 0;
    char byte;
    for (size_t i = 0; i < slow->count; i++)
        held += recv(slow->fds[i], &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
    return held;
}

void hooks_slow_close(struct hooks_slow *slow)
{
    if (slow != NULL) {
        for (size_t i = 0; i < slow->count; i++)
            close(slow->fds[i]);
        free(slow->fds);
        free(slow);
    }
}
