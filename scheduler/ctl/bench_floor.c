/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: the same records through one loop that consumes, inserts batches
 * of 200 by COPY (a synchronous commit each), produces and commits offsets.
 * It claims nothing, runs nothing, and forgets or doubles records in a crash:
 * no fleet on the same machine can be faster, so others are told in parts of
 * it.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/bench.h"
#include "scheduler/ctl/dev_process.h"

enum { BATCH = 200, POLL_MS = 100, STALL_S = 60, TOPIC_SIZE = 256 };
#define MAX_COPY_BYTES ((size_t)1 << 20)

struct floor {
    struct bench *bench;
    char in[TOPIC_SIZE];
    char out[TOPIC_SIZE];
    rd_kafka_t *reader;
    rd_kafka_t *producer;
    int64_t failed;
    rd_kafka_message_t *batch[BATCH];
    size_t count;
    struct buf copy;
    int64_t done;
    int64_t counted_from_us; /* mono: when the first tenth was done */
    int64_t counted_from;
};

static int run_sql(PGconn *conn, const char *sql, struct err *err)
{
    PGresult *result = PQexec(conn, sql);
    const bool is_fine = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (is_fine)
        return 0;
    return err_set(
        err, ERR_PERMANENT, "PG_FAILED", "%s: %s", sql, PQerrorMessage(conn));
}

/* -- filling -------------------------------------------------------------------- */

static int fill(struct floor *floor, struct err *err)
{
    struct bench *bench = floor->bench;
    struct buf value;
    int rc = 0;
    int64_t failed = 0;
    rd_kafka_t *producer =
        bench_producer_open(bench->ctl.conf, 5, &failed, err);
    if (producer == NULL)
        return -1;
    buf_init(&value, 2 * (size_t)BENCH_RECORD_BYTES);
    for (int64_t i = 0; i < bench->plan.floor_records && rc == 0; i++) {
        buf_clear(&value);
        bench_put_request(&value, bench, BENCH_ECHO, i);
        rc = bench_put(producer, floor->in, (int32_t)(i % bench->partitions),
            SPAN_LIT("floor"), buf_span(&value), err);
        if (i % BATCH == 0)
            (void)rd_kafka_poll(producer, 0);
    }
    bench_producer_close(producer);
    buf_fini(&value);
    if (rc == 0 && failed > 0)
        rc = err_set(err, ERR_TRANSIENT, "KAFKA_PRODUCE",
            "%lld records of the floor were not written", (long long)failed);
    return rc;
}

/* -- a batch ----------------------------------------------------------------------- */

/* A full batch, or what comes until none has come for POLL_MS: a larger batch
 * costs less than a commit more. */
static void take_batch(struct floor *floor)
{
    const int64_t left = floor->bench->plan.floor_records - floor->done;
    const size_t wanted = left < BATCH ? (size_t)left : BATCH;
    floor->count = 0;
    while (floor->count < wanted) {
        rd_kafka_message_t *message =
            rd_kafka_consumer_poll(floor->reader, POLL_MS);
        if (message == NULL)
            break;
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            floor->batch[floor->count++] = message;
        else
            rd_kafka_message_destroy(message);
    }
}

static void put_field(struct buf *buf, const void *bytes, size_t len)
{
    const uint32_t size = htonl((uint32_t)len);
    buf_put(buf, &size, sizeof size);
    buf_put(buf, bytes, len);
}

/* COPY's binary form: a head, rows of two fields, an end. */
static void write_copy(struct floor *floor)
{
    static const char head[19] = "PGCOPY\n\377\r\n";
    const uint16_t fields = htons(2);
    const uint16_t end = 0xffff;
    buf_clear(&floor->copy);
    buf_put(&floor->copy, head, sizeof head);
    for (size_t i = 0; i < floor->count; i++) {
        buf_put(&floor->copy, &fields, sizeof fields);
        put_field(&floor->copy, floor->batch[i]->key, floor->batch[i]->key_len);
        put_field(&floor->copy, floor->batch[i]->payload, floor->batch[i]->len);
    }
    buf_put(&floor->copy, &end, sizeof end);
}

static int insert_batch(struct floor *floor, struct err *err)
{
    PGconn *conn = floor->bench->conn;
    write_copy(floor);
    PGresult *result =
        PQexec(conn, "copy bench_floor from stdin with (format binary)");
    bool is_fine =
        PQresultStatus(result) == PGRES_COPY_IN &&
        PQputCopyData(conn, floor->copy.data, (int)floor->copy.len) == 1 &&
        PQputCopyEnd(conn, NULL) == 1;
    PQclear(result);
    while ((result = PQgetResult(conn)) != NULL) {
        is_fine = is_fine && PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
        if (PQstatus(conn) != CONNECTION_OK)
            break;
    }
    if (is_fine)
        return 0;
    return err_set(err, ERR_TRANSIENT, "PG_FAILED", "copy into the floor: %s",
        PQerrorMessage(conn));
}

static int pass_on(struct floor *floor, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < floor->count; i++) {
        rd_kafka_message_t *message = floor->batch[i];
        if (rc == 0)
            rc = bench_put(floor->producer, floor->out, message->partition,
                (struct span){message->key, message->key_len},
                (struct span){message->payload, message->len}, err);
        /* Committed by the client within a second. */
        if (rc == 0)
            (void)rd_kafka_offset_store(
                message->rkt, message->partition, message->offset);
        rd_kafka_message_destroy(message);
    }
    (void)rd_kafka_poll(floor->producer, 0);
    floor->done += (int64_t)floor->count;
    floor->count = 0;
    return rc;
}

/* -- the loop ---------------------------------------------------------------------- */

static int loop(struct floor *floor, struct err *err)
{
    const int64_t wanted = floor->bench->plan.floor_records;
    int64_t last_us = now_mono_us();
    while (floor->done < wanted) {
        take_batch(floor);
        if (dev_is_interrupted())
            return err_set(err, ERR_PERMANENT, "INTERRUPTED", "interrupted");
        if (floor->count == 0) {
            if (now_mono_us() - last_us > STALL_S * US_PER_S)
                return err_set(err, ERR_TRANSIENT, "STALLED",
                    "the floor got no record for %d s", (int)STALL_S);
            continue;
        }
        last_us = now_mono_us();
        const bool is_inserted = insert_batch(floor, err) == 0;
        if (!is_inserted || pass_on(floor, err) != 0)
            return -1;
        if (floor->counted_from == 0 && floor->done >= wanted / 10) {
            floor->counted_from = floor->done;
            floor->counted_from_us = now_mono_us();
        }
    }
    (void)rd_kafka_flush(floor->producer, STALL_S * 1000);
    const int64_t spent_us = now_mono_us() - floor->counted_from_us;
    floor->bench->floor_rate = (double)(floor->done - floor->counted_from) *
                               (double)US_PER_S / (double)(spent_us + 1);
    return 0;
}

static int run_loop(struct floor *floor, struct err *err)
{
    struct bench *bench = floor->bench;
    int rc = -1;
    floor->producer =
        bench_producer_open(bench->ctl.conf, 5, &floor->failed, err);
    if (floor->producer != NULL)
        floor->reader = bench_reader_open(bench->ctl.conf, floor->in,
            bench->partitions, RD_KAFKA_OFFSET_BEGINNING, err);
    if (floor->reader != NULL)
        rc = loop(floor, err);
    for (size_t i = 0; i < floor->count; i++)
        rd_kafka_message_destroy(floor->batch[i]);
    bench_reader_close(floor->reader);
    bench_producer_close(floor->producer);
    if (rc == 0 && floor->failed > 0)
        rc = err_set(err, ERR_TRANSIENT, "KAFKA_PRODUCE",
            "%lld records of the floor were not passed on",
            (long long)floor->failed);
    return rc;
}

int bench_floor(struct bench *bench, struct err *err)
{
    static struct floor floor;
    struct err ignored = ERR_INIT;
    floor = (struct floor){.bench = bench};
    snprintf(floor.in, sizeof floor.in, "%sbench.%s.in",
        conf_text(bench->ctl.conf, "topics.prefix"), bench->run);
    snprintf(floor.out, sizeof floor.out, "%sbench.%s.out",
        conf_text(bench->ctl.conf, "topics.prefix"), bench->run);
    const char *const topics[] = {floor.in, floor.out};
    buf_init(&floor.copy, MAX_COPY_BYTES);
    int rc = run_sql(
        bench->conn, "create table bench_floor (key bytea, value bytea)", err);
    if (rc == 0) {
        rc = bench_topics_create(
            bench->ctl.conf, topics, ARRAY_LEN(topics), bench->partitions, err);
        if (rc == 0)
            rc = fill(&floor, err);
        if (rc == 0)
            rc = run_loop(&floor, err);
        bench_topics_delete(bench->ctl.conf, topics, ARRAY_LEN(topics));
        (void)run_sql(bench->conn, "drop table bench_floor", &ignored);
    }
    buf_fini(&floor.copy);
    return rc;
}
