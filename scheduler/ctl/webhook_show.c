/* SPDX-License-Identifier: Apache-2.0 */
/* webhook show: one delivery, with the bytes as they came. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/time.h"
#include "scheduler/ctl/webhook_find.h"
#include "scheduler/ctl/webhook_verbs.h"
#include "schema/sql_ctl.h"

#define MAX_SHOWN_BYTES ((size_t)4 << 20)
#define MAX_SHOWN_BODY 65536 /* of a body, to people */

/* -- for machines -------------------------------------------------------------------- */

static void put_text(struct buf *out, const char *name, const PGresult *rows,
    int row, int column)
{
    json_put_name(out, name);
    if (pg_is_null(rows, row, column))
        buf_put_str(out, "null");
    else
        json_put_string(out, pg_get_bytes(rows, row, column));
}

/* What is stored as JSON. */
static void put_raw(struct buf *out, const char *name, const PGresult *rows,
    int row, int column)
{
    json_put_name(out, name);
    if (pg_is_null(rows, row, column))
        buf_put_str(out, "null");
    else
        buf_put_span(out, pg_get_bytes(rows, row, column));
}

static void put_facts(struct buf *out, const PGresult *rows, int row)
{
    const char *state = webhook_state(rows, row, CTL_SHOWN_STATUS);
    json_put_name(out, "received_at");
    json_put_time(out, pg_get_time(rows, row, CTL_SHOWN_AT));
    json_put_name(out, "verdict");
    json_put_cstring(out, webhook_verdict_name((enum webhook_verdict)pg_get_int(
                              rows, row, CTL_SHOWN_VERDICT)));
    put_text(out, "reason", rows, row, CTL_SHOWN_REASON);
    put_text(out, "scheme", rows, row, CTL_SHOWN_SCHEME);
    json_put_name(out, "secret_no");
    if (pg_is_null(rows, row, CTL_SHOWN_SECRET_NO))
        buf_put_str(out, "null");
    else
        buf_put_int(out, pg_get_int(rows, row, CTL_SHOWN_SECRET_NO));
    json_put_name(out, "became");
    json_put_cstring(out,
        webhook_decision_name(
            (enum webhook_decision)pg_get_int(rows, row, CTL_SHOWN_DECISION)));
    put_raw(out, "error", rows, row, CTL_SHOWN_ERROR);
    json_put_name(out, "status");
    if (state[0] == '\0')
        buf_put_str(out, "null");
    else
        json_put_cstring(out, state);
    json_put_name(out, "is_replay");
    buf_put_str(
        out, pg_is_null(rows, row, CTL_SHOWN_REPLAY_OF) ? "false" : "true");
}

static void print_json(const PGresult *rows, int row)
{
    char id[UUID_TEXT_SIZE];
    struct buf out;
    buf_init(&out, MAX_SHOWN_BYTES);
    uuid_format(pg_get_uuid(rows, row, CTL_SHOWN_ID), id);
    buf_put_char(&out, '{');
    json_put_name(&out, "id");
    json_put_cstring(&out, id);
    put_text(&out, "tenant", rows, row, CTL_SHOWN_TENANT);
    put_text(&out, "source", rows, row, CTL_SHOWN_SOURCE);
    put_text(&out, "sender_id", rows, row, CTL_SHOWN_SENDER_ID);
    put_text(&out, "type", rows, row, CTL_SHOWN_TYPE);
    put_facts(&out, rows, row);
    json_put_name(&out, "partition");
    buf_put_int(&out, pg_get_int(rows, row, CTL_SHOWN_PARTITION));
    json_put_name(&out, "offset");
    buf_put_int(&out, pg_get_int(rows, row, CTL_SHOWN_OFFSET));
    put_text(&out, "method", rows, row, CTL_SHOWN_METHOD);
    put_raw(&out, "headers", rows, row, CTL_SHOWN_HEADERS);
    buf_put_str(&out, ",\"body\":\"");
    base64_put(&out, pg_get_bytes(rows, row, CTL_SHOWN_BODY));
    buf_put_str(&out, "\"}");
    puts(buf_str(&out));
    buf_fini(&out);
}

/* -- for people ------------------------------------------------------------------------ */

/* Control characters in other people's text must not reach a terminal. */
static void print_span(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool is_shown = c == '\n' || (c >= 0x20 && c != 0x7f);
        putchar(is_shown ? c : '?');
    }
}

static void print_text(const char *label, struct span text)
{
    if (text.len == 0)
        return;
    printf("%-10s ", label);
    print_span(text);
    putchar('\n');
}

static void print_column(
    const char *label, const PGresult *rows, int row, int column)
{
    if (!pg_is_null(rows, row, column))
        print_text(label, pg_get_bytes(rows, row, column));
}

static void decode(struct json_value string, struct buf *out)
{
    buf_clear(out);
    json_decode(string, out);
}

static bool is_secret(const char *name)
{
    static const char *const names[] = {
        "authorization", "cookie", "proxy-authorization"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static void print_headers(struct span text)
{
    struct json_value root;
    struct json_member pair;
    struct err err = ERR_INIT;
    struct buf name;
    struct buf value;
    if (json_parse(text, 4, &root, &err) != 0)
        return;
    buf_init(&name, text.len);
    buf_init(&value, text.len);
    struct json_cursor cursor = json_enter(root);
    while (json_next(&cursor, &pair)) {
        struct json_cursor parts = json_enter(pair.value);
        struct json_member part;
        if (json_next(&parts, &part))
            decode(part.value, &name);
        if (json_next(&parts, &part))
            decode(part.value, &value);
        printf("           ");
        print_span(buf_span(&name));
        printf(": ");
        print_span(
            is_secret(buf_str(&name)) ? SPAN_LIT("***") : buf_span(&value));
        putchar('\n');
    }
    buf_fini(&name);
    buf_fini(&value);
}

static void print_body(struct span body)
{
    bool is_text = utf8_is_valid(body) && body.len <= MAX_SHOWN_BODY &&
                   (body.len == 0 || memchr(body.ptr, '\0', body.len) == NULL);
    printf("%-10s %zu bytes%s\n", "body", body.len,
        is_text ? "" : "; `--body` writes them");
    if (is_text && body.len > 0) {
        print_span(body);
        putchar('\n');
    }
}

static void print_story(const PGresult *rows, int row)
{
    char id[UUID_TEXT_SIZE];
    char at[TIME_TEXT_SIZE];
    uuid_format(pg_get_uuid(rows, row, CTL_SHOWN_ID), id);
    time_format_rfc3339(pg_get_time(rows, row, CTL_SHOWN_AT), at);
    print_text("id", span_of(id));
    print_column("tenant", rows, row, CTL_SHOWN_TENANT);
    print_column("source", rows, row, CTL_SHOWN_SOURCE);
    print_column("sender id", rows, row, CTL_SHOWN_SENDER_ID);
    print_column("type", rows, row, CTL_SHOWN_TYPE);
    print_text("received", span_of(at));
    print_text("verdict",
        span_of(webhook_verdict_name(
            (enum webhook_verdict)pg_get_int(rows, row, CTL_SHOWN_VERDICT))));
    print_column("reason", rows, row, CTL_SHOWN_REASON);
    print_text("became",
        span_of(webhook_decision_name(
            (enum webhook_decision)pg_get_int(rows, row, CTL_SHOWN_DECISION))));
    print_column("error", rows, row, CTL_SHOWN_ERROR);
    print_text("action", span_of(webhook_state(rows, row, CTL_SHOWN_STATUS)));
    if (!pg_is_null(rows, row, CTL_SHOWN_REPLAY_OF))
        print_text("replay", SPAN_LIT("put on the topic again by a person"));
    print_column("method", rows, row, CTL_SHOWN_METHOD);
    puts("headers");
    print_headers(pg_get_bytes(rows, row, CTL_SHOWN_HEADERS));
    print_body(pg_get_bytes(rows, row, CTL_SHOWN_BODY));
}

/* -- the command ----------------------------------------------------------------------- */

PGresult *webhook_load(PGconn *conn, const char *tenant,
    const uint8_t id[UUID_SIZE], int *exit_code)
{
    struct pg_params params;
    char text[UUID_TEXT_SIZE];
    pg_params_init(&params);
    pg_param_uuid(&params, id);
    if (tenant != NULL)
        pg_param_text(&params, span_of(tenant));
    else
        pg_param_null(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_DELIVERY_SHOW, &params, exit_code);
    pg_params_fini(&params);
    if (rows != NULL && pg_rows(rows) == 0) {
        uuid_format(id, text);
        *exit_code = ctl_fail(CTL_NOT_FOUND, "no delivery %s", text);
        PQclear(rows);
        rows = NULL;
    }
    return rows;
}

static int show(struct ctl *ctl, const char *tenant,
    const uint8_t id[UUID_SIZE], bool is_body)
{
    int code = CTL_DONE;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    PGresult *rows = webhook_load(conn, tenant, id, &code);
    for (int row = 0; rows != NULL && row < pg_rows(rows); row++) {
        struct span body = pg_get_bytes(rows, row, CTL_SHOWN_BODY);
        if (is_body && row == 0)
            fwrite(body.ptr, 1, body.len, stdout);
        else if (!is_body && ctl->is_json)
            print_json(rows, row);
        else if (!is_body) {
            if (row > 0)
                puts("\ncaptured again");
            print_story(rows, row);
        }
    }
    PQclear(rows);
    PQfinish(conn);
    return code;
}

static const struct command COMMAND_SHOW = {
    .name = "webhook show",
    .arguments = "ID",
    .summary = "Show a delivery as it came, and what became of it",
    .details = "One object for each time it was captured, oldest first. Its "
               "action has the\nsame id: `actionist get ID`.",
};

int webhook_show_run(struct ctl *ctl, int argc, char **argv)
{
    const char *tenant = NULL;
    bool is_body = false;
    const struct ctl_option options[] = {
        {"tenant", "T", "only if it is that tenant's", &tenant, NULL},
        {"body", NULL, "write the exact bytes of the body alone", NULL,
            &is_body},
    };
    const char *rest[2] = {NULL, NULL};
    uint8_t id[UUID_SIZE];
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_SHOW, options, ARRAY_LEN(options), argc, argv,
            rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    if (rest[1] == NULL || !uuid_parse(span_of(rest[1]), id))
        return ctl_fail(CTL_USAGE, "webhook show takes the id of a delivery");
    return show(ctl, tenant, id, is_body);
}
