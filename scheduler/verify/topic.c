/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topic: reads the outcomes topic as any read_committed reader sees it, from
 * the last mark to the end offsets of now, and judges each record.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "common/kafka.h"
#include "common/time.h"
#include "scheduler/verify/pass_private.h"

enum {
    TIMEOUT_MS = 10000,
    POLL_MS = 100,
    STALL_S = 30,
    LOOK_UP_ROWS = 1000,
    STEP_RECORDS = 10000
};

/* A record whose row is still to be looked for. */
struct sight {
    int64_t seq;
    uint8_t id[UUID_SIZE];
};

struct reader {
    struct pass *pass;
    rd_kafka_t *client;
    char topic[256];
    struct positions next; /* of this read */
    struct positions ends;
    struct positions firsts; /* lowest seq a cut partition began with */
    bool *is_cut; /* by partition: the topic begins after our start; owned */
    int32_t partitions;
    int32_t behind; /* partitions not read to their end */
    struct sight sights[LOOK_UP_ROWS];
    size_t sight_count;
};

static int code_error(
    rd_kafka_resp_err_t code, const char *what, struct err *err)
{
    return err_set(err, ERR_TRANSIENT, "TOPIC_UNREADABLE",
        "outcomes topic: %s: %s", what, rd_kafka_err2str(code));
}

/* -- opening ------------------------------------------------------------------------- */

static int open_client(struct reader *reader, struct err *err)
{
    static const char *const settings[][2] = {
        {"group.id", "actionist-verify"}, /* never joined, never committed */
        {"isolation.level", "read_committed"},
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "error"},
        {"socket.timeout.ms", "10000"},
        {"queued.max.messages.kbytes", "16384"},
    };
    rd_kafka_conf_t *conf = kafka_base_conf(reader->pass->options->conf, err);
    if (conf == NULL) {
        return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        if (kafka_conf_set(conf, settings[i][0], settings[i][1], err) != 0) {
            rd_kafka_conf_destroy(conf);
            return -1;
        }
    }
    char text[200] = "";
    reader->client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (reader->client == NULL) {
        rd_kafka_conf_destroy(conf);
        return err_set(err, ERR_FATAL, "KAFKA_SETTING", "%s", text);
    }
    (void)rd_kafka_poll_set_consumer(reader->client);
    return 0;
}

static int count_partitions(struct reader *reader, struct err *err)
{
    rd_kafka_topic_t *handle =
        rd_kafka_topic_new(reader->client, reader->topic, NULL);
    if (handle == NULL) {
        return err_set(err, ERR_FATAL, "TOPIC_NAME",
            "%s is not the name of a topic", reader->topic);
    }
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code =
        rd_kafka_metadata(reader->client, 0, handle, &metadata, TIMEOUT_MS);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        code = metadata->topic_cnt == 1 ? metadata->topics[0].err
                                        : RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
        reader->partitions =
            metadata->topic_cnt == 1 ? metadata->topics[0].partition_cnt : 0;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(handle);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR
               ? 0
               : code_error(code, "partitions", err);
}

/* -- where to read --------------------------------------------------------------------- */

/* The topic ends before what we have read: all we know of it is void. */
static void forget_topic(struct pass *pass)
{
    pass->result->is_topic_anew = true;
    positions_fini(&pass->read_from);
    positions_fini(&pass->read_to);
    pass->seen.base = 0;
}

static int find_ends(struct reader *reader, int64_t *starts, struct err *err)
{
    struct pass *pass = reader->pass;
    for (int32_t i = 0; i < reader->partitions; i++) {
        int64_t high = 0;
        const rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(
            reader->client, reader->topic, i, &starts[i], &high, TIMEOUT_MS);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
            return code_error(code, "end offsets", err);
        }
        positions_advance(&reader->ends, i, high);
        positions_advance(&pass->next_to, i, high);
        if (positions_get(&pass->read_to, i) > high) {
            forget_topic(pass);
        }
    }
    return 0;
}

static int assign(struct reader *reader, const int64_t *starts, struct err *err)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(reader->partitions);
    for (int32_t i = 0; i < reader->partitions; i++) {
        int64_t from = positions_get(&reader->pass->read_from, i);
        from = from == POSITION_UNKNOWN ? 0 : from;
        reader->is_cut[i] = from < starts[i];
        from = from < starts[i] ? starts[i] : from;
        positions_advance(&reader->next, i, from);
        if (from < positions_get(&reader->ends, i)) {
            rd_kafka_topic_partition_list_add(list, reader->topic, i)->offset =
                from;
            reader->behind++;
        }
    }
    const rd_kafka_resp_err_t code = rd_kafka_assign(reader->client, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0
                                              : code_error(code, "assign", err);
}

/* -- judging ----------------------------------------------------------------------------- */

/* Looks for the rows of the records gathered so far. */
static int look_up(struct reader *reader, struct err *err)
{
    struct pass *pass = reader->pass;
    if (reader->sight_count == 0) {
        return 0;
    }
    pg_array_begin(&pass->params, PG_INT8);
    for (size_t i = 0; i < reader->sight_count; i++) {
        pg_array_int8(&pass->params, reader->sights[i].seq);
    }
    pg_array_end(&pass->params);
    pg_array_begin(&pass->params, PG_UUID);
    for (size_t i = 0; i < reader->sight_count; i++) {
        pg_array_bytes(&pass->params,
            (struct span){(const char *)reader->sights[i].id, UUID_SIZE});
    }
    pg_array_end(&pass->params);
    reader->sight_count = 0;
    PGresult *rows = pass_query(pass, SQL_VERIFY_UNKNOWN, err);
    if (rows == NULL) {
        return -1;
    }
    int code = 0;
    for (int row = 0; row < pg_rows(rows) && code == 0; row++) {
        char id[UUID_TEXT_SIZE];
        uuid_format(reader->sights[pg_get_int(rows, row, 0) - 1].id, id);
        code = pass_find(pass, VERIFY_UNKNOWN, id, err);
    }
    PQclear(rows);
    return code;
}

static int judge_ours(struct reader *reader, const rd_kafka_message_t *message,
    int64_t seq, const uint8_t id[UUID_SIZE], struct err *err)
{
    struct pass *pass = reader->pass;
    const int32_t partition = message->partition;
    if (seq > pass->next_seq &&
        positions_get(&pass->next_from, partition) == POSITION_UNKNOWN) {
        positions_advance(&pass->next_from, partition, message->offset);
    }
    if (reader->is_cut[partition] &&
        positions_get(&reader->firsts, partition) == POSITION_UNKNOWN) {
        positions_advance(&reader->firsts, partition, seq);
    }
    const bool was_read =
        message->offset < positions_get(&pass->read_to, partition);
    const bool is_partial = pass->options->from_us != 0;
    const enum verify_word word =
        verify_record(&pass->seen, seq, was_read, is_partial);
    if (word == VERIFY_SKIP) {
        return 0;
    }
    if (word == VERIFY_AGAIN) {
        char text[UUID_TEXT_SIZE];
        uuid_format(id, text);
        return pass_find(pass, VERIFY_TWICE, text, err);
    }
    struct sight *sight = &reader->sights[reader->sight_count];
    sight->seq = seq;
    memcpy(sight->id, id, UUID_SIZE);
    reader->sight_count++;
    return reader->sight_count == LOOK_UP_ROWS ? look_up(reader, err) : 0;
}

static int judge_record(
    struct reader *reader, const rd_kafka_message_t *message, struct err *err)
{
    struct pass *pass = reader->pass;
    const struct span key = {message->key, message->key_len};
    struct span text;
    uint8_t id[UUID_SIZE];
    int64_t seq = 0;
    if (pass->options->tenant != NULL && !span_is(key, pass->options->tenant)) {
        return 0;
    }
    pass->result->records++;
    if (kafka_header_find(message, "id", &text) && uuid_parse(text, id) &&
        kafka_header_find(message, "seq", &text) && span_to_int(text, &seq) &&
        seq > 0) {
        return judge_ours(reader, message, seq, id, err);
    }
    char where[VERIFY_SAMPLE_SIZE];
    (void)snprintf(where, sizeof(where), "%ld:%lld", (long)message->partition,
        (long long)message->offset);
    return pass_find(pass, VERIFY_FOREIGN, where, err);
}

/* -- reading ------------------------------------------------------------------------------- */

static void advance(struct reader *reader, int32_t partition, int64_t next)
{
    const int64_t end = positions_get(&reader->ends, partition);
    const bool was_behind = positions_get(&reader->next, partition) < end;
    positions_advance(&reader->next, partition, next);
    if (was_behind && next >= end) {
        reader->behind--;
    }
}

static int take(
    struct reader *reader, const rd_kafka_message_t *message, struct err *err)
{
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        advance(reader, message->partition, message->offset);
        return 0;
    }
    if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        message->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE) {
        return code_error(message->err, "reading", err);
    }
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return 0; /* librdkafka goes on by itself */
    }
    if (message->offset < positions_get(&reader->ends, message->partition) &&
        judge_record(reader, message, err) != 0) {
        return -1;
    }
    advance(reader, message->partition, message->offset + 1);
    return 0;
}

static int read_all(struct reader *reader, struct err *err)
{
    struct pass *pass = reader->pass;
    int64_t moved_us = now_mono_us();
    for (int64_t polls = 0; reader->behind > 0; polls++) {
        rd_kafka_message_t *message =
            rd_kafka_consumer_poll(reader->client, POLL_MS);
        int code = 0;
        if (message != NULL) {
            code = take(reader, message, err);
            rd_kafka_message_destroy(message);
            moved_us = now_mono_us();
        } else if (now_mono_us() - moved_us > STALL_S * US_PER_S) {
            return err_set(err, ERR_TRANSIENT, "TOPIC_STALLED",
                "outcomes topic: nothing to read for %d s before the end of "
                "%ld partitions; somebody's open transaction may hide it",
                STALL_S, (long)reader->behind);
        }
        if (code == 0 && (message == NULL || polls % STEP_RECORDS == 0)) {
            code = pass_step(pass, "records", pass->result->records, err);
        }
        if (code != 0) {
            return -1;
        }
    }
    return look_up(reader, err);
}

/* Where the topic's beginning was deleted, lower numbers cannot be missed. */
static void set_floor(struct reader *reader)
{
    struct pass *pass = reader->pass;
    for (int32_t i = 0; i < reader->partitions; i++) {
        const int64_t first = positions_get(&reader->firsts, i);
        const int64_t floor = first == POSITION_UNKNOWN ? pass->low + 1 : first;
        if (reader->is_cut[i] && floor > pass->floor) {
            pass->floor = floor;
        }
        if (positions_get(&pass->next_from, i) == POSITION_UNKNOWN) {
            positions_advance(
                &pass->next_from, i, positions_get(&pass->next_to, i));
        }
    }
}

static int read_topic(struct reader *reader, struct err *err)
{
    if (open_client(reader, err) != 0 || count_partitions(reader, err) != 0) {
        return -1;
    }
    int64_t *starts = mem_zalloc((size_t)reader->partitions, sizeof(*starts));
    reader->is_cut =
        mem_zalloc((size_t)reader->partitions, sizeof(*reader->is_cut));
    int code = find_ends(reader, starts, err);
    if (code == 0) {
        code = assign(reader, starts, err);
    }
    free(starts);
    if (code != 0 || read_all(reader, err) != 0) {
        return -1;
    }
    set_floor(reader);
    return 0;
}

int pass_read_topic(struct pass *pass, struct err *err)
{
    struct reader *reader = mem_zalloc(1, sizeof(*reader));
    reader->pass = pass;
    positions_init(&reader->next);
    positions_init(&reader->ends);
    positions_init(&reader->firsts);
    kafka_topic_name(pass->options->conf, "outcomes", reader->topic);
    const int code = read_topic(reader, err);
    if (reader->client != NULL) {
        rd_kafka_destroy_flags(
            reader->client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    }
    free(reader->is_cut);
    positions_fini(&reader->firsts);
    positions_fini(&reader->ends);
    positions_fini(&reader->next);
    free(reader);
    return code;
}
