/* SPDX-License-Identifier: Apache-2.0 */
/*
 * migrate: applies schema/sql/ in order, each file in a transaction of its
 * own, under an advisory lock, and remembers number and checksum. A database
 * newer than this program, or one whose applied files differ from ours, is
 * refused.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "scheduler/ctl/commands.h"
#include "schema/migrations.h"

/* Two-number advisory locks of Actionist share the first number ("ACTI"). */
#define LOCK_SQL "select pg_advisory_lock(1095779393, 1)"

/* As long as it takes, and no notices about what exists already. */
static const char SESSION_SQL[] =
    "set lock_timeout = 0; set statement_timeout = 0;"
    "set client_min_messages = warning";

static const char PREPARE_SQL[] =
    "create schema if not exists actionist;"
    "set search_path = actionist, pg_temp;"
    "create table if not exists migration ("
    " number int primary key, name text not null, checksum text not null,"
    " applied_at timestamptz not null default clock_timestamp());"
    "grant usage on schema actionist to actionist_runtime;"
    "grant select on migration to actionist_runtime";

/* Says in one line what went wrong, if anything did. */
static int check_result(PGconn *conn, const PGresult *result, const char *what)
{
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return CTL_DONE;
    if (PQstatus(conn) != CONNECTION_OK)
        return ctl_fail(
            CTL_TRY_LATER, "%s: the connection to Postgres was lost", what);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    return ctl_fail(CTL_FAILED, "%s: %s", what,
        message != NULL ? message : "Postgres gave no reason");
}

static int exec_sql(PGconn *conn, const char *sql, const char *what)
{
    PGresult *result = PQexec(conn, sql);
    int code = check_result(conn, result, what);
    PQclear(result);
    return code;
}

static void checksum_of(const struct migration *migration, struct buf *out)
{
    uint8_t digest[SHA256_SIZE];
    sha256(span_of(migration->sql), digest);
    buf_clear(out);
    hex_put(out, (struct span){(const char *)digest, sizeof digest});
}

static int require_runtime_role(PGconn *conn)
{
    PGresult *result = PQexec(
        conn, "select 1 from pg_roles where rolname = 'actionist_runtime'");
    int code = check_result(conn, result, "roles");
    bool exists = PQntuples(result) == 1;
    PQclear(result);
    if (exists || code != CTL_DONE)
        return code;
    return ctl_fail(CTL_FAILED,
        "the role actionist_runtime does not exist; have a superuser run: "
        "create role actionist_runtime login password '...'");
}

/* Checks what is applied already; *applied is the highest number. */
static int check_applied(PGconn *conn, int *applied)
{
    struct buf checksum;
    buf_init(&checksum, 2 * SHA256_SIZE + 1);
    PGresult *result =
        PQexec(conn, "select number, checksum from migration order by number");
    int code = check_result(conn, result, "migrations applied");
    *applied = 0;
    for (int row = 0; row < PQntuples(result) && code == CTL_DONE; row++) {
        int number = (int)strtol(PQgetvalue(result, row, 0), NULL, 10);
        if (number < 1 || (size_t)number > MIGRATION_COUNT) {
            code = ctl_fail(CTL_CONFLICT,
                "the database has migration %d, this program knows up to %zu: "
                "use a newer actionist",
                number, MIGRATION_COUNT);
            break;
        }
        checksum_of(&MIGRATIONS[number - 1], &checksum);
        if (strcmp(buf_str(&checksum), PQgetvalue(result, row, 1)) != 0)
            code = ctl_fail(CTL_CONFLICT,
                "migration %d of the database is not the one of this program "
                "(checksums differ)",
                number);
        *applied = number;
    }
    PQclear(result);
    buf_fini(&checksum);
    return code;
}

static int record_applied(PGconn *conn, const struct migration *migration)
{
    struct buf checksum;
    buf_init(&checksum, 2 * SHA256_SIZE + 1);
    checksum_of(migration, &checksum);
    char number[16];
    snprintf(number, sizeof number, "%d", migration->number);
    const char *values[] = {number, migration->name, buf_str(&checksum)};
    PGresult *result = PQexecParams(conn,
        "insert into migration (number, name, checksum) values ($1, $2, $3)", 3,
        NULL, values, NULL, NULL, 0);
    int code = check_result(conn, result, migration->name);
    PQclear(result);
    buf_fini(&checksum);
    return code;
}

static int apply(PGconn *conn, const struct migration *migration)
{
    int code = exec_sql(conn, "begin", "begin");
    if (code == CTL_DONE)
        code = exec_sql(conn, migration->sql, migration->name);
    if (code == CTL_DONE)
        code = record_applied(conn, migration);
    if (code == CTL_DONE)
        return exec_sql(conn, "commit", migration->name);
    (void)exec_sql(conn, "rollback", "rollback"); /* reported already */
    return code;
}

static int migrate(struct ctl *ctl, PGconn *conn)
{
    int applied = 0;
    int code = require_runtime_role(conn);
    if (code == CTL_DONE)
        code = exec_sql(conn, SESSION_SQL, "settings");
    if (code == CTL_DONE)
        code = exec_sql(conn, LOCK_SQL, "lock");
    if (code == CTL_DONE)
        code = exec_sql(conn, PREPARE_SQL, "prepare");
    if (code == CTL_DONE)
        code = check_applied(conn, &applied);

    static const char *const columns[] = {"number", "name", "state"};
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < MIGRATION_COUNT && code == CTL_DONE; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", MIGRATIONS[i].number);
        bool is_new = MIGRATIONS[i].number > applied;
        if (is_new)
            code = apply(conn, &MIGRATIONS[i]);
        if (code == CTL_DONE)
            ctl_table_add(table, (const char *[]){number, MIGRATIONS[i].name,
                                     is_new ? "applied" : "there already"});
    }
    ctl_table_end(table);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    int code = CTL_DONE;
    if (ctl_options(
            ctl, &COMMAND_MIGRATE, NULL, 0, argc, argv, NULL, 0, &code) < 0)
        return code;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    code = migrate(ctl, conn);
    PQfinish(conn);
    return code;
}

const struct command COMMAND_MIGRATE = {
    .name = "migrate",
    .arguments = "",
    .summary = "Bring the database to the schema of this program",
    .details = "Needs the role that owns the database (setting postgres.owner) "
               "and an\n"
               "existing role actionist_runtime. Safe to run twice and from "
               "two places.",
    .run = run,
};
