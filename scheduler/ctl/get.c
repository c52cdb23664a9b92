/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get: what happened to one action: the request and the call it stands for,
 * where it is now, everything the ledger tells, the outcome, and what a person
 * said of it later.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "common/json.h"
#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/story.h"
#include "schema/record.h"

#define MAX_STORY_BYTES ((size_t)16 << 20)

const char *story_state(const PGresult *action)
{
    if (!pg_is_null(action, 0, STORY_WAIT_REASON))
        return "waiting";
    if (pg_is_null(action, 0, STORY_LIVE_STATE))
        return "unknown";
    return pg_get_int(action, 0, STORY_LIVE_STATE) == LIVE_BEGUN ? "begun"
                                                                 : "ready";
}

struct span story_bytes(const PGresult *rows, int row, int column)
{
    const struct span none = {0};
    return pg_is_null(rows, row, column) ? none
                                         : pg_get_bytes(rows, row, column);
}

/* -- for machines ----------------------------------------------------------------- */

/* Text, or null. */
static void put_text(struct buf *out, const char *name, const PGresult *rows,
    int row, int column)
{
    json_put_name(out, name);
    if (pg_is_null(rows, row, column))
        buf_put_str(out, "null");
    else
        json_put_string(out, pg_get_bytes(rows, row, column));
}

static void put_id(struct buf *out, const char *name, const uint8_t *id)
{
    char text[UUID_TEXT_SIZE];
    uuid_format(id, text);
    json_put_name(out, name);
    json_put_cstring(out, text);
}

static void put_state(struct buf *out, const PGresult *action)
{
    json_put_name(out, "state");
    json_put_cstring(out, story_state(action));
    if (pg_is_null(action, 0, STORY_WAIT_REASON))
        return;
    json_put_name(out, "reason");
    json_put_cstring(out, wait_reason_name((enum wait_reason)pg_get_int(
                              action, 0, STORY_WAIT_REASON)));
    json_put_name(out, "due");
    json_put_time(out, pg_get_time(action, 0, STORY_WAIT_DUE));
    if (!pg_is_null(action, 0, STORY_PAUSE_REASON))
        put_text(out, "pause", action, 0, STORY_PAUSE_REASON);
    if (!pg_is_null(action, 0, STORY_WAIT_ERROR)) {
        json_put_name(out, "error");
        buf_put_span(out, pg_get_bytes(action, 0, STORY_WAIT_ERROR));
    }
}

static void put_request(struct buf *out, const struct story *story)
{
    const PGresult *action = story->action;
    json_put_name(out, "accepted_at");
    json_put_time(out, pg_get_time(action, 0, STORY_ACCEPTED_AT));
    put_text(out, "source", action, 0, STORY_SOURCE);
    json_put_name(out, "request");
    buf_put_span(out, pg_get_bytes(action, 0, STORY_REQUEST));
    json_put_name(out, "call");
    shown_call_put(&story->call, out);
}

static void put_resolution(struct buf *out, const PGresult *action)
{
    json_put_name(out, "resolution");
    if (pg_is_null(action, 0, STORY_EVENT)) {
        buf_put_str(out, "null");
        return;
    }
    buf_put_char(out, '{');
    put_id(out, "event", pg_get_uuid(action, 0, STORY_EVENT));
    json_put_name(out, "status");
    json_put_cstring(
        out, status_name((enum status)pg_get_int(action, 0, STORY_WORD)));
    put_text(out, "note", action, 0, STORY_NOTE);
    put_text(out, "actor", action, 0, STORY_ACTOR);
    json_put_name(out, "at");
    json_put_time(out, pg_get_time(action, 0, STORY_RESOLVED_AT));
    buf_put_char(out, '}');
}

void story_put_entry(struct buf *out, const PGresult *ledger, int row)
{
    const char *kind =
        ledger_kind_name((enum ledger_kind)pg_get_int(ledger, row, ENTRY_KIND));
    buf_put_char(out, '{');
    put_id(out, "entry", pg_get_uuid(ledger, row, ENTRY_ENTRY));
    json_put_name(out, "at");
    json_put_time(out, pg_get_time(ledger, row, ENTRY_AT));
    put_text(out, "tenant", ledger, row, ENTRY_TENANT);
    if (pg_is_null(ledger, row, ENTRY_ID)) {
        json_put_name(out, "id");
        buf_put_str(out, "null");
    } else {
        put_id(out, "id", pg_get_uuid(ledger, row, ENTRY_ID));
    }
    json_put_name(out, "attempt_no");
    buf_put_int(out, pg_get_int(ledger, row, ENTRY_ATTEMPT_NO));
    json_put_name(out, "kind");
    json_put_cstring(out, kind != NULL ? kind : "unknown");
    put_text(out, "actor", ledger, row, ENTRY_ACTOR);
    put_text(out, "reason", ledger, row, ENTRY_REASON);
    put_text(out, "trace_id", ledger, row, ENTRY_TRACE_ID);
    json_put_name(out, "detail");
    buf_put_span(out, pg_get_bytes(ledger, row, ENTRY_DETAIL));
    buf_put_char(out, '}');
}

void story_print_entry(const PGresult *ledger, int row)
{
    struct buf line;
    buf_init(&line, MAX_STORY_BYTES);
    story_put_entry(&line, ledger, row);
    puts(buf_str(&line));
    buf_fini(&line);
}

static void print_json(const struct story *story)
{
    const PGresult *action = story->action;
    struct buf out;
    buf_init(&out, MAX_STORY_BYTES);
    buf_put_char(&out, '{');
    json_put_name(&out, "id");
    json_put_cstring(&out, story->id);
    put_text(&out, "tenant", action, 0, STORY_TENANT);
    if (!pg_is_null(action, 0, STORY_SOURCE))
        put_request(&out, story);
    if (pg_is_null(action, 0, STORY_OUTCOME))
        put_state(&out, action);
    json_put_name(&out, "outcome");
    if (pg_is_null(action, 0, STORY_OUTCOME))
        buf_put_str(&out, "null");
    else
        buf_put_span(&out, pg_get_bytes(action, 0, STORY_OUTCOME));
    put_resolution(&out, action);
    json_put_name(&out, "ledger");
    buf_put_char(&out, '[');
    for (int row = 0; row < pg_rows(story->ledger); row++) {
        buf_put_str(&out, row > 0 ? "," : "");
        story_put_entry(&out, story->ledger, row);
    }
    buf_put_str(&out, "]}");
    puts(buf_str(&out));
    buf_fini(&out);
}

/* -- the command ------------------------------------------------------------------------ */

static int show(struct ctl *ctl, const uint8_t id[UUID_SIZE])
{
    int code = CTL_DONE;
    struct story story = {.action = NULL};
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, id);
    uuid_format(id, story.id);
    story.action = ctl_query(conn, SQL_CTL_ACTION_GET, &params, &code);
    if (story.action != NULL && pg_rows(story.action) == 0)
        code = ctl_fail(CTL_NOT_FOUND, "no action %s", story.id);
    else if (story.action != NULL)
        story.ledger = ctl_query(conn, SQL_CTL_ACTION_LEDGER, &params, &code);
    if (story.ledger != NULL) {
        shown_call_init(&story.call,
            story_bytes(story.action, 0, STORY_MANIFEST),
            story_bytes(story.action, 0, STORY_REQUEST),
            story_bytes(story.action, 0, STORY_TENANT), id);
        if (ctl->is_json)
            print_json(&story);
        else
            story_print(ctl, &story);
        shown_call_fini(&story.call);
    }
    PQclear(story.ledger);
    PQclear(story.action);
    pg_params_fini(&params);
    PQfinish(conn);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    const char *tenant = NULL;
    const char *connector = NULL;
    const char *key = NULL;
    const struct ctl_option options[] = {
        {"tenant", "T", "with --connector and --key: instead of an id", &tenant,
            NULL},
        {"connector", "C", "see --tenant", &connector, NULL},
        {"key", "K", "the idempotency key", &key, NULL},
    };
    const char *rest[1] = {NULL};
    uint8_t id[UUID_SIZE];
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_GET, options, ARRAY_LEN(options), argc, argv,
            rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    if (rest[0] != NULL) {
        if (!uuid_parse(span_of(rest[0]), id))
            return ctl_fail(CTL_USAGE, "'%s' is not an action id", rest[0]);
        return show(ctl, id);
    }
    if (tenant == NULL || connector == NULL || key == NULL)
        return ctl_fail(
            CTL_USAGE, "get takes an id, or --tenant, --connector and --key");
    record_id_of_key(span_of(tenant), span_of(connector), span_of(key), id);
    return show(ctl, id);
}

const struct command COMMAND_GET = {
    .name = "get",
    .arguments = "[ID]",
    .summary = "Tell what happened to an action",
    .details =
        "By id, or by what the id is made of: tenant, connector and key. "
        "Headers that may\nhold a secret are shown as ***.",
    .run = run,
};
