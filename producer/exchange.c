/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/exchange.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/time.h"
#include "producer/producer.h"
#include "producer/reply.h"

enum { SWEEP_EVERY_MS = 250 };

static void on_sweep(void *owner)
{
    struct producer *producer = owner;
    const int64_t now_us = now_mono_us();
    struct exchange *at = producer->exchanges.first;
    for (; at != NULL; at = at->next) {
        if (at->request != NULL && now_us > at->limit_us) {
            exchange_unavailable(at);
        }
    }
}

void exchanges_open(struct producer *producer)
{
    producer->exchanges.timer =
        loop_timer_new(producer->loop, on_sweep, producer);
    loop_timer_start(producer->exchanges.timer, SWEEP_EVERY_MS, SWEEP_EVERY_MS);
}

void exchanges_answer_all(struct producer *producer)
{
    struct exchange *at = producer->exchanges.first;
    for (; at != NULL; at = at->next) {
        if (at->request != NULL) {
            exchange_unavailable(at);
        }
    }
}

void exchanges_close(struct producer *producer)
{
    loop_timer_free(producer->exchanges.timer);
    struct exchange *at = producer->exchanges.first;
    while (at != NULL) {
        struct exchange *next = at->next;
        free(at->text);
        free(at);
        at = next;
    }
    producer->exchanges = (struct exchanges){0};
}

struct exchange *exchange_open(
    struct producer *producer, struct http_request *request, const char *route)
{
    struct exchanges *exchanges = &producer->exchanges;
    struct exchange *exchange = mem_zalloc(1, sizeof(*exchange));
    exchange->producer = producer;
    exchange->request = request;
    exchange->route = route;
    exchange->began_us = now_mono_us();
    exchange->limit_us = exchange->began_us + EXCHANGE_LIMIT_US;
    exchange->next = exchanges->first;
    if (exchanges->first != NULL) {
        exchanges->first->prev = exchange;
    }
    exchanges->first = exchange;
    exchanges->count++;
    return exchange;
}

void exchange_free(struct exchange *exchange)
{
    struct exchanges *exchanges = &exchange->producer->exchanges;
    if (exchange->prev != NULL) {
        exchange->prev->next = exchange->next;
    } else {
        exchanges->first = exchange->next;
    }
    if (exchange->next != NULL) {
        exchange->next->prev = exchange->prev;
    }
    exchanges->count--;
    free(exchange->text);
    free(exchange);
}

/* Takes the request, which is about to be answered. */
static struct http_request *finish(struct exchange *exchange)
{
    struct http_request *request = exchange->request;
    const int64_t took_us = now_mono_us() - exchange->began_us;
    exchange->request = NULL;
    metric_observe(exchange->producer->meters.seconds, exchange->route,
        (double)took_us / (double)US_PER_S);
    return request;
}

void exchange_answer(struct exchange *exchange, unsigned status,
    const char *content_type, struct span body)
{
    reply_body(&exchange->producer->meters, finish(exchange), status,
        content_type, body);
}

void exchange_json(struct exchange *exchange, unsigned status, struct span body)
{
    exchange_answer(exchange, status, "application/json", body);
}

void exchange_fault(struct exchange *exchange, const struct fault *fault)
{
    struct fault placed = *fault;
    if (exchange->pointer_base != NULL && fault->pointer[0] != '\0') {
        char pointer[2 * sizeof(fault->pointer)];
        (void)snprintf(pointer, sizeof(pointer), "%s%s", exchange->pointer_base,
            fault->pointer);
        (void)fault_set(&placed, fault->code, pointer, "%s", fault->detail);
    }
    reply_fault(&exchange->producer->meters, finish(exchange), &placed);
}

void exchange_unavailable(struct exchange *exchange)
{
    const struct fault fault = {.code = CODE_UNAVAILABLE};
    exchange_fault(exchange, &fault);
}
