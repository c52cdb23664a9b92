/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/intake.h"

#include <stdlib.h>
#include <string.h>

#include "common/kafka.h"
#include "common/log.h"
#include "common/time.h"
#include "worker/claim.h"
#include "worker/deliveries.h"
#include "worker/intake_cloudevents.h"
#include "worker/rejects.h"
#include "worker/take.h"
#include "worker/worker.h"

enum { TOPIC_ACTIONS, TOPIC_DISPATCH, TOPIC_WEBHOOKS, TOPIC_COUNT };
enum { PAUSED_LOOK_MS = 20 };

static const char *const TOPIC_NAMES[TOPIC_COUNT] = {
    [TOPIC_ACTIONS] = "actions",
    [TOPIC_DISPATCH] = "dispatch",
    [TOPIC_WEBHOOKS] = "webhooks",
};

struct intake {
    struct worker *worker;
    struct kafka_consumer *consumer; /* NULL before intake_start() */
    struct loop_timer *paused;       /* runs while it is */
    struct offsets *offsets;
    char topics[TOPIC_COUNT][256]; /* full names */
    const char *topic_list[TOPIC_COUNT];
    char group[256];
    size_t max_jobs;
    size_t max_bytes;
    bool has_assignment; /* told of one, even an empty one */
    bool is_draining;
    bool is_broken;
};

/* -- memory ---------------------------------------------------------------- */

static bool is_above(const struct intake *intake, size_t quarters)
{
    const struct jobs *jobs = &intake->worker->jobs;
    const struct rejects *rejects = intake->worker->rejects;
    const size_t records = jobs->count + take_waiting(intake->worker->take) +
                           deliveries_waiting(intake->worker->deliveries) +
                           rejects_waiting(rejects);
    const size_t bytes = jobs->bytes + rejects_bytes(rejects);
    return records >= intake->max_jobs / 4 * quarters ||
           bytes >= intake->max_bytes / 4 * quarters;
}

void intake_balance(struct intake *intake)
{
    if (intake->consumer == NULL || intake->is_draining) {
        return;
    }
    const bool is_paused = kafka_consumer_is_paused(intake->consumer);
    if (!is_paused && is_above(intake, 4)) {
        metric_add(intake->worker->stats.pauses, NULL, 1);
        kafka_consumer_pause(intake->consumer);
        loop_timer_start(intake->paused, PAUSED_LOOK_MS, PAUSED_LOOK_MS);
    } else if (is_paused && !is_above(intake, 3)) {
        loop_timer_stop(intake->paused);
        kafka_consumer_resume(intake->consumer);
    }
}

/* What fills the memory may go without a word to us: repeats that are dropped,
 * rejects that are delivered, dispatches that others took. */
static void on_paused(void *owner)
{
    intake_balance(owner);
}

/* -- records --------------------------------------------------------------- */

static void reject(struct intake *intake, const struct kafka_record *record,
    struct offset_entry *entry, const struct fault *fault)
{
    rejects_add(intake->worker->rejects, record, entry, fault);
}

/* 00-<32 hex>-<16 hex>-<2 hex>, lower case (W3C Trace Context). Anything else
 * is as if it were not there. */
static bool is_traceparent(struct span text)
{
    if (text.len != TRACEPARENT_SIZE - 1 || text.ptr[0] != '0' ||
        text.ptr[1] != '0') {
        return false;
    }
    for (size_t i = 2; i < text.len; i++) {
        const char c = text.ptr[i];
        const bool is_dash = i == 2 || i == 35 || i == 52;
        if (is_dash ? c != '-'
                    : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return true;
}

static void read_traceparent(struct job *job, const struct kafka_record *record)
{
    struct span value = {0};
    if (kafka_header_find(record->message, "traceparent", &value) &&
        is_traceparent(value)) {
        memcpy(job->traceparent, value.ptr, value.len);
    }
}

static int find_request(const struct kafka_record *record, struct span *request,
    struct fault *fault)
{
    struct span content_type = {0};
    if (record->value.ptr == NULL) {
        return fault_set(fault, CODE_NULL_VALUE, "", NULL);
    }
    if (!kafka_header_find(record->message, "content-type", &content_type)) {
        content_type = (struct span){0};
    }
    return cloudevents_unwrap(content_type, record->value, request, fault);
}

static struct job *parse_action(struct intake *intake, const char *topic,
    const struct kafka_record *record, struct fault *fault)
{
    struct span request = {0};
    if (find_request(record, &request, fault) != 0) {
        return NULL;
    }
    struct job *job = job_new(&intake->worker->jobs, request);
    const struct record_source source = {
        .door = RECORD_DOOR_KAFKA,
        .tenant = record->key,
        .has_tenant = record->key.ptr != NULL,
        .topic = topic,
        .partition = record->partition,
        .offset = record->offset,
    };
    const struct span text = {job->text, job->text_len};
    switch (record_parse(text, &source, &job->record, fault)) {
    case RECORD_UNREADABLE:
        job_free(&intake->worker->jobs, job);
        return NULL;
    case RECORD_REJECTED:
        job_set_fault(job, fault);
        break;
    case RECORD_OK:
    default:
        break;
    }
    return job;
}

static void take_action(struct intake *intake, const char *topic,
    const struct kafka_record *record, struct offset_entry *entry)
{
    struct fault fault = FAULT_INIT;
    struct job *job = parse_action(intake, topic, record, &fault);
    if (job == NULL) {
        reject(intake, record, entry, &fault);
        return;
    }
    job->topic = topic;
    job->partition = record->partition;
    job->offset = record->offset;
    job->entry = entry;
    job->asked_us = now_mono_us();
    read_traceparent(job, record);
    claim_add(intake->worker->claim, job);
}

/* {"id": "<uuid>", "attempt_no": n} */
static int parse_dispatch(struct span text, uint8_t id[UUID_SIZE],
    int64_t *attempt_no, struct fault *fault)
{
    struct json_value root;
    struct json_value member;
    struct err err = ERR_INIT;
    if (text.ptr == NULL) {
        return fault_set(fault, CODE_NULL_VALUE, "", NULL);
    }
    if (json_parse(text, 2, &root, &err) != 0) {
        return fault_set(fault, CODE_MALFORMED_JSON, "", "%s", err.msg);
    }
    if (!json_find(root, "id", &member) || member.type != JSON_STRING ||
        !uuid_parse(
            (struct span){member.raw.ptr + 1, member.raw.len - 2}, id)) {
        return fault_set(
            fault, CODE_INVALID_MEMBER, "/id", "id must be a UUID");
    }
    if (!json_find(root, "attempt_no", &member) || member.type != JSON_NUMBER ||
        !json_to_int(member, attempt_no) || *attempt_no < 1 ||
        *attempt_no > INT32_MAX) {
        return fault_set(fault, CODE_INVALID_MEMBER, "/attempt_no",
            "attempt_no must be a positive integer");
    }
    return 0;
}

static void take_dispatch(struct intake *intake,
    const struct kafka_record *record, struct offset_entry *entry)
{
    struct fault fault = FAULT_INIT;
    uint8_t id[UUID_SIZE];
    int64_t attempt_no = 0;
    if (parse_dispatch(record->value, id, &attempt_no, &fault) != 0) {
        reject(intake, record, entry, &fault);
        return;
    }
    take_add(intake->worker->take, id, (int)attempt_no, entry);
}

static int topic_of(const struct intake *intake, const char *topic)
{
    int index = 0;
    while (
        index < TOPIC_COUNT - 1 && strcmp(topic, intake->topics[index]) != 0) {
        index++;
    }
    return index;
}

static void take(struct intake *intake, int index,
    const struct kafka_record *record, struct offset_entry *entry)
{
    const char *topic = intake->topics[index];
    if (index == TOPIC_ACTIONS) {
        take_action(intake, topic, record, entry);
    } else if (index == TOPIC_DISPATCH) {
        take_dispatch(intake, record, entry);
    } else {
        deliveries_add(intake->worker->deliveries, topic, record, entry);
    }
}

static void on_record(void *owner, const struct kafka_record *record)
{
    struct intake *intake = owner;
    /* After the drain began records are left for others: no entry, so their
     * offsets are never committed. */
    if (!intake->is_draining) {
        const int index = topic_of(intake, record->topic);
        struct offset_entry *entry =
            offsets_add(intake->offsets, intake->topics[index],
                record->partition, record->offset, record->generation);
        metric_add(intake->worker->stats.records, TOPIC_NAMES[index], 1);
        take(intake, index, record, entry);
    }
    rd_kafka_message_destroy(record->message);
    intake_balance(intake);
}

/* -- the group ------------------------------------------------------------- */

static void on_assigned(void *owner,
    const rd_kafka_topic_partition_list_t *partitions, uint64_t generation)
{
    struct intake *intake = owner;
    intake->has_assignment = true;
    (void)partitions;
    offsets_assign(intake->offsets, generation);
}

/* Offsets were stored as they became done; what is under way is fenced in
 * Postgres, not by the group. */
static void on_revoked(
    void *owner, const rd_kafka_topic_partition_list_t *partitions)
{
    (void)owner;
    (void)partitions;
}

static void on_error(void *owner, const struct err *err)
{
    struct intake *intake = owner;
    const struct log_fields fields = {.err = err};
    if (err->class == ERR_FATAL) {
        intake->is_broken = true;
        LOG(ERROR, "intake_broken", &fields, "the worker stops");
        worker_stop(intake->worker, 1);
        return;
    }
    LOG(WARN, "intake_error", &fields, "kafka is tried again");
}

static void on_store(void *owner, const char *topic, int32_t partition,
    int64_t next_offset, uint64_t generation)
{
    struct intake *intake = owner;
    if (intake->consumer != NULL) {
        kafka_consumer_store(
            intake->consumer, topic, partition, next_offset, generation);
    }
}

static const struct kafka_consumer_events EVENTS = {
    .on_record = on_record,
    .on_assigned = on_assigned,
    .on_revoked = on_revoked,
    .on_error = on_error,
};

struct intake *intake_open(struct worker *worker)
{
    struct intake *intake = mem_zalloc(1, sizeof(*intake));
    intake->worker = worker;
    intake->max_jobs = (size_t)conf_int(worker->conf, "worker.max_jobs");
    intake->max_bytes = (size_t)conf_int(worker->conf, "worker.max_bytes");
    intake->offsets = offsets_new(on_store, intake);
    intake->paused = loop_timer_new(worker->loop, on_paused, intake);
    for (int i = 0; i < TOPIC_COUNT; i++) {
        kafka_topic_name(worker->conf, TOPIC_NAMES[i], intake->topics[i]);
        intake->topic_list[i] = intake->topics[i];
    }
    kafka_topic_name(worker->conf, "worker", intake->group);
    return intake;
}

void intake_start(struct intake *intake)
{
    struct err err = ERR_INIT;
    if (intake->consumer != NULL || intake->is_draining) {
        return;
    }
    const struct kafka_consumer_options options = {
        .group = intake->group,
        .topics = intake->topic_list,
        .topic_count = TOPIC_COUNT,
        .events = &EVENTS,
        .owner = intake,
    };
    intake->consumer = kafka_consumer_open(
        intake->worker->loop, intake->worker->conf, &options, &err);
    if (intake->consumer == NULL) {
        on_error(intake, &err);
    }
}

void intake_close(struct intake *intake)
{
    if (intake == NULL) {
        return;
    }
    intake->is_draining = true;
    loop_timer_free(intake->paused);
    kafka_consumer_close(intake->consumer);
    intake->consumer = NULL;
    offsets_free(intake->offsets);
    free(intake);
}

void intake_drain(struct intake *intake)
{
    intake->is_draining = true;
    if (intake->consumer != NULL) {
        kafka_consumer_pause(intake->consumer);
    }
}

bool intake_is_up(const struct intake *intake)
{
    return intake->has_assignment && !intake->is_broken;
}
