/* SPDX-License-Identifier: Apache-2.0 */
/* The body of POST /v1/replays; its form is schema/json/replay.schema.json. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/time.h"
#include "producer/replay_door.h"

enum { BODY_DEPTH = 4, MAX_TEXT = 1024 };

struct reading {
    struct replay_request *request;
    struct fault *fault;
};

static int bad(
    const struct reading *reading, const char *pointer, const char *what)
{
    return fault_set(reading->fault, CODE_INVALID_MEMBER, pointer, "%s", what);
}

/* -- members ----------------------------------------------------------------------- */

/* A string of 1 to size - 1 bytes. False: it is none. */
static bool take_string(struct json_value value, char *text, size_t size)
{
    struct buf decoded;
    if (value.type != JSON_STRING) {
        return false;
    }
    buf_init(&decoded, MAX_TEXT);
    json_decode(value, &decoded);
    const bool fits = !decoded.is_overflowed && decoded.len > 0 &&
                      decoded.len < size &&
                      memchr(buf_str(&decoded), '\0', decoded.len) == NULL;
    if (fits) {
        memcpy(text, buf_str(&decoded), decoded.len + 1);
    }
    buf_fini(&decoded);
    return fits;
}

static int take_name(const struct reading *reading, struct json_value value,
    const char *pointer, char name[RECORD_MAX_NAME + 1])
{
    if (!take_string(value, name, RECORD_MAX_NAME + 1) ||
        !name_is_valid(span_of(name))) {
        return bad(reading, pointer, "must be a name");
    }
    return 0;
}

static int take_flag(const struct reading *reading, struct json_value value,
    const char *pointer, bool *flag)
{
    if (value.type != JSON_TRUE && value.type != JSON_FALSE) {
        return bad(reading, pointer, "must be true or false");
    }
    *flag = value.type == JSON_TRUE;
    return 0;
}

static int take_time(const struct reading *reading, struct json_value value,
    const char *pointer, int64_t *wall_us)
{
    char text[64];
    if (!take_string(value, text, sizeof(text)) ||
        !replay_parse_time(span_of(text), now_wall_us(), wall_us)) {
        return bad(reading, pointer,
            "must be a time of RFC 3339 with a zone, or an age like 2h");
    }
    return 0;
}

static int take_tenant(const struct reading *reading, struct json_value value)
{
    if (!json_string_is(value, reading->request->wish.tenant)) {
        return fault_set(reading->fault, CODE_TENANT_MISMATCH, "/tenant", NULL);
    }
    return 0;
}

static int take_connector(
    const struct reading *reading, struct json_value value)
{
    return take_name(
        reading, value, "/connector", reading->request->wish.connector);
}

static int take_action(const struct reading *reading, struct json_value value)
{
    return take_name(reading, value, "/action", reading->request->wish.action);
}

static int take_source(const struct reading *reading, struct json_value value)
{
    return take_name(reading, value, "/source", reading->request->wish.source);
}

static int take_since(const struct reading *reading, struct json_value value)
{
    return take_time(
        reading, value, "/since", &reading->request->wish.since_us);
}

static int take_until(const struct reading *reading, struct json_value value)
{
    return take_time(
        reading, value, "/until", &reading->request->wish.until_us);
}

static int take_dry_run(const struct reading *reading, struct json_value value)
{
    return take_flag(
        reading, value, "/dry_run", &reading->request->wish.is_dry_run);
}

static int take_new_key(const struct reading *reading, struct json_value value)
{
    return take_flag(
        reading, value, "/new_key", &reading->request->wish.has_new_key);
}

static int take_force(const struct reading *reading, struct json_value value)
{
    return take_flag(
        reading, value, "/force", &reading->request->wish.is_forced);
}

static int take_reason(const struct reading *reading, struct json_value value)
{
    struct replay_wish *wish = &reading->request->wish;
    if (!take_string(value, wish->reason, sizeof(wish->reason))) {
        return bad(reading, "/reason", "must be 1 to 500 bytes of text");
    }
    return 0;
}

static int take_error_code(
    const struct reading *reading, struct json_value value)
{
    struct replay_wish *wish = &reading->request->wish;
    enum code code = CODE_NONE;
    if (!take_string(value, wish->error_code, sizeof(wish->error_code)) ||
        !code_parse(span_of(wish->error_code), &code)) {
        return bad(reading, "/error_code", "must be the code of an error");
    }
    return 0;
}

/* A number, or text like "50/s". */
static int take_rate(const struct reading *reading, struct json_value value)
{
    struct replay_wish *wish = &reading->request->wish;
    char text[16];
    const bool is_text = take_string(value, text, sizeof(text));
    if (!replay_parse_rate(is_text ? span_of(text) : value.raw, &wish->rate)) {
        return bad(reading, "/rate", "must be 1 to 100000 a second");
    }
    return 0;
}

static int take_limit(const struct reading *reading, struct json_value value)
{
    struct replay_wish *wish = &reading->request->wish;
    if (value.type != JSON_NUMBER || !json_to_int(value, &wish->max_rows) ||
        wish->max_rows < 1) {
        return bad(reading, "/limit", "must be a number from 1");
    }
    return 0;
}

/* One status, or an array of them. */
static int take_status(const struct reading *reading, struct json_value value)
{
    struct replay_wish *wish = &reading->request->wish;
    char text[32];
    if (value.type == JSON_STRING) {
        if (take_string(value, text, sizeof(text)) &&
            replay_parse_statuses(span_of(text), &wish->statuses)) {
            return 0;
        }
        return bad(reading, "/status", "must be a terminal status");
    }
    if (value.type != JSON_ARRAY) {
        return bad(reading, "/status", "must be terminal statuses");
    }
    struct json_member member;
    struct json_cursor cursor = json_enter(value);
    while (json_next(&cursor, &member)) {
        int one = 0;
        if (!take_string(member.value, text, sizeof(text)) ||
            !replay_parse_statuses(span_of(text), &one)) {
            return bad(reading, "/status", "must be terminal statuses");
        }
        wish->statuses |= one;
    }
    return wish->statuses != 0
               ? 0
               : bad(reading, "/status", "must name one status at least");
}

static int take_ids(const struct reading *reading, struct json_value value)
{
    struct replay_request *request = reading->request;
    struct json_member member;
    char text[UUID_TEXT_SIZE];
    if (value.type != JSON_ARRAY || request->ids != NULL) {
        return bad(reading, "/ids", "must be an array of action ids");
    }
    request->ids = mem_zalloc(REPLAY_DOOR_MAX_IDS, UUID_SIZE);
    struct json_cursor cursor = json_enter(value);
    while (json_next(&cursor, &member)) {
        if (request->wish.id_count == REPLAY_DOOR_MAX_IDS) {
            return bad(reading, "/ids", "are 10000 at most");
        }
        if (!take_string(member.value, text, sizeof(text)) ||
            !uuid_parse(span_of(text), request->ids[request->wish.id_count])) {
            return bad(reading, "/ids", "must be an array of action ids");
        }
        request->wish.id_count++;
    }
    return request->wish.id_count > 0
               ? 0
               : bad(reading, "/ids", "must hold one id at least");
}

static const struct {
    const char *name;
    int (*take)(const struct reading *reading, struct json_value value);
} MEMBERS[] = {
    {"tenant", take_tenant},
    {"ids", take_ids},
    {"status", take_status},
    {"connector", take_connector},
    {"action", take_action},
    {"error_code", take_error_code},
    {"since", take_since},
    {"until", take_until},
    {"source", take_source},
    {"dry_run", take_dry_run},
    {"rate", take_rate},
    {"limit", take_limit},
    {"new_key", take_new_key},
    {"force", take_force},
    {"reason", take_reason},
};

/* -- the body ---------------------------------------------------------------------- */

/* What is misspelt must not widen what runs again. */
static int take_member(
    const struct reading *reading, const struct json_member *member)
{
    struct buf name;
    int result = 1;
    buf_init(&name, MAX_TEXT);
    json_decode_name(member->name, &name);
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++) {
        if (!name.is_overflowed &&
            strcmp(MEMBERS[i].name, buf_str(&name)) == 0) {
            result = MEMBERS[i].take(reading, member->value);
        }
    }
    buf_fini(&name);
    return result == 1 ? bad(reading, "", "there is a member that is not known")
                       : result;
}

static int take_body(const struct reading *reading, struct json_value root)
{
    struct json_cursor cursor = json_enter(root);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        if (member.value.type != JSON_NULL &&
            take_member(reading, &member) != 0) {
            return -1;
        }
    }
    return 0;
}

int replay_door_parse(
    struct span body, struct replay_request *request, struct fault *fault)
{
    const struct reading reading = {request, fault};
    struct replay_wish *wish = &request->wish;
    struct json_value root;
    struct err err = ERR_INIT;
    if (json_parse(body, BODY_DEPTH, &root, &err) != 0 ||
        root.type != JSON_OBJECT) {
        return fault_set(fault, CODE_MALFORMED_JSON, "", NULL);
    }
    if (take_body(&reading, root) != 0) {
        return -1;
    }
    const bool has_filter = replay_wish_has_filter(wish);
    if (wish->id_count > 0 && has_filter) {
        return bad(&reading, "/ids", "do not go with a filter");
    }
    const char *what = replay_wish_fault(wish);
    return what == NULL ? 0 : bad(&reading, "", what);
}
