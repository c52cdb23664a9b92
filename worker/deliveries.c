/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/deliveries.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "schema/mapping.h"
#include "schema/sql_worker.h"
#include "worker/claim.h"
#include "worker/mappings.h"
#include "worker/rejects.h"
#include "worker/resolve.h"
#include "worker/worker.h"

enum { RETRY_MS = 100, RETRY_MAX_MS = 2000 };

struct deliveries {
    struct worker *worker;
    struct mappings *mappings;
    struct delivery_list waiting; /* for a reading of the mappings */
    struct delivery_list queue;   /* rows to be written */
    struct loop_timer *soon;
    struct delivery *batch[WORKER_BATCH]; /* under way */
    size_t count;
    int64_t backoff_ms;
    size_t max_batch; /* 1 after a batch was refused as a whole */
};

/* -- rows of what is no action --------------------------------------------- */

static void kick(struct deliveries *deliveries, int64_t wait_ms)
{
    if (deliveries->count == 0 && !loop_timer_is_active(deliveries->soon)) {
        loop_timer_start(deliveries->soon, wait_ms, 0);
    }
}

static void store(struct deliveries *deliveries, struct delivery *delivery)
{
    const char *name = webhook_decision_name(delivery->decision);
    metric_add(deliveries->worker->stats.deliveries, name, 1);
    delivery_list_push(&deliveries->queue, delivery);
    kick(deliveries, 0);
}

static void end_batch(struct deliveries *deliveries)
{
    for (size_t i = 0; i < deliveries->count; i++) {
        offsets_done(deliveries->batch[i]->entry);
        delivery_free(&deliveries->worker->jobs, deliveries->batch[i]);
    }
    deliveries->count = 0;
    deliveries->max_batch = WORKER_BATCH;
    deliveries->backoff_ms = 0;
    if (deliveries->queue.head != NULL) {
        kick(deliveries, 0);
    }
}

/* Said again: a row that is there is left as it is. */
static void retry(struct deliveries *deliveries, int64_t wait_ms)
{
    for (size_t i = deliveries->count; i > 0; i--) {
        delivery_list_push_front(&deliveries->queue, deliveries->batch[i - 1]);
    }
    deliveries->count = 0;
    kick(deliveries, wait_ms);
}

static void on_failed(
    struct deliveries *deliveries, const struct pg_outcome *outcome)
{
    const bool is_refused =
        outcome->end == PG_FAILED && outcome->err->class != ERR_TRANSIENT;
    LOG(WARN, "deliveries_not_stored",
        (&(struct log_fields){.err = outcome->err,
            .number_name = "records",
            .number = (long long)deliveries->count}),
        "they are written again");
    if (outcome->end == PG_UNKNOWN) {
        metric_add(deliveries->worker->stats.doubts, "deliveries", 1);
    }
    deliveries->max_batch = is_refused ? 1 : deliveries->max_batch;
    deliveries->backoff_ms = deliveries->backoff_ms == 0 ? RETRY_MS
                             : deliveries->backoff_ms * 2 > RETRY_MAX_MS
                                 ? RETRY_MAX_MS
                                 : deliveries->backoff_ms * 2;
    retry(deliveries, is_refused ? 0 : deliveries->backoff_ms);
}

/* One that Postgres will not take, whatever we do, must not stop its
 * partition. */
static void refuse_single(struct deliveries *deliveries, const struct err *err)
{
    struct worker *worker = deliveries->worker;
    struct delivery *delivery = deliveries->batch[0];
    const struct kafka_record record = {.topic = delivery->topic,
        .partition = delivery->partition,
        .offset = delivery->offset,
        .key = span_of(delivery->capture.tenant),
        .value = {delivery->text, delivery->text_len}};
    struct fault fault = FAULT_INIT;
    (void)fault_set(&fault, CODE_UNSUPPORTED, "", "postgres refuses it: %s",
        err->code); /* fills fault */
    LOG(ERROR, "delivery_refused",
        (&(struct log_fields){.err = err, .tenant = delivery->capture.tenant}),
        "postgres refuses this delivery; it goes to the rejects topic");
    rejects_add(worker->rejects, &record, delivery->entry, &fault);
    delivery_free(&worker->jobs, delivery);
    deliveries->count = 0;
    end_batch(deliveries);
}

static void on_stored(void *arg, const struct pg_outcome *outcome)
{
    struct deliveries *deliveries = arg;
    if (deliveries->worker->is_closing) {
        return;
    }
    if (outcome->end == PG_DONE) {
        end_batch(deliveries);
    } else if (outcome->end == PG_FAILED && deliveries->count == 1 &&
               outcome->err->class != ERR_TRANSIENT) {
        refuse_single(deliveries, outcome->err);
    } else {
        on_failed(deliveries, outcome);
    }
}

static void on_soon(void *owner)
{
    struct deliveries *deliveries = owner;
    struct pg *db = deliveries->worker->claim_db;
    size_t bytes = 0;
    if (deliveries->count > 0) {
        return;
    }
    while (deliveries->count < deliveries->max_batch &&
           deliveries->queue.head != NULL) {
        bytes += deliveries->queue.head->bytes;
        if (deliveries->count > 0 && bytes > WORKER_BATCH_BYTES) {
            break;
        }
        deliveries->batch[deliveries->count++] =
            delivery_list_pop(&deliveries->queue);
    }
    if (deliveries->count > 0) {
        pg_begin(db);
        delivery_put_step(db, deliveries->batch, deliveries->count);
        pg_commit(db, on_stored, deliveries);
    }
}

/* -- jobs of what is mapped ------------------------------------------------ */

/* The job made of it is given up. */
static void fail(struct deliveries *deliveries, struct job *job)
{
    struct delivery *delivery = job->delivery;
    delivery->decision = WEBHOOK_FAILED;
    delivery->fault = *job->fault;
    delivery->entry = job->entry;
    job->delivery = NULL;
    job->entry = NULL;
    job_free(&deliveries->worker->jobs, job);
    store(deliveries, delivery);
}

static void resolve(void *owner, struct job *job)
{
    struct deliveries *deliveries = owner;
    struct worker *worker = deliveries->worker;
    if (!resolve_new(worker->connectors, job)) {
        job->resume = resolve;
        job->resume_owner = deliveries;
        connectors_wait(worker->connectors, job);
    } else if (job->fault != NULL) {
        fail(deliveries, job);
    } else {
        metric_add(
            worker->stats.deliveries, webhook_decision_name(WEBHOOK_MAPPED), 1);
        claim_add(worker->claim, job);
    }
}

/* Its id is the delivery's, and repeats are told by the delivery's body: what
 * the mapping made of it in the meantime does not matter. */
static void make_job(struct deliveries *deliveries, struct delivery *delivery,
    struct span request)
{
    struct fault fault = FAULT_INIT;
    struct job *job = job_new(&deliveries->worker->jobs, request);
    const struct record_source source = {
        .door = RECORD_DOOR_KAFKA,
        .tenant = span_of(delivery->capture.tenant),
        .has_tenant = true,
        .topic = delivery->topic,
        .partition = delivery->partition,
        .offset = delivery->offset,
    };
    const struct span text = {job->text, job->text_len};
    if (record_parse(text, &source, &job->record, &fault) != RECORD_OK) {
        job_set_fault(job, &fault);
    }
    memcpy(job->record.id, delivery->capture.id, UUID_SIZE);
    mapping_fingerprint(&delivery->capture, job->record.fingerprint);
    job->topic = delivery->topic;
    job->partition = delivery->partition;
    job->offset = delivery->offset;
    job->asked_us = delivery->asked_us;
    job->entry = delivery->entry;
    job->delivery = delivery;
    delivery->entry = NULL;
    resolve(deliveries, job);
}

static void apply(struct deliveries *deliveries, struct delivery *delivery,
    const struct mapping *mapping)
{
    struct buf request;
    buf_init(&request, RECORD_MAX_KAFKA_BYTES);
    delivery->decision = mapping_apply(mapping, &delivery->capture,
        &delivery->type, &request, &delivery->fault);
    if (delivery->decision == WEBHOOK_MAPPED) {
        make_job(deliveries, delivery, buf_span(&request));
    } else {
        store(deliveries, delivery);
    }
    buf_fini(&request);
}

/* -- what becomes of one --------------------------------------------------- */

/* Evidence of a wrong signature is never run, whoever asks for it. A conflict
 * is, once a person has looked at it and replays it. */
static bool is_held(const struct webhook_capture *capture)
{
    return capture->verdict == WEBHOOK_REJECTED ||
           (capture->verdict == WEBHOOK_CONFLICT && !capture->is_replay);
}

static void keep(struct deliveries *deliveries, struct delivery *delivery,
    enum webhook_decision decision)
{
    delivery->decision = decision;
    (void)webhook_capture_type(&delivery->capture, &delivery->type);
    store(deliveries, delivery);
}

static void judge(struct deliveries *deliveries, struct delivery *delivery)
{
    const struct webhook_capture *capture = &delivery->capture;
    const struct mapping *mapping = NULL;
    if (is_held(capture)) {
        keep(deliveries, delivery, WEBHOOK_HELD);
        return;
    }
    switch (mappings_find(deliveries->mappings, capture->tenant,
        capture->source, delivery->asked_us, &mapping)) {
    case MAPPED_WAIT:
        delivery_list_push(&deliveries->waiting, delivery);
        break;
    case MAPPED_NO:
        keep(deliveries, delivery, WEBHOOK_UNMAPPED);
        break;
    case MAPPED_YES:
    default:
        if (mapping != NULL) {
            apply(deliveries, delivery, mapping);
            break;
        }
        (void)fault_set(&delivery->fault, CODE_UNSUPPORTED, "",
            "this version cannot read the source's mapping"); /* fills it */
        keep(deliveries, delivery, WEBHOOK_FAILED);
        break;
    }
}

static void on_mappings_read(void *owner)
{
    struct deliveries *deliveries = owner;
    struct delivery_list asked = deliveries->waiting;
    struct delivery *delivery = NULL;
    deliveries->waiting = (struct delivery_list){0};
    while ((delivery = delivery_list_pop(&asked)) != NULL) {
        judge(deliveries, delivery);
    }
}

void deliveries_add(struct deliveries *deliveries, const char *topic,
    const struct kafka_record *record, struct offset_entry *entry)
{
    struct worker *worker = deliveries->worker;
    struct fault fault = FAULT_INIT;
    struct delivery *delivery =
        delivery_new(&worker->jobs, topic, record, &fault);
    if (delivery == NULL) {
        rejects_add(worker->rejects, record, entry, &fault);
        return;
    }
    delivery->entry = entry;
    judge(deliveries, delivery);
}

/* -- life ------------------------------------------------------------------ */

size_t deliveries_waiting(const struct deliveries *deliveries)
{
    return deliveries->waiting.count + deliveries->queue.count +
           deliveries->count;
}

bool deliveries_is_busy(const struct deliveries *deliveries)
{
    return deliveries->count > 0;
}

void deliveries_refresh(struct deliveries *deliveries)
{
    mappings_refresh(deliveries->mappings);
}

static void free_list(struct deliveries *deliveries, struct delivery_list *list)
{
    struct delivery *delivery = NULL;
    while ((delivery = delivery_list_pop(list)) != NULL) {
        delivery_free(&deliveries->worker->jobs, delivery);
    }
}

void deliveries_drain(struct deliveries *deliveries)
{
    free_list(deliveries, &deliveries->waiting);
    free_list(deliveries, &deliveries->queue);
}

struct deliveries *deliveries_open(struct worker *worker)
{
    struct deliveries *deliveries = mem_zalloc(1, sizeof(*deliveries));
    deliveries->worker = worker;
    deliveries->max_batch = WORKER_BATCH;
    deliveries->soon = loop_timer_new(worker->loop, on_soon, deliveries);
    deliveries->mappings = mappings_open(worker, on_mappings_read, deliveries);
    return deliveries;
}

void deliveries_close(struct deliveries *deliveries)
{
    if (deliveries == NULL) {
        return;
    }
    deliveries_drain(deliveries);
    for (size_t i = 0; i < deliveries->count; i++) {
        delivery_free(&deliveries->worker->jobs, deliveries->batch[i]);
    }
    mappings_close(deliveries->mappings);
    loop_timer_free(deliveries->soon);
    free(deliveries);
}
