/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of kafka share. Only kafka*.c include this.
 *
 * kafka.c           configuration, the check at start, headers
 * kafka_consumer.c  polling, pausing, delivery of records, closing
 * kafka_assign.c    what happens when partitions come and go
 * kafka_producer.c  producing and delivery reports
 */
#ifndef KAFKA_PRIVATE_H
#define KAFKA_PRIVATE_H

#include "common/kafka.h"

#define KAFKA_TOPIC_SIZE 256

struct kafka_pair {
    const char *name;
    const char *value;
};

/* -- kafka.c --------------------------------------------------------------- */

/*
 * base, then the tunable pairs, then the pass-through names, then the fixed
 * pairs, which correctness needs and nobody may change. Both lists end with a
 * NULL name.
 */
rd_kafka_conf_t *kafka_role_conf(const struct conf *conf,
    const struct kafka_pair *tunable, const struct kafka_pair *fixed,
    struct err *err) MUST_CHECK;
/* Ownership of rk passes to the client, or it is destroyed. */
rd_kafka_t *kafka_client_new(
    rd_kafka_type_t type, rd_kafka_conf_t *rk, struct err *err) MUST_CHECK;
/* Lets queue write to a new event fd, which the caller closes. */
int kafka_queue_fd(rd_kafka_queue_t *queue);
void kafka_fd_signal(int fd);
void kafka_fd_clear(int fd);
/* Class TRANSIENT, with librdkafka's name of the code. */
int kafka_error(struct err *err, rd_kafka_resp_err_t code, const char *what);

/* -- the consumer's two halves --------------------------------------------- */

struct kafka_consumer {
    struct loop *loop;
    rd_kafka_t *rk;
    int fd;
    struct loop_fd *watch;
    struct loop_timer *tick;
    const struct kafka_consumer_events *events;
    void *owner;
    uint64_t generation;
    rd_kafka_message_t **held; /* came while paused; owned */
    size_t held_count;
    size_t held_cap;
    int64_t paused_at_us;
    unsigned depth; /* frames on the stack that use this struct */
    bool is_paused;
    bool are_partitions_paused; /* the pause has reached librdkafka */
    bool must_reassign;         /* start again from the committed offsets */
    bool is_closing;
};

void kafka_assign_on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code,
    rd_kafka_topic_partition_list_t *partitions, void *opaque);
/* Takes an error that came in place of a record. */
void kafka_assign_on_error(
    struct kafka_consumer *consumer, const rd_kafka_message_t *message);
/* Does what must_reassign asks for. */
void kafka_assign_again(struct kafka_consumer *consumer);
void kafka_assign_set_paused(struct kafka_consumer *consumer, bool is_paused);
void kafka_consumer_drop_held(struct kafka_consumer *consumer);
void kafka_consumer_tell(
    struct kafka_consumer *consumer, const struct err *err);

#endif
