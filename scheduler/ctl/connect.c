/* SPDX-License-Identifier: Apache-2.0 */
/* connect: the command's settings and its connection to Postgres. */
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "scheduler/ctl/ctl.h"
#include "schema/sql_ctl.h"

const struct conf_setting CTL_SETTINGS[] = {
    {"postgres.owner", CONF_CONNINFO, "", 0, 0,
        "conninfo of the role that owns the tables (migrate, key, connector); "
        "empty: use postgres"},
    {"connector.allow_unsigned", CONF_BOOL, "false", 0, 0,
        "connector add: take manifests without a signature, as local clusters "
        "do"},
    {"webhooks.master_key_file", CONF_PATH, "", 0, 0,
        "webhook source add, rotate: master keys that secrets are sealed "
        "with, lines of NUMBER:BASE64; the producer's own file"},
};
const size_t CTL_SETTINGS_COUNT = ARRAY_LEN(CTL_SETTINGS);

PGconn *ctl_connect(struct ctl *ctl, int *exit_code)
{
    struct err err = ERR_INIT;
    const char *conninfo = conf_text(ctl->conf, "postgres.owner");
    if (conninfo[0] == '\0')
        conninfo = conf_text(ctl->conf, "postgres");
    if (conninfo == NULL || conninfo[0] == '\0') {
        *exit_code = ctl_fail(CTL_USAGE,
            "no database: set ACTIONIST_POSTGRES (or --set postgres=...) to a "
            "connection string");
        return NULL;
    }
    PGconn *conn = pg_connect_blocking(conninfo, "actionist", &err);
    if (conn == NULL)
        *exit_code = ctl_fail_err(&err);
    return conn;
}

/* Whoever became root by sudo is still known by name. */
void ctl_actor(struct buf *out)
{
    const char *name = getenv("SUDO_USER");
    const struct passwd *entry = getpwuid(getuid());
    if (name == NULL || name[0] == '\0')
        name = entry != NULL ? entry->pw_name : "unknown";
    buf_printf(out, "operator:%.64s", name);
}

void ctl_put_actor(struct pg_params *params)
{
    struct buf actor;
    buf_init(&actor, 512);
    ctl_actor(&actor);
    pg_param_text(params, buf_span(&actor));
    buf_fini(&actor);
}

PGresult *ctl_query(
    PGconn *conn, int statement, struct pg_params *params, int *exit_code)
{
    struct err err = ERR_INIT;
    PGresult *result =
        pg_query_blocking(conn, &SQL_CTL[statement], params, &err);
    if (result == NULL)
        *exit_code = ctl_fail_err(&err);
    return result;
}

int ctl_now(PGconn *conn, int64_t *now_us)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_NOW, &params, &code);
    if (rows != NULL)
        *now_us = pg_get_time(rows, 0, 0);
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}
