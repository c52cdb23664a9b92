/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/rejects.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "worker/worker.h"

enum { RETRY_MS = 500, CLOSE_WAIT_MS = 1000, HEADER_COUNT = 6 };

struct reject {
    struct reject *next; /* in the list of those to be sent again */
    struct rejects *rejects;
    struct offset_entry *entry;
    char *key; /* owned; NULL: null key */
    size_t key_len;
    char *value; /* owned; NULL: null value */
    size_t value_len;
    size_t sent_len; /* of value; less once it did not fit */
    char reason[64];
    char pointer[256];
    char detail[256];
    char topic[256];
    char partition[16];
    char offset[24];
};

struct rejects {
    struct worker *worker;
    struct kafka_producer *producer;
    struct loop_timer *retry;
    char topic[256];
    struct reject *again;
    size_t waiting;
    size_t bytes; /* of keys and values */
};

static void free_reject(struct reject *reject)
{
    reject->rejects->waiting--;
    reject->rejects->bytes -= reject->key_len + reject->value_len;
    free(reject->key);
    free(reject->value);
    free(reject);
}

static void send_again(struct reject *reject)
{
    struct rejects *rejects = reject->rejects;
    reject->next = rejects->again;
    rejects->again = reject;
    if (!loop_timer_is_active(rejects->retry)) {
        loop_timer_start(rejects->retry, RETRY_MS, 0);
    }
}

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    struct reject *reject = arg;
    (void)partition;
    (void)offset;
    if (reject->rejects->worker->is_closing) {
        free_reject(reject);
        return;
    }
    if (delivery == KAFKA_DELIVERED) {
        offsets_done(reject->entry);
        free_reject(reject);
        return;
    }
    LOG(WARN, "reject_not_delivered",
        (&(struct log_fields){
            .err = err, .name1 = "source", .value1 = reject->topic}),
        "it is sent again");
    if (err->class == ERR_PERMANENT) {
        reject->sent_len /= 2; /* the topic takes less than our client */
    }
    send_again(reject);
}

static struct span value_span(const char *bytes, size_t len)
{
    return (struct span){.ptr = bytes, .len = len};
}

/* A copy that does not fit with its headers is cut; the first bytes and the
 * position are what helps to find the original. */
static int produce(struct reject *reject, struct err *err)
{
    const struct kafka_header headers[HEADER_COUNT] = {
        {"reason", span_of(reject->reason)},
        {"pointer", span_of(reject->pointer)},
        {"detail", span_of(reject->detail)},
        {"source_topic", span_of(reject->topic)},
        {"source_partition", span_of(reject->partition)},
        {"source_offset", span_of(reject->offset)},
    };
    return kafka_produce(reject->rejects->producer, reject->rejects->topic, -1,
        value_span(reject->key, reject->key_len),
        value_span(reject->value, reject->sent_len), headers, HEADER_COUNT,
        on_delivered, reject, err);
}

static void send_copy(struct reject *reject)
{
    struct err err = ERR_INIT;
    int result = produce(reject, &err);
    while (result != 0 && err.class == ERR_PERMANENT && reject->sent_len > 0) {
        reject->sent_len /= 2;
        result = produce(reject, &err);
    }
    if (result != 0) {
        send_again(reject);
    }
}

static void on_retry(void *owner)
{
    struct rejects *rejects = owner;
    struct reject *reject = rejects->again;
    rejects->again = NULL;
    while (reject != NULL) {
        struct reject *next = reject->next;
        send_copy(reject);
        reject = next;
    }
}

struct rejects *rejects_open(struct worker *worker, struct err *err)
{
    struct rejects *rejects = mem_zalloc(1, sizeof(*rejects));
    rejects->worker = worker;
    kafka_topic_name(worker->conf, "rejects", rejects->topic);
    rejects->producer = kafka_producer_open(worker->loop, worker->conf, 5, err);
    if (rejects->producer == NULL) {
        free(rejects);
        return NULL;
    }
    kafka_producer_prepare(rejects->producer, rejects->topic);
    rejects->retry = loop_timer_new(worker->loop, on_retry, rejects);
    return rejects;
}

void rejects_close(struct rejects *rejects)
{
    if (rejects == NULL) {
        return;
    }
    kafka_producer_close(rejects->producer, CLOSE_WAIT_MS);
    while (rejects->again != NULL) {
        struct reject *reject = rejects->again;
        rejects->again = reject->next;
        free_reject(reject);
    }
    loop_timer_free(rejects->retry);
    free(rejects);
}

static char *copy(struct span bytes)
{
    return bytes.ptr == NULL ? NULL : span_dup(bytes);
}

static struct reject *new_reject(struct rejects *rejects, struct span key,
    struct span value, struct offset_entry *entry)
{
    struct reject *reject = mem_zalloc(1, sizeof(*reject));
    reject->rejects = rejects;
    reject->entry = entry;
    reject->key = copy(key);
    reject->key_len = key.len;
    reject->value = copy(value);
    reject->value_len = value.len;
    reject->sent_len = value.len;
    rejects->waiting++;
    rejects->bytes += key.len + value.len;
    return reject;
}

static void set_source(
    struct reject *reject, const char *topic, int32_t partition, int64_t offset)
{
    (void)snprintf(reject->topic, sizeof(reject->topic), "%s", topic);
    (void)snprintf(
        reject->partition, sizeof(reject->partition), "%" PRId32, partition);
    (void)snprintf(reject->offset, sizeof(reject->offset), "%" PRId64, offset);
}

void rejects_add(struct rejects *rejects, const struct kafka_record *record,
    struct offset_entry *entry, const struct fault *fault)
{
    struct reject *reject =
        new_reject(rejects, record->key, record->value, entry);
    const char *reason = code_name(fault->code);
    (void)snprintf(reject->reason, sizeof(reject->reason), "%s", reason);
    (void)snprintf(
        reject->pointer, sizeof(reject->pointer), "%s", fault->pointer);
    (void)snprintf(reject->detail, sizeof(reject->detail), "%s", fault->detail);
    set_source(reject, record->topic, record->partition, record->offset);
    metric_add(rejects->worker->stats.rejects, reason, 1);
    send_copy(reject);
}

void rejects_add_job(
    struct rejects *rejects, struct job *job, const char *reason)
{
    struct reject *reject = new_reject(rejects, span_of(job->record.tenant),
        value_span(job->text, job->text_len), job->entry);
    job->entry = NULL;
    (void)snprintf(reject->reason, sizeof(reject->reason), "%s", reason);
    set_source(reject, job->topic, job->partition, job->offset);
    metric_add(rejects->worker->stats.rejects, reason, 1);
    send_copy(reject);
}

size_t rejects_waiting(const struct rejects *rejects)
{
    return rejects->waiting;
}

size_t rejects_bytes(const struct rejects *rejects)
{
    return rejects->bytes;
}

bool rejects_is_up(const struct rejects *rejects)
{
    return kafka_producer_is_up(rejects->producer);
}
