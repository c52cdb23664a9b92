/* SPDX-License-Identifier: Apache-2.0 */
/* webhook retention: for how long a tenant's deliveries are kept. */
#include <inttypes.h>

#include "scheduler/ctl/webhook_verbs.h"
#include "schema/record.h"
#include "schema/sql_ctl.h"

#define MAX_DAYS 3650

static int set(PGconn *conn, const char *tenant, int64_t days)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(tenant));
    pg_param_int4(&params, (int32_t)days);
    PGresult *result = ctl_query(conn, SQL_CTL_HOOK_KEEP, &params, &code);
    PQclear(result);
    pg_params_fini(&params);
    return code;
}

static int show(struct ctl *ctl, PGconn *conn, const char *tenant)
{
    static const char *const columns[] = {"tenant", "days_count"};
    int code = CTL_DONE;
    char days[24];
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(tenant));
    PGresult *rows = ctl_query(conn, SQL_CTL_HOOK_KEPT, &params, &code);
    if (rows != NULL) {
        struct ctl_table *table =
            ctl_table_new(ctl, columns, ARRAY_LEN(columns));
        snprintf(days, sizeof days, "%" PRId64, pg_get_int(rows, 0, 0));
        ctl_table_add(table, (const char *[]){tenant, days});
        ctl_table_end(table);
    }
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

static const struct command COMMAND_RETENTION = {
    .name = "webhook retention",
    .arguments = "--tenant T [--days N]",
    .summary = "Say for how long a tenant's deliveries are kept for look-up",
    .details =
        "30 days unless said otherwise, and up to a third longer, since whole\n"
        "partitions are dropped. Counts for what comes from now on. How long "
        "the topic\nkeeps them is a setting of Kafka.",
};

int webhook_retention_run(struct ctl *ctl, int argc, char **argv)
{
    const char *tenant = NULL;
    const char *days = NULL;
    const struct ctl_option options[] = {
        {"tenant", "T", "whose", &tenant, NULL},
        {"days", "N", "from 1 to 3650; without it, shown", &days, NULL},
    };
    const char *rest[1];
    int64_t number = 0;
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_RETENTION, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    if (tenant == NULL || !name_is_valid(span_of(tenant)))
        return ctl_fail(CTL_USAGE, "--tenant is required and must be a name");
    if (days != NULL && (!span_to_int(span_of(days), &number) || number < 1 ||
                            number > MAX_DAYS))
        return ctl_fail(CTL_USAGE, "--days takes 1 to %d", MAX_DAYS);
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    if (days != NULL)
        code = set(conn, tenant, number);
    if (code == CTL_DONE)
        code = show(ctl, conn, tenant);
    PQfinish(conn);
    return code;
}
