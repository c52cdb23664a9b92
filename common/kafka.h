/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kafka: librdkafka on the loop. A consumer that never commits by itself, and
 * an idempotent producer with delivery reports. librdkafka's threads only
 * write to an event fd; every callback here runs on the loop's thread.
 *
 * Settings are those of reliability part C, then the "kafka.*" pass-through
 * names of the configuration on top (TLS, SASL). Needs librdkafka 2.0.2: eager
 * assignment (range), single-message consume.
 */
#ifndef KAFKA_H
#define KAFKA_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/conf.h"
#include "common/err.h"
#include "common/loop.h"

struct kafka_header {
    const char *name;
    struct span value; /* ptr NULL: null header */
};

/* One record as consumed; everything is borrowed from message. */
struct kafka_record {
    const char *topic;
    int32_t partition;
    int64_t offset;
    uint64_t generation;         /* of the assignment it came with */
    struct span key;             /* ptr NULL: null key */
    struct span value;           /* ptr NULL: null value */
    rd_kafka_message_t *message; /* owner: see kafka_consumer_fn */
};

/* -- consumer -------------------------------------------------------------- */

struct kafka_consumer;

struct kafka_consumer_events {
    /* A record. The callee owns record->message and ends it with
     * rd_kafka_message_destroy(). */
    void (*on_record)(void *owner, const struct kafka_record *record);
    /* The partitions owned from now on, or none. Records with an older
     * generation should be forgotten where nothing durable was done yet. */
    void (*on_assigned)(void *owner,
        const rd_kafka_topic_partition_list_t *partitions, uint64_t generation);
    /* Before partitions are given up: last chance to store offsets. */
    void (*on_revoked)(
        void *owner, const rd_kafka_topic_partition_list_t *partitions);
    /* Errors worth a log line or a health change (err is TRANSIENT), or the
     * end (FATAL: e.g. an offset out of range; see auto.offset.reset=error). */
    void (*on_error)(void *owner, const struct err *err);
};

struct kafka_consumer_options {
    const char *group;
    const char *const *topics; /* full names */
    size_t topic_count;
    const struct kafka_consumer_events *events;
    void *owner;
};

/* A first start of the group (no offset stored) begins at the earliest. */
struct kafka_consumer *kafka_consumer_open(struct loop *loop,
    const struct conf *conf, const struct kafka_consumer_options *options,
    struct err *err) MUST_CHECK;
/* Commits what was stored (bounded, 2 s) and leaves the group. NULL ok. */
void kafka_consumer_close(struct kafka_consumer *consumer);
/* Stops and restarts delivery of all records (back-pressure). Polling goes on,
 * so that the group does not evict us. */
void kafka_consumer_pause(struct kafka_consumer *consumer);
void kafka_consumer_resume(struct kafka_consumer *consumer);
bool kafka_consumer_is_paused(const struct kafka_consumer *consumer);
/* The next offset to consume after a restart; committed within 1 s. Ignored
 * when the generation is not the current one. */
void kafka_consumer_store(struct kafka_consumer *consumer, const char *topic,
    int32_t partition, int64_t next_offset, uint64_t generation);
uint64_t kafka_consumer_generation(const struct kafka_consumer *consumer);

/* -- producer -------------------------------------------------------------- */

struct kafka_producer;

enum kafka_delivery {
    KAFKA_DELIVERED,     /* acknowledged by all in-sync replicas */
    KAFKA_NOT_DELIVERED, /* certainly not in the log */
    KAFKA_MAYBE_DELIVERED
};

typedef void (*kafka_delivered_fn)(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err);

/* linger_ms: 0 for doors that answer people, 5 for bulk. After a fatal error
 * of the idempotent producer the instance is replaced by itself. */
struct kafka_producer *kafka_producer_open(struct loop *loop,
    const struct conf *conf, int linger_ms, struct err *err) MUST_CHECK;
/* Waits at most wait_ms for what is in flight. NULL ok. */
void kafka_producer_close(struct kafka_producer *producer, int wait_ms);
/* Learns and keeps the partitions of a topic (at most 4 topics), since the
 * first record to an unknown topic is up to 1 s late. */
void kafka_producer_prepare(struct kafka_producer *producer, const char *topic);
/*
 * Copies key, value, headers; delivered runs once, later. Returns -1 (and
 * delivered never runs) when the queue is full (TRANSIENT) or the record is too
 * large (PERMANENT). partition -1: murmur2 of the key.
 */
int kafka_produce(struct kafka_producer *producer, const char *topic,
    int32_t partition, struct span key, struct span value,
    const struct kafka_header *headers, size_t header_count,
    kafka_delivered_fn delivered, void *arg, struct err *err) MUST_CHECK;
size_t kafka_producer_queued(const struct kafka_producer *producer);
/* True while at least one broker is connected. */
bool kafka_producer_is_up(const struct kafka_producer *producer);

/* -- shared ---------------------------------------------------------------- */

/* A configuration with the base settings and the pass-through names applied.
 * The caller owns it (rd_kafka_conf_destroy or rd_kafka_new). */
rd_kafka_conf_t *kafka_base_conf(
    const struct conf *conf, struct err *err) MUST_CHECK;
int kafka_conf_set(rd_kafka_conf_t *rk, const char *name, const char *value,
    struct err *err) MUST_CHECK;
/* Blocking, at start: brokers answer within 10 s and the topics exist. FATAL
 * with one line that says what to do. partitions may be NULL. */
int kafka_check_topics(const struct conf *conf, const char *const *topics,
    size_t count, int *partitions, struct err *err) MUST_CHECK;
/* The value of the last header of that name; false if absent. */
bool kafka_header_find(
    const rd_kafka_message_t *message, const char *name, struct span *value);
/* "<topics.prefix><name>" into storage owned by the caller (256 bytes). */
void kafka_topic_name(const struct conf *conf, const char *name, char *out);

#endif
