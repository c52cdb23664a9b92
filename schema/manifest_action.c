/* SPDX-License-Identifier: Apache-2.0 */
/* One action of a manifest: loading, and what is read from a loaded one. */
#include <string.h>

#include "schema/manifest_internal.h"

#define TIMEOUT_DEFAULT_MS 30000
#define TIMEOUT_MAX_MS 600000
#define RETENTION_DEFAULT_S 86400
#define RETENTION_MAX_S INT64_C(31622400) /* 366 days */

static int load_idempotency(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct manifest_action *action = target;
    char name[16] = {0};
    if (value.type == JSON_STRING && value.raw.len < sizeof(name)) {
        memcpy(name, value.raw.ptr + 1, value.raw.len - 2);
    }
    if (!effect_parse(span_of(name), &action->effect)) {
        return load_refuse(load, path, "must be natural, keyed or unsafe");
    }
    return 0;
}

static int load_key_header(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct manifest_action *action = target;
    action->key_header = load_text(load, value, 64, path);
    if (action->key_header == NULL) {
        return -1;
    }
    if (!header_name_is_free(span_of(action->key_header)) ||
        span_is_nocase(span_of(action->key_header), "content-type")) {
        return load_refuse(load, path,
            "must be a header name that is not managed by the runner");
    }
    return 0;
}

static int load_key_retention(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct manifest_action *action = target;
    return load_integer(
        load, value, 1, RETENTION_MAX_S, &action->key_retention_s, path);
}

static int load_key(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    static const struct member_rule rules[] = {
        {"header", load_key_header, false},
        {"retention_s", load_key_retention, false},
    };
    struct manifest_action *action = target;
    action->has_key = true;
    return load_object(load, action, value, path, rules, ARRAY_LEN(rules));
}

static int load_payload(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct manifest_action *action = target;
    action->payload =
        payload_schema_load(&load->manifest->arena, value, path, load->fault);
    return action->payload == NULL ? -1 : 0;
}

static int load_timeout(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct manifest_action *action = target;
    return load_integer(
        load, value, 1, TIMEOUT_MAX_MS, &action->timeout_ms, path);
}

/* echo answers with the payload; it touches nothing outside the runner. */
static int load_runtime(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct manifest_action *action = target;
    if (value.type != JSON_STRING || !json_string_is(value, "echo")) {
        return path_fault(load->fault, CODE_UNSUPPORTED, path,
            "only the runtime echo is supported by this version");
    }
    action->is_echo = true;
    return 0;
}

static int load_action_retry(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct manifest_action *action = target;
    return load_retry(load, &action->retry, value, path);
}

/* Statuses of one list; a status in two lists is a contradiction. */
static int load_moves(const struct load *load, void *target,
    struct json_value value, const struct path *path, enum status_move move)
{
    struct manifest_action *action = target;
    if (value.type != JSON_ARRAY) {
        return load_refuse(load, path, "must be an array of statuses");
    }
    struct json_cursor cursor = json_enter(value);
    struct json_member item;
    size_t index = 0;
    while (json_next(&cursor, &item)) {
        const struct path at = path_index(path, index);
        int64_t status = 0;
        if (load_integer(load, item.value, MOVABLE_STATUS_MIN,
                MOVABLE_STATUS_MAX, &status, &at) != 0) {
            return -1;
        }
        uint8_t *entry = &action->moves[status - MOVABLE_STATUS_MIN];
        if (*entry != MOVE_NONE) {
            return load_refuse(load, &at, "the status is listed twice");
        }
        *entry = (uint8_t)move;
        index++;
    }
    return 0;
}

static int load_retry_on(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    return load_moves(load, target, value, path, MOVE_RETRY);
}

static int load_permanent_on(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    return load_moves(load, target, value, path, MOVE_PERMANENT);
}

static int load_not_applied_on(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    return load_moves(load, target, value, path, MOVE_NOT_APPLIED);
}

static int load_limited_on(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    return load_moves(load, target, value, path, MOVE_LIMITED);
}

static const struct member_rule action_rules[] = {
    {"idempotency", load_idempotency, true},
    {"request", load_request, false},
    {"key", load_key, false},
    {"payload", load_payload, false},
    {"timeout_ms", load_timeout, false},
    {"retry", load_action_retry, false},
    {"retry_on", load_retry_on, false},
    {"permanent_on", load_permanent_on, false},
    {"not_applied_on", load_not_applied_on, false},
    {"limited_on", load_limited_on, false},
    {"reconcile", NULL, false},
    {"policy", NULL, false},
    {"runtime", load_runtime, false},
    {"entry", NULL, false},
    {"bundle", NULL, false},
    {"sandbox", NULL, false},
    {"limits", NULL, false},
    {"context", NULL, false},
};

/* The key belongs to keyed actions alone; no header may repeat it. */
static int finish_key(const struct load *load, struct manifest_action *action,
    const struct path *path)
{
    if (action->effect != EFFECT_KEYED) {
        const struct path at = path_member(path, "key");
        return action->has_key
                   ? load_refuse(load, &at, "is for keyed actions only")
                   : 0;
    }
    if (action->key_header == NULL) {
        action->key_header = "Idempotency-Key";
    }
    if (action->key_retention_s == 0) {
        action->key_retention_s = RETENTION_DEFAULT_S;
    }
    const struct field_list *headers = &action->request.headers;
    for (size_t i = 0; i < headers->count; i++) {
        if (span_is_nocase(
                span_of(headers->fields[i].name), action->key_header)) {
            const struct path request = path_member(path, "request");
            const struct path list = path_member(&request, "headers");
            const struct path at = path_member(&list, headers->fields[i].name);
            return load_refuse(load, &at, "is the header of the key");
        }
    }
    return 0;
}

/* Either a request or the runtime echo, which cannot but be natural. */
static int finish_kind(const struct load *load,
    const struct manifest_action *action, const struct path *path)
{
    const bool has_request = action->request.method != NULL;
    if (has_request != action->is_echo) {
        if (action->is_echo && action->effect != EFFECT_NATURAL) {
            const struct path at = path_member(path, "idempotency");
            return load_refuse(load, &at, "echo actions are natural");
        }
        return 0;
    }
    const struct path at = path_member(path, "request");
    return load_refuse(
        load, &at, has_request ? "is not for echo actions" : "is required");
}

static int load_action(const struct load *load, struct manifest_action *action,
    struct json_value value, const struct path *path)
{
    if (!name_is_valid(span_of(action->name))) {
        return load_refuse(
            load, path, "the name must match [a-z0-9][a-z0-9._-]{0,62}");
    }
    action->manifest = load->manifest;
    action->timeout_ms = TIMEOUT_DEFAULT_MS;
    action->retry = load->manifest->retry;
    if (load_object(load, action, value, path, action_rules,
            ARRAY_LEN(action_rules)) != 0) {
        return -1;
    }
    if (finish_kind(load, action, path) != 0) {
        return -1;
    }
    return finish_key(load, action, path);
}

int load_actions(const struct load *load, void *target, struct json_value value,
    const struct path *path)
{
    struct manifest *manifest = target;
    const size_t count = value.type == JSON_OBJECT ? load_count(value) : 0;
    if (count == 0 || count > MANIFEST_MAX_ACTIONS) {
        return load_refuse(load, path, "must hold 1 to 256 actions");
    }
    manifest->actions =
        arena_alloc(&manifest->arena, count, sizeof(*manifest->actions));
    struct json_cursor cursor = json_enter(value);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        struct manifest_action *action =
            &manifest->actions[manifest->action_count];
        const struct span name = load_name(load, member.name);
        const struct path at = path_span(path, name);
        /* A NUL in the name must not make a shorter name of it. */
        action->name = strlen(name.ptr) == name.len ? name.ptr : "";
        if (load_action(load, action, member.value, &at) != 0) {
            return -1;
        }
        manifest->action_count++;
    }
    return 0;
}

/* -- reading ------------------------------------------------------------------- */

enum effect action_effect(const struct manifest_action *action)
{
    return action->effect;
}

int64_t action_timeout_ms(const struct manifest_action *action)
{
    return action->timeout_ms;
}

const char *action_key_header(const struct manifest_action *action)
{
    return action->key_header;
}

int64_t action_key_retention_s(const struct manifest_action *action)
{
    return action->key_retention_s;
}

int action_max_attempts(const struct manifest_action *action)
{
    return action->retry.max_attempts;
}

int64_t action_base_ms(const struct manifest_action *action)
{
    return action->retry.base_ms;
}

int64_t action_max_ms(const struct manifest_action *action)
{
    return action->retry.max_ms;
}

enum status_move action_status_move(
    const struct manifest_action *action, int http_status)
{
    if (http_status < MOVABLE_STATUS_MIN || http_status > MOVABLE_STATUS_MAX) {
        return MOVE_NONE;
    }
    return (enum status_move)action->moves[http_status - MOVABLE_STATUS_MIN];
}

const struct reset_header *action_reset_headers(
    const struct manifest_action *action, size_t *count)
{
    *count = action->retry.reset_count;
    return action->retry.reset_headers;
}

int action_check_payload(const struct manifest_action *action,
    struct json_value payload, struct fault *fault)
{
    const struct path path = path_member(NULL, "payload");
    if (action->payload == NULL) {
        return 0;
    }
    return payload_schema_check(action->payload, payload, &path, fault);
}
