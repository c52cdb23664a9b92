/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get: what happened to one action: the request, where it is now, each
 * attempt that was not the last, the outcome.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "common/json.h"
#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "schema/codes.h"
#include "schema/record.h"
#include "schema/sql_ctl.h"

#define MAX_STORY_BYTES ((size_t)8 << 20)

/* Columns of SQL_CTL_ACTION_GET. */
enum {
    COL_TENANT,
    COL_CONNECTOR,
    COL_ACTION,
    COL_ACCEPTED_AT,
    COL_SOURCE,
    COL_REQUEST,
    COL_OUTCOME,
    COL_LIVE_STATE,
    COL_LIVE_ATTEMPT,
    COL_LIVE_CALLS,
    COL_WAIT_REASON,
    COL_WAIT_DUE,
    COL_WAIT_ATTEMPT,
    COL_WAIT_CALLS,
    COL_WAIT_ERROR
};

static const char *state_text(const PGresult *result)
{
    if (!pg_is_null(result, 0, COL_WAIT_REASON))
        return "waiting";
    if (pg_is_null(result, 0, COL_LIVE_STATE))
        return "unknown";
    return pg_get_int(result, 0, COL_LIVE_STATE) == LIVE_BEGUN ? "begun"
                                                               : "ready";
}

static const char *ledger_kind_text(int64_t kind)
{
    const char *name = ledger_kind_name((enum ledger_kind)kind);
    return name != NULL ? name : "unknown";
}

/* -- for machines ----------------------------------------------------------------- */

static void put_state(struct buf *out, const PGresult *result)
{
    json_put_name(out, "state");
    json_put_cstring(out, state_text(result));
    if (!pg_is_null(result, 0, COL_WAIT_REASON)) {
        json_put_name(out, "reason");
        json_put_cstring(out, wait_reason_name((enum wait_reason)pg_get_int(
                                  result, 0, COL_WAIT_REASON)));
        json_put_name(out, "due");
        json_put_time(out, pg_get_time(result, 0, COL_WAIT_DUE));
        if (!pg_is_null(result, 0, COL_WAIT_ERROR)) {
            json_put_name(out, "error");
            buf_put_span(out, pg_get_bytes(result, 0, COL_WAIT_ERROR));
        }
    }
}

static void print_json(
    const char *id, const PGresult *result, const PGresult *ledger)
{
    struct buf out;
    buf_init(&out, MAX_STORY_BYTES);
    buf_put_char(&out, '{');
    json_put_name(&out, "id");
    json_put_cstring(&out, id);
    if (!pg_is_null(result, 0, COL_SOURCE)) {
        json_put_name(&out, "accepted_at");
        json_put_time(&out, pg_get_time(result, 0, COL_ACCEPTED_AT));
        json_put_name(&out, "source");
        json_put_string(&out, pg_get_bytes(result, 0, COL_SOURCE));
        json_put_name(&out, "request");
        buf_put_span(&out, pg_get_bytes(result, 0, COL_REQUEST));
    }
    if (pg_is_null(result, 0, COL_OUTCOME))
        put_state(&out, result);
    json_put_name(&out, "outcome");
    if (pg_is_null(result, 0, COL_OUTCOME))
        buf_put_str(&out, "null");
    else
        buf_put_span(&out, pg_get_bytes(result, 0, COL_OUTCOME));
    json_put_name(&out, "ledger");
    buf_put_char(&out, '[');
    for (int row = 0; row < pg_rows(ledger); row++) {
        buf_put_str(&out, row > 0 ? ",{" : "{");
        json_put_name(&out, "at");
        json_put_time(&out, pg_get_time(ledger, row, 0));
        json_put_name(&out, "attempt_no");
        buf_put_int(&out, pg_get_int(ledger, row, 1));
        json_put_name(&out, "kind");
        json_put_cstring(&out, ledger_kind_text(pg_get_int(ledger, row, 2)));
        json_put_name(&out, "detail");
        buf_put_span(&out, pg_get_bytes(ledger, row, 3));
        buf_put_char(&out, '}');
    }
    buf_put_str(&out, "]}");
    puts(buf_str(&out));
    buf_fini(&out);
}

/* -- for people --------------------------------------------------------------------- */

/* Control characters in other people's text must not reach a terminal. */
static void print_text(const char *label, struct span text)
{
    printf("%-10s ", label);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
    putchar('\n');
}

static void print_time(const char *label, int64_t wall_us)
{
    char text[TIME_TEXT_SIZE];
    time_format_rfc3339(wall_us, text);
    printf("%-10s %s\n", label, text);
}

static void print_where(const PGresult *result)
{
    if (!pg_is_null(result, 0, COL_OUTCOME)) {
        print_text("outcome", pg_get_bytes(result, 0, COL_OUTCOME));
        return;
    }
    print_text("state", span_of(state_text(result)));
    if (pg_is_null(result, 0, COL_WAIT_REASON))
        return;
    print_text("reason", span_of(wait_reason_name((enum wait_reason)pg_get_int(
                             result, 0, COL_WAIT_REASON))));
    print_time("due", pg_get_time(result, 0, COL_WAIT_DUE));
    if (!pg_is_null(result, 0, COL_WAIT_ERROR))
        print_text("error", pg_get_bytes(result, 0, COL_WAIT_ERROR));
}

static void print_story(
    const char *id, const PGresult *result, const PGresult *ledger)
{
    print_text("id", span_of(id));
    print_text("tenant", pg_get_bytes(result, 0, COL_TENANT));
    if (!pg_is_null(result, 0, COL_SOURCE)) {
        print_text("connector", pg_get_bytes(result, 0, COL_CONNECTOR));
        print_text("action", pg_get_bytes(result, 0, COL_ACTION));
        print_time("accepted", pg_get_time(result, 0, COL_ACCEPTED_AT));
        print_text("source", pg_get_bytes(result, 0, COL_SOURCE));
        print_text("request", pg_get_bytes(result, 0, COL_REQUEST));
    }
    for (int row = 0; row < pg_rows(ledger); row++) {
        char at[TIME_TEXT_SIZE];
        char label[64];
        time_format_rfc3339(pg_get_time(ledger, row, 0), at);
        snprintf(label, sizeof label, "%s %lld at %s",
            ledger_kind_text(pg_get_int(ledger, row, 2)),
            (long long)pg_get_int(ledger, row, 1), at);
        print_text(label, pg_get_bytes(ledger, row, 3));
    }
    print_where(result);
}

/* -- the command ------------------------------------------------------------------------ */

static int show(struct ctl *ctl, const uint8_t id[UUID_SIZE])
{
    int code = CTL_DONE;
    char text[UUID_TEXT_SIZE];
    PGresult *ledger = NULL;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, id);
    uuid_format(id, text);
    PGresult *result = ctl_query(conn, SQL_CTL_ACTION_GET, &params, &code);
    if (result != NULL && pg_rows(result) == 0)
        code = ctl_fail(CTL_NOT_FOUND, "no action %s", text);
    else if (result != NULL)
        ledger = ctl_query(conn, SQL_CTL_ACTION_LEDGER, &params, &code);
    if (ledger != NULL && ctl->is_json)
        print_json(text, result, ledger);
    else if (ledger != NULL)
        print_story(text, result, ledger);
    PQclear(ledger);
    PQclear(result);
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
        "By id, or by what the id is made of: tenant, connector and key.",
    .run = run,
};
