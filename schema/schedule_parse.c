/* SPDX-License-Identifier: Apache-2.0 */
/* The document of a schedule: schedule.h. */
#include <stdio.h>
#include <string.h>

#include "common/time.h"
#include "schema/schedule.h"

enum { MAX_DEPTH = RECORD_PAYLOAD_DEPTH + 2 };

static const char *const MISFIRES[] = {
    [SCHEDULE_MISFIRE_ONCE] = "once",
    [SCHEDULE_MISFIRE_SKIP] = "skip",
    [SCHEDULE_MISFIRE_ALL] = "all",
};

const char *schedule_misfire_name(enum schedule_misfire misfire)
{
    return MISFIRES[misfire];
}

const char *schedule_state_name(enum schedule_state state)
{
    switch (state) {
    case SCHEDULE_ACTIVE:
        return "active";
    case SCHEDULE_PAUSED:
        return "paused";
    case SCHEDULE_DONE:
    default:
        return "done";
    }
}

/* -- members --------------------------------------------------------------- */

typedef int (*take_fn)(
    struct schedule *schedule, struct json_value value, struct fault *fault);

static int refuse(struct fault *fault, const char *pointer, const char *why)
{
    return fault_set(fault, CODE_INVALID_MEMBER, pointer, "%s", why);
}

/* A string of at most size - 1 bytes without zeros. */
static bool take_text(struct json_value value, char *out, size_t size)
{
    struct buf text;
    buf_init(&text, size);
    if (value.type == JSON_STRING) {
        json_decode(value, &text);
    }
    const bool is_taken = text.len > 0 && text.len < size &&
                          !text.is_overflowed &&
                          memchr(text.data, '\0', text.len) == NULL;
    if (is_taken) {
        memcpy(out, text.data, text.len);
        out[text.len] = '\0';
    }
    buf_fini(&text);
    return is_taken;
}

static int take_name(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    return take_text(value, schedule->name, sizeof(schedule->name)) &&
                   name_is_valid(span_of(schedule->name))
               ? 0
               : refuse(fault, "/name", "a name is [a-z0-9][a-z0-9._-]{0,62}");
}

static int take_cron(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    schedule->kind = SCHEDULE_CRON;
    if (!take_text(value, schedule->cron_text, sizeof(schedule->cron_text))) {
        return refuse(
            fault, "/cron", "a text of five fields, at most 255 bytes");
    }
    return cron_parse(span_of(schedule->cron_text), &schedule->cron, fault);
}

static int take_zone(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    return take_text(value, schedule->zone, sizeof(schedule->zone)) &&
                   zone_name_is_valid(span_of(schedule->zone))
               ? 0
               : refuse(
                     fault, "/zone", "an IANA time zone, as Europe/Berlin is");
}

static bool take_int(
    struct json_value value, int64_t min, int64_t max, int64_t *out)
{
    return value.type == JSON_NUMBER && json_to_int(value, out) &&
           *out >= min && *out <= max;
}

static int take_every(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    int64_t seconds = 0;
    schedule->kind = SCHEDULE_EVERY;
    if (!take_int(value, 1, SCHEDULE_MAX_EVERY_S, &seconds)) {
        return refuse(
            fault, "/every_s", "whole seconds from 1 to 31622400 (366 days)");
    }
    schedule->every_us = seconds * US_PER_S;
    return 0;
}

static bool take_time(struct json_value value, int64_t *out_us)
{
    char text[TIME_TEXT_SIZE + 16];
    return take_text(value, text, sizeof(text)) &&
           time_parse_rfc3339(span_of(text), out_us);
}

static int take_start(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    schedule->has_start = true;
    return take_time(value, &schedule->start_us)
               ? 0
               : fault_set(fault, CODE_INVALID_TIME, "/start", NULL);
}

static int take_at(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    schedule->kind = SCHEDULE_ONCE;
    return take_time(value, &schedule->start_us)
               ? 0
               : fault_set(fault, CODE_INVALID_TIME, "/at", NULL);
}

static int take_misfire(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    for (size_t i = 0; i < ARRAY_LEN(MISFIRES); i++) {
        if (value.type == JSON_STRING && json_string_is(value, MISFIRES[i])) {
            schedule->misfire = (enum schedule_misfire)i;
            return 0;
        }
    }
    return refuse(fault, "/misfire", "once, skip or all");
}

static int take_cap(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    int64_t cap = 0;
    if (!take_int(value, 1, SCHEDULE_MAX_CAP, &cap)) {
        return refuse(fault, "/misfire_cap", "a number from 1 to 1000");
    }
    schedule->misfire_cap = (int)cap;
    return 0;
}

static int take_deadline(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    return take_int(value, 1, SCHEDULE_MAX_EVERY_S, &schedule->deadline_s)
               ? 0
               : refuse(fault, "/deadline_s",
                     "whole seconds after the tick, from 1 to 31622400");
}

static int take_request(
    struct schedule *schedule, struct json_value value, struct fault *fault)
{
    static const struct {
        const char *name;
        const char *pointer;
    } ours[] = {
        {"spec", "/request/spec"},
        {"tenant", "/request/tenant"},
        {"idempotency_key", "/request/idempotency_key"},
        {"not_before", "/request/not_before"},
        {"deadline", "/request/deadline"},
        {"scheduled", "/request/scheduled"},
    };
    struct json_value ignored;
    if (value.type != JSON_OBJECT) {
        return refuse(fault, "/request", "an action request, as an object");
    }
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        if (json_find(value, ours[i].name, &ignored)) {
            return refuse(fault, ours[i].pointer,
                "comes from the schedule; deadline_s says how long after its "
                "tick");
        }
    }
    schedule->request = value;
    return 0;
}

static const struct {
    const char *name;
    take_fn take;
} MEMBERS[] = {
    {"name", take_name},
    {"cron", take_cron},
    {"zone", take_zone},
    {"every_s", take_every},
    {"start", take_start},
    {"at", take_at},
    {"misfire", take_misfire},
    {"misfire_cap", take_cap},
    {"deadline_s", take_deadline},
    {"request", take_request},
};

/* -- the whole ------------------------------------------------------------- */

static int take_members(
    struct json_value root, struct schedule *schedule, struct fault *fault)
{
    struct json_cursor cursor = json_enter(root);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        struct buf name;
        take_fn take = NULL;
        buf_init(&name, 64);
        json_decode_name(member.name, &name);
        for (size_t i = 0; i < ARRAY_LEN(MEMBERS) && !name.is_overflowed; i++) {
            if (span_is(buf_span(&name), MEMBERS[i].name)) {
                take = MEMBERS[i].take;
            }
        }
        buf_fini(&name);
        if (take == NULL) {
            return refuse(fault, "",
                "members are name, cron, zone, every_s, start, at, misfire, "
                "misfire_cap, deadline_s and request");
        }
        if (take(schedule, member.value, fault) != 0) {
            return -1;
        }
    }
    return 0;
}

static bool has(struct json_value root, const char *name)
{
    struct json_value ignored;
    return json_find(root, name, &ignored);
}

static int check_members(struct json_value root,
    const struct schedule *schedule, struct fault *fault)
{
    const int kinds = (has(root, "cron") ? 1 : 0) +
                      (has(root, "every_s") ? 1 : 0) +
                      (has(root, "at") ? 1 : 0);
    if (schedule->name[0] == '\0') {
        return refuse(fault, "/name", "is required");
    }
    if (kinds != 1) {
        return refuse(fault, "", "give one of cron, every_s and at");
    }
    if (schedule->kind != SCHEDULE_CRON && has(root, "zone")) {
        return refuse(fault, "/zone", "goes with cron alone");
    }
    if (schedule->kind != SCHEDULE_EVERY && schedule->has_start) {
        return refuse(fault, "/start", "goes with every_s alone");
    }
    if (schedule->misfire != SCHEDULE_MISFIRE_ALL && has(root, "misfire_cap")) {
        return refuse(fault, "/misfire_cap", "goes with misfire all alone");
    }
    if (!has(root, "request")) {
        return refuse(fault, "/request", "is required");
    }
    return 0;
}

/* As the worker will: with a key and times that are surely right. */
static int check_request(
    struct schedule *schedule, const char *tenant, struct fault *fault)
{
    static const uint8_t id[UUID_SIZE] = {0};
    struct buf text;
    struct record record;
    struct fault inner = FAULT_INIT;
    const struct record_source source = {.door = RECORD_DOOR_HTTP,
        .tenant = span_of(tenant),
        .has_tenant = true};
    buf_init(&text, RECORD_MAX_BYTES);
    schedule_put_record(&text, schedule, tenant, id, US_PER_S);
    const bool is_right =
        record_parse(buf_span(&text), &source, &record, &inner) == RECORD_OK;
    buf_fini(&text);
    if (is_right) {
        memcpy(
            schedule->connector, record.connector, sizeof(schedule->connector));
        return 0;
    }
    char pointer[sizeof("/request") + sizeof(inner.pointer)];
    (void)snprintf(pointer, sizeof(pointer), "/request%s", inner.pointer);
    return fault_set(fault, inner.code, pointer, "%s", inner.detail);
}

int schedule_parse(struct span text, const char *tenant,
    struct schedule *schedule, struct fault *fault)
{
    struct json_value root;
    struct err err = ERR_INIT;
    *schedule =
        (struct schedule){.zone = "UTC", .misfire_cap = SCHEDULE_DEFAULT_CAP};
    if (text.len > SCHEDULE_MAX_BYTES) {
        return fault_set(fault, CODE_TOO_LARGE, "",
            "a schedule has at most %zu bytes", SCHEDULE_MAX_BYTES);
    }
    if (json_parse(text, MAX_DEPTH, &root, &err) != 0) {
        enum code code = CODE_MALFORMED_JSON;
        (void)code_parse(span_of(err.code), &code); /* else the general one */
        return fault_set(fault, code, "", "%s", err.msg);
    }
    if (root.type != JSON_OBJECT) {
        return fault_set(fault, CODE_MALFORMED_JSON, "", NULL);
    }
    if (take_members(root, schedule, fault) != 0 ||
        check_members(root, schedule, fault) != 0) {
        return -1;
    }
    return check_request(schedule, tenant, fault);
}

/* -- what a tick becomes --------------------------------------------------- */

static void put_key(
    struct buf *out, const uint8_t id[UUID_SIZE], int64_t tick_us)
{
    char id_text[UUID_TEXT_SIZE];
    char tick[TIME_TEXT_SIZE];
    uuid_format(id, id_text);
    time_format_rfc3339(tick_us, tick);
    buf_printf(out, "schedule:%s:%s", id_text, tick);
}

void schedule_action_id(const struct schedule *schedule, const char *tenant,
    const uint8_t id[UUID_SIZE], int64_t tick_us, uint8_t action_id[UUID_SIZE])
{
    struct buf key;
    buf_init(&key, RECORD_MAX_KEY);
    put_key(&key, id, tick_us);
    record_id_of_key(span_of(tenant), span_of(schedule->connector),
        buf_span(&key), action_id);
    buf_fini(&key);
}

void schedule_put_record(struct buf *out, const struct schedule *schedule,
    const char *tenant, const uint8_t id[UUID_SIZE], int64_t tick_us)
{
    char id_text[UUID_TEXT_SIZE];
    char tick[TIME_TEXT_SIZE];
    const struct span request = schedule->request.raw;
    struct json_cursor cursor = json_enter(schedule->request);
    struct json_member first;
    uuid_format(id, id_text);
    time_format_rfc3339(tick_us, tick);
    buf_put_str(out, "{\"spec\":\"actionist/1\"");
    json_put_name(out, "tenant");
    json_put_cstring(out, tenant);
    json_put_name(out, "idempotency_key");
    buf_put_char(out, '"');
    put_key(out, id, tick_us);
    buf_put_char(out, '"');
    json_put_name(out, "scheduled");
    buf_put_char(out, '{');
    json_put_name(out, "id");
    json_put_cstring(out, id_text);
    json_put_name(out, "name");
    json_put_cstring(out, schedule->name);
    json_put_name(out, "tick");
    json_put_cstring(out, tick);
    buf_put_char(out, '}');
    if (schedule->deadline_s > 0) {
        json_put_name(out, "deadline");
        json_put_time(out, tick_us + schedule->deadline_s * US_PER_S);
    }
    if (json_next(&cursor, &first)) {
        buf_put_char(out, ',');
    }
    buf_put(out, request.ptr + 1, request.len - 1);
}
