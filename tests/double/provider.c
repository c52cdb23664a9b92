/* SPDX-License-Identifier: Apache-2.0 */
#include "provider.h"

#include <string.h>

#define DEFAULT_KEY_HEADER "Idempotency-Key"

int provider_init(
    struct provider *provider, const char *log_path, struct problem *problem)
{
    *provider = (struct provider){0};
    return reqlog_init(&provider->log, log_path, problem);
}

void provider_fini(struct provider *provider)
{
    script_set_fini(&provider->scripts);
    ledger_fini(&provider->ledger);
    reqlog_fini(&provider->log);
}

void provider_reset(struct provider *provider)
{
    script_set_fini(&provider->scripts);
    ledger_fini(&provider->ledger);
    reqlog_clear(&provider->log);
    const uint64_t open = provider->stats.connections_open;
    provider->stats = (struct provider_stats){.connections_open = open};
}

static struct http_span key_of(
    const struct script *script, const struct http_request *request)
{
    const struct http_span key = http_header(
        request, script != NULL ? script->key_header : DEFAULT_KEY_HEADER);
    return key.data != NULL ? key : (struct http_span){"", 0};
}

bool provider_resets_early(struct provider *provider,
    const struct http_request *request, int64_t now_us)
{
    struct script *script =
        script_set_find(&provider->scripts, request->method, request->path);
    if (script == NULL) {
        return false;
    }
    const struct http_span key = key_of(script, request);
    const struct effect *effect =
        ledger_find(&provider->ledger, request->path, key);
    if (script->is_dedup && key.len > 0 && effect != NULL &&
        effect->kept != NULL) {
        return false;
    }
    uint64_t n = 0;
    const struct step *step =
        script_step(script, request->path, key, false, &n);
    if (step->reset != STEP_RESET_BEFORE_BODY) {
        return false;
    }
    (void)script_step(script, request->path, key, true, &n);
    (void)reqlog_add(&provider->log, request, key, now_us, false);
    provider->stats.incomplete++;
    provider->stats.resets++;
    return true;
}

static void repeat_kept(struct provider *provider, struct effect *effect,
    const struct http_request *request, struct answer *answer)
{
    static const char mark[] = "Idempotent-Replayed: true\r\n\r\n";
    const size_t head = effect->kept_head_bytes;
    /* The empty line gives way to the mark and a new empty line. */
    buf_append(&answer->bytes, effect->kept, head - 2);
    buf_append(&answer->bytes, mark, sizeof mark - 1);
    answer->head_bytes = answer->bytes.len;
    buf_append(&answer->bytes, effect->kept + head, effect->kept_bytes - head);
    answer->status = effect->kept_status;
    answer->end = request->is_keep_alive ? ANSWER_KEEP : ANSWER_CLOSE;
    effect->replays++;
    provider->stats.replays++;
}

static void apply_effect(struct provider *provider, struct effect *effect,
    bool is_once, int64_t now_us)
{
    if (is_once && effect->applied > 0) {
        return;
    }
    if (effect->applied == 0) {
        effect->applied_us = now_us;
    }
    effect->applied++;
    provider->stats.effects++;
}

static void play_step(struct provider *provider, struct script *script,
    struct effect *effect, const struct answer_context *context,
    struct answer *answer)
{
    struct answer_context here = *context;
    const struct step *step = script_step(
        script, context->request->path, context->key, true, &here.n);
    const bool is_keyed = script->is_dedup && context->key.len > 0;
    if (step->has_effect) {
        apply_effect(provider, effect, is_keyed, context->wall_us);
    }
    answer_step(answer, step, &here);
    const bool is_success = answer->status >= 200 && answer->status < 300;
    if (is_keyed && is_success && step->raw == NULL && !step->is_never &&
        step->reset == STEP_RESET_NONE) {
        ledger_keep(effect, answer);
    }
    answer_spoil(answer, step);
    provider->stats.resets += step->reset != STEP_RESET_NONE ? 1 : 0;
}

static void echo_headers(struct buf *body, const struct http_request *request)
{
    buf_text(body, ",\"headers\":[");
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];
        buf_text(body, i > 0 ? ",[" : "[");
        buf_json(body, header->name.data, header->name.len);
        buf_text(body, ",");
        buf_json(body, header->value.data, header->value.len);
        buf_text(body, "]");
    }
    buf_text(body, "]");
}

static void answer_echo(
    struct answer *answer, const struct http_request *request)
{
    struct buf body;
    buf_init(&body, ANSWER_MAX_BYTES * 2);
    buf_text(&body, "{\"method\":");
    buf_json(&body, request->method.data, request->method.len);
    buf_text(&body, ",\"path\":");
    buf_json(&body, request->path.data, request->path.len);
    buf_text(&body, ",\"query\":");
    buf_json(&body, request->query.data, request->query.len);
    echo_headers(&body, request);
    buf_text(&body, ",\"body\":");
    buf_json(&body, request->body.data, request->body.len);
    buf_text(&body, ",\"body_base64\":\"");
    buf_base64(&body, request->body.data, request->body.len);
    buf_text(&body, "\"}");
    if (body.is_over || body.len > ANSWER_MAX_BYTES / 2) {
        answer_json_text(
            answer, request, 413, "{\"error\":\"double: too large to echo\"}");
    } else {
        answer_json(answer, request, 200, &body);
    }
    buf_fini(&body);
}

static void answer_unscripted(struct provider *provider, struct effect *effect,
    const struct answer_context *context, struct answer *answer)
{
    apply_effect(provider, effect, false, context->wall_us);
    if (http_equals(context->request->path, "/echo")) {
        answer_echo(answer, context->request);
    } else {
        answer_json_text(answer, context->request, 200, "{\"ok\":true}");
    }
}

void provider_answer(struct provider *provider,
    const struct http_request *request, int64_t now_us, struct answer *answer)
{
    struct script *script =
        script_set_find(&provider->scripts, request->method, request->path);
    const struct answer_context context = {
        .request = request, .key = key_of(script, request), .wall_us = now_us};
    provider->stats.requests++;
    const uint64_t seq =
        reqlog_add(&provider->log, request, context.key, now_us, true);
    struct effect *effect = ledger_call(
        &provider->ledger, request->path, context.key, request->body, now_us);
    if (effect == NULL) {
        provider->stats.ledger_full++;
        answer_json_text(
            answer, request, 503, "{\"error\":\"double: the ledger is full\"}");
    } else if (script == NULL) {
        answer_unscripted(provider, effect, &context, answer);
    } else if (script->is_dedup && context.key.len > 0 &&
               effect->kept != NULL) {
        repeat_kept(provider, effect, request, answer);
    } else {
        play_step(provider, script, effect, &context, answer);
    }
    answer->seq = seq;
}

void provider_refuse(struct provider *provider,
    const struct http_request *request, int64_t now_us, struct answer *answer)
{
    provider->stats.bad_requests++;
    const uint64_t seq = reqlog_add(
        &provider->log, request, (struct http_span){"", 0}, now_us, false);
    answer_json_text(answer, request, request->bad_status,
        "{\"error\":\"double: bad request\"}");
    answer->seq = seq;
    answer->end = ANSWER_CLOSE;
}

void provider_abandon(struct provider *provider,
    const struct http_request *request, int64_t now_us)
{
    const struct script *script =
        script_set_find(&provider->scripts, request->method, request->path);
    provider->stats.incomplete++;
    (void)reqlog_add(
        &provider->log, request, key_of(script, request), now_us, false);
}
