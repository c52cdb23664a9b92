/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pause, resume: holds back what a tenant, a connector, an action or everybody
 * wants to start, and lets it go on. The truth is a row; the signal only makes
 * it quick.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/signal.h"
#include "schema/record.h"
#include "schema/sql_ctl.h"

#define MAX_REASON 500
#define CONFIRM_US (3 * US_PER_S)
#define POLL_US 20000

static const char *const COLUMNS[] = {
    "tenant", "connector", "action", "state", "reason"};
static const char *const LIST_COLUMNS[] = {"tenant", "connector", "action",
    "waiting_count", "since", "actor", "reason"};

/* What is asked for. Names are NULL for any. */
struct scope {
    const char *names[3]; /* tenant, connector, action */
    bool is_all;
    bool is_dry_run;
    const char *reason;
};

static const char *const NAMES[3] = {"tenant", "connector", "action"};

static int check_scope(const struct scope *scope)
{
    bool has_any = false;
    for (size_t i = 0; i < ARRAY_LEN(scope->names); i++) {
        has_any |= scope->names[i] != NULL;
        if (scope->names[i] != NULL && !name_is_valid(span_of(scope->names[i])))
            return ctl_fail(CTL_USAGE, "--%s: '%s' is not a name", NAMES[i],
                scope->names[i]);
    }
    if (has_any == scope->is_all)
        return ctl_fail(CTL_USAGE,
            "say what: --tenant, --connector, --action, or --all alone");
    if (scope->names[2] != NULL && scope->names[1] == NULL)
        return ctl_fail(CTL_USAGE, "--action needs its --connector");
    return CTL_DONE;
}

static void put_scope(struct pg_params *params, const struct scope *scope)
{
    for (size_t i = 0; i < ARRAY_LEN(scope->names); i++) {
        if (scope->names[i] != NULL)
            pg_param_text(params, span_of(scope->names[i]));
        else
            pg_param_null(params);
    }
}

static void tell_fleet(const struct ctl *ctl, const struct scope *scope)
{
    char name[256];
    snprintf(name, sizeof name, "%s/%s/%s",
        scope->names[0] != NULL ? scope->names[0] : "",
        scope->names[1] != NULL ? scope->names[1] : "",
        scope->names[2] != NULL ? scope->names[2] : "");
    ctl_signal(ctl, "pause", name);
}

static void print_scope(
    const struct ctl *ctl, const struct scope *scope, const char *state)
{
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    ctl_table_add(table, (const char *[]){scope->names[0], scope->names[1],
                             scope->names[2], state, scope->reason});
    ctl_table_end(table);
}

/* -- what there is -------------------------------------------------------------- */

static char *copy_cell(const PGresult *rows, int row, int column)
{
    return pg_is_null(rows, row, column)
               ? NULL
               : span_dup(pg_get_bytes(rows, row, column));
}

static void add_pause(struct ctl_table *table, const PGresult *rows, int row)
{
    char since[TIME_TEXT_SIZE];
    char count[24];
    char *cells[5];
    for (int i = 0; i < 5; i++)
        cells[i] = copy_cell(rows, row, i);
    snprintf(count, sizeof count, "%lld", (long long)pg_get_int(rows, row, 5));
    time_format_rfc3339(pg_get_time(rows, row, 6), since);
    ctl_table_add(table, (const char *[]){cells[0], cells[1], cells[2], count,
                             since, cells[3], cells[4]});
    for (int i = 0; i < 5; i++)
        free(cells[i]);
}

static int list(struct ctl *ctl)
{
    int code = CTL_DONE;
    struct pg_params params;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    pg_params_init(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_PAUSE_LIST, &params, &code);
    struct ctl_table *table =
        ctl_table_new(ctl, LIST_COLUMNS, ARRAY_LEN(LIST_COLUMNS));
    for (int i = 0; i < (rows != NULL ? pg_rows(rows) : 0); i++)
        add_pause(table, rows, i);
    if (ctl_table_end(table) == 0 && rows != NULL && !ctl->is_json)
        fputs("Nothing is paused.\n", stderr);
    PQclear(rows);
    pg_params_fini(&params);
    PQfinish(conn);
    return code;
}

/* -- doing it -------------------------------------------------------------------- */

static int count_held(
    const struct ctl *ctl, PGconn *conn, const struct scope *scope)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    put_scope(&params, scope);
    PGresult *rows = ctl_query(conn, SQL_CTL_PAUSE_COUNT, &params, &code);
    if (rows != NULL) {
        print_scope(ctl, scope, "would be paused");
        fprintf(stderr, "%lld unfinished actions are in it\n",
            (long long)pg_get_int(rows, 0, 0));
    }
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

/* Waits until every living worker says that it acts by it. */
static int wait_confirmed(PGconn *conn, int64_t number)
{
    int code = CTL_DONE;
    int64_t workers = 0;
    int64_t confirmed = -1;
    const int64_t end_us = now_mono_us() + CONFIRM_US;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_int8(&params, number);
    while (confirmed < workers && now_mono_us() < end_us && code == CTL_DONE) {
        PGresult *rows =
            ctl_query(conn, SQL_CTL_PAUSE_CONFIRMED, &params, &code);
        if (rows != NULL) {
            workers = pg_get_int(rows, 0, 0);
            confirmed = pg_get_int(rows, 0, 1);
        }
        PQclear(rows);
        if (confirmed < workers)
            usleep(POLL_US);
    }
    pg_params_fini(&params);
    if (code == CTL_DONE && confirmed < workers)
        fprintf(stderr,
            "actionist: %lld of %lld workers have not confirmed it yet; they "
            "see it within 30 s\n",
            (long long)(workers - confirmed), (long long)workers);
    return code;
}

static int add(const struct ctl *ctl, PGconn *conn, const struct scope *scope)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    put_scope(&params, scope);
    pg_param_text(&params, span_of(scope->reason));
    ctl_put_actor(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_PAUSE_ADD, &params, &code);
    if (rows != NULL) {
        const bool is_new = !pg_is_null(rows, 0, 0);
        const bool was_there = pg_get_bool(rows, 0, 1);
        if (!is_new && !was_there)
            code = ctl_fail(CTL_CONFLICT, "there are 1000 pauses already");
        if (is_new) {
            tell_fleet(ctl, scope);
            code = wait_confirmed(conn, pg_get_int(rows, 0, 0));
        }
        if (code == CTL_DONE)
            print_scope(ctl, scope, is_new ? "paused" : "paused before");
    }
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

static int lift(const struct ctl *ctl, PGconn *conn, const struct scope *scope)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    put_scope(&params, scope);
    if (scope->reason != NULL)
        pg_param_text(&params, span_of(scope->reason));
    else
        pg_param_null(&params);
    ctl_put_actor(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_PAUSE_LIFT, &params, &code);
    if (rows != NULL && pg_rows(rows) == 0) {
        code = ctl_fail(CTL_NOT_FOUND,
            "no pause has just that scope; `actionist pause` lists them");
    } else if (rows != NULL) {
        tell_fleet(ctl, scope);
        print_scope(ctl, scope, "resumed");
    }
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

/* -- the commands ------------------------------------------------------------------- */

static int read_words(struct ctl *ctl, const struct command *command, int argc,
    char **argv, struct scope *scope, int *code)
{
    const struct ctl_option options[] = {
        {"tenant", "T", "what this tenant wants to start", &scope->names[0],
            NULL},
        {"connector", "C", "calls by this connector", &scope->names[1], NULL},
        {"action", "A", "only this action of the connector", &scope->names[2],
            NULL},
        {"all", NULL, "everything", NULL, &scope->is_all},
        {"reason", "TEXT", "why; kept in the ledger", &scope->reason, NULL},
        {"dry-run", NULL, "only count what is in it", NULL, &scope->is_dry_run},
    };
    return ctl_options(
        ctl, command, options, ARRAY_LEN(options), argc, argv, NULL, 0, code);
}

static int run_with(struct ctl *ctl, const struct scope *scope,
    int (*act)(const struct ctl *ctl, PGconn *conn, const struct scope *scope))
{
    int code = check_scope(scope);
    if (code == CTL_DONE && scope->reason != NULL &&
        (scope->reason[0] == '\0' || strlen(scope->reason) > MAX_REASON))
        code = ctl_fail(
            CTL_USAGE, "--reason takes 1 to %d bytes of text", MAX_REASON);
    if (code != CTL_DONE)
        return code;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    code = scope->is_dry_run ? count_held(ctl, conn, scope)
                             : act(ctl, conn, scope);
    PQfinish(conn);
    return code;
}

static int run_pause(struct ctl *ctl, int argc, char **argv)
{
    struct scope scope = {.is_all = false};
    int code = CTL_DONE;
    if (read_words(ctl, &COMMAND_PAUSE, argc, argv, &scope, &code) < 0)
        return code;
    if (!scope.is_all && scope.names[0] == NULL && scope.names[1] == NULL &&
        scope.names[2] == NULL && scope.reason == NULL && !scope.is_dry_run)
        return list(ctl);
    if (scope.reason == NULL && !scope.is_dry_run)
        return ctl_fail(CTL_USAGE, "--reason is required");
    return run_with(ctl, &scope, add);
}

static int run_resume(struct ctl *ctl, int argc, char **argv)
{
    struct scope scope = {.is_all = false};
    int code = CTL_DONE;
    if (read_words(ctl, &COMMAND_RESUME, argc, argv, &scope, &code) < 0)
        return code;
    return run_with(ctl, &scope, lift);
}

const struct command COMMAND_PAUSE = {
    .name = "pause",
    .arguments = "",
    .summary = "Hold back what is about to start, or list what is held",
    .details =
        "What is paused is claimed and waits, with the reason `paused`, and "
        "uses no attempt;\nits deadline goes on. Calls that run are left to "
        "end. A tenant and a connector\ntogether mean both. The command ends "
        "once every worker acts by it. Without options:\nthe pauses there "
        "are.",
    .run = run_pause,
};

const struct command COMMAND_RESUME = {
    .name = "resume",
    .arguments = "",
    .summary = "Lift a pause",
    .details = "Takes just the scope that was paused. What waited goes on in "
               "the order it came.",
    .run = run_resume,
};
