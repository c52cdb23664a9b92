/* SPDX-License-Identifier: Apache-2.0 */
/* The half of webhook.h that reads documents back. */
#include <stdio.h>
#include <string.h>

#include "common/time.h"
#include "schema/signature.h"
#include "schema/webhook.h"

enum { DEPTH = 4, BODY_DEPTH = 64 };

/* -- names ----------------------------------------------------------------- */

static const char *const VERDICTS[] = {
    [WEBHOOK_VERIFIED] = "verified",
    [WEBHOOK_CONFLICT] = "conflict",
    [WEBHOOK_REJECTED] = "rejected",
};

static const char *const DECISIONS[] = {
    [WEBHOOK_UNMAPPED] = "unmapped",
    [WEBHOOK_MAPPED] = "mapped",
    [WEBHOOK_FILTERED] = "filtered",
    [WEBHOOK_FAILED] = "failed",
    [WEBHOOK_HELD] = "held",
};

/* The index of a name; count: none. */
static size_t find_name(
    const char *const *names, size_t first, size_t count, struct span name)
{
    size_t at = first;
    while (at < count && !span_is(name, names[at])) {
        at++;
    }
    return at;
}

const char *webhook_verdict_name(enum webhook_verdict verdict)
{
    return VERDICTS[verdict];
}

bool webhook_verdict_parse(struct span name, enum webhook_verdict *verdict)
{
    const size_t at = find_name(VERDICTS, 0, ARRAY_LEN(VERDICTS), name);
    *verdict = (enum webhook_verdict)at;
    return at < ARRAY_LEN(VERDICTS);
}

const char *webhook_decision_name(enum webhook_decision decision)
{
    return DECISIONS[decision];
}

bool webhook_decision_parse(struct span name, enum webhook_decision *decision)
{
    const size_t at =
        find_name(DECISIONS, WEBHOOK_UNMAPPED, ARRAY_LEN(DECISIONS), name);
    *decision = (enum webhook_decision)at;
    return at < ARRAY_LEN(DECISIONS);
}

/* -- members --------------------------------------------------------------- */

/* What a reader of one member gets. */
struct reading {
    struct webhook_capture *capture;
    struct json_value value;
};

/* Between the quotes; names, codes and times hold no escapes. */
static struct span inner(struct json_value value)
{
    if (value.type != JSON_STRING) {
        return (struct span){0};
    }
    return (struct span){value.raw.ptr + 1, value.raw.len - 2};
}

static bool read_spec(const struct reading *reading)
{
    return span_is(inner(reading->value), "actionist/1");
}

static bool read_id(const struct reading *reading)
{
    return uuid_parse(inner(reading->value), reading->capture->id);
}

static bool read_name(struct json_value value, char *out)
{
    const struct span name = inner(value);
    if (name.ptr == NULL || !name_is_valid(name)) {
        return false;
    }
    memcpy(out, name.ptr, name.len);
    return true;
}

static bool read_tenant(const struct reading *reading)
{
    return read_name(reading->value, reading->capture->tenant);
}

static bool read_source(const struct reading *reading)
{
    return read_name(reading->value, reading->capture->source);
}

static bool is_plain(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7F) {
            return false;
        }
    }
    return text.len > 0;
}

static bool read_sender_id(const struct reading *reading)
{
    struct webhook_capture *capture = reading->capture;
    if (reading->value.type == JSON_NULL) {
        return true;
    }
    if (reading->value.type != JSON_STRING) {
        return false;
    }
    json_decode(reading->value, &capture->sender_id);
    capture->has_sender_id = true;
    return !capture->sender_id.is_overflowed &&
           is_plain(buf_span(&capture->sender_id));
}

static bool read_received_at(const struct reading *reading)
{
    return time_parse_rfc3339(
        inner(reading->value), &reading->capture->received_us);
}

static bool read_verdict(const struct reading *reading)
{
    return webhook_verdict_parse(
        inner(reading->value), &reading->capture->verdict);
}

static bool read_reason(const struct reading *reading)
{
    reading->capture->reason = inner(reading->value);
    return reading->value.type == JSON_NULL ||
           (reading->value.type == JSON_STRING &&
               reading->capture->reason.len <= RECORD_MAX_NAME);
}

static bool read_scheme(const struct reading *reading)
{
    reading->capture->scheme = inner(reading->value);
    return reading->capture->scheme.len > 0 &&
           reading->capture->scheme.len <= RECORD_MAX_NAME;
}

static bool read_secret_no(const struct reading *reading)
{
    int64_t number = 0;
    if (reading->value.type == JSON_NULL) {
        return true;
    }
    if (reading->value.type != JSON_NUMBER ||
        !json_to_int(reading->value, &number) || number < 1 ||
        number > INT32_MAX) {
        return false;
    }
    reading->capture->secret_no = (int)number;
    return true;
}

static bool read_method(const struct reading *reading)
{
    reading->capture->method = inner(reading->value);
    return reading->capture->method.len > 0 &&
           reading->capture->method.len <= RECORD_MAX_NAME;
}

static bool is_pair(struct json_value pair)
{
    struct json_cursor cursor = json_enter(pair);
    struct json_member part;
    size_t count = 0;
    while (json_next(&cursor, &part)) {
        if (part.value.type != JSON_STRING) {
            return false;
        }
        count++;
    }
    return count == 2;
}

static bool read_headers(const struct reading *reading)
{
    if (reading->value.type != JSON_ARRAY) {
        return false;
    }
    struct json_cursor cursor = json_enter(reading->value);
    struct json_member pair;
    while (json_next(&cursor, &pair)) {
        if (pair.value.type != JSON_ARRAY || !is_pair(pair.value)) {
            return false;
        }
    }
    reading->capture->headers = reading->value;
    return true;
}

static bool read_body(const struct reading *reading)
{
    struct buf *body = &reading->capture->body;
    return reading->value.type == JSON_STRING &&
           base64_decode(inner(reading->value), body) && !body->is_overflowed;
}

static bool read_replay_of(const struct reading *reading)
{
    reading->capture->is_replay = true;
    return uuid_parse(inner(reading->value), reading->capture->replay_of);
}

static const struct {
    const char *name;
    bool (*read)(const struct reading *reading);
    bool is_optional;
} MEMBERS[] = {
    {"spec", read_spec, false},
    {"id", read_id, false},
    {"tenant", read_tenant, false},
    {"source", read_source, false},
    {"sender_id", read_sender_id, false},
    {"received_at", read_received_at, false},
    {"verdict", read_verdict, false},
    {"reason", read_reason, false},
    {"scheme", read_scheme, false},
    {"secret_no", read_secret_no, false},
    {"method", read_method, false},
    {"headers", read_headers, false},
    {"body", read_body, false},
    {"replay_of", read_replay_of, true},
};

static int read_members(struct webhook_capture *capture, struct json_value root,
    struct fault *fault)
{
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++) {
        struct reading reading = {.capture = capture};
        const bool is_there = json_find(root, MEMBERS[i].name, &reading.value);
        if (is_there ? !MEMBERS[i].read(&reading) : !MEMBERS[i].is_optional) {
            char pointer[64];
            (void)snprintf(pointer, sizeof(pointer), "/%s", MEMBERS[i].name);
            return fault_set(fault, CODE_INVALID_MEMBER, pointer,
                "is missing or not as in webhook.schema.json");
        }
    }
    return 0;
}

/* -- the document ---------------------------------------------------------- */

int webhook_capture_parse(struct webhook_capture *capture, struct span text,
    struct span key, struct fault *fault)
{
    struct json_value root;
    struct err err = ERR_INIT;
    *capture = (struct webhook_capture){.verdict = WEBHOOK_REJECTED};
    buf_init(&capture->sender_id, SIGNATURE_MAX_ID);
    buf_init(&capture->body, WEBHOOK_MAX_BODY);
    if (text.ptr == NULL) {
        return fault_set(fault, CODE_NULL_VALUE, "", NULL);
    }
    if (json_parse(text, DEPTH, &root, &err) != 0) {
        return fault_set(fault, CODE_MALFORMED_JSON, "", "%s", err.msg);
    }
    if (read_members(capture, root, fault) != 0) {
        return -1;
    }
    if (!span_is(key, capture->tenant)) {
        return fault_set(fault, CODE_KEY_MISMATCH, "/tenant", NULL);
    }
    return 0;
}

void webhook_capture_fini(struct webhook_capture *capture)
{
    buf_fini(&capture->sender_id);
    buf_fini(&capture->body);
}

bool webhook_capture_header(
    const struct webhook_capture *capture, const char *name, struct buf *out)
{
    struct json_cursor cursor = json_enter(capture->headers);
    struct json_member pair;
    while (json_next(&cursor, &pair)) {
        struct json_cursor parts = json_enter(pair.value);
        struct json_member part;
        if (json_next(&parts, &part) &&
            span_is_nocase(inner(part.value), name) &&
            json_next(&parts, &part)) {
            json_decode(part.value, out);
            return true;
        }
    }
    return false;
}

static bool put_body_type(
    const struct webhook_capture *capture, const char *pointer, struct buf *out)
{
    struct json_value root;
    struct json_value found;
    if (json_parse(buf_span(&capture->body), BODY_DEPTH, &root, NULL) != 0 ||
        !json_pointer(root, span_of(pointer), &found)) {
        return false;
    }
    if (found.type == JSON_NUMBER) {
        buf_put_span(out, found.raw);
    } else if (found.type == JSON_STRING) {
        json_decode(found, out);
    }
    return true;
}

bool webhook_capture_type(
    const struct webhook_capture *capture, struct buf *out)
{
    const struct signature_scheme *scheme = signature_find(capture->scheme);
    struct buf type;
    bool is_there = false;
    buf_init(&type, WEBHOOK_MAX_TYPE);
    if (scheme != NULL && scheme->type_header != NULL) {
        is_there = webhook_capture_header(capture, scheme->type_header, &type);
    } else if (scheme != NULL && scheme->type_pointer != NULL) {
        is_there = put_body_type(capture, scheme->type_pointer, &type);
    }
    is_there = is_there && !type.is_overflowed && is_plain(buf_span(&type)) &&
               utf8_is_valid(buf_span(&type));
    if (is_there) {
        buf_put_span(out, buf_span(&type));
    }
    buf_fini(&type);
    return is_there;
}
