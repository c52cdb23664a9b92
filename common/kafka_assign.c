/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions come and go (eager protocol), and where each begins.
 *
 * auto.offset.reset is "error", so nothing ever jumps silently. No offset
 * committed: the group is new, begin at the beginning. A committed offset that
 * retention has deleted: say how many records are lost, go on at the first one
 * that is left. An offset past the end: the topic is not the one we know;
 * that is the end, for people to look at.
 */
#include <stdlib.h>

#include "common/kafka_private.h"
#include "common/log.h"

enum {
    COMMITTED_WAIT_MS = 3000,
    WATERMARK_WAIT_MS = 3000,
    COMMIT_WAIT_MS = 2000
};

/* -- the steps ------------------------------------------------------------- */

/* Commits what is stored, and waits for the answer a bounded time. */
static void commit_stored(struct kafka_consumer *consumer)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer->rk);
    const rd_kafka_resp_err_t code =
        rd_kafka_commit_queue(consumer->rk, NULL, queue, NULL, NULL);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, COMMIT_WAIT_MS);
        const rd_kafka_resp_err_t answer = event == NULL
                                               ? RD_KAFKA_RESP_ERR__TIMED_OUT
                                               : rd_kafka_event_error(event);
        if (answer != RD_KAFKA_RESP_ERR_NO_ERROR &&
            answer != RD_KAFKA_RESP_ERR__NO_OFFSET) {
            LOG(WARN, "offset_commit_failed", NULL, "%s",
                rd_kafka_err2name(answer));
        }
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
}

/* Gives every partition an explicit start. Where the lookup fails they keep
 * none: librdkafka looks up itself, and an error comes for each new one. */
static void find_starts(struct kafka_consumer *consumer,
    rd_kafka_topic_partition_list_t *partitions)
{
    const rd_kafka_resp_err_t code =
        rd_kafka_committed(consumer->rk, partitions, COMMITTED_WAIT_MS);
    for (int i = 0; i < partitions->cnt; i++) {
        rd_kafka_topic_partition_t *partition = &partitions->elems[i];
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR ||
            partition->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            partition->offset = RD_KAFKA_OFFSET_INVALID;
            partition->err = RD_KAFKA_RESP_ERR_NO_ERROR;
        } else if (partition->offset < 0) {
            partition->offset = RD_KAFKA_OFFSET_BEGINNING;
        }
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        LOG(WARN, "offset_lookup_failed", NULL, "%s", rd_kafka_err2name(code));
    }
}

static void start(struct kafka_consumer *consumer,
    rd_kafka_topic_partition_list_t *partitions)
{
    if (partitions->cnt > 0) {
        find_starts(consumer, partitions);
    }
    const rd_kafka_resp_err_t code = rd_kafka_assign(consumer->rk, partitions);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        struct err err = ERR_INIT;
        (void)kafka_error(&err, code, "cannot take the partitions");
        kafka_consumer_tell(consumer, &err);
    }
    consumer->generation++;
    if (consumer->are_partitions_paused) {
        (void)rd_kafka_pause_partitions(consumer->rk, partitions);
    }
    LOG(INFO, "partitions_assigned",
        (&(struct log_fields){
            .number_name = "partitions", .number = partitions->cnt}),
        "generation %llu", (unsigned long long)consumer->generation);
    if (consumer->events->on_assigned != NULL) {
        consumer->events->on_assigned(
            consumer->owner, partitions, consumer->generation);
    }
}

static void give_up(struct kafka_consumer *consumer,
    const rd_kafka_topic_partition_list_t *partitions, bool are_lost)
{
    if (consumer->events->on_revoked != NULL) {
        consumer->events->on_revoked(consumer->owner, partitions);
    }
    kafka_consumer_drop_held(consumer);
    if (!are_lost && partitions->cnt > 0) {
        commit_stored(consumer);
    }
    /* A store that comes later belongs to nobody. */
    consumer->generation++;
}

/* -- called by librdkafka -------------------------------------------------- */

void kafka_assign_on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code,
    rd_kafka_topic_partition_list_t *partitions, void *opaque)
{
    struct kafka_consumer *consumer = opaque;
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        if (consumer->is_closing) {
            (void)rd_kafka_assign(rk, NULL);
        } else {
            start(consumer, partitions);
        }
        return;
    }
    consumer->must_reassign = false;
    const bool are_lost = code != RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS ||
                          rd_kafka_assignment_lost(rk) != 0;
    give_up(consumer, partitions, are_lost);
    (void)rd_kafka_assign(rk, NULL);
    LOG(INFO, "partitions_revoked",
        (&(struct log_fields){
            .number_name = "partitions", .number = partitions->cnt}),
        "%s", are_lost ? "lost" : "given up");
}

/* -- again ----------------------------------------------------------------- */

void kafka_assign_again(struct kafka_consumer *consumer)
{
    consumer->must_reassign = false;
    rd_kafka_topic_partition_list_t *partitions = NULL;
    if (rd_kafka_assignment(consumer->rk, &partitions) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
        return;
    }
    if (partitions->cnt > 0) {
        give_up(consumer, partitions, false);
        start(consumer, partitions);
    }
    rd_kafka_topic_partition_list_destroy(partitions);
}

void kafka_assign_set_paused(struct kafka_consumer *consumer, bool is_paused)
{
    consumer->are_partitions_paused = is_paused;
    rd_kafka_topic_partition_list_t *partitions = NULL;
    if (rd_kafka_assignment(consumer->rk, &partitions) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
        return;
    }
    if (is_paused) {
        (void)rd_kafka_pause_partitions(consumer->rk, partitions);
    } else {
        (void)rd_kafka_resume_partitions(consumer->rk, partitions);
    }
    rd_kafka_topic_partition_list_destroy(partitions);
}

/* -- offsets out of range -------------------------------------------------- */

static void skip_lost(struct kafka_consumer *consumer, const char *topic,
    int32_t partition, int64_t from, int64_t low)
{
    LOG(ERROR, "records_lost_by_retention",
        (&(struct log_fields){.name1 = "topic",
            .value1 = topic,
            .number_name = "records",
            .number = low - from}),
        "partition %d: offsets %lld to %lld were deleted before they were"
        " consumed",
        partition, (long long)from, (long long)(low - 1));
    kafka_consumer_store(consumer, topic, partition, low, consumer->generation);
    consumer->must_reassign = true;
}

static void on_out_of_range(
    struct kafka_consumer *consumer, const rd_kafka_message_t *message)
{
    const char *topic = rd_kafka_topic_name(message->rkt);
    struct err err = ERR_INIT;
    int64_t low = 0;
    int64_t high = 0;
    if (message->offset < 0) {
        consumer->must_reassign = true; /* nothing was committed */
        return;
    }
    const rd_kafka_resp_err_t code =
        rd_kafka_query_watermark_offsets(consumer->rk, topic,
            message->partition, &low, &high, WATERMARK_WAIT_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        (void)kafka_error(&err, code, "cannot read the topic's watermarks");
        consumer->must_reassign = true;
        kafka_consumer_tell(consumer, &err);
    } else if (message->offset < low) {
        skip_lost(consumer, topic, message->partition, message->offset, low);
    } else {
        (void)err_set(&err, ERR_FATAL, "KAFKA_OUT_OF_RANGE",
            "%.100s partition %d: offset %lld is committed, but the topic ends"
            " at %lld: it was made anew or has lost records",
            topic, message->partition, (long long)message->offset,
            (long long)high);
        kafka_consumer_tell(consumer, &err);
    }
}

void kafka_assign_on_error(
    struct kafka_consumer *consumer, const rd_kafka_message_t *message)
{
    if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET &&
        message->rkt != NULL) {
        on_out_of_range(consumer, message);
        return;
    }
    struct err err = ERR_INIT;
    (void)kafka_error(&err, message->err, rd_kafka_message_errstr(message));
    kafka_consumer_tell(consumer, &err);
}
