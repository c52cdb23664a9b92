/* SPDX-License-Identifier: Apache-2.0 */
/*
 * producer: the context that every part of the front door shares, and its
 * life. The process holds no state that matters: what got a 2xx is on Kafka or
 * in Postgres. All of it belongs to the loop's thread.
 */
#ifndef PRODUCER_H
#define PRODUCER_H

#include "common/conf.h"
#include "common/http_server.h"
#include "common/kafka.h"
#include "common/loop.h"
#include "common/pg.h"
#include "producer/exchange.h"
#include "producer/meters.h"

struct producer {
    struct loop *loop;
    const struct conf *conf;
    struct pg *reserve_db; /* reservations alone */
    struct pg *look_db;    /* everything that only reads */
    struct kafka_producer *kafka;
    struct http_server *http;
    struct meters meters;
    struct exchanges exchanges;
    struct keys *keys;
    struct manifests *manifests;
    struct reserve *reserve;
    struct actions *actions;
    struct wait *wait;
    struct cancel *cancel;
    struct repeat_notes *repeat_notes;
    struct webhook_door *webhooks; /* NULL: without a master key */
    struct loop_timer *drain_timer;
    int64_t drain_until_us;
    bool is_draining;
    bool is_closing; /* callbacks start nothing new */
};

/* Checks Postgres and Kafka (blocking, bounded), then opens everything; the
 * listener comes last. */
int producer_open(struct producer *producer, struct loop *loop,
    const struct conf *conf, struct err *err) MUST_CHECK;
/* Stops listening, lets requests end for at most 10 s, then ends the loop. */
void producer_drain(void *owner);
void producer_close(struct producer *producer);

/* The settings of the program. */
const struct conf_setting *producer_settings(size_t *count);

#endif
