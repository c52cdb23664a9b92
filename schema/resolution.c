/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/resolution.h"

#include "common/json.h"

enum { OUTCOME_DEPTH = 80 };

static void put_id(struct buf *out, const char *name, const uint8_t *id)
{
    char text[UUID_TEXT_SIZE];
    uuid_format(id, text);
    json_put_name(out, name);
    json_put_cstring(out, text);
}

static void put_text(struct buf *out, const char *name, struct span text)
{
    json_put_name(out, name);
    json_put_string(out, text);
}

static void put_same(
    struct buf *out, const struct json_value *outcome, const char *name)
{
    struct json_value member;
    json_put_name(out, name);
    if (outcome != NULL && json_find(*outcome, name, &member)) {
        buf_put_span(out, member.raw);
    } else {
        buf_put_str(out, "null");
    }
}

void resolution_put(struct buf *out, const struct resolution *resolution)
{
    struct json_value outcome;
    const bool is_readable =
        json_parse(resolution->outcome, OUTCOME_DEPTH, &outcome, NULL) == 0;
    const struct json_value *same = is_readable ? &outcome : NULL;
    buf_put_char(out, '{');
    json_put_name(out, "spec");
    json_put_cstring(out, "actionist/1");
    json_put_name(out, "event");
    json_put_cstring(out, "resolution");
    put_id(out, "id", resolution->event);
    put_id(out, "resolves", resolution->action_id);
    put_text(out, "tenant", resolution->tenant);
    put_same(out, same, "connector");
    put_same(out, same, "action");
    put_same(out, same, "idempotency_key");
    json_put_name(out, "status");
    json_put_cstring(out, status_name(resolution->status));
    put_text(out, "note", resolution->note);
    put_text(out, "actor", resolution->actor);
    json_put_name(out, "resolved_at");
    json_put_time(out, resolution->at_us);
    buf_put_char(out, '}');
}
