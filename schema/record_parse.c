/* SPDX-License-Identifier: Apache-2.0 */
/* The parsing half of record.h. */
#include <assert.h>
#include <string.h>

#include "common/time.h"
#include "schema/record.h"

enum { PRIORITY_DEFAULT = 5, PRIORITY_MAX = 9, ATTEMPTS_MAX = 100 };
#define SPEC SPAN_LIT("actionist/1")

/* Decodes a string into a terminated field; false if it is no string, does
 * not fit or holds a NUL. */
static bool copy_string(struct json_value value, char *out, size_t size)
{
    if (value.type != JSON_STRING) {
        return false;
    }
    struct buf text;
    buf_init(&text, size - 1);
    json_decode(value, &text);
    const bool fits =
        !text.is_overflowed &&
        (text.len == 0 || memchr(text.data, '\0', text.len) == NULL);
    if (fits) {
        memcpy(out, buf_str(&text), text.len + 1);
    }
    buf_fini(&text);
    return fits;
}

static bool copy_name(struct json_value root, const char *member, char *out)
{
    struct json_value value;
    char name[RECORD_MAX_NAME + 1];
    if (!json_find(root, member, &value) ||
        !copy_string(value, name, sizeof(name)) ||
        !name_is_valid(span_of(name))) {
        return false;
    }
    memcpy(out, name, sizeof(name));
    return true;
}

/* "actionist/1" or "actionist/1.<minor>": a minor only adds members. */
static bool spec_is_known(struct json_value value)
{
    char spec[32];
    if (!copy_string(value, spec, sizeof(spec)) ||
        strncmp(spec, SPEC.ptr, SPEC.len) != 0) {
        return false;
    }
    const char *rest = spec + SPEC.len;
    if (rest[0] == '\0') {
        return true;
    }
    const size_t digits = strspn(rest + 1, "0123456789");
    return rest[0] == '.' && digits > 0 && rest[1 + digits] == '\0';
}

static int parse_text(struct span text, const struct record_source *source,
    struct record *record, struct fault *fault)
{
    const bool is_kafka = source->door == RECORD_DOOR_KAFKA;
    if (is_kafka && text.ptr == NULL) {
        return fault_set(fault, CODE_NULL_VALUE, "", NULL);
    }
    const size_t max = is_kafka ? RECORD_MAX_KAFKA_BYTES : RECORD_MAX_BYTES;
    if (text.len > max) {
        return fault_set(fault, CODE_TOO_LARGE, "",
            "the body has %zu bytes, at most %zu are allowed", text.len, max);
    }
    struct err err = ERR_INIT;
    /* One level more for the envelope. */
    if (json_parse(text, RECORD_PAYLOAD_DEPTH + 1, &record->root, &err) != 0) {
        enum code code = CODE_MALFORMED_JSON;
        (void)code_parse(span_of(err.code), &code); /* else it stays */
        return fault_set(fault, code, "", "%s", err.msg);
    }
    if (record->root.type != JSON_OBJECT) {
        return fault_set(fault, CODE_MALFORMED_JSON, "", NULL);
    }
    return 0;
}

static int parse_spec(const struct record_source *source,
    const struct record *record, struct fault *fault)
{
    struct json_value value;
    if (!json_find(record->root, "spec", &value)) {
        if (source->door == RECORD_DOOR_HTTP) {
            return 0;
        }
        return fault_set(
            fault, CODE_UNSUPPORTED_SPEC, "/spec", "spec is missing");
    }
    if (!spec_is_known(value)) {
        return fault_set(fault, CODE_UNSUPPORTED_SPEC, "/spec", NULL);
    }
    return 0;
}

static int parse_tenant_http(const struct record_source *source,
    struct record *record, struct fault *fault)
{
    assert(name_is_valid(source->tenant));
    memcpy(record->tenant, source->tenant.ptr, source->tenant.len);
    record->tenant[source->tenant.len] = '\0';
    struct json_value value;
    if (!json_find(record->root, "tenant", &value)) {
        return 0;
    }
    if (value.type != JSON_STRING) {
        return fault_set(
            fault, CODE_INVALID_TENANT, "/tenant", "tenant must be a string");
    }
    if (!json_string_is(value, record->tenant)) {
        return fault_set(fault, CODE_TENANT_MISMATCH, "/tenant", NULL);
    }
    return 0;
}

static int parse_tenant(const struct record_source *source,
    struct record *record, struct fault *fault)
{
    if (source->door == RECORD_DOOR_HTTP) {
        return parse_tenant_http(source, record, fault);
    }
    if (!copy_name(record->root, "tenant", record->tenant)) {
        return fault_set(fault, CODE_INVALID_TENANT, "/tenant", NULL);
    }
    if (!source->has_tenant || !span_is(source->tenant, record->tenant)) {
        return fault_set(fault, CODE_KEY_MISMATCH, "", NULL);
    }
    return 0;
}

/* What must be right for there to be an outcome at all. */
static int parse_envelope(const struct record_source *source,
    struct record *record, struct fault *fault)
{
    if (parse_spec(source, record, fault) != 0 ||
        parse_tenant(source, record, fault) != 0) {
        return -1;
    }
    if (!copy_name(record->root, "connector", record->connector)) {
        return fault_set(fault, CODE_INVALID_CONNECTOR, "/connector", NULL);
    }
    if (!copy_name(record->root, "action", record->action)) {
        return fault_set(fault, CODE_INVALID_ACTION, "/action", NULL);
    }
    return 0;
}

/*
 * The Idempotency-Key header is a structured field string, with quotes and
 * escapes, but nearly all clients send it bare: both are the same key.
 */
static bool decode_key_header(struct span text, struct buf *out)
{
    while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t')) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 &&
           (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t')) {
        text.len--;
    }
    if (text.len == 0 || text.ptr[0] != '"') {
        buf_put_span(out, text);
        return !out->is_overflowed;
    }
    size_t i = 1;
    while (i < text.len && text.ptr[i] != '"') {
        if (text.ptr[i] == '\\') {
            i++;
            if (i == text.len || (text.ptr[i] != '"' && text.ptr[i] != '\\')) {
                return false;
            }
        }
        buf_put_char(out, text.ptr[i]);
        i++;
    }
    return i + 1 == text.len && !out->is_overflowed;
}

static int parse_key_header(const struct record_source *source,
    struct record *record, struct fault *fault)
{
    struct buf key;
    buf_init(&key, RECORD_MAX_KEY);
    int result = 0;
    if (!decode_key_header(source->key, &key) ||
        !key_is_valid(buf_span(&key))) {
        result = fault_set(fault, CODE_INVALID_KEY, "",
            "the Idempotency-Key header: %s", code_text(CODE_INVALID_KEY));
    } else if (record->key[0] != '\0' &&
               !span_is(buf_span(&key), record->key)) {
        result = fault_set(fault, CODE_INVALID_KEY, "/idempotency_key",
            "idempotency_key and the Idempotency-Key header differ");
    } else {
        memcpy(record->key, buf_str(&key), key.len + 1);
    }
    if (result != 0) {
        record->key[0] = '\0';
    }
    buf_fini(&key);
    return result;
}

static int parse_key(const struct record_source *source, struct record *record,
    struct fault *fault)
{
    struct json_value value;
    const bool is_http = source->door == RECORD_DOOR_HTTP;
    if (json_find(record->root, "idempotency_key", &value)) {
        char key[RECORD_MAX_KEY + 1];
        if (!copy_string(value, key, sizeof(key)) ||
            !key_is_valid(span_of(key))) {
            return fault_set(fault, CODE_INVALID_KEY, "/idempotency_key", NULL);
        }
        memcpy(record->key, key, sizeof(key));
    }
    if (is_http && source->has_key) {
        return parse_key_header(source, record, fault);
    }
    if (is_http && record->key[0] == '\0') {
        return fault_set(fault, CODE_MISSING_KEY, "/idempotency_key", NULL);
    }
    return 0;
}

static int parse_time(const struct record *record, const char *member,
    const char *pointer, int64_t *wall_us, struct fault *fault)
{
    struct json_value value;
    char text[64];
    if (!json_find(record->root, member, &value)) {
        return 0;
    }
    if (!copy_string(value, text, sizeof(text)) ||
        !time_parse_rfc3339(span_of(text), wall_us)) {
        return fault_set(fault, CODE_INVALID_TIME, pointer, "%s is %s", member,
            code_text(CODE_INVALID_TIME));
    }
    /* 0 says "none"; the first microsecond of 1970 is as long past. */
    if (*wall_us == 0) {
        *wall_us = 1;
    }
    return 0;
}

static int parse_times(struct record *record, struct fault *fault)
{
    if (parse_time(record, "not_before", "/not_before", &record->not_before_us,
            fault) != 0 ||
        parse_time(record, "deadline", "/deadline", &record->deadline_us,
            fault) != 0) {
        return -1;
    }
    if (record->deadline_us != 0 && record->not_before_us != 0 &&
        record->deadline_us <= record->not_before_us) {
        return fault_set(fault, CODE_INVALID_TIME, "/deadline",
            "deadline must be later than not_before");
    }
    return 0;
}

static int parse_integer(const struct record *record, const char *member,
    const char *pointer, int min, int max, int *number, struct fault *fault)
{
    struct json_value value;
    int64_t wide = 0;
    if (!json_find(record->root, member, &value)) {
        return 0;
    }
    if (value.type != JSON_NUMBER || !json_to_int(value, &wide) || wide < min ||
        wide > max) {
        return fault_set(fault, CODE_INVALID_MEMBER, pointer,
            "%s must be an integer from %d to %d", member, min, max);
    }
    *number = (int)wide;
    return 0;
}

static int parse_dry_run(struct record *record, struct fault *fault)
{
    struct json_value value;
    if (!json_find(record->root, "dry_run", &value) ||
        value.type == JSON_FALSE) {
        return 0;
    }
    if (value.type != JSON_TRUE) {
        return fault_set(fault, CODE_INVALID_MEMBER, "/dry_run",
            "dry_run must be true or false");
    }
    record->is_dry_run = true;
    return fault_set(fault, CODE_UNSUPPORTED, "/dry_run",
        "dry_run is not supported by this version");
}

static int parse_rest(const struct record_source *source, struct record *record,
    struct fault *fault)
{
    if (parse_key(source, record, fault) != 0 ||
        parse_times(record, fault) != 0 ||
        parse_integer(record, "priority", "/priority", 0, PRIORITY_MAX,
            &record->priority, fault) != 0 ||
        parse_integer(record, "max_attempts", "/max_attempts", 1, ATTEMPTS_MAX,
            &record->max_attempts, fault) != 0) {
        return -1;
    }
    return parse_dry_run(record, fault);
}

static void identify(const struct record_source *source, struct record *record)
{
    const struct span action = span_of(record->action);
    if (record->key[0] != '\0') {
        record_id_of_key(span_of(record->tenant), span_of(record->connector),
            span_of(record->key), record->id);
    } else if (source->topic != NULL) {
        record_id_of_source(
            source->topic, source->partition, source->offset, record->id);
    }
    record_fingerprint(action, record->payload, record->fingerprint);
}

enum record_verdict record_parse(struct span text,
    const struct record_source *source, struct record *record,
    struct fault *fault)
{
    *record = (struct record){.priority = PRIORITY_DEFAULT,
        .payload = {.type = JSON_NULL, .raw = SPAN_LIT("null")}};
    if (parse_text(text, source, record, fault) != 0 ||
        parse_envelope(source, record, fault) != 0) {
        return RECORD_UNREADABLE;
    }
    (void)json_find(record->root, "payload", &record->payload);
    const int result = parse_rest(source, record, fault);
    identify(source, record);
    return result == 0 ? RECORD_OK : RECORD_REJECTED;
}
