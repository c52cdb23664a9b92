/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve: a person's later word on an action whose outcome is indeterminate.
 * An event of its own goes out, once; the outcome stays as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "scheduler/ctl/commands.h"
#include "schema/resolution.h"
#include "schema/sql_ctl.h"

static const char *const COLUMNS[] = {"id", "status", "event", "state"};

/* Columns of SQL_CTL_RESOLVE_READ. */
enum {
    COL_SEQ,
    COL_TENANT,
    COL_STATUS,
    COL_BODY,
    COL_NOW,
    COL_EVENT, /* null: nobody has resolved it */
    COL_WORD
};

struct wish {
    uint8_t id[UUID_SIZE];
    char id_text[UUID_TEXT_SIZE];
    enum status status;
    const char *note;
};

static void print_event(const struct ctl *ctl, const struct wish *wish,
    const uint8_t *event, const char *state)
{
    char text[UUID_TEXT_SIZE];
    uuid_format(event, text);
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    ctl_table_add(table, (const char *[]){wish->id_text,
                             status_name(wish->status), text, state});
    ctl_table_end(table);
}

/* It has been resolved: the same word again is fine, another one is not. */
static int say_again(
    const struct ctl *ctl, const struct wish *wish, const PGresult *found)
{
    const enum status word = (enum status)pg_get_int(found, 0, COL_WORD);
    if (word != wish->status)
        return ctl_fail(CTL_CONFLICT, "%s has been resolved as %s already",
            wish->id_text, status_name(word));
    print_event(ctl, wish, pg_get_uuid(found, 0, COL_EVENT), "resolved before");
    return CTL_DONE;
}

static void put_event(struct pg_params *params, const struct wish *wish,
    const PGresult *found, const uint8_t *event, struct span actor)
{
    struct buf body;
    struct resolution resolution = {
        .tenant = pg_get_bytes(found, 0, COL_TENANT),
        .outcome = pg_get_bytes(found, 0, COL_BODY),
        .status = wish->status,
        .note = span_of(wish->note),
        .actor = actor,
        .at_us = pg_get_time(found, 0, COL_NOW),
    };
    memcpy(resolution.event, event, UUID_SIZE);
    memcpy(resolution.action_id, wish->id, UUID_SIZE);
    buf_init(&body, RESOLUTION_MAX_BYTES);
    resolution_put(&body, &resolution);
    pg_param_int8(params, pg_get_int(found, 0, COL_SEQ));
    pg_param_uuid(params, event);
    pg_param_int2(params, (int16_t)wish->status);
    pg_param_text(params, resolution.note);
    pg_param_text(params, actor);
    pg_param_bytea(params, buf_span(&body));
    buf_fini(&body);
}

/* CTL_TRY_LATER: somebody else was faster, look again. */
static int write_event(const struct ctl *ctl, PGconn *conn,
    const struct wish *wish, const PGresult *found)
{
    int code = CTL_DONE;
    uint8_t event[UUID_SIZE];
    struct buf actor;
    struct pg_params params;
    uuid_v7(event);
    buf_init(&actor, 512);
    ctl_actor(&actor);
    pg_params_init(&params);
    put_event(&params, wish, found, event, buf_span(&actor));
    PGresult *rows = ctl_query(conn, SQL_CTL_RESOLVE, &params, &code);
    if (rows != NULL && pg_rows(rows) == 0)
        code = CTL_TRY_LATER;
    else if (rows != NULL)
        print_event(ctl, wish, event, "resolved");
    PQclear(rows);
    pg_params_fini(&params);
    buf_fini(&actor);
    return code;
}

static int look(const struct ctl *ctl, PGconn *conn, const struct wish *wish)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, wish->id);
    PGresult *found = ctl_query(conn, SQL_CTL_RESOLVE_READ, &params, &code);
    pg_params_fini(&params);
    if (found == NULL)
        return code;
    if (pg_rows(found) == 0)
        code = ctl_fail(CTL_NOT_FOUND,
            "no action %s has ended; `actionist get` tells where it is",
            wish->id_text);
    else if (!pg_is_null(found, 0, COL_EVENT))
        code = say_again(ctl, wish, found);
    else if (pg_get_int(found, 0, COL_STATUS) != STATUS_INDETERMINATE)
        code = ctl_fail(CTL_CONFLICT,
            "%s is %s, and that is certain; only what is indeterminate can be "
            "resolved",
            wish->id_text,
            status_name((enum status)pg_get_int(found, 0, COL_STATUS)));
    else
        code = write_event(ctl, conn, wish, found);
    PQclear(found);
    return code;
}

static int resolve(struct ctl *ctl, const struct wish *wish)
{
    int code = CTL_DONE;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    code = look(ctl, conn, wish);
    if (code == CTL_TRY_LATER)
        code = look(ctl, conn, wish);
    PQfinish(conn);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct wish wish = {.note = NULL};
    const char *word = NULL;
    const struct ctl_option options[] = {
        {"as", "STATUS", "succeeded or failed: what really happened", &word,
            NULL},
        {"note", "TEXT", "how you know; goes into the event", &wish.note, NULL},
    };
    const char *rest[1] = {NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_RESOLVE, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    if (rest[0] == NULL || !uuid_parse(span_of(rest[0]), wish.id))
        return ctl_fail(CTL_USAGE, "resolve takes the id of an action");
    uuid_format(wish.id, wish.id_text);
    if (word == NULL || !status_parse(span_of(word), &wish.status) ||
        (wish.status != STATUS_SUCCEEDED && wish.status != STATUS_FAILED))
        return ctl_fail(CTL_USAGE, "--as takes succeeded or failed");
    if (wish.note == NULL || wish.note[0] == '\0' ||
        strlen(wish.note) > RESOLUTION_MAX_NOTE ||
        !utf8_is_valid(span_of(wish.note)))
        return ctl_fail(CTL_USAGE, "--note takes 1 to %zu bytes of text",
            RESOLUTION_MAX_NOTE);
    return resolve(ctl, &wish);
}

const struct command COMMAND_RESOLVE = {
    .name = "resolve",
    .arguments = "ID --as STATUS --note TEXT",
    .summary = "Say what became of an indeterminate action",
    .details =
        "The outcome stays as it was. One event `resolution` goes out on the "
        "outcomes topic;\nthe same word again changes nothing, another one is "
        "refused (exit code 5).",
    .run = run,
};
