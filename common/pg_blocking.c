/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that block, and the check at start that is made of them. */
#include <string.h>

#include "common/pg_private.h"

/* No time-outs: a migration or a check over all rows may take long. */
static const char SQL_BLOCKING_SETTINGS[] =
    "SELECT set_config(name, value, false) FROM (VALUES"
    " ('search_path', 'actionist, pg_temp'), ('TimeZone', 'UTC'),"
    " ('default_transaction_isolation', 'read committed'),"
    " ('synchronous_commit', 'on')) AS setting (name, value)";

PGconn *pg_connect_blocking(
    const char *conninfo, const char *name, struct err *err)
{
    if (!pg_conninfo_is_valid(conninfo)) {
        (void)err_set(err, ERR_FATAL, "PG_CONNINFO",
            "the postgres connection string is not valid");
        return NULL;
    }
    PGconn *conn = pg_setup_connect_blocking(conninfo, name);
    if (PQstatus(conn) != CONNECTION_OK) {
        (void)pg_conn_error(conn, err);
        PQfinish(conn);
        return NULL;
    }
    static const struct pg_statement settings = {
        .name = "settings", .sql = SQL_BLOCKING_SETTINGS};
    PGresult *result = pg_query_blocking(conn, &settings, NULL, err);
    if (result == NULL) {
        PQfinish(conn);
        return NULL;
    }
    PQclear(result);
    return conn;
}

PGresult *pg_query_blocking(PGconn *conn, const struct pg_statement *statement,
    const struct pg_params *params, struct err *err)
{
    Oid types[PG_MAX_PARAMS];
    const char *values[PG_MAX_PARAMS];
    int sizes[PG_MAX_PARAMS];
    int formats[PG_MAX_PARAMS];
    const int count = params == NULL ? 0 : params->count;
    const char *bytes = params == NULL ? "" : buf_str(&params->bytes);
    if (params != NULL && params->bytes.is_overflowed) {
        (void)err_set(err, ERR_PERMANENT, "PG_TOO_LARGE",
            "%s: the parameters are too large", statement->name);
        return NULL;
    }
    for (int i = 0; params != NULL && i < count; i++) {
        types[i] = (Oid)statement->params[i];
        values[i] = params->is_null[i] ? NULL : bytes + params->start[i];
        sizes[i] = (int)params->size[i];
        formats[i] = 1;
    }
    PGresult *result = PQexecParams(
        conn, statement->sql, count, types, values, sizes, formats, 1);
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
        return result;
    }
    if (result == NULL) {
        (void)pg_conn_error(conn, err);
    } else {
        (void)pg_result_error(result, err);
    }
    (void)err_wrap(err, "%s", statement->name);
    PQclear(result);
    return NULL;
}

/* -- the check at start ---------------------------------------------------- */

static const struct pg_statement session_check = {
    .name = "session check",
    .sql = "SELECT pg_is_in_recovery()"
           " OR current_setting('transaction_read_only')::bool,"
           " current_setting('fsync') = 'off',"
           " pg_backend_pid()",
};
static const struct pg_statement version_check = {
    .name = "schema version",
    .sql = "SELECT coalesce(max(number), 0)::int8 FROM actionist.migration",
};

static int check_session(PGconn *conn, struct err *err)
{
    PGresult *result = pg_query_blocking(conn, &session_check, NULL, err);
    if (result == NULL) {
        return -1;
    }
    const bool is_read_only = pg_get_bool(result, 0, 0);
    const bool is_fsync_off = pg_get_bool(result, 0, 1);
    const int64_t pid = pg_get_int(result, 0, 2);
    PQclear(result);
    if (is_read_only) {
        return err_set(err, ERR_FATAL, "PG_READ_ONLY",
            "postgres is a standby or read only: name the primary, or list"
            " all hosts with target_session_attrs=read-write");
    }
    if (is_fsync_off) {
        return err_set(err, ERR_FATAL, "PG_NOT_DURABLE",
            "postgres runs with fsync=off, which loses acknowledged commits in"
            " a crash: set it to on");
    }
    if (pid != PQbackendPID(conn)) {
        return err_set(err, ERR_FATAL, "PG_POOLER",
            "a connection pooler stands in front of postgres: sessions and"
            " their locks need a direct connection");
    }
    return 0;
}

static int check_version(PGconn *conn, int64_t expected, struct err *err)
{
    struct err cause = ERR_INIT;
    PGresult *result = pg_query_blocking(conn, &version_check, NULL, &cause);
    if (result == NULL) {
        return err_set(err, ERR_FATAL, "PG_SCHEMA",
            "the schema version cannot be read (%s): run `actionist migrate`",
            cause.msg);
    }
    const int64_t version = pg_get_int(result, 0, 0);
    PQclear(result);
    if (version < expected) {
        return err_set(err, ERR_FATAL, "PG_SCHEMA",
            "the database has schema version %lld, this program needs %lld:"
            " run `actionist migrate`",
            (long long)version, (long long)expected);
    }
    if (version > expected) {
        return err_set(err, ERR_FATAL, "PG_SCHEMA",
            "the database has schema version %lld, this program knows only"
            " %lld: run a newer program",
            (long long)version, (long long)expected);
    }
    return 0;
}

int pg_check_start(
    const char *conninfo, int64_t expected_version, struct err *err)
{
    struct err cause = ERR_INIT;
    PGconn *conn = pg_connect_blocking(conninfo, "actionist check", &cause);
    if (conn == NULL) {
        return err_set(err, ERR_FATAL, cause.code,
            "postgres is not reachable (%s): check the setting postgres",
            cause.msg);
    }
    int rc = check_session(conn, err);
    if (rc == 0) {
        /* A pooler that hands out connections by transaction may give us the
         * same one once by chance. */
        rc = check_session(conn, err);
    }
    if (rc == 0) {
        rc = check_version(conn, expected_version, err);
    }
    if (rc != 0 && err != NULL) {
        err->class = ERR_FATAL;
    }
    PQfinish(conn);
    return rc;
}
