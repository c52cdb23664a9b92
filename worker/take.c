/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/take.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/admit.h"
#include "worker/presence.h"
#include "worker/reconcile.h"
#include "worker/revive.h"
#include "worker/worker.h"

enum {
    RETRY_MS = 200,
    COLLECT_MS = 100,
    COLLECT_IDLE_MS = 300, /* while nothing is or was to be done */
    COLLECT_ROWS = 100
};
#define BUSY_US US_PER_S

struct due {
    struct due *next;
    uint8_t id[UUID_SIZE];
    int attempt_no;
    struct offset_entry *entry;
    size_t place; /* in the batch, before it was sorted */
};

struct take {
    struct worker *worker;
    struct loop_timer *soon;
    struct loop_timer *every;
    int64_t collecting_us; /* mono: when it was sent; 0: not under way */
    int64_t collected_us;  /* mono: when the last one was sent */
    int64_t busy_us;       /* mono: when there was work last */
    struct due *head;
    struct due **tail;
    size_t waiting;
    struct due *batch[WORKER_BATCH]; /* under way, sorted by id */
    size_t count;
    int64_t since_us;
};

static void send_batch(struct take *take);

static void on_soon(void *owner)
{
    struct take *take = owner;
    if (take->count == 0) {
        send_batch(take);
    }
}

static void kick(struct take *take, int64_t wait_ms)
{
    if (take->count == 0 && take->waiting > 0 &&
        !loop_timer_is_active(take->soon)) {
        loop_timer_start(take->soon, wait_ms, 0);
    }
}

static void on_every(void *owner);

struct take *take_open(struct worker *worker)
{
    struct take *take = mem_zalloc(1, sizeof(*take));
    take->worker = worker;
    take->tail = &take->head;
    take->soon = loop_timer_new(worker->loop, on_soon, take);
    take->every = loop_timer_new(worker->loop, on_every, take);
    loop_timer_start(take->every, COLLECT_MS, COLLECT_MS);
    return take;
}

static void push(struct take *take, struct due *due)
{
    due->next = NULL;
    *take->tail = due;
    take->tail = &due->next;
    take->waiting++;
}

static struct due *pop(struct take *take)
{
    struct due *due = take->head;
    take->head = due->next;
    if (take->head == NULL) {
        take->tail = &take->head;
    }
    take->waiting--;
    return due;
}

void take_drain(struct take *take)
{
    while (take->head != NULL) {
        free(pop(take));
    }
}

void take_close(struct take *take)
{
    if (take == NULL) {
        return;
    }
    take_drain(take);
    for (size_t i = 0; i < take->count; i++) {
        free(take->batch[i]);
    }
    loop_timer_free(take->soon);
    loop_timer_free(take->every);
    free(take);
}

void take_add(struct take *take, const uint8_t *id, int attempt_no,
    struct offset_entry *entry)
{
    struct due *due = mem_zalloc(1, sizeof(*due));
    memcpy(due->id, id, UUID_SIZE);
    due->attempt_no = attempt_no;
    due->entry = entry;
    push(take, due);
    kick(take, 0);
}

size_t take_waiting(const struct take *take)
{
    return take->waiting + take->count;
}

bool take_is_busy(const struct take *take)
{
    return take->count > 0 || take->collecting_us != 0;
}

int64_t take_since_us(const struct take *take)
{
    const int64_t since_us = take->count > 0 ? take->since_us : 0;
    return since_us == 0 ||
                   (take->collecting_us != 0 && take->collecting_us < since_us)
               ? take->collecting_us
               : since_us;
}

/* Everything of the batch goes back and is tried again. */
static void retry(struct take *take)
{
    for (size_t i = 0; i < take->count; i++) {
        push(take, take->batch[i]);
    }
    take->count = 0;
    kick(take, RETRY_MS);
}

static void end_batch(struct take *take)
{
    for (size_t i = 0; i < take->count; i++) {
        offsets_done(take->batch[i]->entry);
        free(take->batch[i]);
    }
    take->count = 0;
    kick(take, 0);
}

/* Applied or not: what became ours is read back, the rest is sent again. */
static void on_doubt(struct take *take)
{
    metric_add(take->worker->stats.doubts, "take", 1);
    for (size_t i = 0; i < take->count; i++) {
        reconcile_adopt(take->worker->reconcile, take->batch[i]->id);
    }
    end_batch(take);
}

/* -1: it was not taken. A row that stands in the batch twice is revived once:
 * it is known by then. */
static int find_row(const PGresult *rows, const struct due *due)
{
    for (int i = 0; i < pg_rows(rows); i++) {
        if (memcmp(pg_get_uuid(rows, i, LIVE_ID), due->id, UUID_SIZE) == 0) {
            return i;
        }
    }
    return -1;
}

/* As they were dispatched, which is in the order they were due in. */
static void revive_in_order(struct take *take, const PGresult *rows)
{
    int rows_by_place[WORKER_BATCH];
    for (size_t i = 0; i < take->count; i++) {
        rows_by_place[take->batch[i]->place] = find_row(rows, take->batch[i]);
    }
    for (size_t i = 0; i < take->count; i++) {
        if (rows_by_place[i] >= 0) {
            revive_row(take->worker, rows, rows_by_place[i]);
        }
    }
}

static void on_taken(void *arg, const struct pg_outcome *outcome)
{
    struct take *take = arg;
    struct worker *worker = take->worker;
    if (worker->is_closing) {
        return;
    }
    if (outcome->end == PG_UNKNOWN) {
        on_doubt(take);
        return;
    }
    if (outcome->end == PG_FAILED) {
        LOG(WARN, "take_failed", (&(struct log_fields){.err = outcome->err}),
            "it is tried again");
        retry(take);
        return;
    }
    const PGresult *rows = outcome->results[0];
    metric_add(worker->stats.taken, NULL, pg_rows(rows));
    revive_in_order(take, rows);
    end_batch(take);
}

static int compare_dues(const void *left, const void *right)
{
    const struct due *a = *(struct due *const *)left;
    const struct due *b = *(struct due *const *)right;
    const int order = memcmp(a->id, b->id, UUID_SIZE);
    return order != 0 ? order : a->attempt_no - b->attempt_no;
}

static void send_batch(struct take *take)
{
    struct pg_params params;
    while (take->count < WORKER_BATCH && take->head != NULL) {
        take->batch[take->count] = pop(take);
        take->batch[take->count]->place = take->count;
        take->count++;
    }
    if (take->count == 0) {
        return;
    }
    qsort(take->batch, take->count, sizeof(struct due *), compare_dues);
    pg_params_init(&params);
    pg_array_begin(&params, PG_UUID);
    for (size_t i = 0; i < take->count; i++) {
        pg_array_bytes(&params,
            (struct span){(const char *)take->batch[i]->id, UUID_SIZE});
    }
    pg_array_end(&params);
    pg_array_begin(&params, PG_INT4);
    for (size_t i = 0; i < take->count; i++) {
        pg_array_int4(&params, take->batch[i]->attempt_no);
    }
    pg_array_end(&params);
    pg_param_uuid(&params, take->worker->boot_id);
    take->since_us = now_mono_us();
    pg_run(take->worker->claim_db, SQL_WORKER_TAKE, &params, on_taken, take);
    pg_params_fini(&params);
}

/* -- without a record ------------------------------------------------------ */

static void on_collected(void *arg, const struct pg_outcome *outcome)
{
    struct take *take = arg;
    struct worker *worker = take->worker;
    if (worker->is_closing) {
        return;
    }
    take->collecting_us = 0;
    if (outcome->end != PG_DONE) {
        return; /* what became ours without our knowing, reconcile finds */
    }
    const PGresult *rows = outcome->results[0];
    metric_add(worker->stats.taken, NULL, pg_rows(rows));
    for (int i = 0; i < pg_rows(rows); i++) {
        revive_row(worker, rows, i);
    }
    if (pg_rows(rows) > 0) {
        take->busy_us = now_mono_us();
    }
}

/* A fleet at rest asks less often. */
static bool is_collect_due(struct take *take)
{
    const int64_t now_us = now_mono_us();
    if (take->worker->jobs.count > 0) {
        take->busy_us = now_us;
    }
    return now_us - take->busy_us < BUSY_US ||
           now_us - take->collected_us >= COLLECT_IDLE_MS * US_PER_MS;
}

static void on_every(void *owner)
{
    struct take *take = owner;
    struct worker *worker = take->worker;
    /* Only what can run soon: the rest is for workers with room. */
    if (!is_collect_due(take) || take->collecting_us != 0 ||
        worker->is_draining || !presence_is_held(worker->presence) ||
        !pg_is_up(worker->claim_db) ||
        admit_waiting(worker->admit) > COLLECT_ROWS) {
        return;
    }
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, worker->boot_id);
    pg_param_int4(&params, COLLECT_ROWS);
    take->collecting_us = now_mono_us();
    take->collected_us = take->collecting_us;
    pg_run(worker->claim_db, SQL_WORKER_COLLECT, &params, on_collected, take);
    pg_params_fini(&params);
}
