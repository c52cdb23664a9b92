/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange: one request of the API from its arrival to its answer.
 *
 * An exchange is held by one part at a time (who waits for a table, for the
 * reservation, for Kafka, for an outcome); the holder frees it. It may be
 * answered earlier, by its time limit or at the end of the process: then the
 * request and the body are gone, and the holder only frees it.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "common/http_server.h"
#include "producer/refresh.h"
#include "producer/webhook_memory.h"
#include "schema/record.h"
#include "schema/schedule.h"

/* What Postgres and Kafka may take together before we say 503. */
#define EXCHANGE_LIMIT_US (INT64_C(8) * 1000000)

struct producer;

/* How a delivery of a webhook is remembered. */
struct webhook_marks {
    uint8_t key[WEBHOOK_MARK_SIZE];
    uint8_t content[WEBHOOK_MARK_SIZE];
    uint8_t body[WEBHOOK_MARK_SIZE];
    bool has_body;
};

struct exchange {
    struct exchange *next; /* all of them */
    struct exchange *prev;
    struct exchange *link; /* in the list of its holder */
    struct producer *producer;
    struct http_request *request;               /* NULL once answered */
    const char *route;                          /* static, for metrics */
    void (*handler)(struct exchange *exchange); /* once the tenant is known */
    int64_t began_us;
    int64_t limit_us; /* answered with 503 after it; monotonic, as began_us */
    struct refresh_wait refresh;
    char tenant[RECORD_MAX_NAME + 1];
    uint8_t id[UUID_SIZE];
    char id_text[UUID_TEXT_SIZE];

    struct record record;  /* POST: borrows the request's body */
    bool is_new;           /* POST: 202, not 200 */
    int64_t wait_until_us; /* GET: monotonic; 0: answer at once */
    int tries;             /* cancel, schedules: of its statement */

    int limit;                  /* schedules: rows at most */
    enum schedule_state wanted; /* schedules: paused, or active again */
    char *text;                 /* schedules: what record borrows; owned */
    const char *pointer_base;   /* stands before a fault's pointer; static */

    char source[RECORD_MAX_NAME + 1]; /* hooks; is_new: not a conflict */
    struct webhook_marks marks;
    bool is_challenge; /* hooks: a GET */
};

struct exchanges {
    struct exchange *first;
    size_t count;
    struct loop_timer *timer;
};

void exchanges_open(struct producer *producer);
/* Answers all that have no answer yet with 503. */
void exchanges_answer_all(struct producer *producer);
/* Frees all of them, whoever holds them. */
void exchanges_close(struct producer *producer);

/* route: static. */
struct exchange *exchange_open(
    struct producer *producer, struct http_request *request, const char *route);
void exchange_free(struct exchange *exchange);

/* The answers. Nothing of the request may be touched after one. */
void exchange_json(
    struct exchange *exchange, unsigned status, struct span body);
void exchange_answer(struct exchange *exchange, unsigned status,
    const char *content_type, struct span body);
void exchange_fault(struct exchange *exchange, const struct fault *fault);
/* 503 with Retry-After. */
void exchange_unavailable(struct exchange *exchange);

#endif
