/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer on the loop. librdkafka signals an event fd; a timer polls as
 * well, since a missed signal must not get us evicted from the group.
 *
 * A pause stops the polling at once and keeps what librdkafka has fetched. Only
 * one that lasts is handed down as a pause of the partitions, which throws the
 * fetched records away but lets us poll again: the group expects that.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/kafka_private.h"
#include "common/log.h"
#include "common/time.h"

enum {
    TICK_MS = 200,
    LASTING_PAUSE_MS = 400,
    RECORDS_A_TURN = 500, /* then other work of the loop gets its turn */
    CLOSE_WAIT_MS = 5000,
    CLOSE_POLL_MS = 20
};

static const struct kafka_pair tunable[] = {
    {"session.timeout.ms", "6000"},
    {"heartbeat.interval.ms", "1500"},
    {"max.poll.interval.ms", "60000"},
    {"queued.min.messages", "5000"},
    {"queued.max.messages.kbytes", "16384"},
    {"fetch.wait.max.ms", "100"},
    {"fetch.max.bytes", "16777216"},
    {"fetch.error.backoff.ms", "100"},
    {"receive.message.max.bytes", "33554432"},
    {"check.crcs", "true"},
    {"auto.commit.interval.ms", "500"},
    {NULL, NULL},
};

static const struct kafka_pair fixed[] = {
    {"enable.auto.offset.store", "false"},
    {"enable.auto.commit", "true"},
    {"auto.offset.reset", "error"},
    {"isolation.level", "read_committed"},
    {"partition.assignment.strategy", "range"},
    {"enable.partition.eof", "false"},
    {NULL, NULL},
};

void kafka_consumer_tell(struct kafka_consumer *consumer, const struct err *err)
{
    if (consumer->events->on_error != NULL) {
        consumer->events->on_error(consumer->owner, err);
    }
}

static void on_client_error(
    rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    struct kafka_consumer *consumer = opaque;
    struct err err = ERR_INIT;
    if (code == RD_KAFKA_RESP_ERR__FATAL) {
        char text[200];
        (void)rd_kafka_fatal_error(rk, text, sizeof(text));
        (void)err_set(&err, ERR_FATAL, "KAFKA_FATAL", "%s", text);
    } else {
        (void)kafka_error(&err, (rd_kafka_resp_err_t)code, reason);
    }
    kafka_consumer_tell(consumer, &err);
}

/* -- delivery -------------------------------------------------------------- */

static struct span span_of_bytes(const void *bytes, size_t len)
{
    return (struct span){.ptr = bytes, .len = bytes == NULL ? 0 : len};
}

static void deliver(
    struct kafka_consumer *consumer, rd_kafka_message_t *message)
{
    const struct kafka_record record = {
        .topic = rd_kafka_topic_name(message->rkt),
        .partition = message->partition,
        .offset = message->offset,
        .generation = consumer->generation,
        .key = span_of_bytes(message->key, message->key_len),
        .value = span_of_bytes(message->payload, message->len),
        .message = message,
    };
    consumer->events->on_record(consumer->owner, &record);
}

static void hold(struct kafka_consumer *consumer, rd_kafka_message_t *message)
{
    if (consumer->held_count == consumer->held_cap) {
        consumer->held_cap =
            consumer->held_cap == 0 ? 16 : consumer->held_cap * 2;
        consumer->held = mem_resize(
            consumer->held, consumer->held_cap, sizeof(*consumer->held));
    }
    consumer->held[consumer->held_count] = message;
    consumer->held_count++;
}

void kafka_consumer_drop_held(struct kafka_consumer *consumer)
{
    for (size_t i = 0; i < consumer->held_count; i++) {
        rd_kafka_message_destroy(consumer->held[i]);
    }
    consumer->held_count = 0;
}

static void deliver_held(struct kafka_consumer *consumer)
{
    size_t done = 0;
    while (done < consumer->held_count && !consumer->is_paused &&
           !consumer->must_reassign && !consumer->is_closing) {
        rd_kafka_message_t *message = consumer->held[done];
        done++;
        deliver(consumer, message);
    }
    consumer->held_count -= done;
    if (done > 0 && consumer->held_count > 0) {
        memmove(consumer->held, consumer->held + done,
            consumer->held_count * sizeof(*consumer->held));
    }
}

static void take(struct kafka_consumer *consumer, rd_kafka_message_t *message)
{
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_assign_on_error(consumer, message);
        rd_kafka_message_destroy(message);
    } else if (consumer->is_paused || consumer->must_reassign) {
        hold(consumer, message);
    } else {
        deliver(consumer, message);
    }
}

static bool may_poll(struct kafka_consumer *consumer)
{
    if (consumer->is_closing) {
        return false;
    }
    if (!consumer->is_paused || consumer->are_partitions_paused) {
        return true;
    }
    if (now_mono_us() - consumer->paused_at_us < LASTING_PAUSE_MS * US_PER_MS) {
        return false;
    }
    kafka_assign_set_paused(consumer, true);
    return true;
}

static void turn(struct kafka_consumer *consumer)
{
    deliver_held(consumer);
    for (int i = 0; i < RECORDS_A_TURN; i++) {
        if (!may_poll(consumer)) {
            return;
        }
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer->rk, 0);
        if (message == NULL) {
            return;
        }
        take(consumer, message);
    }
    /* The queue signals only when it was empty before. */
    kafka_fd_signal(consumer->fd);
}

/* -- closing --------------------------------------------------------------- */

static void leave_group(struct kafka_consumer *consumer)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer->rk);
    rd_kafka_error_t *error =
        rd_kafka_consumer_close_queue(consumer->rk, queue);
    if (error != NULL) {
        rd_kafka_error_destroy(error);
    } else {
        const int64_t until_us = now_mono_us() + CLOSE_WAIT_MS * US_PER_MS;
        while (!rd_kafka_consumer_closed(consumer->rk) &&
               now_mono_us() < until_us) {
            /* Records may still be queued, which rd_kafka_queue_poll_callback
             * would abort on. They were never handed out: others read them. */
            rd_kafka_message_t *message =
                rd_kafka_consume_queue(queue, CLOSE_POLL_MS);
            if (message != NULL) {
                rd_kafka_message_destroy(message);
            }
        }
    }
    rd_kafka_queue_destroy(queue);
}

static void close_now(struct kafka_consumer *consumer)
{
    /* Its callbacks may call us: they must not come back to here. */
    consumer->depth++;
    consumer->is_closing = true;
    loop_timer_free(consumer->tick);
    loop_fd_free(consumer->watch);
    kafka_consumer_drop_held(consumer);
    leave_group(consumer);
    rd_kafka_destroy_flags(consumer->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    (void)close(consumer->fd);
    free(consumer->held);
    free(consumer);
}

void kafka_consumer_close(struct kafka_consumer *consumer)
{
    if (consumer == NULL || consumer->is_closing) {
        return;
    }
    consumer->is_closing = true;
    if (consumer->depth == 0) {
        close_now(consumer);
    }
}

static void enter(struct kafka_consumer *consumer)
{
    consumer->depth++;
    turn(consumer);
    consumer->depth--;
    if (consumer->is_closing) {
        close_now(consumer);
    }
}

static void on_event(void *owner, int events)
{
    struct kafka_consumer *consumer = owner;
    (void)events;
    kafka_fd_clear(consumer->fd);
    enter(consumer);
}

static void on_tick(void *owner)
{
    struct kafka_consumer *consumer = owner;
    if (consumer->must_reassign) {
        consumer->depth++;
        kafka_assign_again(consumer);
        consumer->depth--;
    }
    enter(consumer);
}

/* -- opening --------------------------------------------------------------- */

static int subscribe(struct kafka_consumer *consumer,
    const struct kafka_consumer_options *options, struct err *err)
{
    rd_kafka_topic_partition_list_t *topics =
        rd_kafka_topic_partition_list_new((int)options->topic_count);
    for (size_t i = 0; i < options->topic_count; i++) {
        (void)rd_kafka_topic_partition_list_add(
            topics, options->topics[i], RD_KAFKA_PARTITION_UA);
    }
    const rd_kafka_resp_err_t code = rd_kafka_subscribe(consumer->rk, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return err_set(err, ERR_FATAL, "KAFKA_SUBSCRIBE",
            "cannot subscribe to the topics (%s)", rd_kafka_err2name(code));
    }
    return 0;
}

struct kafka_consumer *kafka_consumer_open(struct loop *loop,
    const struct conf *conf, const struct kafka_consumer_options *options,
    struct err *err)
{
    rd_kafka_conf_t *settings = kafka_role_conf(conf, tunable, fixed, err);
    if (settings == NULL) {
        return NULL;
    }
    if (kafka_conf_set(settings, "group.id", options->group, err) != 0) {
        rd_kafka_conf_destroy(settings);
        return NULL;
    }
    struct kafka_consumer *consumer = mem_zalloc(1, sizeof(*consumer));
    consumer->loop = loop;
    consumer->events = options->events;
    consumer->owner = options->owner;
    rd_kafka_conf_set_opaque(settings, consumer);
    rd_kafka_conf_set_rebalance_cb(settings, kafka_assign_on_rebalance);
    rd_kafka_conf_set_error_cb(settings, on_client_error);
    consumer->rk = kafka_client_new(RD_KAFKA_CONSUMER, settings, err);
    if (consumer->rk == NULL) {
        free(consumer);
        return NULL;
    }
    (void)rd_kafka_poll_set_consumer(consumer->rk);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer->rk);
    consumer->fd = kafka_queue_fd(queue);
    rd_kafka_queue_destroy(queue);
    if (subscribe(consumer, options, err) != 0) {
        rd_kafka_destroy(consumer->rk);
        (void)close(consumer->fd);
        free(consumer);
        return NULL;
    }
    consumer->watch = loop_fd_new(loop, consumer->fd, on_event, consumer);
    loop_fd_want(consumer->watch, UV_READABLE);
    consumer->tick = loop_timer_new(loop, on_tick, consumer);
    loop_timer_start(consumer->tick, 0, TICK_MS);
    return consumer;
}

/* -- the rest -------------------------------------------------------------- */

void kafka_consumer_pause(struct kafka_consumer *consumer)
{
    if (!consumer->is_paused) {
        consumer->is_paused = true;
        consumer->paused_at_us = now_mono_us();
    }
}

void kafka_consumer_resume(struct kafka_consumer *consumer)
{
    if (!consumer->is_paused || consumer->is_closing) {
        return;
    }
    consumer->is_paused = false;
    if (consumer->are_partitions_paused) {
        kafka_assign_set_paused(consumer, false);
    }
    kafka_fd_signal(consumer->fd);
}

bool kafka_consumer_is_paused(const struct kafka_consumer *consumer)
{
    return consumer->is_paused;
}

uint64_t kafka_consumer_generation(const struct kafka_consumer *consumer)
{
    return consumer->generation;
}

void kafka_consumer_store(struct kafka_consumer *consumer, const char *topic,
    int32_t partition, int64_t next_offset, uint64_t generation)
{
    if (generation != consumer->generation) {
        return;
    }
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition)->offset =
        next_offset;
    const rd_kafka_resp_err_t code = rd_kafka_offsets_store(consumer->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        LOG(DEBUG, "offset_not_stored",
            (&(struct log_fields){.name1 = "topic",
                .value1 = topic,
                .number_name = "partition",
                .number = partition}),
            "%s", rd_kafka_err2name(code));
    }
}
