/* SPDX-License-Identifier: Apache-2.0 */
/* Kafka for the benchmark: no loop of ours between the clock and the log. */
#include <stdio.h>
#include <stdlib.h>

#include "common/kafka.h"
#include "scheduler/ctl/bench.h"
#include "scheduler/ctl/dev_process.h"

enum { ADMIN_WAIT_MS = 30000, FLUSH_WAIT_MS = 30000, REASON_SIZE = 160 };

struct setting {
    const char *name;
    const char *value;
};

static rd_kafka_conf_t *make_conf(const struct conf *conf,
    const struct setting *settings, size_t count, struct err *err)
{
    rd_kafka_conf_t *rk = kafka_base_conf(conf, err);
    for (size_t i = 0; rk != NULL && i < count; i++) {
        if (kafka_conf_set(rk, settings[i].name, settings[i].value, err) != 0) {
            rd_kafka_conf_destroy(rk);
            return NULL;
        }
    }
    return rk;
}

static rd_kafka_t *open_client(
    rd_kafka_type_t type, rd_kafka_conf_t *settings, struct err *err)
{
    char reason[REASON_SIZE];
    if (settings == NULL)
        return NULL;
    rd_kafka_t *client = rd_kafka_new(type, settings, reason, sizeof reason);
    if (client == NULL) {
        rd_kafka_conf_destroy(settings);
        (void)err_set(err, ERR_FATAL, "KAFKA_CLIENT", "%s", reason);
    }
    return client;
}

/* -- producer ----------------------------------------------------------------- */

static void on_delivered(
    rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    int64_t *failed = opaque;
    (void)client;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        (*failed)++;
}

rd_kafka_t *bench_producer_open(
    const struct conf *conf, int linger_ms, int64_t *failed, struct err *err)
{
    char linger[16];
    snprintf(linger, sizeof linger, "%d", linger_ms);
    const struct setting settings[] = {
        {"linger.ms", linger},
        {"enable.idempotence", "true"},
        {"partitioner", "murmur2_random"},
        {"compression.codec", "lz4"},
        {"queue.buffering.max.messages", "100000"},
    };
    rd_kafka_conf_t *rk = make_conf(conf, settings, ARRAY_LEN(settings), err);
    if (rk == NULL)
        return NULL;
    rd_kafka_conf_set_opaque(rk, failed);
    rd_kafka_conf_set_dr_msg_cb(rk, on_delivered);
    return open_client(RD_KAFKA_PRODUCER, rk, err);
}

void bench_producer_close(rd_kafka_t *producer)
{
    if (producer == NULL)
        return;
    (void)rd_kafka_flush(producer, FLUSH_WAIT_MS);
    rd_kafka_destroy(producer);
}

int bench_put(rd_kafka_t *producer, const char *topic, int32_t partition,
    struct span key, struct span value, struct err *err)
{
    const rd_kafka_vu_t arguments[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = partition},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY,
            .u.mem = {(void *)(uintptr_t)key.ptr, key.len}},
        {.vtype = RD_KAFKA_VTYPE_VALUE,
            .u.mem = {(void *)(uintptr_t)value.ptr, value.len}},
    };
    for (;;) {
        rd_kafka_error_t *failure =
            rd_kafka_produceva(producer, arguments, ARRAY_LEN(arguments));
        if (failure == NULL)
            return 0;
        const rd_kafka_resp_err_t rc = rd_kafka_error_code(failure);
        rd_kafka_error_destroy(failure);
        if (rc != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            return err_set(err, ERR_TRANSIENT, "KAFKA_PRODUCE", "%s: %s", topic,
                rd_kafka_err2str(rc));
        if (dev_is_interrupted())
            return err_set(err, ERR_PERMANENT, "INTERRUPTED", "interrupted");
        (void)rd_kafka_poll(producer, 10);
    }
}

/* -- reader --------------------------------------------------------------------- */

static int assign(rd_kafka_t *reader, const char *topic, int partitions,
    int64_t offset, struct err *err)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(partitions);
    rd_kafka_resp_err_t rc = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int i = 0; i < partitions && rc == 0; i++) {
        int64_t low = 0;
        int64_t high = 0;
        rc = rd_kafka_query_watermark_offsets(
            reader, topic, i, &low, &high, ADMIN_WAIT_MS);
        rd_kafka_topic_partition_list_add(list, topic, i)->offset =
            offset == RD_KAFKA_OFFSET_END ? high : low;
    }
    if (rc == 0)
        rc = rd_kafka_assign(reader, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (rc != 0)
        return err_set(err, ERR_TRANSIENT, "KAFKA_READ", "%s: %s", topic,
            rd_kafka_err2str(rc));
    return 0;
}

rd_kafka_t *bench_reader_open(const struct conf *conf, const char *topic,
    int partitions, int64_t offset, struct err *err)
{
    char group[64];
    snprintf(group, sizeof group, "%sbench", conf_text(conf, "topics.prefix"));
    /* A larger queue than usual: once it is full, librdkafka 2.0 fetches
     * nothing for a whole second. */
    const struct setting settings[] = {
        {"group.id", group},
        {"isolation.level", "read_committed"},
        {"enable.auto.commit", "true"},
        {"auto.commit.interval.ms", "1000"},
        {"enable.auto.offset.store", "false"},
        {"fetch.wait.max.ms", "100"},
        {"queued.max.messages.kbytes", "262144"},
    };
    rd_kafka_t *reader = open_client(RD_KAFKA_CONSUMER,
        make_conf(conf, settings, ARRAY_LEN(settings), err), err);
    if (reader == NULL)
        return NULL;
    (void)rd_kafka_poll_set_consumer(reader);
    if (assign(reader, topic, partitions, offset, err) != 0) {
        bench_reader_close(reader);
        return NULL;
    }
    return reader;
}

void bench_reader_close(rd_kafka_t *reader)
{
    if (reader == NULL)
        return;
    (void)rd_kafka_consumer_close(reader);
    rd_kafka_destroy(reader);
}

/* -- topics ----------------------------------------------------------------------- */

/* Waits for the answer of an admin request: the first error in it. */
static rd_kafka_resp_err_t await_answer(rd_kafka_queue_t *queue)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, ADMIN_WAIT_MS);
    if (event == NULL)
        return RD_KAFKA_RESP_ERR__TIMED_OUT;
    rd_kafka_resp_err_t rc = rd_kafka_event_error(event);
    const rd_kafka_CreateTopics_result_t *made =
        rd_kafka_event_CreateTopics_result(event);
    size_t count = 0;
    const rd_kafka_topic_result_t **topics =
        made != NULL ? rd_kafka_CreateTopics_result_topics(made, &count) : NULL;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = rd_kafka_topic_result_error(topics[i]);
    rd_kafka_event_destroy(event);
    return rc;
}

int bench_topics_create(const struct conf *conf, const char *const *topics,
    size_t count, int partitions, struct err *err)
{
    rd_kafka_NewTopic_t *wanted[8] = {NULL};
    char reason[REASON_SIZE];
    rd_kafka_t *client =
        open_client(RD_KAFKA_PRODUCER, make_conf(conf, NULL, 0, err), err);
    if (client == NULL)
        return -1;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    size_t made = 0;
    while (made < count && made < ARRAY_LEN(wanted)) {
        wanted[made] = rd_kafka_NewTopic_new(
            topics[made], partitions, -1, reason, sizeof reason);
        if (wanted[made] == NULL)
            break;
        made++;
    }
    rd_kafka_CreateTopics(client, wanted, made, NULL, queue);
    rd_kafka_resp_err_t rc =
        made == count ? await_answer(queue) : RD_KAFKA_RESP_ERR__INVALID_ARG;
    rd_kafka_NewTopic_destroy_array(wanted, made);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(client);
    if (rc == 0)
        return 0;
    return err_set(err, ERR_TRANSIENT, "KAFKA_TOPICS",
        "topics of the benchmark: %s", rd_kafka_err2str(rc));
}

void bench_topics_delete(
    const struct conf *conf, const char *const *topics, size_t count)
{
    rd_kafka_DeleteTopic_t *unwanted[8] = {NULL};
    struct err err = ERR_INIT;
    rd_kafka_t *client =
        open_client(RD_KAFKA_PRODUCER, make_conf(conf, NULL, 0, &err), &err);
    if (client == NULL)
        return;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    size_t made = 0;
    for (; made < count && made < ARRAY_LEN(unwanted); made++)
        unwanted[made] = rd_kafka_DeleteTopic_new(topics[made]);
    rd_kafka_DeleteTopics(client, unwanted, made, NULL, queue);
    (void)await_answer(queue);
    rd_kafka_DeleteTopic_destroy_array(unwanted, made);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(client);
}
