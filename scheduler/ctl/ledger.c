/* SPDX-License-Identifier: Apache-2.0 */
/* ledger: the whole of it for other programs, and how long it is kept. */
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/entries.h"
#include "scheduler/ctl/story.h"
#include "schema/record.h"

#define MAX_DAYS 3650

static const char *const COLUMNS[] = {"tenant", "days_count", "changed_at"};

/* -- export ---------------------------------------------------------------------- */

static bool export_one(void *owner, const PGresult *rows, int row)
{
    (void)owner;
    story_print_entry(rows, row);
    return ferror(stdout) == 0;
}

static const struct command EXPORT;
static const struct command KEEP;

static int run_export(struct ctl *ctl, int argc, char **argv)
{
    struct entries_words words = {.tenant = NULL};
    struct entries_query query = {.kind = -1};
    const struct ctl_option options[] = {ENTRIES_OPTIONS(words)};
    int code = CTL_DONE;
    if (ctl_options(ctl, &EXPORT, options, ARRAY_LEN(options), argc, argv, NULL,
            0, &code) < 0)
        return code;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    code = entries_parse(conn, &words, 0, &query);
    if (code == CTL_DONE)
        code = entries_read(conn, &query, export_one, NULL);
    PQfinish(conn);
    return code;
}

/* -- keep ------------------------------------------------------------------------- */

static int list_kept(struct ctl *ctl, PGconn *conn)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_KEEP_LIST, &params, &code);
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    for (int row = 0; row < (rows != NULL ? pg_rows(rows) : 0); row++) {
        char days[24];
        char changed[TIME_TEXT_SIZE];
        char *tenant = span_dup(pg_get_bytes(rows, row, 0));
        snprintf(
            days, sizeof days, "%lld", (long long)pg_get_int(rows, row, 1));
        time_format_rfc3339(pg_get_time(rows, row, 2), changed);
        ctl_table_add(table, (const char *[]){tenant, days, changed});
        free(tenant);
    }
    ctl_table_end(table);
    if (rows != NULL && !ctl->is_json)
        fputs("All other tenants: 90 days.\n", stderr);
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

static int keep(PGconn *conn, const char *tenant, int64_t days)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(tenant));
    pg_param_int4(&params, (int32_t)days);
    ctl_put_actor(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_KEEP, &params, &code);
    if (rows != NULL && !pg_get_bool(rows, 0, 0))
        code = ctl_fail(CTL_CONFLICT,
            "tenants use 12 different numbers of days already; take one of "
            "those that `actionist ledger keep` lists");
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

static int run_keep(struct ctl *ctl, int argc, char **argv)
{
    const char *tenant = NULL;
    const char *days_text = NULL;
    int64_t days = 0;
    const struct ctl_option options[] = {
        {"tenant", "T", "whose entries", &tenant, NULL},
        {"days", "N", "1 to 3650; from now on, by whole months", &days_text,
            NULL},
    };
    int code = CTL_DONE;
    if (ctl_options(ctl, &KEEP, options, ARRAY_LEN(options), argc, argv, NULL,
            0, &code) < 0)
        return code;
    if ((tenant == NULL) != (days_text == NULL))
        return ctl_fail(CTL_USAGE, "--tenant and --days go together");
    if (tenant != NULL && !name_is_valid(span_of(tenant)))
        return ctl_fail(CTL_USAGE, "--tenant must be a name");
    if (days_text != NULL && (!span_to_int(span_of(days_text), &days) ||
                                 days < 1 || days > MAX_DAYS))
        return ctl_fail(CTL_USAGE, "--days takes 1 to %d", MAX_DAYS);
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    if (tenant != NULL)
        code = keep(conn, tenant, days);
    if (code == CTL_DONE)
        code = list_kept(ctl, conn);
    PQfinish(conn);
    return code;
}

/* -- the command -------------------------------------------------------------------- */

static const struct command EXPORT = {
    .name = "ledger export",
    .arguments = "",
    .summary = "Print every entry of the ledger as one JSON object a line",
    .details = "Oldest first; an outcome is the entry of its last attempt.",
    .run = run_export,
};

static const struct command KEEP = {
    .name = "ledger keep",
    .arguments = "[--tenant T --days N]",
    .summary = "Say how long a tenant's entries are kept, or list the wishes",
    .details = "Whole months go, once their last entry is that old.",
    .run = run_keep,
};

static int run(struct ctl *ctl, int argc, char **argv)
{
    const char *rest[1] = {NULL};
    int code = CTL_DONE;
    if (argc > 1 && strcmp(argv[1], "export") == 0)
        return EXPORT.run(ctl, argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "keep") == 0)
        return KEEP.run(ctl, argc - 1, argv + 1);
    if (ctl_options(ctl, &COMMAND_LEDGER, NULL, 0, argc, argv, rest,
            ARRAY_LEN(rest), &code) < 0)
        return code;
    return ctl_fail(CTL_USAGE, "ledger takes export or keep");
}

const struct command COMMAND_LEDGER = {
    .name = "ledger",
    .arguments = "export|keep",
    .summary = "Export the ledger, or say how long it is kept",
    .details = "  ledger export  every entry as one JSON object a line\n"
               "  ledger keep    for how long a tenant's entries are kept\n\n"
               "`actionist ledger VERB --help` tells more.",
    .run = run,
};
