/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/sql_ctl.h"

const struct pg_statement SQL_CTL[SQL_CTL_COUNT] = {
    /* id, tenant, hash */
    [SQL_CTL_KEY_ADD] = {"key_add",
        "insert into api_key (id, tenant, hash) values ($1, $2, $3)", 3,
        {PG_TEXT, PG_TEXT, PG_BYTEA}},
    /* tenant or null */
    [SQL_CTL_KEY_LIST] = {"key_list",
        "select id, tenant, created_at, revoked_at from api_key"
        " where $1::text is null or tenant = $1 order by tenant, created_at",
        1, {PG_TEXT}},
    /* id, tenant or null */
    [SQL_CTL_KEY_REVOKE] = {"key_revoke",
        "update api_key set revoked_at = coalesce(revoked_at, fleet_now())"
        " where id = $1 and ($2::text is null or tenant = $2)",
        2, {PG_TEXT, PG_TEXT}},
    /* name, version, digest, manifest. No row: this version is there already,
     * which is fine if the digest is the same. */
    [SQL_CTL_CONNECTOR_ADD] = {"connector_add",
        "with added as (insert into connector (name, version, digest, manifest)"
        "  values ($1, $2, $3, $4) on conflict do nothing returning 1)"
        " select exists (select from added),"
        "  exists (select from connector where digest = $3)",
        4, {PG_TEXT, PG_TEXT, PG_BYTEA, PG_BYTEA}},
    [SQL_CTL_CONNECTOR_LIST] = {"connector_list",
        "select distinct on (name) name, version, encode(digest, 'hex'),"
        " added_at from connector order by name, number desc",
        0, {0}},
    /* name, version or null */
    [SQL_CTL_CONNECTOR_SHOW] = {"connector_show",
        "select manifest from connector where name = $1"
        " and ($2::text is null or version = $2) order by number desc limit 1",
        2, {PG_TEXT, PG_TEXT}},
    /* id. One row: where the action is now. The outcome wins over live and
     * waiting, which the same settle deleted. */
    [SQL_CTL_ACTION_GET] = {"action_get",
        "select a.tenant, a.connector, a.action, a.accepted_at, a.source,"
        " a.request, o.body, l.state, l.attempt_no, l.calls, w.reason, w.due,"
        " w.attempt_no, w.calls, w.error, a.fingerprint, l.owner"
        " from action a"
        " left join outcome o on o.id = a.id"
        " left join live l on l.id = a.id"
        " left join waiting w on w.id = a.id"
        " where a.id = $1 order by a.window_no desc limit 1",
        1, {PG_UUID}},
    [SQL_CTL_ACTION_LEDGER] = {"action_ledger",
        "select at, attempt_no, kind, detail from ledger where id = $1"
        " order by at limit 1000",
        1, {PG_UUID}},
    /* tenant, status or null, before seq, limit */
    [SQL_CTL_ACTION_LIST] = {"action_list",
        "select o.seq, o.id, a.connector, a.action, o.status, o.calls,"
        " o.finished_at, o.error_code"
        " from outcome o join action a on a.id = o.id"
        " and a.window_no = o.window_no"
        " where o.tenant = $1 and ($2::int2 is null or o.status = $2)"
        " and o.seq < $3 order by o.seq desc limit $4",
        4, {PG_TEXT, PG_INT2, PG_INT8, PG_INT4}},
};
