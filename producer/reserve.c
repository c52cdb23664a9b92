/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/reserve.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "producer/producer.h"
#include "schema/sql_producer.h"

enum {
    BATCH_MAX = 512,
    TRIES = 10 /* of a batch that Postgres rolls back */
};

static const char *const VERDICTS[RESERVE_VERDICT_COUNT] = {
    [RESERVE_NEW] = "new",
    [RESERVE_AGAIN] = "again",
    [RESERVE_CLAIMED] = "claimed",
    [RESERVE_CONFLICT] = "conflict",
    [RESERVE_FAILED] = "failed",
};

struct reserve {
    struct producer *producer;
    reserve_fn done;
    struct exchange *first; /* the next batch, linked */
    struct exchange **end;
    struct exchange *batch[BATCH_MAX]; /* under way, sorted by id */
    size_t batch_count;
    int tries; /* of this batch */
};

struct reserve *reserve_open(struct producer *producer, reserve_fn done)
{
    struct reserve *reserve = mem_zalloc(1, sizeof(*reserve));
    reserve->producer = producer;
    reserve->done = done;
    reserve->end = &reserve->first;
    return reserve;
}

void reserve_close(struct reserve *reserve)
{
    free(reserve);
}

/* -- what the rows mean ---------------------------------------------------- */

enum reserve_verdict reserve_judge(const struct reserve_facts *facts)
{
    /* A claim is what happens; it may have come through Kafka, and it
     * outlives the reservation. */
    if (facts->claimed.len != 0) {
        return span_equal(facts->claimed, facts->mine) ? RESERVE_CLAIMED
                                                       : RESERVE_CONFLICT;
    }
    if (facts->reserved.len == 0) {
        return RESERVE_FAILED; /* swept away just now: the next try works */
    }
    if (!span_equal(facts->reserved, facts->mine)) {
        return RESERVE_CONFLICT;
    }
    return facts->was_inserted ? RESERVE_NEW : RESERVE_AGAIN;
}

static struct span fingerprint_of(const struct exchange *exchange)
{
    return (struct span){.ptr = (const char *)exchange->record.fingerprint,
        .len = FINGERPRINT_SIZE};
}

static int compare_ids(const void *a, const void *b)
{
    const struct exchange *const *left = a;
    const struct exchange *const *right = b;
    return memcmp((*left)->id, (*right)->id, UUID_SIZE);
}

/* Where the ids of the batch that are not smaller begin. */
static size_t find_first(const struct reserve *reserve, const uint8_t *id)
{
    size_t low = 0;
    size_t high = reserve->batch_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (memcmp(reserve->batch[middle]->id, id, UUID_SIZE) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool has_id(const struct reserve *reserve, size_t at, const uint8_t *id)
{
    return at < reserve->batch_count &&
           memcmp(reserve->batch[at]->id, id, UUID_SIZE) == 0;
}

static void hand_back(
    struct reserve *reserve, size_t at, enum reserve_verdict verdict)
{
    struct exchange *exchange = reserve->batch[at];
    if (exchange == NULL) {
        return;
    }
    reserve->batch[at] = NULL;
    metric_add(reserve->producer->meters.reservations, VERDICTS[verdict], 1);
    reserve->done(exchange, verdict);
}

static void mark_inserted(struct reserve *reserve, const PGresult *inserted)
{
    for (int row = 0; row < pg_rows(inserted); row++) {
        const uint8_t *id = pg_get_uuid(inserted, row, 0);
        const size_t first = find_first(reserve, id);
        for (size_t at = first; has_id(reserve, at, id); at++) {
            reserve->batch[at]->is_new = true;
        }
    }
}

static void judge_row(const struct reserve *reserve, const PGresult *read,
    int row, enum reserve_verdict *verdicts)
{
    const uint8_t *id = pg_get_uuid(read, row, RESERVED_ID);
    struct reserve_facts facts = {
        .reserved = pg_get_bytes(read, row, RESERVED_FINGERPRINT),
        .claimed = pg_get_bytes(read, row, CLAIMED_FINGERPRINT),
    };
    bool is_taken = false;
    for (size_t at = find_first(reserve, id); has_id(reserve, at, id); at++) {
        facts.mine = fingerprint_of(reserve->batch[at]);
        facts.was_inserted = reserve->batch[at]->is_new && !is_taken;
        verdicts[at] = reserve_judge(&facts);
        is_taken = is_taken || verdicts[at] == RESERVE_NEW;
        reserve->batch[at]->is_new = verdicts[at] == RESERVE_NEW;
    }
}

/* -- the batch ------------------------------------------------------------- */

static void flush(struct reserve *reserve);
static void send_batch(struct reserve *reserve);

static void on_done(void *arg, const struct pg_outcome *outcome)
{
    struct reserve *reserve = arg;
    enum reserve_verdict verdicts[BATCH_MAX];
    const size_t count = reserve->batch_count;
    if (pg_was_rolled_back(outcome) && ++reserve->tries < TRIES &&
        !reserve->producer->is_closing) {
        send_batch(reserve);
        return;
    }
    for (size_t at = 0; at < count; at++) {
        verdicts[at] = RESERVE_FAILED;
    }
    if (outcome->end == PG_DONE) {
        mark_inserted(reserve, outcome->results[SQL_RESERVE_INSERT]);
        const PGresult *read = outcome->results[SQL_RESERVE_READ];
        for (int row = 0; row < pg_rows(read); row++) {
            judge_row(reserve, read, row, verdicts);
        }
    } else if (!reserve->producer->is_closing) {
        LOG(WARN, "reserve_failed", (&(struct log_fields){.err = outcome->err}),
            "%zu requests are answered with 503", count);
    }
    for (size_t at = 0; at < count; at++) {
        hand_back(reserve, at, verdicts[at]);
    }
    reserve->batch_count = 0;
    flush(reserve);
}

/* Fills the batch from the queue, sorted; answered ones are freed. */
static void fill(struct reserve *reserve)
{
    while (reserve->first != NULL && reserve->batch_count < BATCH_MAX) {
        struct exchange *exchange = reserve->first;
        reserve->first = exchange->link;
        if (exchange->request == NULL) {
            exchange_free(exchange);
        } else {
            reserve->batch[reserve->batch_count++] = exchange;
        }
    }
    if (reserve->first == NULL) {
        reserve->end = &reserve->first;
    }
    qsort(reserve->batch, reserve->batch_count, sizeof(struct exchange *),
        compare_ids);
}

static void put_insert(const struct reserve *reserve, struct pg_params *params)
{
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < reserve->batch_count; i++) {
        pg_array_bytes(
            params, (struct span){.ptr = (const char *)reserve->batch[i]->id,
                        .len = UUID_SIZE});
    }
    pg_array_end(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < reserve->batch_count; i++) {
        pg_array_bytes(params, span_of(reserve->batch[i]->tenant));
    }
    pg_array_end(params);
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < reserve->batch_count; i++) {
        pg_array_bytes(params, fingerprint_of(reserve->batch[i]));
    }
    pg_array_end(params);
}

static void put_read(const struct reserve *reserve, struct pg_params *params)
{
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < reserve->batch_count; i++) {
        const uint8_t *id = reserve->batch[i]->id;
        if (i == 0 || memcmp(id, reserve->batch[i - 1]->id, UUID_SIZE) != 0) {
            pg_array_bytes(params,
                (struct span){.ptr = (const char *)id, .len = UUID_SIZE});
        }
    }
    pg_array_end(params);
}

static void send_batch(struct reserve *reserve)
{
    struct producer *producer = reserve->producer;
    struct pg_params params;
    pg_params_init(&params);
    pg_begin(producer->reserve_db);
    put_insert(reserve, &params);
    pg_step(producer->reserve_db, SQL_RESERVE_INSERT, &params);
    pg_params_clear(&params);
    put_read(reserve, &params);
    pg_step(producer->reserve_db, SQL_RESERVE_READ, &params);
    pg_commit(producer->reserve_db, on_done, reserve);
    pg_params_fini(&params);
}

static void flush(struct reserve *reserve)
{
    struct producer *producer = reserve->producer;
    if (reserve->batch_count != 0 || producer->is_closing) {
        return;
    }
    fill(reserve);
    if (reserve->batch_count == 0) {
        return;
    }
    metric_observe(
        producer->meters.batch_size, NULL, (double)reserve->batch_count);
    reserve->tries = 0;
    send_batch(reserve);
}

void reserve_add(struct reserve *reserve, struct exchange *exchange)
{
    exchange->link = NULL;
    *reserve->end = exchange;
    reserve->end = &exchange->link;
    flush(reserve);
}
