/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transaction: begin, produce, send the watermark if it is due, wait for
 * the delivery reports, commit. The reports are awaited here, since the flush
 * inside rd_kafka_commit_transaction() polls every 10 ms only.
 *
 * The watermark only cross-checks a start, and one that is behind is no less
 * true. It costs two round trips and a partition more in the transaction, so a
 * lane sends it a few times a second, while its records are on their way.
 */
#include "scheduler/lane.h"

#include <stdlib.h>
#include <string.h>

#include "common/time.h"

enum {
    INIT_STEP_MS = 5000,
    INIT_LIMIT_S = 60,
    OFFSETS_TIMEOUT_MS = 10000,
    /* Longer than message.timeout.ms, which ends every wait before it. */
    REPORTS_LIMIT_S = 25,
    /* socket.timeout.ms: a slower commit may have been sent twice. */
    COMMIT_LIMIT_S = 10,
    POLL_MS = 100,
    WATERMARK_APART_MS = 250
};

struct lane {
    const struct lane_target *target;
    rd_kafka_t *rk;
    rd_kafka_topic_t *topic; /* held, so that its metadata is known */
    rd_kafka_consumer_group_metadata_t *group;
    size_t in_flight;
    int64_t watermark_us;       /* mono: when it was sent last; 0: never */
    rd_kafka_resp_err_t failed; /* the first bad delivery report */
};

static const char *const settings[][2] = {
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"transaction.timeout.ms", "30000"},
    {"message.timeout.ms", "20000"},
    {"socket.timeout.ms", "10000"},
    {"partitioner", "murmur2"}, /* as Java clients: also for a null key */
    /* Records gather anyway, while their partitions are registered. */
    {"linger.ms", "0"},
    {"compression.type", "lz4"},
    {"queue.buffering.max.messages", "20000"},
    {"queue.buffering.max.kbytes", "65536"},
};

/* -- errors ------------------------------------------------------------------------ */

static bool is_fence(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__FENCED ||
           code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
           code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

/* A producer that was fenced fails every call, in words of its own ("purged",
 * "not in this state"); only its fatal error says why. */
static int fail(const struct lane *lane, rd_kafka_resp_err_t code,
    const char *what, const char *why, struct err *err)
{
    char reason[256] = "";
    const rd_kafka_resp_err_t fatal =
        rd_kafka_fatal_error(lane->rk, reason, sizeof(reason));
    return err_set(err, ERR_UNKNOWN,
        is_fence(code) || is_fence(fatal) ? "LANE_FENCED" : "LANE_FAILED",
        is_fence(code) || reason[0] == '\0' ? "%s: %s" : "%s: %s, since %s",
        what, why, reason);
}

static int fail_code(const struct lane *lane, rd_kafka_resp_err_t code,
    const char *what, struct err *err)
{
    return fail(lane, code, what, rd_kafka_err2str(code), err);
}

/* Takes ownership of error. */
static int fail_error(const struct lane *lane, rd_kafka_error_t *error,
    const char *what, struct err *err)
{
    (void)fail(lane, rd_kafka_error_code(error), what,
        rd_kafka_error_string(error), err);
    rd_kafka_error_destroy(error);
    return -1;
}

/* -- opening ----------------------------------------------------------------------- */

static void on_delivered(
    rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct lane *lane = opaque;
    struct lane_row *row = message->_private;
    (void)rk;
    lane->in_flight--;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (lane->failed == RD_KAFKA_RESP_ERR_NO_ERROR) {
            lane->failed = message->err;
        }
        return;
    }
    row->partition = message->partition;
    row->offset = message->offset;
}

static int set_sizes(
    rd_kafka_conf_t *rk, size_t max_record_bytes, struct err *err)
{
    const size_t batch_bytes =
        max_record_bytes < 1000000 ? max_record_bytes : 1000000;
    char text[32];
    (void)snprintf(text, sizeof(text), "%zu", max_record_bytes);
    if (kafka_conf_set(rk, "message.max.bytes", text, err) != 0) {
        return -1;
    }
    (void)snprintf(text, sizeof(text), "%zu", batch_bytes);
    return kafka_conf_set(rk, "batch.size", text, err);
}

static int make_producer(struct lane *lane, const char *id, struct err *err)
{
    rd_kafka_conf_t *rk = kafka_base_conf(lane->target->conf, err);
    if (rk == NULL) {
        return -1;
    }
    int result = kafka_conf_set(rk, "transactional.id", id, err);
    for (size_t i = 0; result == 0 && i < ARRAY_LEN(settings); i++) {
        result = kafka_conf_set(rk, settings[i][0], settings[i][1], err);
    }
    if (result == 0) {
        result = set_sizes(rk, lane->target->max_record_bytes, err);
    }
    if (result != 0) {
        rd_kafka_conf_destroy(rk);
        return -1;
    }
    rd_kafka_conf_set_dr_msg_cb(rk, on_delivered);
    rd_kafka_conf_set_opaque(rk, lane);
    char text[200] = "";
    lane->rk = rd_kafka_new(RD_KAFKA_PRODUCER, rk, text, sizeof(text));
    if (lane->rk == NULL) {
        rd_kafka_conf_destroy(rk);
        return err_set(err, ERR_FATAL, "KAFKA_SETTING", "%s", text);
    }
    lane->topic = rd_kafka_topic_new(lane->rk, lane->target->topic, NULL);
    return 0;
}

static int fence(struct lane *lane, struct err *err)
{
    const int64_t until_us = now_mono_us() + INIT_LIMIT_S * US_PER_S;
    for (;;) {
        rd_kafka_error_t *error =
            rd_kafka_init_transactions(lane->rk, INIT_STEP_MS);
        if (error == NULL) {
            return 0;
        }
        const bool is_over = now_mono_us() > until_us ||
                             atomic_load(lane->target->is_cancelled) ||
                             rd_kafka_error_is_retriable(error) == 0;
        if (is_over) {
            return fail_error(lane, error, "init of the transactions", err);
        }
        rd_kafka_error_destroy(error);
    }
}

struct lane *lane_open(const struct lane_target *target,
    const char *transactional_id, struct err *err)
{
    struct lane *lane = mem_zalloc(1, sizeof(*lane));
    lane->target = target;
    lane->group = rd_kafka_consumer_group_metadata_new(target->group);
    if (make_producer(lane, transactional_id, err) != 0 ||
        fence(lane, err) != 0) {
        lane_close(lane);
        return NULL;
    }
    return lane;
}

void lane_close(struct lane *lane)
{
    if (lane == NULL) {
        return;
    }
    if (lane->topic != NULL) {
        rd_kafka_topic_destroy(lane->topic);
    }
    if (lane->rk != NULL) {
        (void)rd_kafka_purge(
            lane->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_destroy(lane->rk);
    }
    rd_kafka_consumer_group_metadata_destroy(lane->group);
    free(lane);
}

/* -- one transaction --------------------------------------------------------------- */

static int add_header(const struct lane *lane, rd_kafka_headers_t *headers,
    const char *name, const char *value, size_t len, struct err *err)
{
    const rd_kafka_resp_err_t code =
        rd_kafka_header_add(headers, name, -1, value, (ssize_t)len);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR
               ? 0
               : fail_code(lane, code, "headers", err);
}

static int add_headers(const struct lane *lane, rd_kafka_headers_t *headers,
    const struct lane_row *row, const char *bytes, struct err *err)
{
    static const char type[] = "application/json";
    char id[UUID_TEXT_SIZE];
    char seq[24];
    uuid_format(row->id, id);
    const int len = snprintf(seq, sizeof(seq), "%lld", (long long)row->seq);
    if (add_header(lane, headers, "id", id, strlen(id), err) != 0 ||
        add_header(lane, headers, "seq", seq, (size_t)len, err) != 0 ||
        add_header(lane, headers, "content-type", type, strlen(type), err) !=
            0) {
        return -1;
    }
    if (row->trace_len == 0) {
        return 0;
    }
    return add_header(lane, headers, "traceparent", bytes + row->trace_at,
        row->trace_len, err);
}

/* librdkafka copies what the arguments point to. */
static rd_kafka_error_t *produce_with(struct lane *lane, struct lane_row *row,
    char *bytes, rd_kafka_headers_t *headers)
{
    const rd_kafka_vu_t arguments[] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = lane->topic},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY,
            .u.mem = {.ptr = bytes + row->tenant_at, .size = row->tenant_len}},
        {.vtype = RD_KAFKA_VTYPE_VALUE,
            .u.mem = {.ptr = bytes + row->body_at, .size = row->body_len}},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = row},
    };
    return rd_kafka_produceva(lane->rk, arguments, ARRAY_LEN(arguments));
}

static int produce(
    struct lane *lane, struct lane_row *row, char *bytes, struct err *err)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
    if (add_headers(lane, headers, row, bytes, err) != 0) {
        rd_kafka_headers_destroy(headers);
        return -1;
    }
    row->offset = -1;
    rd_kafka_error_t *error = produce_with(lane, row, bytes, headers);
    if (error != NULL) {
        rd_kafka_headers_destroy(headers);
        return fail_error(lane, error, "produce", err);
    }
    lane->in_flight++;
    return 0;
}

static int await_reports(struct lane *lane, struct err *err)
{
    const int64_t until_us = now_mono_us() + REPORTS_LIMIT_S * US_PER_S;
    while (lane->in_flight > 0) {
        (void)rd_kafka_poll(lane->rk, POLL_MS);
        if (lane->failed != RD_KAFKA_RESP_ERR_NO_ERROR) {
            return fail_code(lane, lane->failed, "delivery", err);
        }
        if (now_mono_us() > until_us ||
            atomic_load(lane->target->is_cancelled)) {
            return err_set(err, ERR_UNKNOWN, "LANE_FAILED",
                "delivery: no reports in time");
        }
    }
    return 0;
}

static bool is_watermark_due(struct lane *lane)
{
    const int64_t now_us = now_mono_us();
    if (lane->watermark_us != 0 &&
        now_us - lane->watermark_us < WATERMARK_APART_MS * US_PER_MS) {
        return false;
    }
    lane->watermark_us = now_us;
    return true;
}

static int send_watermark(struct lane *lane, int64_t low, struct err *err)
{
    rd_kafka_topic_partition_list_t *offsets =
        rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(offsets, lane->target->topic, 0)->offset =
        low;
    rd_kafka_error_t *error = rd_kafka_send_offsets_to_transaction(
        lane->rk, offsets, lane->group, OFFSETS_TIMEOUT_MS);
    rd_kafka_topic_partition_list_destroy(offsets);
    return error == NULL ? 0 : fail_error(lane, error, "watermark", err);
}

static int commit(struct lane *lane, struct err *err)
{
    const int64_t since_us = now_mono_us();
    /* Any other time-out may leave librdkafka's state behind the broker's. */
    rd_kafka_error_t *error = rd_kafka_commit_transaction(lane->rk, -1);
    if (error != NULL) {
        return fail_error(lane, error, "commit", err);
    }
    if (now_mono_us() - since_us > COMMIT_LIMIT_S * US_PER_S) {
        return err_set(
            err, ERR_UNKNOWN, "LANE_FAILED", "commit: slower than allowed");
    }
    return 0;
}

int lane_publish(struct lane *lane, struct lane_batch *batch, struct err *err)
{
    rd_kafka_error_t *error = rd_kafka_begin_transaction(lane->rk);
    if (error != NULL) {
        return fail_error(lane, error, "begin", err);
    }
    for (size_t i = 0; i < batch->count; i++) {
        if (produce(lane, &batch->rows[i], batch->bytes.data, err) != 0) {
            return -1;
        }
    }
    if (is_watermark_due(lane) && send_watermark(lane, batch->low, err) != 0) {
        return -1;
    }
    return await_reports(lane, err) == 0 ? commit(lane, err) : -1;
}
