/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/webhook.h"

#include "common/json.h"

/* Separate the families of ids; changing one changes every id. */
#define DOMAIN_SENDER SPAN_LIT("actionist id of webhook 1")
#define DOMAIN_MESSAGE SPAN_LIT("actionist id of webhook message 1")
#define DOMAIN_CONFLICT SPAN_LIT("actionist id of webhook conflict 1")

static void id_of(const struct span *parts, size_t count, uint8_t id[UUID_SIZE])
{
    uint8_t digest[SHA256_SIZE];
    sha256_parts(parts, count, digest);
    uuid_from_digest(digest, id);
}

void webhook_id_of_sender(struct span tenant, struct span source,
    struct span sender_id, uint8_t id[UUID_SIZE])
{
    const struct span parts[] = {DOMAIN_SENDER, tenant, source, sender_id};
    id_of(parts, ARRAY_LEN(parts), id);
}

void webhook_id_of_message(struct span tenant, struct span source,
    const uint8_t message[SHA256_SIZE], uint8_t id[UUID_SIZE])
{
    const struct span parts[] = {
        DOMAIN_MESSAGE, tenant, source, {(const char *)message, SHA256_SIZE}};
    id_of(parts, ARRAY_LEN(parts), id);
}

void webhook_id_of_conflict(struct span tenant, struct span source,
    struct span sender_id, struct span body, uint8_t id[UUID_SIZE])
{
    const struct span parts[] = {
        DOMAIN_CONFLICT, tenant, source, sender_id, body};
    id_of(parts, ARRAY_LEN(parts), id);
}

void webhook_put_header(struct buf *out, const char *name, const char *value)
{
    buf_put_str(out, out->len == 0 ? "[" : ",[");
    json_put_cstring(out, name);
    buf_put_char(out, ',');
    json_put_cstring(out, value == NULL ? "" : value);
    buf_put_char(out, ']');
}

static void put_text(struct buf *out, const char *name, struct span text)
{
    json_put_name(out, name);
    if (text.ptr == NULL) {
        buf_put_str(out, "null");
    } else {
        json_put_string(out, text);
    }
}

void webhook_put(struct buf *out, const struct webhook *webhook)
{
    char id[UUID_TEXT_SIZE];
    struct span reason = {0};
    if (webhook->reason[0] != '\0') {
        reason = span_of(webhook->reason);
    }
    uuid_format(webhook->id, id);
    buf_put_str(out, "{\"spec\":\"actionist/1\"");
    put_text(out, "id", span_of(id));
    put_text(out, "tenant", webhook->tenant);
    put_text(out, "source", webhook->source);
    put_text(out, "sender_id", webhook->sender_id);
    json_put_name(out, "received_at");
    json_put_time(out, webhook->received_us);
    put_text(out, "verdict", span_of(webhook_verdict_name(webhook->verdict)));
    put_text(out, "reason", reason);
    put_text(out, "scheme", span_of(webhook->scheme));
    json_put_name(out, "secret_no");
    if (webhook->secret_no == 0) {
        buf_put_str(out, "null");
    } else {
        buf_put_int(out, webhook->secret_no);
    }
    put_text(out, "method", span_of(webhook->method));
    buf_put_str(out, ",\"headers\":[");
    buf_put_span(out, webhook->headers);
    buf_put_str(out, "],\"body\":\"");
    base64_put(out, webhook->body);
    buf_put_char(out, '"');
    if (webhook->replay_of != NULL) {
        uuid_format(webhook->replay_of, id);
        put_text(out, "replay_of", span_of(id));
    }
    buf_put_char(out, '}');
}

void webhook_put_context(
    struct buf *out, const char *what, struct span tenant, struct span source)
{
    buf_put_str(out, what);
    buf_put_char(out, ':');
    buf_put_span(out, tenant);
    buf_put_char(out, ':');
    buf_put_span(out, source);
}
