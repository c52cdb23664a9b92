/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The idempotent producer on the loop. Each record's delivery is in a list
 * until its report has come, so that every callback runs exactly once, also
 * when an instance has to be thrown away after a fatal error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/kafka_private.h"
#include "common/log.h"
#include "common/time.h"

enum {
    TICK_MS = 200,
    PURGE_WAIT_MS = 2000,
    POLL_MS = 10,
    MAX_HEADERS = 64,
    MAX_TOPICS = 4,
    /* topic, partition, key, value, opaque, flags */
    FIXED_ARGUMENTS = 6
};

struct delivery {
    struct delivery *prev;
    struct delivery *next;
    kafka_delivered_fn delivered;
    void *arg;
};

struct kafka_producer {
    struct loop *loop;
    const struct conf *conf; /* borrowed: needed for each new instance */
    rd_kafka_t *rk;
    int fd;
    struct loop_fd *watch;
    struct loop_timer *tick;
    struct delivery *head; /* what has no report yet, newest first */
    size_t queued;
    int linger_ms;
    int close_wait_ms;
    char topics[MAX_TOPICS][KAFKA_TOPIC_SIZE]; /* prepared */
    rd_kafka_topic_t *handles[MAX_TOPICS];
    size_t topic_count;
    unsigned depth; /* frames on the stack that use this struct */
    bool is_up;
    bool has_fatal_error;
    bool is_closing;
};

/* The topics take 2 MiB; a batch of one adds a header to its record. */
static const struct kafka_pair tunable[] = {
    {"message.max.bytes", "2096128"},
    {"message.timeout.ms", "20000"},
    {"socket.timeout.ms", "10000"},
    {"batch.size", "524288"},
    {"compression.codec", "lz4"},
    {"queue.buffering.max.messages", "100000"},
    {"queue.buffering.max.kbytes", "65536"},
    {NULL, NULL},
};

static const struct kafka_pair fixed[] = {
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"max.in.flight.requests.per.connection", "5"},
    {"partitioner", "murmur2_random"},
    {"statistics.interval.ms", "1000"}, /* says which brokers are up */
    {NULL, NULL},
};

/* -- delivery reports ------------------------------------------------------ */

static void unlink_delivery(
    struct kafka_producer *producer, struct delivery *delivery)
{
    if (delivery->prev == NULL) {
        producer->head = delivery->next;
    } else {
        delivery->prev->next = delivery->next;
    }
    if (delivery->next != NULL) {
        delivery->next->prev = delivery->prev;
    }
    producer->queued--;
}

static void report(struct kafka_producer *producer, struct delivery *delivery,
    enum kafka_delivery how, const rd_kafka_message_t *message,
    const struct err *err)
{
    unlink_delivery(producer, delivery);
    delivery->delivered(delivery->arg, how,
        message == NULL ? -1 : message->partition,
        how == KAFKA_DELIVERED ? message->offset : -1, err);
    free(delivery);
}

static void on_delivered(
    rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct kafka_producer *producer = opaque;
    struct delivery *delivery = message->_private;
    struct err err = ERR_INIT;
    (void)rk;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        producer->is_up = true;
        report(producer, delivery, KAFKA_DELIVERED, message, NULL);
        return;
    }
    (void)kafka_error(&err, message->err, "the record was not acknowledged");
    if (message->err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
        err.class = ERR_PERMANENT;
    }
    if (rd_kafka_message_status(message) == RD_KAFKA_MSG_STATUS_NOT_PERSISTED) {
        report(producer, delivery, KAFKA_NOT_DELIVERED, message, &err);
    } else {
        err.class = ERR_UNKNOWN;
        report(producer, delivery, KAFKA_MAYBE_DELIVERED, message, &err);
    }
}

static void on_client_error(
    rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    struct kafka_producer *producer = opaque;
    (void)rk;
    /* The client itself logs what happens to single connections. */
    if (code == RD_KAFKA_RESP_ERR__FATAL) {
        producer->has_fatal_error = true;
        LOG(WARN, "kafka_producer_fatal", NULL, "%s", reason);
    } else if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        producer->is_up = false;
        LOG(WARN, "kafka_down", NULL, "%s", reason);
    }
}

/* Brokers are the only things in the statistics whose state is "UP". */
static int on_statistics(rd_kafka_t *rk, char *json, size_t len, void *opaque)
{
    struct kafka_producer *producer = opaque;
    (void)rk;
    (void)len;
    producer->is_up = strstr(json, "\"state\":\"UP\"") != NULL;
    return 0; /* librdkafka frees json */
}

/* -- an instance ----------------------------------------------------------- */

/* A handle keeps the topic's metadata fresh for as long as it lives. */
static void hold_topic(struct kafka_producer *producer, size_t index)
{
    producer->handles[index] =
        rd_kafka_topic_new(producer->rk, producer->topics[index], NULL);
}

static void release_topics(struct kafka_producer *producer)
{
    for (size_t i = 0; i < producer->topic_count; i++) {
        if (producer->handles[i] != NULL) {
            rd_kafka_topic_destroy(producer->handles[i]);
            producer->handles[i] = NULL;
        }
    }
}

static int open_client(struct kafka_producer *producer, struct err *err)
{
    rd_kafka_conf_t *settings =
        kafka_role_conf(producer->conf, tunable, fixed, err);
    if (settings == NULL) {
        return -1;
    }
    char linger[16];
    (void)snprintf(linger, sizeof(linger), "%d", producer->linger_ms);
    if (kafka_conf_set(settings, "linger.ms", linger, err) != 0) {
        rd_kafka_conf_destroy(settings);
        return -1;
    }
    rd_kafka_conf_set_opaque(settings, producer);
    rd_kafka_conf_set_dr_msg_cb(settings, on_delivered);
    rd_kafka_conf_set_error_cb(settings, on_client_error);
    rd_kafka_conf_set_stats_cb(settings, on_statistics);
    producer->rk = kafka_client_new(RD_KAFKA_PRODUCER, settings, err);
    if (producer->rk == NULL) {
        return -1;
    }
    for (size_t i = 0; i < producer->topic_count; i++) {
        hold_topic(producer, i);
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_get_main(producer->rk);
    producer->fd = kafka_queue_fd(queue);
    rd_kafka_queue_destroy(queue);
    return 0;
}

/* Serves reports until none is due any more or the time is over. */
static void serve(struct kafka_producer *producer, int wait_ms)
{
    const int64_t until_us = now_mono_us() + wait_ms * US_PER_MS;
    while (producer->queued > 0 && now_mono_us() < until_us) {
        (void)rd_kafka_poll(producer->rk, POLL_MS);
    }
}

/* Ends the instance; every delivery has been reported after. */
static void close_client(struct kafka_producer *producer)
{
    loop_fd_free(producer->watch);
    producer->watch = NULL;
    if (producer->queued > 0) {
        (void)rd_kafka_purge(
            producer->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        serve(producer, PURGE_WAIT_MS);
    }
    while (producer->head != NULL) {
        struct delivery *delivery = producer->head;
        struct err err = ERR_INIT;
        (void)err_set(&err, ERR_UNKNOWN, "KAFKA_CLOSED",
            "the producer was closed before the record was acknowledged");
        delivery->prev = NULL; /* it is the first of the list */
        report(producer, delivery, KAFKA_MAYBE_DELIVERED, NULL, &err);
    }
    release_topics(producer);
    rd_kafka_destroy(producer->rk);
    producer->rk = NULL;
    (void)close(producer->fd);
    producer->fd = -1;
}

/* -- the loop -------------------------------------------------------------- */

static void on_event(void *owner, int events);

static void watch_client(struct kafka_producer *producer)
{
    producer->watch =
        loop_fd_new(producer->loop, producer->fd, on_event, producer);
    loop_fd_want(producer->watch, UV_READABLE);
}

/* The idempotent producer does not survive a fatal error: take a new one. */
static void replace_client(struct kafka_producer *producer)
{
    struct err err = ERR_INIT;
    LOG(WARN, "kafka_producer_replaced", NULL, "after a fatal error");
    if (producer->rk != NULL) {
        close_client(producer);
    }
    producer->is_up = false;
    if (open_client(producer, &err) != 0) {
        LOG(ERROR, "kafka_producer_failed", (&(struct log_fields){.err = &err}),
            "will try again");
        return;
    }
    producer->has_fatal_error = false;
    watch_client(producer);
}

static void close_now(struct kafka_producer *producer)
{
    producer->depth++; /* callbacks must not come back to here */
    if (producer->rk != NULL) {
        serve(producer, producer->close_wait_ms);
        close_client(producer);
    }
    loop_timer_free(producer->tick);
    free(producer);
}

static void turn(struct kafka_producer *producer)
{
    producer->depth++;
    if (producer->rk != NULL) {
        (void)rd_kafka_poll(producer->rk, 0);
    }
    if (producer->has_fatal_error && !producer->is_closing) {
        replace_client(producer);
    }
    producer->depth--;
    if (producer->is_closing) {
        close_now(producer);
    }
}

static void on_event(void *owner, int events)
{
    struct kafka_producer *producer = owner;
    (void)events;
    kafka_fd_clear(producer->fd);
    turn(producer);
}

static void on_tick(void *owner)
{
    turn(owner);
}

/* -- opening and closing --------------------------------------------------- */

struct kafka_producer *kafka_producer_open(
    struct loop *loop, const struct conf *conf, int linger_ms, struct err *err)
{
    struct kafka_producer *producer = mem_zalloc(1, sizeof(*producer));
    producer->loop = loop;
    producer->conf = conf;
    producer->linger_ms = linger_ms;
    if (open_client(producer, err) != 0) {
        free(producer);
        return NULL;
    }
    watch_client(producer);
    producer->tick = loop_timer_new(loop, on_tick, producer);
    loop_timer_start(producer->tick, 0, TICK_MS);
    return producer;
}

void kafka_producer_close(struct kafka_producer *producer, int wait_ms)
{
    if (producer == NULL || producer->is_closing) {
        return;
    }
    producer->is_closing = true;
    producer->close_wait_ms = wait_ms;
    if (producer->depth == 0) {
        close_now(producer);
    }
}

void kafka_producer_prepare(struct kafka_producer *producer, const char *topic)
{
    if (producer->topic_count == MAX_TOPICS) {
        return;
    }
    const size_t index = producer->topic_count;
    (void)snprintf(producer->topics[index], KAFKA_TOPIC_SIZE, "%s", topic);
    producer->topic_count++;
    if (producer->rk != NULL) {
        hold_topic(producer, index);
    }
}

/* -- producing ------------------------------------------------------------- */

static int produce_error(rd_kafka_error_t *error, struct err *err)
{
    const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        return err_set(err, ERR_TRANSIENT, "KAFKA_QUEUE_FULL",
            "too many records wait for kafka");
    }
    if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
        return err_set(err, ERR_PERMANENT, "KAFKA_TOO_LARGE",
            "the record is larger than kafka takes");
    }
    return kafka_error(err, code, "the record cannot be produced");
}

/* Fills arguments; returns their number. The spans stay borrowed. */
static size_t fill(rd_kafka_vu_t *arguments, const char *topic,
    int32_t partition, struct span key, struct span value)
{
    size_t count = 0;
    arguments[count].vtype = RD_KAFKA_VTYPE_TOPIC;
    arguments[count++].u.cstr = topic;
    arguments[count].vtype = RD_KAFKA_VTYPE_PARTITION;
    arguments[count++].u.i32 = partition;
    arguments[count].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    arguments[count++].u.i = RD_KAFKA_MSG_F_COPY;
    /* librdkafka's structs lack the const; it only reads and copies. */
    arguments[count].vtype = RD_KAFKA_VTYPE_KEY;
    memcpy(&arguments[count].u.mem.ptr, &key.ptr, sizeof(void *));
    arguments[count++].u.mem.size = key.len;
    arguments[count].vtype = RD_KAFKA_VTYPE_VALUE;
    memcpy(&arguments[count].u.mem.ptr, &value.ptr, sizeof(void *));
    arguments[count++].u.mem.size = value.len;
    return count;
}

static size_t fill_headers(rd_kafka_vu_t *arguments,
    const struct kafka_header *headers, size_t header_count)
{
    for (size_t i = 0; i < header_count; i++) {
        arguments[i].vtype = RD_KAFKA_VTYPE_HEADER;
        arguments[i].u.header.name = headers[i].name;
        arguments[i].u.header.val = headers[i].value.ptr;
        arguments[i].u.header.size =
            headers[i].value.ptr == NULL ? -1 : (ssize_t)headers[i].value.len;
    }
    return header_count;
}

static struct delivery *new_delivery(
    struct kafka_producer *producer, kafka_delivered_fn delivered, void *arg)
{
    struct delivery *delivery = mem_zalloc(1, sizeof(*delivery));
    delivery->delivered = delivered;
    delivery->arg = arg;
    delivery->next = producer->head;
    if (producer->head != NULL) {
        producer->head->prev = delivery;
    }
    producer->head = delivery;
    producer->queued++;
    return delivery;
}

/* NOLINTNEXTLINE(readability-function-size): a record has that many parts */
int kafka_produce(struct kafka_producer *producer, const char *topic,
    int32_t partition, struct span key, struct span value,
    const struct kafka_header *headers, size_t header_count,
    kafka_delivered_fn delivered, void *arg, struct err *err)
{
    rd_kafka_vu_t arguments[FIXED_ARGUMENTS + MAX_HEADERS];
    if (header_count > MAX_HEADERS) {
        return err_set(err, ERR_PERMANENT, "KAFKA_TOO_LARGE",
            "the record has more than %d headers", MAX_HEADERS);
    }
    if (producer->rk == NULL || producer->has_fatal_error ||
        producer->is_closing) {
        return err_set(err, ERR_TRANSIENT, "KAFKA_DOWN",
            "the kafka producer is being replaced or closed");
    }
    size_t count = fill(arguments, topic, partition, key, value);
    count += fill_headers(arguments + count, headers, header_count);
    struct delivery *delivery = new_delivery(producer, delivered, arg);
    arguments[count].vtype = RD_KAFKA_VTYPE_OPAQUE;
    arguments[count++].u.ptr = delivery;
    rd_kafka_error_t *error =
        rd_kafka_produceva(producer->rk, arguments, count);
    if (error != NULL) {
        unlink_delivery(producer, delivery);
        free(delivery);
        return produce_error(error, err);
    }
    return 0;
}

size_t kafka_producer_queued(const struct kafka_producer *producer)
{
    return producer->queued;
}

bool kafka_producer_is_up(const struct kafka_producer *producer)
{
    return producer->is_up && !producer->has_fatal_error;
}
