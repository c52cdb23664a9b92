/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/outcome.h"

#include <string.h>

enum {
    RESULT_DEPTH = 64, /* deeper answers become a string */
    MESSAGE_MAX = 1024
};

/* What a result may add, so that the document and the frame Kafka puts around
 * it stay under OUTCOME_MAX_BYTES whatever the other members hold. */
#define RESULT_BUDGET (OUTCOME_MAX_BYTES - ((size_t)64 << 10))

/* Bytes of the UTF-8 sequence that starts with c (of valid text). */
static size_t sequence_length(unsigned char c)
{
    if (c < 0x80) {
        return 1;
    }
    if (c < 0xE0) {
        return 2;
    }
    return c < 0xF0 ? 3 : 4;
}

/* Bytes the sequence takes inside a JSON string, at most. */
static size_t escaped_length(unsigned char c)
{
    if (c < 0x20) {
        return 6;
    }
    return c == '"' || c == '\\' ? 2 : sequence_length(c);
}

/* The longest start of valid UTF-8 that fits the budget when escaped. */
static size_t length_that_fits(struct span text, size_t budget)
{
    size_t cost = 0;
    size_t i = 0;
    while (i < text.len) {
        const unsigned char c = (unsigned char)text.ptr[i];
        cost += escaped_length(c);
        if (cost > budget) {
            break;
        }
        i += sequence_length(c);
    }
    return i;
}

/* Drops a sequence that a cut left unfinished. */
static struct span without_torn_end(struct span text)
{
    size_t back = 0;
    while (back < 3 && back < text.len) {
        const unsigned char c = (unsigned char)text.ptr[text.len - 1 - back];
        back++;
        if (c >= 0xC0) {
            const bool is_torn = sequence_length(c) > back;
            return (struct span){
                .ptr = text.ptr, .len = text.len - (is_torn ? back : 0)};
        }
        if (c < 0x80) {
            break;
        }
    }
    return text;
}

static bool is_json(struct span text)
{
    struct json_value root;
    struct err err = ERR_INIT;
    return json_parse(text, RESULT_DEPTH, &root, &err) == 0;
}

/* Appends the value; returns whether something was cut off. */
static bool put_result(struct buf *out, struct span body, bool is_cut)
{
    if (body.len > OUTCOME_MAX_RESULT) {
        body.len = OUTCOME_MAX_RESULT;
        is_cut = true;
    }
    if (!is_cut && is_json(body)) {
        buf_put_span(out, body);
        return false;
    }
    const struct span text = is_cut ? without_torn_end(body) : body;
    if (utf8_is_valid(text)) {
        const size_t len = length_that_fits(text, RESULT_BUDGET);
        json_put_string(out, (struct span){.ptr = text.ptr, .len = len});
        return is_cut || len < text.len;
    }
    buf_put_str(out, "{\"base64\":\"");
    base64_put(out, body);
    buf_put_str(out, "\"}");
    return is_cut;
}

static void put_members_of_result(
    struct buf *out, const struct outcome *outcome)
{
    json_put_name(out, "result");
    if (outcome->result.ptr == NULL) {
        buf_put_str(out, "null");
        return;
    }
    if (put_result(out, outcome->result, outcome->is_result_cut)) {
        const int64_t have = (int64_t)outcome->result.len;
        json_put_name(out, "result_truncated");
        buf_put_str(out, "true");
        json_put_name(out, "result_bytes");
        buf_put_int(
            out, outcome->result_bytes > have ? outcome->result_bytes : have);
    }
}

static void put_text(struct buf *out, const char *name, const char *value)
{
    json_put_name(out, name);
    json_put_cstring(out, value);
}

static void put_number(struct buf *out, const char *name, int64_t value)
{
    json_put_name(out, name);
    buf_put_int(out, value);
}

static void put_time(struct buf *out, const char *name, int64_t wall_us)
{
    json_put_name(out, name);
    if (wall_us == 0) {
        buf_put_str(out, "null");
    } else {
        json_put_time(out, wall_us);
    }
}

static void put_identity(struct buf *out, const struct outcome *outcome)
{
    char id[UUID_TEXT_SIZE];
    uuid_format(outcome->id, id);
    put_text(out, "spec", "actionist/1");
    put_text(out, "id", id);
    put_text(out, "tenant", outcome->tenant);
    put_text(out, "connector", outcome->connector);
    put_text(out, "action", outcome->action);
    json_put_name(out, "idempotency_key");
    if (outcome->key[0] == '\0') {
        buf_put_str(out, "null");
    } else {
        json_put_cstring(out, outcome->key);
    }
    put_text(out, "status", status_name(outcome->status));
    put_number(out, "attempts", outcome->attempts);
}

static void put_usage(struct buf *out, const struct outcome *outcome)
{
    json_put_name(out, "usage");
    buf_put_char(out, '{');
    put_number(out, "wall_ms", outcome->wall_ms);
    put_number(out, "cpu_ms", outcome->cpu_ms);
    put_number(out, "memory_peak_bytes", outcome->memory_peak_bytes);
    put_number(out, "egress_bytes", outcome->egress_bytes);
    buf_put_char(out, '}');
}

static void put_manifest(struct buf *out, const uint8_t *digest)
{
    json_put_name(out, "manifest");
    if (digest == NULL) {
        buf_put_str(out, "null");
        return;
    }
    buf_put_str(out, "\"sha256:");
    hex_put(
        out, (struct span){.ptr = (const char *)digest, .len = SHA256_SIZE});
    buf_put_char(out, '"');
}

static void put_replay_of(struct buf *out, const uint8_t *id)
{
    char text[UUID_TEXT_SIZE];
    if (id == NULL) {
        json_put_name(out, "replay_of");
        buf_put_str(out, "null");
        return;
    }
    uuid_format(id, text);
    put_text(out, "replay_of", text);
}

void outcome_put(struct buf *out, const struct outcome *outcome)
{
    buf_put_char(out, '{');
    put_identity(out, outcome);
    put_members_of_result(out, outcome);
    json_put_name(out, "error");
    outcome_put_error(out, &outcome->error);
    put_time(out, "started_at", outcome->started_at_us);
    put_time(out, "finished_at", outcome->finished_at_us);
    put_usage(out, outcome);
    put_manifest(out, outcome->manifest);
    put_replay_of(out, outcome->replay_of);
    buf_put_char(out, '}');
}

void outcome_put_error(struct buf *out, const struct outcome_error *error)
{
    if (error->code == CODE_NONE) {
        buf_put_str(out, "null");
        return;
    }
    struct span message = span_of(
        error->message == NULL ? code_text(error->code) : error->message);
    if (message.len > MESSAGE_MAX) {
        message.len = MESSAGE_MAX;
        message = without_torn_end(message);
    }
    buf_put_char(out, '{');
    put_text(out, "code", code_name(error->code));
    put_text(out, "class", fault_class_name(error->class));
    json_put_name(out, "message");
    json_put_string(out, message);
    if (error->pointer != NULL && error->pointer[0] != '\0') {
        put_text(out, "pointer", error->pointer);
    }
    if (error->http_status != 0) {
        put_number(out, "http_status", error->http_status);
    }
    if (error->retry_after_s >= 0) {
        put_number(out, "retry_after_s", error->retry_after_s);
    }
    buf_put_char(out, '}');
}

/* -- the form that surely fits --------------------------------------------------- */

static int64_t whole_size_of_result(struct json_value document)
{
    struct json_value value;
    int64_t size = 0;
    if (json_find(document, "result_bytes", &value) &&
        json_to_int(value, &size)) {
        return size;
    }
    return json_find(document, "result", &value) ? (int64_t)value.raw.len : 0;
}

void outcome_put_cut(struct buf *out, struct span document)
{
    struct json_value root;
    struct err err = ERR_INIT;
    if (json_parse(document, JSON_MAX_DEPTH, &root, &err) != 0 ||
        root.type != JSON_OBJECT) {
        buf_put_str(out, "null"); /* not one of ours */
        return;
    }
    struct json_cursor cursor = json_enter(root);
    struct json_member member;
    buf_put_char(out, '{');
    while (json_next(&cursor, &member)) {
        /* The document is our own writing: no name has escapes. */
        if (span_is(member.name, "result_truncated") ||
            span_is(member.name, "result_bytes")) {
            continue;
        }
        buf_put_str(out, out->data[out->len - 1] == '{' ? "\"" : ",\"");
        buf_put_span(out, member.name);
        buf_put_str(out, "\":");
        if (span_is(member.name, "result")) {
            buf_put_str(out, "null,\"result_truncated\":true,"
                             "\"result_bytes\":");
            buf_put_int(out, whole_size_of_result(root));
        } else {
            buf_put_span(out, member.value.raw);
        }
    }
    buf_put_char(out, '}');
}
