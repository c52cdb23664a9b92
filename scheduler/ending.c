/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ending.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "scheduler/scheduler.h"
#include "schema/outcome.h"
#include "schema/replay.h"
#include "schema/sql_scheduler.h"

/* A request may have 1 MiB, so few at a time. */
enum { QUEUE_ROWS = 1000, BATCH_ROWS = 16, REQUEST_DEPTH = 80 };

struct queue {
    struct ending *ending;
    enum ending_source source;
    struct ending_row *rows; /* owned */
    size_t count;
    size_t sent; /* the first ones are under way, sorted by id */
};

struct ending {
    struct scheduler *scheduler;
    struct queue queues[ENDING_SOURCE_COUNT];
    struct pg_params params;
    struct metric *ended;
};

static const int facts_statement[ENDING_SOURCE_COUNT] = {
    [ENDING_LIVE] = SQL_WORK_LIVE_FACTS,
    [ENDING_WAITING] = SQL_WORK_WAITING_FACTS,
};
static const int end_statement[ENDING_SOURCE_COUNT] = {
    [ENDING_LIVE] = SQL_WORK_LIVE_END,
    [ENDING_WAITING] = SQL_WORK_WAITING_END,
};

struct ending *ending_open(struct scheduler *scheduler)
{
    struct ending *ending = mem_zalloc(1, sizeof(*ending));
    ending->scheduler = scheduler;
    pg_params_init(&ending->params);
    for (int i = 0; i < ENDING_SOURCE_COUNT; i++) {
        ending->queues[i].ending = ending;
        ending->queues[i].source = (enum ending_source)i;
        ending->queues[i].rows =
            mem_zalloc(QUEUE_ROWS, sizeof(struct ending_row));
    }
    ending->ended = metric_counter("actionist_scheduler_outcomes_total",
        "Outcomes of actions that no worker could end.", "status");
    return ending;
}

void ending_close(struct ending *ending)
{
    if (ending == NULL) {
        return;
    }
    for (int i = 0; i < ENDING_SOURCE_COUNT; i++) {
        free(ending->queues[i].rows);
    }
    pg_params_fini(&ending->params);
    free(ending);
}

bool ending_is_idle(const struct ending *ending, enum ending_source source)
{
    return ending->queues[source].count == 0;
}

/* -- the document --------------------------------------------------------------------------- */

static void copy_key(struct span request, char key[RECORD_MAX_KEY + 1])
{
    struct json_value root;
    struct json_value member;
    key[0] = '\0';
    if (json_parse(request, REQUEST_DEPTH, &root, NULL) != 0 ||
        !json_find(root, "idempotency_key", &member) ||
        member.type != JSON_STRING) {
        return;
    }
    struct buf text;
    buf_init(&text, RECORD_MAX_KEY);
    json_decode(member, &text);
    if (!text.is_overflowed && key_is_valid(buf_span(&text))) {
        memcpy(key, buf_str(&text), text.len + 1);
    }
    buf_fini(&text);
}

static void copy_name(
    const PGresult *facts, int row, int column, char name[RECORD_MAX_NAME + 1])
{
    const struct span text = pg_get_bytes(facts, row, column);
    const size_t len = text.len > RECORD_MAX_NAME ? RECORD_MAX_NAME : text.len;
    memcpy(name, text.ptr, len);
    name[len] = '\0';
}

static void put_document(struct buf *out, const PGresult *facts, int row,
    const struct ending_row *ending)
{
    char tenant[RECORD_MAX_NAME + 1];
    char connector[RECORD_MAX_NAME + 1];
    char action[RECORD_MAX_NAME + 1];
    char key[RECORD_MAX_KEY + 1];
    copy_name(facts, row, ENDING_TENANT, tenant);
    copy_name(facts, row, ENDING_CONNECTOR, connector);
    copy_name(facts, row, ENDING_ACTION, action);
    const int column = ENDING_REPLAY_OF;
    const bool is_replay = !pg_is_null(facts, row, column + REPLAY_OF_ID);
    if (is_replay && pg_get_bool(facts, row, column + REPLAY_OF_HAS_OWN_KEY)) {
        /* as record_make_replay() does */
        uuid_format(pg_get_uuid(facts, row, column + REPLAY_OF_EFFECT_ID), key);
    } else {
        copy_key(pg_get_bytes(facts, row, ENDING_REQUEST), key);
    }
    const bool was_called =
        ending->calls > 0 && !pg_is_null(facts, row, ENDING_STARTED_AT);
    const struct outcome outcome = {.id = ending->id,
        .tenant = tenant,
        .connector = connector,
        .action = action,
        .key = key,
        .status = ending->status,
        .attempts = ending->calls,
        .error = {.code = ending->code,
            .class = ending->status == STATUS_INDETERMINATE ? FAULT_UNKNOWN
                                                            : FAULT_PERMANENT,
            .retry_after_s = -1},
        .started_at_us =
            was_called ? pg_get_time(facts, row, ENDING_STARTED_AT) : 0,
        .finished_at_us = pg_get_time(facts, row, ENDING_NOW),
        .manifest =
            pg_is_null(facts, row, ENDING_MANIFEST)
                ? NULL
                : (const uint8_t *)pg_get_bytes(facts, row, ENDING_MANIFEST)
                      .ptr,
        .replay_of =
            is_replay ? pg_get_uuid(facts, row, column + REPLAY_OF_ID) : NULL};
    outcome_put(out, &outcome);
}

/* -- one batch ------------------------------------------------------------------------------- */

static void send_batch(struct queue *queue);

static int compare_rows(const void *a, const void *b)
{
    const struct ending_row *left = a;
    const struct ending_row *right = b;
    return memcmp(left->id, right->id, UUID_SIZE);
}

/* The batch is over, whatever became of it. */
static void drop_batch(struct queue *queue)
{
    queue->count -= queue->sent;
    memmove(queue->rows, queue->rows + queue->sent,
        queue->count * sizeof(*queue->rows));
    queue->sent = 0;
    if (queue->count > 0) {
        send_batch(queue);
    }
}

static void on_ended(void *arg, const struct pg_outcome *outcome)
{
    struct queue *queue = arg;
    if (outcome->end == PG_DONE) {
        const PGresult *ended = outcome->results[0];
        for (int i = 0; i < pg_rows(ended); i++) {
            metric_add(queue->ending->ended,
                status_name((enum status)pg_get_int(ended, i, 0)), 1.0);
        }
    } else {
        LOG(WARN, "ending_failed", (&(struct log_fields){.err = outcome->err}),
            "will be found again");
    }
    drop_batch(queue);
}

static int find_facts(const PGresult *facts, const struct ending_row *row)
{
    for (int i = 0; i < pg_rows(facts); i++) {
        if (memcmp(pg_get_uuid(facts, i, ENDING_ID), row->id, UUID_SIZE) == 0 &&
            pg_get_int(facts, i, ENDING_ATTEMPT_NO) == row->attempt_no) {
            return i;
        }
    }
    return -1;
}

/* The rows whose fence still holds, in the order of their ids. */
static size_t select_rows(const struct queue *queue, const PGresult *facts,
    const struct ending_row *rows[BATCH_ROWS], int from[BATCH_ROWS])
{
    size_t count = 0;
    for (size_t i = 0; i < queue->sent; i++) {
        const int index = find_facts(facts, &queue->rows[i]);
        if (index >= 0) {
            rows[count] = &queue->rows[i];
            from[count] = index;
            count++;
        }
    }
    return count;
}

static void put_rows(struct pg_params *params,
    const struct ending_row *const *rows, size_t count)
{
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < count; i++) {
        pg_array_bytes(
            params, (struct span){(const char *)rows[i]->id, UUID_SIZE});
    }
    pg_array_end(params);
    pg_array_begin(params, PG_INT4);
    for (size_t i = 0; i < count; i++) {
        pg_array_int4(params, rows[i]->attempt_no);
    }
    pg_array_end(params);
    pg_array_begin(params, PG_INT2);
    for (size_t i = 0; i < count; i++) {
        pg_array_int2(params, (int16_t)rows[i]->status);
    }
    pg_array_end(params);
    pg_array_begin(params, PG_INT4);
    for (size_t i = 0; i < count; i++) {
        pg_array_int4(params, rows[i]->calls);
    }
    pg_array_end(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < count; i++) {
        pg_array_bytes(params, span_of(code_name(rows[i]->code)));
    }
    pg_array_end(params);
}

static void on_facts(void *arg, const struct pg_outcome *outcome)
{
    struct queue *queue = arg;
    struct pg_params *params = &queue->ending->params;
    const struct ending_row *rows[BATCH_ROWS];
    int from[BATCH_ROWS];
    size_t count = 0;
    if (outcome->end == PG_DONE) {
        count = select_rows(queue, outcome->results[0], rows, from);
    }
    if (count == 0) {
        drop_batch(queue);
        return;
    }
    pg_params_clear(params);
    put_rows(params, rows, count);
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < count; i++) {
        struct buf document;
        buf_init(&document, OUTCOME_MAX_BYTES);
        put_document(&document, outcome->results[0], from[i], rows[i]);
        pg_array_bytes(params, buf_span(&document));
        buf_fini(&document);
    }
    pg_array_end(params);
    pg_run(queue->ending->scheduler->work, end_statement[queue->source], params,
        on_ended, queue);
}

static void send_batch(struct queue *queue)
{
    struct ending *ending = queue->ending;
    queue->sent = queue->count < BATCH_ROWS ? queue->count : BATCH_ROWS;
    qsort(queue->rows, queue->sent, sizeof(*queue->rows), compare_rows);
    pg_params_clear(&ending->params);
    pg_array_begin(&ending->params, PG_UUID);
    for (size_t i = 0; i < queue->sent; i++) {
        pg_array_bytes(&ending->params,
            (struct span){(const char *)queue->rows[i].id, UUID_SIZE});
    }
    pg_array_end(&ending->params);
    pg_run(ending->scheduler->work, facts_statement[queue->source],
        &ending->params, on_facts, queue);
}

void ending_add(struct ending *ending, enum ending_source source,
    const struct ending_row *row)
{
    struct queue *queue = &ending->queues[source];
    if (queue->count == QUEUE_ROWS) {
        return;
    }
    for (size_t i = 0; i < queue->count; i++) {
        if (memcmp(queue->rows[i].id, row->id, UUID_SIZE) == 0) {
            return;
        }
    }
    queue->rows[queue->count] = *row;
    queue->count++;
    if (queue->sent == 0) {
        send_batch(queue);
    }
}
