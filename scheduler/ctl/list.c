/* SPDX-License-Identifier: Apache-2.0 */
/* list: the outcomes of one tenant, newest first, in pages by seq. */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "schema/codes.h"
#include "schema/record.h"
#include "schema/sql_ctl.h"

#define DEFAULT_LIMIT 50
#define MAX_LIMIT 10000

static const char *const COLUMNS[] = {"id", "connector", "action", "status",
    "attempts", "error_code", "finished_at", "seq"};

static void add_row(struct ctl_table *table, const PGresult *result, int row)
{
    char id[UUID_TEXT_SIZE];
    char finished[TIME_TEXT_SIZE];
    char attempts[24];
    char seq[24];
    char *connector = span_dup(pg_get_bytes(result, row, 2));
    char *action = span_dup(pg_get_bytes(result, row, 3));
    char *code = pg_is_null(result, row, 7)
                     ? NULL
                     : span_dup(pg_get_bytes(result, row, 7));
    uuid_format(pg_get_uuid(result, row, 1), id);
    time_format_rfc3339(pg_get_time(result, row, 6), finished);
    snprintf(attempts, sizeof attempts, "%lld",
        (long long)pg_get_int(result, row, 5));
    snprintf(seq, sizeof seq, "%lld", (long long)pg_get_int(result, row, 0));
    ctl_table_add(
        table, (const char *[]){id, connector, action,
                   status_name((enum status)pg_get_int(result, row, 4)),
                   attempts, code, finished, seq});
    free(connector);
    free(action);
    free(code);
}

struct filter {
    const char *tenant;
    enum status status; /* 0: any */
    int64_t before_seq;
    int64_t limit;
};

static int list(struct ctl *ctl, const struct filter *filter)
{
    int code = CTL_DONE;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(filter->tenant));
    if (filter->status != 0)
        pg_param_int2(&params, (int16_t)filter->status);
    else
        pg_param_null(&params);
    pg_param_int8(&params, filter->before_seq);
    pg_param_int4(&params, (int32_t)filter->limit);
    PGresult *result = ctl_query(conn, SQL_CTL_ACTION_LIST, &params, &code);
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    int rows = result != NULL ? pg_rows(result) : 0;
    for (int row = 0; row < rows; row++)
        add_row(table, result, row);
    ctl_table_end(table);
    if (rows == filter->limit && !ctl->is_json)
        fprintf(stderr, "More: --before %lld\n",
            (long long)pg_get_int(result, rows - 1, 0));
    PQclear(result);
    pg_params_fini(&params);
    PQfinish(conn);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct filter filter = {
        .before_seq = INT64_MAX,
        .limit = DEFAULT_LIMIT,
    };
    const char *status = NULL;
    const char *before = NULL;
    const char *limit = NULL;
    const struct ctl_option options[] = {
        {"tenant", "T", "whose actions; required", &filter.tenant, NULL},
        {"status", "S", "succeeded, failed, exhausted, ...", &status, NULL},
        {"before", "SEQ", "the page after that one", &before, NULL},
        {"limit", "N", "rows, 50 by default, 10000 at most", &limit, NULL},
    };
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_LIST, options, ARRAY_LEN(options), argc, argv,
            NULL, 0, &code) < 0)
        return code;
    if (filter.tenant == NULL || !name_is_valid(span_of(filter.tenant)))
        return ctl_fail(CTL_USAGE, "--tenant is required and must be a name");
    if (status != NULL && !status_parse(span_of(status), &filter.status))
        return ctl_fail(
            CTL_USAGE, "--status: '%s' is not a terminal status", status);
    if (before != NULL && !span_to_int(span_of(before), &filter.before_seq))
        return ctl_fail(CTL_USAGE, "--before takes a number");
    if (limit != NULL && (!span_to_int(span_of(limit), &filter.limit) ||
                             filter.limit < 1 || filter.limit > MAX_LIMIT))
        return ctl_fail(CTL_USAGE, "--limit takes 1 to %d", MAX_LIMIT);
    return list(ctl, &filter);
}

const struct command COMMAND_LIST = {
    .name = "list",
    .arguments = "--tenant T",
    .summary = "List the outcomes of a tenant, newest first",
    .details = NULL,
    .run = run,
};
