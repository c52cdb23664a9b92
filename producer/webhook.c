/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/webhook.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "producer/challenge.h"
#include "producer/producer.h"
#include "producer/reply.h"
#include "producer/webhook_sources.h"
#include "schema/webhook.h"

#define PATH "/hooks/"

struct webhook_door {
    struct producer *producer;
    struct seal_keys *seal;
    struct webhook_sources *sources;
    struct webhook_memory *memory;
    char topic[256];
    struct buf headers; /* of the record being produced */
    struct buf value;
};

/* What is known about the request that is being judged. */
struct delivery {
    struct exchange *exchange;
    struct webhook_door *door;
    struct webhook_source *source;
    struct signature_input input;
    struct signature_result result;
    struct span keys[SIGNATURE_MAX_KEYS];
    struct buf sender_id;
    bool has_sender_id;
};

static const char *header_once(void *arg, const char *name)
{
    const struct http_request *request = arg;
    return http_header_count(request, name) == 1 ? http_header(request, name)
                                                 : NULL;
}

static void count(const struct exchange *exchange, const char *verdict)
{
    metric_add(exchange->producer->meters.webhooks, verdict, 1);
}

/* -- answers --------------------------------------------------------------- */

static void end_with(
    struct exchange *exchange, const char *verdict, enum code code)
{
    const struct fault fault = {.code = code};
    count(exchange, verdict);
    if (code == CODE_RATE_LIMITED) {
        http_reply_header(
            exchange->request, "Retry-After", REPLY_RETRY_AFTER_S);
    }
    exchange_fault(exchange, &fault);
    exchange_free(exchange);
}

static void end_taken(struct exchange *exchange, const char *status)
{
    http_reply_header(exchange->request, "Actionist-Webhook-Status", status);
    http_reply_header(
        exchange->request, "Actionist-Webhook-Id", exchange->id_text);
    exchange_answer(exchange, 200, "text/plain", (struct span){0});
}

static void end_challenge(
    struct exchange *exchange, const char *content_type, struct span body)
{
    count(exchange, "challenge");
    http_reply_header(exchange->request, "X-Content-Type-Options", "nosniff");
    exchange_answer(exchange, 200, content_type, body);
    exchange_free(exchange);
}

/* -- the record ------------------------------------------------------------ */

static void put_header(void *arg, const char *name, const char *value)
{
    webhook_put_header(arg, name, value);
}

static int produce(const struct delivery *delivery,
    enum webhook_verdict verdict, const char *reason,
    kafka_delivered_fn delivered, void *arg, struct err *err)
{
    struct webhook_door *door = delivery->door;
    const struct exchange *exchange = delivery->exchange;
    const bool is_signed = verdict != WEBHOOK_REJECTED;
    struct webhook webhook = {
        .tenant = span_of(exchange->tenant),
        .source = span_of(exchange->source),
        .received_us = now_wall_us(),
        .verdict = verdict,
        .reason = reason,
        .scheme = delivery->source->scheme->name,
        .method = http_method(exchange->request),
        .body = http_body(exchange->request),
    };
    memcpy(webhook.id, exchange->id, UUID_SIZE);
    if (is_signed) {
        webhook.secret_no =
            delivery->source->secret_no - (int)delivery->result.key;
    }
    if (delivery->has_sender_id) {
        webhook.sender_id = buf_span(&delivery->sender_id);
    }
    buf_clear(&door->headers);
    buf_clear(&door->value);
    http_each_header(exchange->request, put_header, &door->headers);
    webhook.headers = buf_span(&door->headers);
    webhook_put(&door->value, &webhook);
    if (door->headers.is_overflowed || door->value.is_overflowed) {
        return err_set(err, ERR_PERMANENT, "TOO_LARGE",
            "the record is larger than %zu bytes", WEBHOOK_MAX_RECORD);
    }
    return kafka_produce(door->producer->kafka, door->topic, -1, webhook.tenant,
        buf_span(&door->value), NULL, 0, delivered, arg, err);
}

/* -- what came before ------------------------------------------------------ */

static void mark_of(const char *domain, const struct exchange *exchange,
    struct span what, uint8_t mark[WEBHOOK_MARK_SIZE])
{
    const struct span parts[] = {span_of(domain), span_of(exchange->tenant),
        span_of(exchange->source), what};
    uint8_t digest[SHA256_SIZE];
    sha256_parts(parts, ARRAY_LEN(parts), digest);
    memcpy(mark, digest, WEBHOOK_MARK_SIZE);
}

/*
 * A delivery is known by its sender's id, or without one by what was signed.
 * An id that nobody signed proves nothing, so there the body is remembered
 * too: the same body under another id contradicts the first.
 */
static void set_marks(const struct delivery *delivery)
{
    struct exchange *exchange = delivery->exchange;
    struct webhook_marks *marks = &exchange->marks;
    const struct span body = delivery->input.body;
    mark_of("content", exchange, body, marks->content);
    if (!delivery->has_sender_id) {
        mark_of("message", exchange,
            (struct span){(const char *)delivery->result.message, SHA256_SIZE},
            marks->key);
        webhook_id_of_message(span_of(exchange->tenant),
            span_of(exchange->source), delivery->result.message, exchange->id);
        return;
    }
    const struct span id = buf_span(&delivery->sender_id);
    mark_of("id", exchange, id, marks->key);
    marks->has_body = !delivery->source->scheme->is_id_signed;
    if (marks->has_body) {
        mark_of("body", exchange, body, marks->body);
    }
    webhook_id_of_sender(
        span_of(exchange->tenant), span_of(exchange->source), id, exchange->id);
}

static enum webhook_seen look(const struct delivery *delivery)
{
    const struct webhook_memory *memory = delivery->door->memory;
    const struct webhook_marks *marks = &delivery->exchange->marks;
    const enum webhook_seen seen =
        webhook_memory_look(memory, marks->key, marks->content);
    if (seen == WEBHOOK_SEEN_NEVER && marks->has_body &&
        webhook_memory_look(memory, marks->body, marks->key) ==
            WEBHOOK_SEEN_OTHER) {
        return WEBHOOK_SEEN_OTHER;
    }
    return seen;
}

/* -- a delivery ------------------------------------------------------------ */

static void remember(struct exchange *exchange)
{
    struct webhook_memory *memory = exchange->producer->webhooks->memory;
    const struct webhook_marks *marks = &exchange->marks;
    webhook_memory_put(memory, marks->key, marks->content);
    if (marks->has_body) {
        webhook_memory_put(memory, marks->body, marks->key);
    }
}

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    struct exchange *exchange = arg;
    (void)partition;
    (void)offset;
    if (delivery == KAFKA_DELIVERED) {
        remember(exchange);
    } else {
        LOG(WARN, "webhook_not_captured",
            (&(struct log_fields){.tenant = exchange->tenant,
                .name1 = "source",
                .value1 = exchange->source,
                .err = err}),
            "a repeat of the delivery is taken");
    }
    if (exchange->request != NULL && delivery == KAFKA_DELIVERED) {
        count(exchange, exchange->is_new ? "verified" : "conflict");
        end_taken(exchange, exchange->is_new ? "captured" : "conflict");
    } else if (exchange->request != NULL) {
        count(exchange, "unavailable");
        exchange_unavailable(exchange);
    }
    exchange_free(exchange);
}

static void on_evidence(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    (void)arg;
    (void)partition;
    (void)offset;
    if (delivery != KAFKA_DELIVERED) {
        LOG(WARN, "evidence_lost", (&(struct log_fields){.err = err}),
            "a rejected webhook was not kept");
    }
}

static void reject(const struct delivery *delivery)
{
    struct exchange *exchange = delivery->exchange;
    struct err err = ERR_INIT;
    uuid_v7(exchange->id);
    if (webhook_source_keep(delivery->source, now_mono_us()) &&
        produce(delivery, WEBHOOK_REJECTED,
            signature_verdict_name(delivery->result.verdict), on_evidence, NULL,
            &err) != 0) {
        LOG(WARN, "evidence_lost", (&(struct log_fields){.err = &err}),
            "a rejected webhook was not kept");
    }
    end_with(exchange, signature_verdict_name(delivery->result.verdict),
        CODE_SIGNATURE_INVALID);
}

static void capture(const struct delivery *delivery)
{
    struct exchange *exchange = delivery->exchange;
    struct err err = ERR_INIT;
    exchange->is_new = look(delivery) == WEBHOOK_SEEN_NEVER;
    if (!exchange->is_new) {
        webhook_id_of_conflict(span_of(exchange->tenant),
            span_of(exchange->source), buf_span(&delivery->sender_id),
            delivery->input.body, exchange->id);
    }
    uuid_format(exchange->id, exchange->id_text);
    if (!webhook_source_pay(delivery->source, now_mono_us())) {
        end_with(exchange, "limited", CODE_RATE_LIMITED);
        return;
    }
    if (!kafka_producer_is_up(exchange->producer->kafka)) {
        end_with(exchange, "unavailable", CODE_UNAVAILABLE);
        return;
    }
    if (produce(delivery,
            exchange->is_new ? WEBHOOK_VERIFIED : WEBHOOK_CONFLICT, "",
            on_delivered, exchange, &err) == 0) {
        return;
    }
    if (err.class == ERR_PERMANENT) {
        end_with(exchange, "too_large", CODE_TOO_LARGE);
    } else {
        end_with(exchange, "unavailable", CODE_UNAVAILABLE);
    }
}

/* Of what was rightly signed: a challenge, a repeat, or an event. */
static void take(struct delivery *delivery)
{
    struct exchange *exchange = delivery->exchange;
    struct challenge_reply reply = {.content_type = NULL};
    buf_init(&reply.body, 4096);
    const enum challenge challenge = challenge_answer(delivery->source->scheme,
        &delivery->input, delivery->keys[delivery->result.key], &reply);
    if (challenge == CHALLENGE_ANSWERED) {
        end_challenge(exchange, reply.content_type, buf_span(&reply.body));
    } else if (challenge == CHALLENGE_BAD) {
        end_with(exchange, "challenge", CODE_BAD_REQUEST);
    }
    buf_fini(&reply.body);
    if (challenge != CHALLENGE_NONE) {
        return;
    }
    delivery->has_sender_id = signature_sender_id(
        delivery->source->scheme, &delivery->input, &delivery->sender_id);
    set_marks(delivery);
    if (look(delivery) == WEBHOOK_SEEN_SAME) {
        count(exchange, "duplicate");
        uuid_format(exchange->id, exchange->id_text);
        end_taken(exchange, "duplicate");
        exchange_free(exchange);
        return;
    }
    capture(delivery);
}

static void judge(struct exchange *exchange, struct webhook_source *source)
{
    struct delivery delivery = {.exchange = exchange,
        .door = exchange->producer->webhooks,
        .source = source,
        .input = {.method = http_method(exchange->request),
            .parameter = span_of(source->parameter),
            .body = http_body(exchange->request),
            .header = header_once,
            .arg = exchange->request}};
    const int64_t now_us = now_wall_us();
    const size_t key_count = webhook_source_keys(source, now_us, delivery.keys);
    exchange->limit_us = exchange->began_us + source->answer_us;
    if (delivery.input.body.len > source->max_body_bytes) {
        end_with(exchange, "too_large", CODE_TOO_LARGE);
        return;
    }
    signature_check(source->scheme, &delivery.input, delivery.keys, key_count,
        now_us, &delivery.result);
    buf_init(&delivery.sender_id, SIGNATURE_MAX_ID + 1);
    if (delivery.result.verdict == SIGNATURE_RIGHT) {
        take(&delivery);
    } else {
        reject(&delivery);
    }
    buf_fini(&delivery.sender_id);
}

/* Meta's GET: the one challenge that is no delivery. */
static void judge_get(struct exchange *exchange, struct webhook_source *source)
{
    const struct http_request *request = exchange->request;
    const struct span text = span_of(http_query(request, "hub.challenge"));
    if (source->scheme->challenge != SIGNATURE_CHALLENGE_META) {
        http_reply_header(exchange->request, "Allow", "POST");
        end_with(exchange, "challenge", CODE_METHOD_NOT_ALLOWED);
    } else if (!challenge_is_subscribed(http_query(request, "hub.mode"),
                   http_query(request, "hub.verify_token"),
                   buf_span(&source->token))) {
        end_with(exchange, "challenge", CODE_TOKEN_INVALID);
    } else if (!challenge_is_text(text)) {
        end_with(exchange, "challenge", CODE_BAD_REQUEST);
    } else {
        end_challenge(exchange, "text/plain", text);
    }
}

/* -- the source ------------------------------------------------------------ */

static void find_source(struct exchange *exchange);

static void on_refreshed(void *arg, bool is_read)
{
    struct exchange *exchange = arg;
    if (exchange->request == NULL) {
        exchange_free(exchange);
    } else if (!is_read) {
        end_with(exchange, "unavailable", CODE_UNAVAILABLE);
    } else {
        find_source(exchange);
    }
}

static void find_source(struct exchange *exchange)
{
    struct webhook_sources *sources = exchange->producer->webhooks->sources;
    struct refresh *refresh = webhook_sources_refresh(sources);
    struct webhook_source *source = webhook_sources_find(
        sources, span_of(exchange->tenant), span_of(exchange->source));
    if (source != NULL && source->scheme == NULL) {
        end_with(exchange, "unavailable", CODE_UNAVAILABLE);
    } else if (source != NULL && exchange->is_challenge) {
        judge_get(exchange, source);
    } else if (source != NULL) {
        judge(exchange, source);
    } else if (refresh_since_us(refresh) >= exchange->began_us) {
        end_with(exchange, "unknown", CODE_NOT_FOUND);
    } else {
        exchange->refresh.done = on_refreshed;
        exchange->refresh.arg = exchange;
        refresh_wait(refresh, &exchange->refresh);
    }
}

/* The names in /hooks/{tenant}/{source}. */
static bool take_names(struct exchange *exchange)
{
    const char *tenant = http_path(exchange->request) + sizeof(PATH) - 1;
    const size_t len = strcspn(tenant, "/");
    const struct span source = span_of(tenant + len + 1);
    if (!name_is_valid((struct span){tenant, len}) || !name_is_valid(source)) {
        return false;
    }
    memcpy(exchange->tenant, tenant, len);
    memcpy(exchange->source, source.ptr, source.len);
    return true;
}

static void go(struct producer *producer, struct http_request *request,
    const char *route, bool is_challenge)
{
    struct exchange *exchange = exchange_open(producer, request, route);
    exchange->is_challenge = is_challenge;
    if (producer->webhooks == NULL || !take_names(exchange)) {
        end_with(exchange, "unknown", CODE_NOT_FOUND);
    } else {
        find_source(exchange);
    }
}

void webhook_post(struct producer *producer, struct http_request *request)
{
    go(producer, request, "hooks_post", false);
}

void webhook_get(struct producer *producer, struct http_request *request)
{
    go(producer, request, "hooks_get", true);
}

/* -- life ------------------------------------------------------------------ */

int webhook_door_open(
    struct producer *producer, struct webhook_door **door, struct err *err)
{
    const char *path = conf_text(producer->conf, "webhooks.master_key_file");
    *door = NULL;
    if (path[0] == '\0') {
        return 0;
    }
    struct seal_keys *seal = seal_keys_load(path, err);
    if (seal == NULL) {
        return -1;
    }
    struct webhook_door *made = mem_zalloc(1, sizeof(*made));
    made->producer = producer;
    made->seal = seal;
    made->sources = webhook_sources_open(producer, seal);
    made->memory = webhook_memory_new(
        (size_t)conf_int(producer->conf, "webhooks.remembered"));
    kafka_topic_name(producer->conf, "webhooks", made->topic);
    kafka_producer_prepare(producer->kafka, made->topic);
    buf_init(&made->headers, WEBHOOK_MAX_RECORD);
    buf_init(&made->value, WEBHOOK_MAX_RECORD);
    *door = made;
    return 0;
}

void webhook_door_close(struct webhook_door *door)
{
    if (door != NULL) {
        webhook_sources_close(door->sources);
        webhook_memory_free(door->memory);
        seal_keys_free(door->seal);
        buf_fini(&door->headers);
        buf_fini(&door->value);
        free(door);
    }
}
