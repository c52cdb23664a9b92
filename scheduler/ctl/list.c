/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list: outcomes, newest first, in pages by seq; or what is unfinished, in
 * pages by id. A filter that matches seldom is looked for in bounded steps, so
 * that no statement runs for long.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/moment.h"
#include "schema/codes.h"
#include "schema/record.h"
#include "schema/sql_ctl.h"

enum { DEFAULT_LIMIT = 50, MAX_LIMIT = 10000, FIRST_SCAN = 500, SCAN = 20000 };

struct filter {
    const char *tenant;
    const char *connector;
    const char *action;
    const char *code;
    enum status status; /* 0: any */
    int64_t before_seq;
    int64_t limit;
    int64_t since_us; /* 0: any */
    int64_t until_us;

    bool is_live; /* what is unfinished */
    int state;    /* 1 ready, 2 begun, 3 waiting, 0: any */
    int reason;   /* enum wait_reason, 0: any */
    uint8_t after_id[UUID_SIZE];
};

/* -- rows ------------------------------------------------------------------------- */

static const char *const COLUMNS[] = {"id", "connector", "action", "status",
    "attempts", "error_code", "finished_at", "seq", "tenant"};
static const char *const LIVE_COLUMNS[] = {
    "id", "connector", "action", "state", "reason", "attempts", "at", "tenant"};

static char *copy_cell(const PGresult *rows, int row, int column)
{
    return pg_is_null(rows, row, column)
               ? NULL
               : span_dup(pg_get_bytes(rows, row, column));
}

/* Columns of both statements begin alike: id, tenant, connector, action. */
struct cells {
    char id[UUID_TEXT_SIZE];
    char *tenant;
    char *connector;
    char *action;
    char at[TIME_TEXT_SIZE];
    char calls[24];
};

static void read_cells(struct cells *cells, const PGresult *rows, int row)
{
    uuid_format(pg_get_uuid(rows, row, 0), cells->id);
    cells->tenant = copy_cell(rows, row, 1);
    cells->connector = copy_cell(rows, row, 2);
    cells->action = copy_cell(rows, row, 3);
    snprintf(cells->calls, sizeof cells->calls, "%lld",
        (long long)pg_get_int(rows, row, 4));
    time_format_rfc3339(pg_get_time(rows, row, 5), cells->at);
}

static void free_cells(struct cells *cells)
{
    free(cells->tenant);
    free(cells->connector);
    free(cells->action);
}

static void add_outcome(struct ctl_table *table, const PGresult *rows, int row)
{
    struct cells cells;
    char seq[24];
    char *code = copy_cell(rows, row, 7);
    read_cells(&cells, rows, row);
    snprintf(seq, sizeof seq, "%lld", (long long)pg_get_int(rows, row, 8));
    ctl_table_add(
        table, (const char *[]){cells.id, cells.connector, cells.action,
                   status_name((enum status)pg_get_int(rows, row, 6)),
                   cells.calls, code, cells.at, seq, cells.tenant});
    free_cells(&cells);
    free(code);
}

static void add_live(struct ctl_table *table, const PGresult *rows, int row)
{
    static const char *const STATES[] = {"", "ready", "begun", "waiting"};
    struct cells cells;
    read_cells(&cells, rows, row);
    const int64_t state = pg_get_int(rows, row, 6);
    const char *reason =
        pg_is_null(rows, row, 7)
            ? NULL
            : wait_reason_name((enum wait_reason)pg_get_int(rows, row, 7));
    ctl_table_add(table,
        (const char *[]){cells.id, cells.connector, cells.action,
            STATES[state & 3], reason, cells.calls, cells.at, cells.tenant});
    free_cells(&cells);
}

/* -- outcomes ----------------------------------------------------------------------- */

static void put_text(struct pg_params *params, const char *text)
{
    if (text != NULL)
        pg_param_text(params, span_of(text));
    else
        pg_param_null(params);
}

static void put_time(struct pg_params *params, int64_t at_us)
{
    if (at_us != 0)
        pg_param_time(params, at_us);
    else
        pg_param_null(params);
}

static void put_int2(struct pg_params *params, int value)
{
    if (value != 0)
        pg_param_int2(params, (int16_t)value);
    else
        pg_param_null(params);
}

/* One step back. The last row has no id: where the step ended, and whether
 * there may be more. */
static PGresult *look(PGconn *conn, const struct filter *filter, int64_t before,
    int64_t rows, int scan, int *code)
{
    struct pg_params params;
    pg_params_init(&params);
    put_text(&params, filter->tenant);
    put_int2(&params, (int)filter->status);
    pg_param_int8(&params, before);
    pg_param_int4(&params, (int32_t)rows);
    put_text(&params, filter->connector);
    put_text(&params, filter->action);
    put_text(&params, filter->code);
    put_time(&params, filter->since_us);
    put_time(&params, filter->until_us);
    pg_param_int4(&params, scan);
    PGresult *found = ctl_query(conn, SQL_CTL_ACTION_LIST, &params, code);
    pg_params_fini(&params);
    return found;
}

static int list_outcomes(
    struct ctl *ctl, PGconn *conn, const struct filter *filter)
{
    int code = CTL_DONE;
    int64_t before = filter->before_seq;
    int64_t left = filter->limit;
    int scan = FIRST_SCAN;
    bool has_more = true;
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    while (has_more && left > 0) {
        PGresult *rows = look(conn, filter, before, left, scan, &code);
        if (rows == NULL)
            break;
        const int last = pg_rows(rows) - 1;
        for (int row = 0; row < last; row++)
            add_outcome(table, rows, row);
        left -= last;
        has_more = pg_get_bool(rows, last, 9);
        before = left > 0 ? pg_get_int(rows, last, 8)
                          : pg_get_int(rows, last - 1, 8);
        scan = SCAN;
        PQclear(rows);
    }
    ctl_table_end(table);
    if (left == 0 && has_more && code == CTL_DONE && !ctl->is_json)
        fprintf(stderr, "More: --before %lld\n", (long long)before);
    return code;
}

/* -- unfinished ------------------------------------------------------------------------ */

static int list_live(struct ctl *ctl, PGconn *conn, const struct filter *filter)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    put_text(&params, filter->tenant);
    put_text(&params, filter->connector);
    put_text(&params, filter->action);
    put_int2(&params, filter->state);
    put_int2(&params, filter->reason);
    pg_param_uuid(&params, filter->after_id);
    pg_param_int4(&params, (int32_t)filter->limit);
    PGresult *rows = ctl_query(conn, SQL_CTL_LIVE_LIST, &params, &code);
    pg_params_fini(&params);
    struct ctl_table *table =
        ctl_table_new(ctl, LIVE_COLUMNS, ARRAY_LEN(LIVE_COLUMNS));
    const int count = rows != NULL ? pg_rows(rows) : 0;
    for (int row = 0; row < count; row++)
        add_live(table, rows, row);
    ctl_table_end(table);
    if (count == filter->limit && !ctl->is_json) {
        char id[UUID_TEXT_SIZE];
        uuid_format(pg_get_uuid(rows, count - 1, 0), id);
        fprintf(stderr, "More: --after %s\n", id);
    }
    PQclear(rows);
    return code;
}

/* -- the command ------------------------------------------------------------------------ */

struct words {
    const char *status;
    const char *state;
    const char *reason;
    const char *before;
    const char *after;
    const char *limit;
    const char *since;
    const char *until;
};

static int parse_live(const struct words *words, struct filter *filter)
{
    static const char *const STATES[] = {
        "unfinished", "ready", "begun", "waiting"};
    filter->is_live = words->state != NULL || words->reason != NULL;
    filter->state = words->state == NULL ? 0 : -1;
    for (int i = 0; words->state != NULL && i < (int)ARRAY_LEN(STATES); i++)
        if (strcmp(words->state, STATES[i]) == 0)
            filter->state = i;
    if (filter->state < 0)
        return ctl_fail(
            CTL_USAGE, "--state takes ready, begun, waiting or unfinished");
    for (int i = WAIT_RETRY; words->reason != NULL && i <= WAIT_NOT_BEFORE; i++)
        if (strcmp(words->reason, wait_reason_name((enum wait_reason)i)) == 0)
            filter->reason = i;
    if (words->reason != NULL && filter->reason == 0)
        return ctl_fail(
            CTL_USAGE, "--reason: nothing waits for '%s'", words->reason);
    if (words->after != NULL &&
        !uuid_parse(span_of(words->after), filter->after_id))
        return ctl_fail(CTL_USAGE, "--after takes an id");
    if (filter->is_live && (words->status != NULL || words->before != NULL ||
                               words->since != NULL || words->until != NULL ||
                               filter->code != NULL))
        return ctl_fail(CTL_USAGE,
            "--state and --reason list what is unfinished; --status, --code, "
            "--since, --until and --before are about outcomes");
    return CTL_DONE;
}

static int check_name(const char *option, const char *name)
{
    if (name != NULL && !name_is_valid(span_of(name)))
        return ctl_fail(CTL_USAGE, "--%s must be a name", option);
    return CTL_DONE;
}

static int parse(const struct words *words, struct filter *filter)
{
    enum code known = CODE_NONE;
    if (check_name("tenant", filter->tenant) != CTL_DONE ||
        check_name("connector", filter->connector) != CTL_DONE ||
        check_name("action", filter->action) != CTL_DONE)
        return CTL_USAGE;
    if (words->status != NULL &&
        !status_parse(span_of(words->status), &filter->status))
        return ctl_fail(CTL_USAGE, "--status: '%s' is not a terminal status",
            words->status);
    if (filter->code != NULL && !code_parse(span_of(filter->code), &known))
        return ctl_fail(
            CTL_USAGE, "--code: there is no code '%s'", filter->code);
    if (words->before != NULL &&
        !span_to_int(span_of(words->before), &filter->before_seq))
        return ctl_fail(CTL_USAGE, "--before takes a number");
    if (words->limit != NULL &&
        (!span_to_int(span_of(words->limit), &filter->limit) ||
            filter->limit < 1 || filter->limit > MAX_LIMIT))
        return ctl_fail(CTL_USAGE, "--limit takes 1 to %d", MAX_LIMIT);
    return parse_live(words, filter);
}

static int parse_times(
    PGconn *conn, const struct words *words, struct filter *filter)
{
    int64_t now_us = 0;
    if (words->since == NULL && words->until == NULL)
        return CTL_DONE;
    const int code = ctl_now(conn, &now_us);
    if (code != CTL_DONE)
        return code;
    if ((words->since != NULL &&
            !moment_parse(words->since, now_us, &filter->since_us)) ||
        (words->until != NULL &&
            !moment_parse(words->until, now_us, &filter->until_us)))
        return ctl_fail(CTL_USAGE,
            "--since and --until take a time of RFC 3339, or an age as 90s, "
            "15m, 2h, 7d");
    return CTL_DONE;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct filter filter = {
        .before_seq = INT64_MAX,
        .limit = DEFAULT_LIMIT,
    };
    struct words words = {.status = NULL};
    const struct ctl_option options[] = {
        {"tenant", "T", "only of this tenant", &filter.tenant, NULL},
        {"connector", "C", "only of this connector", &filter.connector, NULL},
        {"action", "A", "only of this action", &filter.action, NULL},
        {"status", "S", "succeeded, failed, exhausted, ...", &words.status,
            NULL},
        {"code", "CODE", "only with this error code", &filter.code, NULL},
        {"since", "WHEN", "ended since then: a time, or an age as 15m, 2h, 7d",
            &words.since, NULL},
        {"until", "WHEN", "ended before", &words.until, NULL},
        {"before", "SEQ", "the page after that one", &words.before, NULL},
        {"state", "S", "instead, what is ready, begun, waiting or unfinished",
            &words.state, NULL},
        {"reason", "R", "... waiting for retry, paused, not_before, ...",
            &words.reason, NULL},
        {"after", "ID", "... the page after that one", &words.after, NULL},
        {"limit", "N", "rows, 50 by default, 10000 at most", &words.limit,
            NULL},
    };
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_LIST, options, ARRAY_LEN(options), argc, argv,
            NULL, 0, &code) < 0)
        return code;
    code = parse(&words, &filter);
    if (code != CTL_DONE)
        return code;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    code = parse_times(conn, &words, &filter);
    if (code == CTL_DONE)
        code = filter.is_live ? list_live(ctl, conn, &filter)
                              : list_outcomes(ctl, conn, &filter);
    PQfinish(conn);
    return code;
}

const struct command COMMAND_LIST = {
    .name = "list",
    .arguments = "",
    .summary = "List outcomes, newest first, or what is unfinished",
    .details = NULL,
    .run = run,
};
