/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fresh session is told and asked, in one round trip: settings, is this
 * the primary, the caller's own statement, and every prepare. Settings go as
 * statements and not as start-up options, which poolers drop.
 */
#include <stdlib.h>
#include <string.h>

#include "common/pg_private.h"

enum { CONNECT_DEADLINE_MS = 5000, NEXT_HOST_MS = 10000, CHECK_RESULT = 1 };

static const char SQL_CHECK[] =
    "SELECT pg_is_in_recovery()"
    " OR current_setting('transaction_read_only')::bool";

/* What stands before dbname gives way to the conninfo, what stands behind
 * overrides it. */
static const char *const names[] = {"connect_timeout", "tcp_user_timeout",
    "keepalives_idle", "keepalives_interval", "keepalives_count",
    "target_session_attrs", "dbname", "application_name", "client_encoding",
    NULL};

static PGconn *connect_with(PGconn *(*connect)(const char *const *names,
                                const char *const *values, int expand_dbname),
    const char *conninfo, const char *name)
{
    const char *const values[] = {"3", "10000", "10", "3", "3", "read-write",
        conninfo, name, "UTF8", NULL};
    _Static_assert(ARRAY_LEN(names) == ARRAY_LEN(values), "a value a name");
    return connect(names, values, 1);
}

PGconn *pg_setup_connect(const char *conninfo, const char *name)
{
    return connect_with(PQconnectStartParams, conninfo, name);
}

PGconn *pg_setup_connect_blocking(const char *conninfo, const char *name)
{
    return connect_with(PQconnectdbParams, conninfo, name);
}

bool pg_conninfo_is_valid(const char *conninfo)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    const bool is_valid = options != NULL;
    PQconninfoFree(options);
    return is_valid;
}

int64_t pg_setup_deadline_ms(const struct pg *pg)
{
    PQconninfoOption *options = PQconninfoParse(pg->conninfo, NULL);
    int64_t wait_ms = CONNECT_DEADLINE_MS;
    for (const PQconninfoOption *option = options;
         option != NULL && option->keyword != NULL; option++) {
        if (strcmp(option->keyword, "host") != 0 || option->val == NULL) {
            continue;
        }
        /* A host that drops packets costs us its tcp_user_timeout. */
        const char *comma = strchr(option->val, ',');
        for (; comma != NULL; comma = strchr(comma + 1, ',')) {
            wait_ms += NEXT_HOST_MS;
        }
    }
    PQconninfoFree(options);
    return wait_ms;
}

static bool send_prepares(struct pg *pg)
{
    static const struct {
        const char *name;
        const char *sql;
    } own[] = {
        {PG_STATEMENT_BEGIN, "BEGIN"},
        {PG_STATEMENT_COMMIT, "COMMIT"},
        {PG_STATEMENT_ROLLBACK, "ROLLBACK"},
    };
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        if (PQsendPrepare(pg->conn, own[i].name, own[i].sql, 0, NULL) != 1) {
            return false;
        }
    }
    for (int i = 0; i < pg->options.statement_count; i++) {
        const struct pg_statement *statement = &pg->options.statements[i];
        Oid types[PG_MAX_PARAMS];
        for (int k = 0; k < statement->param_count; k++) {
            types[k] = (Oid)statement->params[k];
        }
        if (PQsendPrepare(pg->conn, statement->name, statement->sql,
                statement->param_count, types) != 1) {
            return false;
        }
    }
    return true;
}

static bool send_query(struct pg *pg, const char *sql)
{
    return PQsendQueryParams(pg->conn, sql, 0, NULL, NULL, NULL, NULL, 1) == 1;
}

int pg_setup_send(struct pg *pg, struct err *err)
{
    pg->setup_seen = 0;
    const bool is_ok =
        PQsetnonblocking(pg->conn, 1) == 0 &&
        PQenterPipelineMode(pg->conn) == 1 &&
        send_query(pg,
            pg->options.are_plans_pinned ? PG_SETTINGS_PINNED : PG_SETTINGS) &&
        send_query(pg, SQL_CHECK) &&
        (pg->session_sql == NULL || send_query(pg, pg->session_sql)) &&
        send_prepares(pg) && PQpipelineSync(pg->conn) == 1;
    return is_ok ? 0 : pg_conn_error(pg->conn, err);
}

int pg_setup_take_result(struct pg *pg, PGresult *result, struct err *err)
{
    int next = 0;
    switch (PQresultStatus(result)) {
    case PGRES_PIPELINE_SYNC:
        next = 1;
        break;
    case PGRES_COMMAND_OK:
        break;
    case PGRES_TUPLES_OK:
        if (pg->setup_seen == CHECK_RESULT && pg_get_bool(result, 0, 0)) {
            next = err_set(err, ERR_TRANSIENT, "PG_READ_ONLY",
                "postgres is a standby or read only");
        }
        break;
    case PGRES_PIPELINE_ABORTED:
    case PGRES_FATAL_ERROR:
    case PGRES_BAD_RESPONSE:
    case PGRES_EMPTY_QUERY:
    case PGRES_COPY_OUT:
    case PGRES_COPY_IN:
    case PGRES_COPY_BOTH:
    case PGRES_NONFATAL_ERROR:
    case PGRES_SINGLE_TUPLE:
    default:
        next = pg_result_error(result, err);
        break;
    }
    pg->setup_seen++;
    PQclear(result);
    return next;
}
