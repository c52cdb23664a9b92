/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/claim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/admit.h"
#include "worker/delivery.h"
#include "worker/protocol.h"
#include "worker/reconcile.h"
#include "worker/rejects.h"
#include "worker/repeat_notes.h"
#include "worker/resolve.h"
#include "worker/settle.h"
#include "worker/worker.h"

enum { RETRY_MS = 100, RETRY_MAX_MS = 2000 };

struct claim {
    struct worker *worker;
    struct loop_timer *soon;
    struct job_list queue;
    /* The batch under way, sorted by id. leaders: the first of each id, those
     * in the statement. */
    struct job *batch[WORKER_BATCH];
    size_t count;
    bool is_leader[WORKER_BATCH];
    int64_t since_us;
    int64_t backoff_ms;
    size_t max_batch; /* 1 after a batch was refused as a whole */
};

static void send_batch(struct claim *claim);

static void kick(struct claim *claim, int64_t wait_ms)
{
    if (claim->count == 0 && !loop_timer_is_active(claim->soon)) {
        loop_timer_start(claim->soon, wait_ms, 0);
    }
}

static void on_soon(void *owner)
{
    struct claim *claim = owner;
    if (claim->count == 0) {
        send_batch(claim);
    }
}

struct claim *claim_open(struct worker *worker)
{
    struct claim *claim = mem_zalloc(1, sizeof(*claim));
    claim->worker = worker;
    claim->max_batch = WORKER_BATCH;
    claim->soon = loop_timer_new(worker->loop, on_soon, claim);
    return claim;
}

void claim_close(struct claim *claim)
{
    if (claim != NULL) {
        loop_timer_free(claim->soon);
        free(claim);
    }
}

static void resume(void *owner, struct job *job)
{
    claim_add(owner, job);
}

void claim_add(struct claim *claim, struct job *job)
{
    job_list_push(&claim->queue, job);
    kick(claim, 0);
}

bool claim_is_busy(const struct claim *claim)
{
    return claim->count > 0;
}

int64_t claim_since_us(const struct claim *claim)
{
    return claim->count > 0 ? claim->since_us : 0;
}

void claim_drain(struct claim *claim)
{
    job_list_free(&claim->worker->jobs, &claim->queue);
}

/* -- building -------------------------------------------------------------- */

static size_t size_of(const struct job *job)
{
    return job->text_len + (job->delivery == NULL ? 0 : job->delivery->bytes);
}

static void fill_batch(struct claim *claim)
{
    size_t bytes = 0;
    while (claim->count < claim->max_batch && claim->queue.head != NULL) {
        struct job *job = claim->queue.head;
        if (claim->count > 0 && bytes + size_of(job) > WORKER_BATCH_BYTES) {
            break;
        }
        (void)job_list_pop(&claim->queue);
        if (job->manifest == NULL &&
            !resolve_new(claim->worker->connectors, job)) {
            job->resume = resume;
            job->resume_owner = claim;
            connectors_wait(claim->worker->connectors, job);
            continue;
        }
        bytes += size_of(job);
        claim->batch[claim->count] = job;
        claim->count++;
    }
    job_sort(claim->batch, claim->count);
    for (size_t i = 0; i < claim->count; i++) {
        claim->is_leader[i] =
            i == 0 || memcmp(claim->batch[i]->record.id,
                          claim->batch[i - 1]->record.id, UUID_SIZE) != 0;
    }
}

/* What the jobs were made of, in the same commit. */
static void put_deliveries(const struct claim *claim)
{
    struct delivery *deliveries[WORKER_BATCH];
    size_t count = 0;
    for (size_t i = 0; i < claim->count; i++) {
        if (claim->batch[i]->delivery != NULL) {
            deliveries[count++] = claim->batch[i]->delivery;
        }
    }
    delivery_put_step(claim->worker->claim_db, deliveries, count);
}

/* Calls put for each leader's value of one column. */
static void put_column(struct pg_params *params, const struct claim *claim,
    enum pg_type element,
    void (*put)(struct pg_params *params, const struct job *job))
{
    pg_array_begin(params, element);
    for (size_t i = 0; i < claim->count; i++) {
        if (claim->is_leader[i]) {
            put(params, claim->batch[i]);
        }
    }
    pg_array_end(params);
}

static void put_bytes(struct pg_params *params, const void *bytes, size_t len)
{
    pg_array_bytes(params, (struct span){.ptr = bytes, .len = len});
}

static void put_id(struct pg_params *params, const struct job *job)
{
    put_bytes(params, job->record.id, UUID_SIZE);
}

static void put_tenant(struct pg_params *params, const struct job *job)
{
    pg_array_bytes(params, span_of(job->record.tenant));
}

static void put_connector(struct pg_params *params, const struct job *job)
{
    pg_array_bytes(params, span_of(job->record.connector));
}

static void put_action(struct pg_params *params, const struct job *job)
{
    pg_array_bytes(params, span_of(job->record.action));
}

static void put_fingerprint(struct pg_params *params, const struct job *job)
{
    put_bytes(params, job->record.fingerprint, FINGERPRINT_SIZE);
}

static void put_manifest(struct pg_params *params, const struct job *job)
{
    if (job->manifest == NULL) {
        pg_array_null(params);
    } else {
        put_bytes(params, manifest_digest(job->manifest), SHA256_SIZE);
    }
}

static void put_source(struct pg_params *params, const struct job *job)
{
    struct buf source;
    buf_init(&source, 512);
    buf_printf(&source, "%s:%" PRId32 ":%" PRId64, job->topic, job->partition,
        job->offset);
    pg_array_bytes(params, buf_span(&source));
    buf_fini(&source);
}

static void put_traceparent(struct pg_params *params, const struct job *job)
{
    if (job->traceparent[0] == '\0') {
        pg_array_null(params);
    } else {
        pg_array_bytes(params, span_of(job->traceparent));
    }
}

static void put_request(struct pg_params *params, const struct job *job)
{
    put_bytes(params, job->text, job->text_len);
}

static void put_effect(struct pg_params *params, const struct job *job)
{
    if (job->manifest == NULL) {
        pg_array_null(params);
    } else {
        pg_array_int2(params, (int16_t)job->effect);
    }
}

static void put_deadline(struct pg_params *params, const struct job *job)
{
    if (job->record.deadline_us == 0) {
        pg_array_null(params);
    } else {
        pg_array_time(params, job->record.deadline_us);
    }
}

static void put_columns(struct pg_params *params, const struct claim *claim)
{
    put_column(params, claim, PG_UUID, put_id);
    put_column(params, claim, PG_TEXT, put_tenant);
    put_column(params, claim, PG_TEXT, put_connector);
    put_column(params, claim, PG_TEXT, put_action);
    put_column(params, claim, PG_BYTEA, put_fingerprint);
    put_column(params, claim, PG_BYTEA, put_manifest);
    put_column(params, claim, PG_TEXT, put_source);
    put_column(params, claim, PG_TEXT, put_traceparent);
    put_column(params, claim, PG_BYTEA, put_request);
    put_column(params, claim, PG_INT2, put_effect);
    put_column(params, claim, PG_TIMESTAMPTZ, put_deadline);
}

/* -- ends of jobs ---------------------------------------------------------- */

static void mark_durable(struct job *job)
{
    if (job->entry != NULL) {
        offsets_done(job->entry);
        job->entry = NULL;
    }
}

static void drop(struct claim *claim, struct job *job)
{
    mark_durable(job);
    job_free(&claim->worker->jobs, job);
}

static void take_fresh(struct claim *claim, struct job *job)
{
    struct worker *worker = claim->worker;
    metric_add(worker->stats.claims, NULL, 1);
    if (job->is_in_doubt) {
        metric_add(worker->stats.found_aborted, NULL, 1);
        job->is_in_doubt = false;
    }
    if (jobs_find(&worker->jobs, job->record.id) != NULL) {
        drop(claim, job); /* reconcile was faster */
        return;
    }
    mark_durable(job);
    delivery_free(&worker->jobs, job->delivery);
    job->delivery = NULL;
    job->attempt_no = 1;
    job->deadline_us = job->record.deadline_us;
    job->accepted_us = worker_now_us(worker);
    jobs_insert(&worker->jobs, job);
    admit_add(worker->admit, job);
}

/* Puts what is left of the batch back to the front and tries again later. */
static void requeue(struct claim *claim, bool is_in_doubt, int64_t wait_ms)
{
    for (size_t i = claim->count; i > 0; i--) {
        struct job *job = claim->batch[i - 1];
        if (job != NULL) {
            job->is_in_doubt |= is_in_doubt;
            job_list_push_front(&claim->queue, job);
        }
    }
    claim->count = 0;
    kick(claim, wait_ms);
}

static void end_batch(struct claim *claim, int64_t wait_ms)
{
    claim->backoff_ms = 0;
    requeue(claim, false, wait_ms);
}

/* -- what was there before ------------------------------------------------- */

/* Same key, other content: a rejected action of its own, whose id comes from
 * where the record stands. The first keeps its outcome. */
static void make_conflict(struct claim *claim, struct job *job)
{
    struct fault fault = FAULT_INIT;
    metric_add(claim->worker->stats.conflicts, NULL, 1);
    record_id_of_source(
        job->topic, job->partition, job->offset, job->record.id);
    (void)fault_set(
        &fault, CODE_IDEMPOTENCY_CONFLICT, "/idempotency_key", NULL);
    job_set_fault(job, &fault);
    job->manifest = NULL;
    job->action = NULL;
    job->effect = EFFECT_NATURAL;
    job->is_conflict = true;
}

/* -1: no such row. */
static int find_row(const PGresult *rows, const uint8_t *id)
{
    for (int i = 0; i < pg_rows(rows); i++) {
        if (memcmp(pg_get_uuid(rows, i, 0), id, UUID_SIZE) == 0) {
            return i;
        }
    }
    return -1;
}

static enum claim_word read_word(
    const struct claim *claim, const struct job *job, const PGresult *rows)
{
    const struct worker *worker = claim->worker;
    const int row = find_row(rows, job->record.id);
    if (row < 0) {
        return protocol_claim(&(struct claim_row){.has_row = false});
    }
    const struct span fingerprint = {
        (const char *)job->record.fingerprint, FINGERPRINT_SIZE};
    const struct claim_row facts = {
        .has_row = true,
        .is_same = span_equal(pg_get_bytes(rows, row, 1), fingerprint),
        .is_live_mine =
            !pg_is_null(rows, row, 2) &&
            memcmp(pg_get_uuid(rows, row, 2), worker->boot_id, UUID_SIZE) == 0,
        .is_in_memory = jobs_find(&worker->jobs, job->record.id) != NULL,
        .is_source_id = job->is_conflict || job->record.key[0] == '\0',
    };
    return protocol_claim(&facts);
}

static void note_repeat(struct worker *worker, const struct job *job)
{
    struct repeat repeat = {.topic = job->topic,
        .partition = job->partition,
        .offset = job->offset};
    memcpy(repeat.id, job->record.id, UUID_SIZE);
    memcpy(repeat.tenant, job->record.tenant, sizeof(repeat.tenant));
    worker_repeat_notes_add(worker->repeat_notes, &repeat);
}

/* True if the job is dealt with; false: it goes back into the queue. */
static bool end_conflict(struct claim *claim, struct job *job,
    const PGresult *rows, int64_t *wait_ms)
{
    struct worker *worker = claim->worker;
    switch (read_word(claim, job, rows)) {
    case CLAIM_REPEAT:
        *wait_ms = RETRY_MS;
        return false;
    case CLAIM_CONFLICT:
        make_conflict(claim, job);
        return false;
    case CLAIM_ADOPT:
        if (job->is_in_doubt) {
            metric_add(worker->stats.found_committed, NULL, 1);
        }
        reconcile_adopt(worker->reconcile, job->record.id);
        drop(claim, job);
        return true;
    case CLAIM_DUPLICATE:
    default:
        metric_add(worker->stats.duplicates, NULL, 1);
        note_repeat(worker, job);
        drop(claim, job);
        return true;
    }
}

static void on_conflicts(void *arg, const struct pg_outcome *outcome)
{
    struct claim *claim = arg;
    int64_t wait_ms = 0;
    if (claim->worker->is_closing) {
        return;
    }
    if (outcome->end == PG_DONE) {
        for (size_t i = 0; i < claim->count; i++) {
            struct job *job = claim->batch[i];
            if (job != NULL &&
                end_conflict(claim, job, outcome->results[0], &wait_ms)) {
                claim->batch[i] = NULL;
            }
        }
    }
    /* After a failure the whole claim is repeated: it changes nothing for
     * what is there. */
    end_batch(claim, wait_ms);
}

static void read_conflicts(struct claim *claim)
{
    struct pg_params params;
    const uint8_t *last = NULL;
    pg_params_init(&params);
    pg_array_begin(&params, PG_UUID);
    for (size_t i = 0; i < claim->count; i++) {
        const struct job *job = claim->batch[i];
        if (job == NULL ||
            (last != NULL && memcmp(last, job->record.id, UUID_SIZE) == 0)) {
            continue;
        }
        last = job->record.id;
        put_bytes(&params, last, UUID_SIZE);
    }
    pg_array_end(&params);
    if (last == NULL) {
        end_batch(claim, 0);
    } else {
        struct pg *db = claim->worker->claim_db;
        pg_begin(db);
        pg_step(db, SQL_WORKER_CONFLICTS, &params);
        pg_step(db, SQL_WORKER_FLUSH, NULL);
        pg_commit(db, on_conflicts, claim);
    }
    pg_params_fini(&params);
}

/* -- the claim itself ------------------------------------------------------ */

static int compare_numbers(const void *left, const void *right)
{
    const struct job *a = *(struct job *const *)left;
    const struct job *b = *(struct job *const *)right;
    return (a->number > b->number) - (a->number < b->number);
}

/* In the order they came, not in that of their ids: nobody is promised an
 * order, but what has to wait its turn waits in this one. */
static void take_claimed(struct claim *claim, const PGresult *rows)
{
    bool is_fresh[WORKER_BATCH] = {false};
    struct job *fresh[WORKER_BATCH];
    size_t count = 0;
    /* Slots are emptied only after all ids were looked up. */
    for (int i = 0; i < pg_rows(rows); i++) {
        const size_t at =
            job_search(claim->batch, claim->count, pg_get_uuid(rows, i, 0));
        if (at < claim->count) {
            is_fresh[at] = true;
        }
    }
    for (size_t i = 0; i < claim->count; i++) {
        if (is_fresh[i]) {
            fresh[count++] = claim->batch[i];
            claim->batch[i] = NULL;
        }
    }
    if (count > 1) {
        qsort(fresh, count, sizeof(fresh[0]), compare_numbers);
    }
    for (size_t i = 0; i < count; i++) {
        take_fresh(claim, fresh[i]);
    }
}

/* Whether Postgres refused the content itself: data, integrity, size. A right
 * that was taken away, or a table that is not there, is no fault of the record;
 * for that it waits, and whatever was accepted stays so. */
static bool is_content_refused(const struct pg_outcome *outcome)
{
    static const char *const prefixes[] = {"22", "23", "54"};
    if (outcome->end != PG_FAILED || outcome->err->class != ERR_PERMANENT) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        if (strncmp(outcome->sqlstate, prefixes[i], 2) == 0) {
            return true;
        }
    }
    return outcome->sqlstate[0] == '\0'; /* too large to be sent at all */
}

/* One record that Postgres will not take, whatever we do: it must not stop
 * its partition. */
static void refuse_single(struct claim *claim, const struct err *err)
{
    struct job *job = claim->batch[0];
    claim->batch[0] = NULL;
    LOG(ERROR, "claim_refused",
        (&(struct log_fields){.err = err, .tenant = job->record.tenant}),
        "postgres refuses this record; it goes to the rejects topic");
    rejects_add_job(claim->worker->rejects, job, err->code);
    job_free(&claim->worker->jobs, job);
    end_batch(claim, 0);
}

static void on_failed(struct claim *claim, const struct pg_outcome *outcome)
{
    const bool is_refused = is_content_refused(outcome);
    if (is_refused && strcmp(outcome->sqlstate, "23505") == 0 &&
        claim->count == 1) {
        read_conflicts(claim);
        return;
    }
    if (is_refused && claim->count == 1) {
        refuse_single(claim, outcome->err);
        return;
    }
    LOG(WARN, "claim_failed",
        (&(struct log_fields){.err = outcome->err,
            .number_name = "records",
            .number = (long long)claim->count}),
        "the claim is tried again");
    if (outcome->end == PG_UNKNOWN) {
        metric_add(claim->worker->stats.doubts, "claim", 1);
    }
    claim->max_batch = is_refused ? 1 : claim->max_batch;
    claim->backoff_ms = claim->backoff_ms == 0 ? RETRY_MS
                        : claim->backoff_ms * 2 > RETRY_MAX_MS
                            ? RETRY_MAX_MS
                            : claim->backoff_ms * 2;
    requeue(
        claim, outcome->end == PG_UNKNOWN, is_refused ? 0 : claim->backoff_ms);
}

static void on_claimed(void *arg, const struct pg_outcome *outcome)
{
    struct claim *claim = arg;
    if (claim->worker->is_closing) {
        return;
    }
    if (outcome->end != PG_DONE) {
        on_failed(claim, outcome);
        return;
    }
    claim->max_batch = WORKER_BATCH;
    take_claimed(claim, outcome->results[1]);
    read_conflicts(claim);
}

static void send_batch(struct claim *claim)
{
    struct worker *worker = claim->worker;
    fill_batch(claim);
    if (claim->count == 0) {
        return;
    }
    struct pg_params params;
    pg_params_init(&params);
    put_columns(&params, claim);
    pg_param_uuid(&params, worker->boot_id);
    claim->since_us = now_mono_us();
    pg_begin(worker->claim_db);
    pg_step(worker->claim_db, SQL_WORKER_CLAIM_LOCK, NULL);
    pg_step(worker->claim_db, SQL_WORKER_CLAIM, &params);
    put_deliveries(claim);
    pg_commit(worker->claim_db, on_claimed, claim);
    pg_params_fini(&params);
}
