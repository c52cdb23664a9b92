/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel: ends one action, or all unfinished ones of a tenant, before they
 * start or before they are tried again. A call that runs is left to end.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/signal.h"
#include "schema/cancel.h"
#include "schema/record.h"
#include "schema/sql_ctl.h"

enum { PAGE = 1000 };

static const char *const COLUMNS[] = {"id", "state"};

/* Ids of one statement; the texts are for the signals. */
struct page {
    uint8_t ids[PAGE][UUID_SIZE];
    char texts[PAGE][UUID_TEXT_SIZE];
    const char *told[PAGE]; /* of texts: newly marked */
    size_t told_count;
    size_t count;
};

/* -- one statement ------------------------------------------------------------- */

static PGresult *mark(
    PGconn *conn, const struct page *page, const char *tenant, int *code)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_array_begin(&params, PG_UUID);
    for (size_t i = 0; i < page->count; i++)
        pg_array_bytes(
            &params, (struct span){(const char *)page->ids[i], UUID_SIZE});
    pg_array_end(&params);
    if (tenant != NULL)
        pg_param_text(&params, span_of(tenant));
    else
        pg_param_null(&params);
    pg_param_bytea(&params, SPAN_LIT("{}"));
    ctl_put_actor(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_CANCEL, &params, code);
    pg_params_fini(&params);
    return rows;
}

static struct cancel_row read_row(
    const PGresult *rows, int row, const char *tenant)
{
    bool is_known = !pg_is_null(rows, row, CANCEL_TENANT);
    if (is_known && tenant != NULL)
        is_known = span_is(pg_get_bytes(rows, row, CANCEL_TENANT), tenant);
    return (struct cancel_row){
        .is_known = is_known,
        .is_taken = pg_get_bool(rows, row, CANCEL_IS_TAKEN),
        .is_marked = pg_get_bool(rows, row, CANCEL_IS_MARKED),
        .is_open = pg_get_bool(rows, row, CANCEL_IS_OPEN),
        .status = pg_is_null(rows, row, CANCEL_STATUS)
                      ? (enum status)0
                      : (enum status)pg_get_int(rows, row, CANCEL_STATUS),
    };
}

static void add_told(struct page *page, const uint8_t *id)
{
    char *text = page->texts[page->told_count];
    uuid_format(id, text);
    page->told[page->told_count++] = text;
}

static void print_state(
    struct ctl_table *table, const uint8_t *id, const char *state)
{
    char text[UUID_TEXT_SIZE];
    uuid_format(id, text);
    ctl_table_add(table, (const char *[]){text, state});
}

/* -- one action ------------------------------------------------------------------ */

static int say(const struct cancel_row *row, const char *id)
{
    switch (cancel_judge(row)) {
    case CANCEL_UNDER_WAY:
    case CANCEL_DONE:
        return CTL_DONE;
    case CANCEL_TOO_LATE:
        return ctl_fail(CTL_CONFLICT, "%s has ended already: %s", id,
            status_name(row->status));
    case CANCEL_UNKNOWN:
        return ctl_fail(CTL_NOT_FOUND, "no action %s", id);
    case CANCEL_NOT_YET:
        return ctl_fail(CTL_TRY_LATER,
            "%s is accepted, but no worker has it yet; try again", id);
    case CANCEL_AGAIN:
    default:
        return ctl_fail(CTL_TRY_LATER, "%s moves all the time; try again", id);
    }
}

static int cancel_one(
    struct ctl *ctl, PGconn *conn, struct page *page, const char *tenant)
{
    int code = CTL_DONE;
    struct cancel_row row = {.is_known = false};
    enum cancel_word word = CANCEL_AGAIN;
    char id[UUID_TEXT_SIZE];
    page->count = 1;
    uuid_format(page->ids[0], id);
    for (int tries = 0; tries < CANCEL_TRIES && word == CANCEL_AGAIN; tries++) {
        PGresult *rows = mark(conn, page, tenant, &code);
        if (rows == NULL)
            return code;
        row = read_row(rows, 0, tenant);
        word = cancel_judge(&row);
        PQclear(rows);
    }
    code = say(&row, id);
    if (row.is_taken)
        ctl_signal(ctl, "cancel", id);
    if (code == CTL_DONE) {
        struct ctl_table *table =
            ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
        print_state(table, page->ids[0],
            word == CANCEL_DONE ? "cancelled" : "cancelling");
        ctl_table_end(table);
    }
    return code;
}

/* -- a tenant's ---------------------------------------------------------------------- */

struct filter {
    const char *tenant;
    const char *connector; /* NULL: any */
    bool is_dry_run;
};

/* The next page by id. False: an error was printed. */
static bool read_page(PGconn *conn, struct page *page,
    const struct filter *filter, const uint8_t *after, int *code)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(filter->tenant));
    if (filter->connector != NULL)
        pg_param_text(&params, span_of(filter->connector));
    else
        pg_param_null(&params);
    pg_param_uuid(&params, after);
    pg_param_int4(&params, PAGE);
    PGresult *rows = ctl_query(conn, SQL_CTL_UNFINISHED, &params, code);
    pg_params_fini(&params);
    if (rows == NULL)
        return false;
    page->count = (size_t)pg_rows(rows);
    for (size_t i = 0; i < page->count; i++)
        memcpy(page->ids[i], pg_get_uuid(rows, (int)i, 0), UUID_SIZE);
    PQclear(rows);
    return true;
}

static int cancel_page(struct ctl *ctl, PGconn *conn, struct page *page,
    const struct filter *filter, struct ctl_table *table)
{
    int code = CTL_DONE;
    page->told_count = 0;
    PGresult *rows =
        filter->is_dry_run ? NULL : mark(conn, page, filter->tenant, &code);
    for (int i = 0; i < (filter->is_dry_run ? (int)page->count : 0); i++)
        print_state(table, page->ids[i], "would be cancelled");
    for (int i = 0; i < (rows != NULL ? pg_rows(rows) : 0); i++) {
        const uint8_t *id = pg_get_uuid(rows, i, CANCEL_ID);
        if (!pg_get_bool(rows, i, CANCEL_IS_TAKEN))
            continue; /* it moved on or ended meanwhile */
        add_told(page, id);
        print_state(table, id, "cancelling");
    }
    PQclear(rows);
    ctl_signal_all(ctl, "cancel", page->told, page->told_count);
    return code;
}

static int cancel_tenant(struct ctl *ctl, PGconn *conn, struct page *page,
    const struct filter *filter)
{
    int code = CTL_DONE;
    uint8_t after[UUID_SIZE] = {0};
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    do {
        if (!read_page(conn, page, filter, after, &code) || page->count == 0)
            break;
        memcpy(after, page->ids[page->count - 1], UUID_SIZE);
        code = cancel_page(ctl, conn, page, filter, table);
    } while (code == CTL_DONE && page->count == PAGE);
    size_t count = ctl_table_end(table);
    if (!ctl->is_json && code == CTL_DONE)
        fprintf(stderr, "%zu actions %s\n", count,
            filter->is_dry_run ? "would be cancelled" : "are being cancelled");
    return code;
}

/* -- the command ----------------------------------------------------------------------- */

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct filter filter = {NULL, NULL, false};
    const struct ctl_option options[] = {
        {"tenant", "T",
            "all unfinished ones of a tenant; with an id: only if "
            "it is the tenant's",
            &filter.tenant, NULL},
        {"connector", "C", "with --tenant: only of this connector",
            &filter.connector, NULL},
        {"dry-run", NULL, "with --tenant: only list them", NULL,
            &filter.is_dry_run},
    };
    const char *rest[1] = {NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_CANCEL, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    if (filter.tenant != NULL && !name_is_valid(span_of(filter.tenant)))
        return ctl_fail(CTL_USAGE, "--tenant must be a name");
    if (rest[0] == NULL && filter.tenant == NULL)
        return ctl_fail(CTL_USAGE, "cancel takes an id, or --tenant");
    if (rest[0] != NULL && (filter.connector != NULL || filter.is_dry_run))
        return ctl_fail(
            CTL_USAGE, "--connector and --dry-run go with --tenant alone");
    struct page *page = mem_zalloc(1, sizeof *page);
    PGconn *conn = NULL;
    if (rest[0] != NULL && !uuid_parse(span_of(rest[0]), page->ids[0]))
        code = ctl_fail(CTL_USAGE, "'%s' is not an action id", rest[0]);
    else
        conn = ctl_connect(ctl, &code);
    if (conn != NULL)
        code = rest[0] != NULL ? cancel_one(ctl, conn, page, filter.tenant)
                               : cancel_tenant(ctl, conn, page, &filter);
    PQfinish(conn);
    free(page);
    return code;
}

const struct command COMMAND_CANCEL = {
    .name = "cancel",
    .arguments = "[ID]",
    .summary = "End actions before they start or are tried again",
    .details = "A call that runs is left to end, and its result decides. Exit "
               "code 5 if the\naction has ended otherwise already.",
    .run = run,
};
