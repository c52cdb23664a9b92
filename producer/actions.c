/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/actions.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/log.h"
#include "common/time.h"
#include "producer/manifests.h"
#include "producer/producer.h"
#include "producer/repeat_notes.h"
#include "producer/trace.h"

/* How long a failed delivery keeps /readyz from saying yes. */
#define DOUBT_US (5 * US_PER_S)
#define PATH "/v1/actions/"

struct actions {
    struct producer *producer;
    char topic[256];
    struct buf value;     /* of the record being produced */
    int64_t failed_at_us; /* of the last record that did not get through; 0:
                             the last one did */
};

struct actions *actions_open(struct producer *producer)
{
    struct actions *actions = mem_zalloc(1, sizeof(*actions));
    actions->producer = producer;
    buf_init(&actions->value, RECORD_MAX_KAFKA_BYTES);
    kafka_topic_name(producer->conf, "actions", actions->topic);
    kafka_producer_prepare(producer->kafka, actions->topic);
    return actions;
}

void actions_close(struct actions *actions)
{
    if (actions != NULL) {
        buf_fini(&actions->value);
        free(actions);
    }
}

bool actions_is_kafka_up(const struct actions *actions)
{
    return kafka_producer_is_up(actions->producer->kafka) &&
           (actions->failed_at_us == 0 ||
               now_mono_us() - actions->failed_at_us > DOUBT_US);
}

/* -- the request ----------------------------------------------------------- */

bool actions_type_is_json(const char *content_type)
{
    static const char JSON[] = "application/json";
    static const char CHARSET[] = "charset=";
    if (content_type == NULL) {
        return true;
    }
    if (strncasecmp(content_type, JSON, sizeof(JSON) - 1) != 0) {
        return false;
    }
    const char *rest = content_type + sizeof(JSON) - 1;
    rest += strspn(rest, " \t");
    if (*rest == '\0') {
        return true;
    }
    rest += 1 + strspn(rest + 1, " \t");
    return rest[-1] != '\0' &&
           strncasecmp(rest, CHARSET, sizeof(CHARSET) - 1) == 0 &&
           (strcasecmp(rest + sizeof(CHARSET) - 1, "utf-8") == 0 ||
               strcasecmp(rest + sizeof(CHARSET) - 1, "\"utf-8\"") == 0);
}

static int check_headers(
    const struct http_request *request, struct fault *fault)
{
    const char *encoding = http_header(request, "Content-Encoding");
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        return fault_set(fault, CODE_UNSUPPORTED_MEDIA_TYPE, "",
            "Content-Encoding is not supported: send the body as it is");
    }
    if (!actions_type_is_json(http_header(request, "Content-Type"))) {
        return fault_set(fault, CODE_UNSUPPORTED_MEDIA_TYPE, "", NULL);
    }
    if (http_header_count(request, "Idempotency-Key") > 1) {
        return fault_set(fault, CODE_INVALID_KEY, "",
            "more than one Idempotency-Key header");
    }
    return 0;
}

static int parse(struct exchange *exchange, struct fault *fault)
{
    struct http_request *request = exchange->request;
    const char *key = http_header(request, "Idempotency-Key");
    const struct record_source source = {
        .door = RECORD_DOOR_HTTP,
        .tenant = span_of(exchange->tenant),
        .has_tenant = true,
        .key = span_of(key),
        .has_key = key != NULL,
    };
    if (check_headers(request, fault) != 0) {
        return -1;
    }
    if (record_parse(http_body(request), &source, &exchange->record, fault) !=
        RECORD_OK) {
        return -1;
    }
    memcpy(exchange->id, exchange->record.id, UUID_SIZE);
    uuid_format(exchange->id, exchange->id_text);
    return 0;
}

static void reserve_it(struct exchange *exchange)
{
    struct producer *producer = exchange->producer;
    if (!kafka_producer_is_up(producer->kafka)) {
        exchange_unavailable(exchange);
        exchange_free(exchange);
        return;
    }
    reserve_add(producer->reserve, exchange);
}

void actions_post(struct exchange *exchange)
{
    struct fault fault = FAULT_INIT;
    if (parse(exchange, &fault) != 0) {
        exchange_fault(exchange, &fault);
        exchange_free(exchange);
        return;
    }
    manifests_judge(exchange, reserve_it);
}

/* -- the record ------------------------------------------------------------ */

static void accept_it(struct exchange *exchange)
{
    char location[sizeof(PATH) + UUID_TEXT_SIZE];
    struct buf body;
    buf_init(&body, 256);
    buf_printf(&body, "%s%s", PATH, exchange->id_text);
    memcpy(location, buf_str(&body), body.len + 1);
    buf_clear(&body);
    buf_printf(
        &body, "{\"id\":\"%s\",\"status\":\"accepted\"}\n", exchange->id_text);
    http_reply_header(exchange->request, "Location", location);
    if (!exchange->is_new) {
        http_reply_header(exchange->request, "Idempotency-Replayed", "true");
    }
    exchange_json(exchange, exchange->is_new ? 202 : 200, buf_span(&body));
    buf_fini(&body);
}

static const char *delivery_name(enum kafka_delivery delivery)
{
    switch (delivery) {
    case KAFKA_DELIVERED:
        return "delivered";
    case KAFKA_NOT_DELIVERED:
        return "failed";
    case KAFKA_MAYBE_DELIVERED:
        break;
    }
    return "unknown";
}

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    struct exchange *exchange = arg;
    struct actions *actions = exchange->producer->actions;
    (void)partition;
    (void)offset;
    metric_add(actions->producer->meters.produced, delivery_name(delivery), 1);
    actions->failed_at_us = delivery == KAFKA_DELIVERED ? 0 : now_mono_us();
    if (delivery != KAFKA_DELIVERED) {
        LOG(WARN, "produce_failed",
            (&(struct log_fields){.action_id = exchange->id_text,
                .tenant = exchange->tenant,
                .err = err}),
            "a repeat of the request produces it again");
    }
    if (exchange->request != NULL && delivery == KAFKA_DELIVERED) {
        accept_it(exchange);
    } else if (exchange->request != NULL) {
        exchange_unavailable(exchange);
    }
    exchange_free(exchange);
}

static size_t put_headers(const struct http_request *request,
    char parent[TRACEPARENT_LEN + 1], struct kafka_header *headers)
{
    const char *header = http_header_count(request, "traceparent") == 1
                             ? http_header(request, "traceparent")
                             : NULL;
    const bool is_taken = trace_parent(header, parent);
    size_t count = 0;
    headers[count++] =
        (struct kafka_header){.name = "traceparent", .value = span_of(parent)};
    const char *state = http_header(request, "tracestate");
    if (is_taken && state != NULL && strlen(state) <= TRACESTATE_MAX &&
        http_header_count(request, "tracestate") == 1) {
        headers[count++] = (struct kafka_header){
            .name = "tracestate", .value = span_of(state)};
    }
    return count;
}

/* Errors: TRANSIENT, or PERMANENT when it is larger than the topic takes. */
static int produce(struct exchange *exchange, struct err *err)
{
    struct actions *actions = exchange->producer->actions;
    char parent[TRACEPARENT_LEN + 1];
    struct kafka_header headers[2];
    const size_t count = put_headers(exchange->request, parent, headers);
    buf_clear(&actions->value);
    record_put_kafka(
        &actions->value, &exchange->record, http_body(exchange->request));
    if (actions->value.is_overflowed) {
        return err_set(err, ERR_PERMANENT, "TOO_LARGE",
            "the record is larger "
            "than %zu bytes",
            RECORD_MAX_KAFKA_BYTES);
    }
    return kafka_produce(actions->producer->kafka, actions->topic, -1,
        span_of(exchange->record.tenant), buf_span(&actions->value), headers,
        count, on_delivered, exchange, err);
}

static void produce_it(struct exchange *exchange)
{
    struct err err = ERR_INIT;
    if (produce(exchange, &err) == 0) {
        return;
    }
    LOG(WARN, "produce_refused",
        (&(struct log_fields){.action_id = exchange->id_text,
            .tenant = exchange->tenant,
            .err = &err}),
        "not produced");
    if (err.class == ERR_PERMANENT) {
        const struct fault fault = {.code = CODE_TOO_LARGE};
        exchange_fault(exchange, &fault);
    } else {
        exchange_unavailable(exchange);
    }
    exchange_free(exchange);
}

/* A worker has its action, so no record will tell of this one. */
static void note_repeat(const struct exchange *exchange)
{
    struct repeat repeat = {.topic = NULL};
    memcpy(repeat.id, exchange->id, UUID_SIZE);
    memcpy(repeat.tenant, exchange->tenant, sizeof(repeat.tenant));
    producer_repeat_notes_add(exchange->producer->repeat_notes, &repeat);
}

void actions_on_reserved(
    struct exchange *exchange, enum reserve_verdict verdict)
{
    struct fault fault = FAULT_INIT;
    exchange->is_new = verdict == RESERVE_NEW;
    if (exchange->request == NULL) {
        exchange_free(exchange); /* its body is gone: the client repeats it */
        return;
    }
    switch (verdict) {
    case RESERVE_NEW:
    case RESERVE_AGAIN:
        produce_it(exchange);
        return;
    case RESERVE_CLAIMED:
        note_repeat(exchange);
        accept_it(exchange);
        break;
    case RESERVE_CONFLICT:
        (void)fault_set(&fault, CODE_IDEMPOTENCY_CONFLICT, "/idempotency_key",
            NULL); /* always -1 */
        exchange_fault(exchange, &fault);
        break;
    case RESERVE_FAILED:
    case RESERVE_VERDICT_COUNT:
        exchange_unavailable(exchange);
        break;
    }
    exchange_free(exchange);
}
