/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with Postgres, in a session as the programs have it. */
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/doctor.h"
#include "schema/migrations.h"
#include "schema/sql_doctor.h"

/* More than the way there and back may take. */
#define SKEW_US (2 * US_PER_S)

/* Each row is a finding; an error is one as well. */
static void ask(struct doctor *doctor, PGconn *conn,
    const struct pg_statement *statement, const struct pg_params *params)
{
    struct err err = ERR_INIT;
    PGresult *rows = pg_query_blocking(conn, statement, params, &err);
    if (rows == NULL) {
        doctor_find(doctor, statement->name, "cannot be seen: %s", err.msg);
        return;
    }
    for (int row = 0; row < pg_rows(rows); row++) {
        char *text = span_dup(pg_get_bytes(rows, row, 0));
        doctor_find(doctor, statement->name, "%s", text);
        free(text);
    }
    PQclear(rows);
}

/* A pooler may hand out another server session for each transaction. */
static void check_session(struct doctor *doctor, PGconn *conn)
{
    struct err err = ERR_INIT;
    for (int i = 0; i < 2; i++) {
        const int64_t before_us = now_wall_us();
        PGresult *rows = pg_query_blocking(conn, &SQL_DOCTOR_CLOCK, NULL, &err);
        const int64_t after_us = now_wall_us();
        if (rows == NULL) {
            doctor_find(doctor, "pg-reachable", "%s", err.msg);
            return;
        }
        const int64_t theirs_us = pg_get_time(rows, 0, 0);
        const int64_t pid = pg_get_int(rows, 0, 1);
        PQclear(rows);
        if (pid != PQbackendPID(conn)) {
            doctor_find(doctor, "pg-pooler",
                "the server's session is not the one that was connected to");
            return;
        }
        if (i > 0 &&
            (theirs_us < before_us - SKEW_US || theirs_us > after_us + SKEW_US))
            doctor_find(doctor, "pg-clock",
                "the server's clock is %lld ms from this machine's",
                (long long)((theirs_us - before_us) / US_PER_MS));
    }
}

/* False: there is nothing that one could look at. */
static bool check_schema(struct doctor *doctor, PGconn *conn)
{
    struct err err = ERR_INIT;
    PGresult *rows = pg_query_blocking(conn, &SQL_DOCTOR_VERSION, NULL, &err);
    if (rows == NULL) {
        doctor_find(doctor, "pg-schema",
            "there is none that the programs could read: %s", err.msg);
        return false;
    }
    const long long version = (long long)pg_get_int(rows, 0, 0);
    PQclear(rows);
    if (version != SCHEMA_VERSION)
        doctor_find(doctor, "pg-schema",
            "the database has version %lld, this command %d: %s", version,
            SCHEMA_VERSION, version < SCHEMA_VERSION ? "older" : "newer");
    return version >= SCHEMA_VERSION;
}

static void check_master_key(struct doctor *doctor, PGconn *conn)
{
    struct err err = ERR_INIT;
    const char *file =
        doctor_setting(doctor, DOCTOR_PRODUCER, "webhooks.master_key_file");
    PGresult *rows = pg_query_blocking(conn, &SQL_DOCTOR_SOURCES, NULL, &err);
    if (rows != NULL && pg_get_int(rows, 0, 0) > 0 && file != NULL &&
        file[0] == '\0')
        doctor_find(doctor, "settings-master-key",
            "there are %lld sources of webhooks, and the producer has no "
            "master key",
            (long long)pg_get_int(rows, 0, 0));
    PQclear(rows);
}

static void check_all(struct doctor *doctor, PGconn *conn)
{
    struct pg_params params;
    check_session(doctor, conn);
    for (size_t i = 0; i < SQL_DOCTOR_COUNT; i++)
        ask(doctor, conn, &SQL_DOCTOR[i], NULL);
    pg_params_init(&params);
    pg_param_int4(&params, doctor->idle_s);
    ask(doctor, conn, &SQL_DOCTOR_IDLE, &params);
    pg_params_fini(&params);
    if (!check_schema(doctor, conn))
        return;
    for (size_t i = 0; i < SQL_DOCTOR_SCHEMA_COUNT; i++)
        ask(doctor, conn, &SQL_DOCTOR_SCHEMA[i], NULL);
    check_master_key(doctor, conn);
}

void doctor_postgres(struct doctor *doctor)
{
    struct err err = ERR_INIT;
    const char *conninfo = conf_text(doctor->ctl->conf, "postgres");
    if (conninfo == NULL || conninfo[0] == '\0') {
        doctor_find(doctor, "pg-reachable", "the setting postgres is empty");
        return;
    }
    PGconn *conn = pg_connect_blocking(conninfo, "actionist doctor", &err);
    if (conn == NULL) {
        const bool is_read_only = strstr(err.msg, "read-only") != NULL ||
                                  strstr(err.msg, "standby") != NULL;
        doctor_find(doctor, is_read_only ? "pg-primary" : "pg-reachable", "%s",
            err.msg);
        return;
    }
    check_all(doctor, conn);
    PQfinish(conn);
}
