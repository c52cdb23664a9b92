/* SPDX-License-Identifier: Apache-2.0 */
/* The document of a replay (replay.h), as HTTP and the command show it. */
#include "schema/replay.h"

#include "common/json.h"

static void put_number(struct buf *out, const char *name, int64_t value)
{
    json_put_name(out, name);
    buf_put_int(out, value);
}

static void put_flag(struct buf *out, const char *name, bool value)
{
    json_put_name(out, name);
    buf_put_str(out, value ? "true" : "false");
}

/* null when "" */
static void put_text(struct buf *out, const char *name, const char *text)
{
    json_put_name(out, name);
    if (text[0] == '\0') {
        buf_put_str(out, "null");
    } else {
        json_put_cstring(out, text);
    }
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

static void put_id(struct buf *out, const uint8_t id[UUID_SIZE])
{
    char text[UUID_TEXT_SIZE];
    uuid_format(id, text);
    json_put_cstring(out, text);
}

static void put_statuses(struct buf *out, int statuses)
{
    const char *between = "";
    json_put_name(out, "status");
    buf_put_char(out, '[');
    for (int status = 1; status < REPLAY_STATUS_COUNT; status++) {
        if ((statuses & (1 << status)) != 0) {
            buf_put_str(out, between);
            json_put_cstring(out, status_name((enum status)status));
            between = ",";
        }
    }
    buf_put_char(out, ']');
}

static void put_filter(struct buf *out, const struct replay_wish *wish)
{
    json_put_name(out, "filter");
    buf_put_char(out, '{');
    if (wish->id_count > 0) {
        put_number(out, "ids", wish->id_count);
    } else {
        put_statuses(out, wish->statuses);
        put_text(out, "connector", wish->connector);
        put_text(out, "action", wish->action);
        put_text(out, "error_code", wish->error_code);
        put_time(out, "since", wish->since_us);
        put_time(out, "until", wish->until_us);
        put_text(out, "source", wish->source);
    }
    buf_put_char(out, '}');
}

static void put_wish(struct buf *out, const struct replay_wish *wish)
{
    json_put_name(out, "id");
    put_id(out, wish->id);
    put_text(out, "tenant", wish->tenant);
    put_text(
        out, "what", wish->kind == REPLAY_OUTCOMES ? "outcomes" : "actions");
    put_filter(out, wish);
    put_flag(out, "dry_run", wish->is_dry_run);
    put_flag(out, "new_key", wish->has_new_key);
    put_flag(out, "force", wish->is_forced);
    json_put_name(out, "rate");
    if (wish->rate == 0) {
        buf_put_str(out, "null");
    } else {
        buf_put_int(out, wish->rate);
    }
    json_put_name(out, "limit");
    if (wish->max_rows == 0) {
        buf_put_str(out, "null");
    } else {
        buf_put_int(out, wish->max_rows);
    }
    put_text(out, "to", wish->to_topic);
    put_text(out, "actor", wish->actor);
    put_text(out, "reason", wish->reason);
}

static void put_skips(struct buf *out, const struct replay *replay)
{
    json_put_name(out, "skipped");
    buf_put_char(out, '{');
    put_number(out, "total", replay_skipped(replay));
    for (size_t i = 1; i < REPLAY_SKIP_COUNT; i++) {
        if (replay->skips[i] != 0) {
            put_number(
                out, replay_skip_name((enum replay_skip)i), replay->skips[i]);
        }
    }
    buf_put_char(out, '}');
}

static void put_ends(struct buf *out, const struct replay *replay)
{
    json_put_name(out, "outcomes");
    buf_put_char(out, '{');
    put_number(out, "total", replay_ended(replay));
    for (int status = 1; status < REPLAY_STATUS_COUNT; status++) {
        if (replay->ends[status] != 0) {
            put_number(
                out, status_name((enum status)status), replay->ends[status]);
        }
    }
    buf_put_char(out, '}');
}

static void put_sample(struct buf *out, const struct replay *replay)
{
    json_put_name(out, "sample");
    buf_put_char(out, '[');
    for (size_t i = 0; i < replay->sample_count; i++) {
        buf_put_str(out, i == 0 ? "" : ",");
        put_id(out, replay->sample[i]);
    }
    buf_put_char(out, ']');
}

void replay_put(struct buf *out, const struct replay *replay)
{
    buf_put_char(out, '{');
    put_wish(out, &replay->wish);
    put_text(out, "state", replay_state(replay));
    put_time(out, "created_at", replay->created_at_us);
    put_time(out, "ended_at", replay->ended_at_us);
    put_number(out, "matched", replay->matched);
    put_number(out, "planned", replay->planned);
    put_number(out, "replayed", replay->published);
    put_skips(out, replay);
    put_ends(out, replay);
    put_sample(out, replay);
    put_text(out, "trouble", replay->trouble);
    buf_put_char(out, '}');
}
