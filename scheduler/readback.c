/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two clients: one that sees everything and so knows the true ends, one that
 * sees what is committed. Reading "to the last stable offset" alone would miss
 * a committed record behind somebody's open transaction; so the ends come from
 * the first client, and the second one reads until it has passed them.
 */
#include "scheduler/readback.h"

#include <stdlib.h>
#include <string.h>

#include "common/kafka.h"
#include "common/log.h"
#include "common/time.h"
#include "scheduler/topic_facts.h"

enum {
    TIMEOUT_MS = 10000,
    POLL_MS = 100,
    ALARM_EVERY_S = 10,
    SMALLEST_RECORD_BYTES = 16384
};

struct readback {
    const struct conf *conf;
    const char *topic;
    const atomic_bool *is_cancelled;
    rd_kafka_t *plain;  /* read_uncommitted */
    rd_kafka_t *stable; /* read_committed */
    int32_t partitions;
};

static int code_error(
    rd_kafka_resp_err_t code, const char *what, struct err *err)
{
    return err_set(err, ERR_TRANSIENT, "READBACK_FAILED", "%s: %s", what,
        rd_kafka_err2str(code));
}

/* -- opening ----------------------------------------------------------------------- */

static rd_kafka_t *make_client(const struct conf *conf, const char *group,
    const char *isolation, struct err *err)
{
    const char *const settings[][2] = {
        {"group.id", group},
        {"isolation.level", isolation},
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "error"},
        {"socket.timeout.ms", "10000"},
        {"queued.max.messages.kbytes", "16384"},
    };
    rd_kafka_conf_t *rk = kafka_base_conf(conf, err);
    if (rk == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        if (kafka_conf_set(rk, settings[i][0], settings[i][1], err) != 0) {
            rd_kafka_conf_destroy(rk);
            return NULL;
        }
    }
    char text[200] = "";
    rd_kafka_t *client =
        rd_kafka_new(RD_KAFKA_CONSUMER, rk, text, sizeof(text));
    if (client == NULL) {
        rd_kafka_conf_destroy(rk);
        (void)err_set(err, ERR_FATAL, "KAFKA_SETTING", "%s", text);
        return NULL;
    }
    (void)rd_kafka_poll_set_consumer(client);
    return client;
}

struct readback *readback_open(const struct conf *conf, const char *topic,
    const char *group, const atomic_bool *is_cancelled, struct err *err)
{
    struct readback *readback = mem_zalloc(1, sizeof(*readback));
    readback->conf = conf;
    readback->topic = topic;
    readback->is_cancelled = is_cancelled;
    readback->plain = make_client(conf, group, "read_uncommitted", err);
    if (readback->plain != NULL) {
        readback->stable = make_client(conf, group, "read_committed", err);
    }
    if (readback->stable == NULL) {
        readback_close(readback);
        return NULL;
    }
    return readback;
}

static void close_client(rd_kafka_t *client)
{
    if (client != NULL) {
        /* It never joined the group: there is nothing to leave. */
        rd_kafka_destroy_flags(client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    }
}

void readback_close(struct readback *readback)
{
    if (readback == NULL) {
        return;
    }
    close_client(readback->plain);
    close_client(readback->stable);
    free(readback);
}

int readback_check_topic(
    struct readback *readback, size_t *max_record_bytes, struct err *err)
{
    struct topic_facts facts;
    if (topic_facts_read(readback->plain, readback->topic, &facts, err) != 0) {
        return -1;
    }
    if (!facts.is_delete_only) {
        return err_set(err, ERR_FATAL, "TOPIC_COMPACTED",
            "topic %s: cleanup.policy must be delete", readback->topic);
    }
    if (facts.max_message_bytes < SMALLEST_RECORD_BYTES) {
        return err_set(err, ERR_FATAL, "TOPIC_TOO_NARROW",
            "topic %s: max.message.bytes must be at least %d", readback->topic,
            SMALLEST_RECORD_BYTES);
    }
    readback->partitions = facts.partitions;
    *max_record_bytes = (size_t)facts.max_message_bytes;
    return 0;
}

/* -- where to read ------------------------------------------------------------------- */

static int check_position(const struct readback *readback, int32_t partition,
    int64_t position, const int64_t bounds[2], struct err *err)
{
    if (position >= bounds[0] && position <= bounds[1]) {
        return 0;
    }
    return err_set(err, ERR_FATAL, "POSITION_OUTSIDE",
        "topic %s partition %ld holds offsets %lld to %lld, but the "
        "checkpoint continues at %lld: outcomes were lost or the topic was "
        "made anew",
        readback->topic, (long)partition, (long long)bounds[0],
        (long long)bounds[1], (long long)position);
}

/* Fills from and ends; a partition that is not known begins at its start. */
static int find_bounds(struct readback *readback, const struct positions *known,
    struct positions *from, struct positions *ends, struct err *err)
{
    if (known->count > readback->partitions) {
        return err_set(err, ERR_FATAL, "POSITION_OUTSIDE",
            "topic %s has %ld partitions, the checkpoint knows %ld",
            readback->topic, (long)readback->partitions, (long)known->count);
    }
    for (int32_t i = 0; i < readback->partitions; i++) {
        int64_t bounds[2] = {0, 0};
        const rd_kafka_resp_err_t code =
            rd_kafka_query_watermark_offsets(readback->plain, readback->topic,
                i, &bounds[0], &bounds[1], TIMEOUT_MS);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
            return code_error(code, "end offsets", err);
        }
        int64_t position = positions_get(known, i);
        position = position == POSITION_UNKNOWN ? 0 : position;
        if (check_position(readback, i, position, bounds, err) != 0) {
            return -1;
        }
        positions_advance(from, i, position);
        positions_advance(ends, i, bounds[1]);
    }
    return 0;
}

int readback_read_watermark(
    struct readback *readback, int64_t *watermark, struct err *err)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(1);
    const rd_kafka_topic_partition_t *element =
        rd_kafka_topic_partition_list_add(list, readback->topic, 0);
    const rd_kafka_resp_err_t code =
        rd_kafka_committed(readback->stable, list, TIMEOUT_MS);
    *watermark = element->offset < 0 ? -1 : element->offset;
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR
               ? 0
               : code_error(code, "watermark", err);
}

/* -- reading ------------------------------------------------------------------------- */

static void add_found(struct lane_start *start, int64_t seq, const uint8_t *id)
{
    if (start->found_count == start->found_cap) {
        start->found_cap = start->found_cap == 0 ? 256 : start->found_cap * 2;
        start->found =
            mem_resize(start->found, start->found_cap, sizeof(*start->found));
    }
    struct lane_found *found = &start->found[start->found_count];
    found->seq = seq;
    memcpy(found->id, id, UUID_SIZE);
    start->found_count++;
}

static void take_record(
    struct lane_start *start, const rd_kafka_message_t *message)
{
    struct span text;
    uint8_t id[UUID_SIZE];
    int64_t seq = 0;
    if (kafka_header_find(message, "id", &text) && uuid_parse(text, id) &&
        kafka_header_find(message, "seq", &text) && span_to_int(text, &seq) &&
        seq > 0) {
        add_found(start, seq, id);
    } else {
        start->foreign++;
    }
}

/* How many partitions have not been read up to their end. */
static int32_t count_behind(
    const struct positions *next, const struct positions *ends)
{
    int32_t behind = 0;
    for (int32_t i = 0; i < ends->count; i++) {
        behind += positions_get(next, i) < positions_get(ends, i) ? 1 : 0;
    }
    return behind;
}

static int assign(struct readback *readback, const struct positions *from,
    const struct positions *ends, struct err *err)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(ends->count);
    for (int32_t i = 0; i < ends->count; i++) {
        if (positions_get(from, i) < positions_get(ends, i)) {
            rd_kafka_topic_partition_list_add(list, readback->topic, i)
                ->offset = positions_get(from, i);
        }
    }
    const rd_kafka_resp_err_t code = rd_kafka_assign(readback->stable, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0
                                              : code_error(code, "assign", err);
}

/* One message or event. Records beyond the end cannot be ours: both lanes were
 * fenced before the ends were taken. */
static int take_message(const rd_kafka_message_t *message,
    struct positions *next, const struct positions *ends,
    struct lane_start *start, struct err *err)
{
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        positions_advance(next, message->partition, message->offset);
        return 0;
    }
    if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        message->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE) {
        return code_error(message->err, "reading", err);
    }
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return 0; /* librdkafka goes on by itself */
    }
    if (message->offset < positions_get(ends, message->partition)) {
        take_record(start, message);
    }
    positions_advance(next, message->partition, message->offset + 1);
    return 0;
}

static int read_all(struct readback *readback, struct positions *next,
    const struct positions *ends, struct lane_start *start, struct err *err)
{
    int64_t alarm_us = now_mono_us() + ALARM_EVERY_S * US_PER_S;
    int32_t behind = count_behind(next, ends);
    while (behind > 0) {
        rd_kafka_message_t *message =
            rd_kafka_consumer_poll(readback->stable, POLL_MS);
        if (atomic_load(readback->is_cancelled)) {
            if (message != NULL) {
                rd_kafka_message_destroy(message);
            }
            return err_set(
                err, ERR_TRANSIENT, "READBACK_FAILED", "reading: cancelled");
        }
        if (message != NULL) {
            const int result = take_message(message, next, ends, start, err);
            rd_kafka_message_destroy(message);
            if (result != 0) {
                return -1;
            }
            behind = count_behind(next, ends);
        }
        if (behind > 0 && now_mono_us() > alarm_us) {
            alarm_us = now_mono_us() + ALARM_EVERY_S * US_PER_S;
            LOG(ERROR, "readback_waits",
                (&(struct log_fields){
                    .number_name = "partitions", .number = behind}),
                "somebody's open transaction hides what was published; "
                "waiting for its end");
        }
    }
    return 0;
}

int readback_read(
    struct readback *readback, struct lane_start *start, struct err *err)
{
    struct positions next;
    struct positions ends;
    positions_init(&next);
    positions_init(&ends);
    start->found_count = 0;
    start->foreign = 0;
    int result = find_bounds(readback, &start->positions, &next, &ends, err);
    if (result == 0) {
        result = readback_read_watermark(readback, &start->watermark, err);
    }
    if (result == 0 && count_behind(&next, &ends) > 0) {
        result = assign(readback, &next, &ends, err);
        if (result == 0) {
            result = read_all(readback, &next, &ends, start, err);
        }
    }
    if (result == 0) {
        positions_copy(&start->positions, &ends);
    }
    positions_fini(&next);
    positions_fini(&ends);
    return result;
}
