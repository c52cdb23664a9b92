/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/sql_ctl.h"

#include "schema/cancel.h"
#include "schema/replay_sql.h"
#include "schema/schedule_rows.h"

/* The most that `top` counts of a table. */
#define TOP_ROWS "100000"

/* p is just the pause of that scope. */
#define IS_SCOPE                                                               \
    "p.tenant is not distinct from $1 and p.connector is not distinct from $2" \
    " and p.action is not distinct from $3"

/* Where the action of the delivery w is. */
#define STATUS_OF_DELIVERY                                                     \
    "coalesce((select o.status from outcome o where o.id = w.id"               \
    "   and o.resolves is null order by o.seq desc limit 1),"                  \
    "  case when exists (select from live l where l.id = w.id)"                \
    "   or exists (select from waiting t where t.id = w.id)"                   \
    "   then 0::int2 end)"

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
     * waiting, which the same settle deleted. It outlives the window of its
     * action: then all that only the action knows is null. */
    [SQL_CTL_ACTION_GET] = {"action_get",
        "select coalesce(a.tenant, o.tenant), a.connector, a.action,"
        " a.accepted_at, a.source, a.request, o.body, l.state, w.reason,"
        " w.due, w.error, p.reason, a.fingerprint, c.manifest, r.event,"
        " r.status, r.note, r.actor, r.at"
        " from (select $1::uuid as id) i"
        " left join lateral (select * from action x where x.id = i.id"
        "  order by x.window_no desc limit 1) a on true"
        " left join lateral (select * from outcome x where x.id = i.id"
        "  and x.resolves is null"
        "  and (a.window_no is null or x.window_no = a.window_no)"
        "  order by x.seq + 0 desc limit 1) o on true"
        " left join live l on l.id = i.id"
        " left join waiting w on w.id = i.id"
        " left join pause p on p.number = w.pause_no"
        " left join connector c on c.digest = a.manifest"
        " left join resolution r on r.outcome_seq = o.seq"
        " where a.id is not null or o.id is not null",
        1, {PG_UUID}},
    [SQL_CTL_ACTION_LEDGER] = {"action_ledger",
        "select entry, at, tenant, id, attempt_no, kind, actor, reason,"
        " trace_id, detail from ledger where id = $1 order by at, entry"
        " limit 1000",
        1, {PG_UUID}},
    /* worker, reason, actor. No row: the wish is there. */
    [SQL_CTL_DRAIN] = {"drain",
        "with made as (insert into drain (worker, reason, actor)"
        "   values ($1, $2, $3) on conflict do nothing returning *),"
        " noted as (" LEDGER_INSERT " select null, null, 90, 0, 5, g.actor,"
        "  g.reason, null, convert_to(json_build_object('op', 'drain',"
        "   'worker', g.worker)::text, 'UTF8') from made g)"
        " select since from made",
        3, {PG_TEXT, PG_TEXT, PG_TEXT}},
    /* worker, reason or null, actor */
    [SQL_CTL_DRAIN_LIFT] = {"drain_lift",
        "with gone as (delete from drain where worker = $1 returning *),"
        " noted as (" LEDGER_INSERT " select null, null, 90, 0, 5, $3, $2,"
        "  null, convert_to(json_build_object('op', 'undrain',"
        "   'worker', g.worker)::text, 'UTF8') from gone g)"
        " select worker from gone",
        3, {PG_TEXT, PG_TEXT, PG_TEXT}},
    /* worker, '': all. Workers that live, and what they have in hand. */
    [SQL_CTL_DRAIN_LEFT] = {"drain_left",
        "select count(*), coalesce(sum((select count(*) from live l"
        "  where l.owner = w.boot_id)), 0)::int8 from worker w"
        " where w.state = 1 and w.lease_until > fleet_now()"
        " and $1 in ('', w.name)",
        1, {PG_TEXT}},
    [SQL_CTL_WORKERS] = {"workers",
        "select coalesce(w.name, d.worker), w.boot_id::text, w.started_at,"
        " (select count(*) from live l where l.owner = w.boot_id), d.reason,"
        " d.actor from (select * from worker where state = 1"
        "  and lease_until > fleet_now()) w"
        " full join drain d on d.worker = w.name order by 1, 2",
        0, {0}},
    /* Counts stop at TOP_ROWS, so that a look costs no more at millions. */
    [SQL_CTL_TOP_TOTALS] = {"top_totals",
        "select fleet_now(), coalesce((select max(seq) from outcome), 0),"
        " l.running, l.untaken, w.waiting, w.overdue, l.oldest, w.latest"
        " from (select count(owner) as running,"
        "   count(*) - count(owner) as untaken, coalesce((extract(epoch from"
        "   fleet_now() - min(since)) * 1e6)::int8, 0) as oldest"
        "  from (select owner, since from live limit " TOP_ROWS ") r) l,"
        " (select count(*) filter (where due > fleet_now()) as waiting,"
        "   count(*) filter (where due <= fleet_now()) as overdue,"
        "   greatest(coalesce((extract(epoch from fleet_now() - min(due))"
        "    * 1e6)::int8, 0), 0) as latest"
        "  from (select due from waiting order by due limit " TOP_ROWS ") r) w",
        0, {0}},
    /* outcomes behind this position */
    [SQL_CTL_TOP_ENDED] = {"top_ended",
        "select status, count(*) from outcome where seq > $1"
        " group by status order by status",
        1, {PG_INT8}},
    /* tenants at most */
    [SQL_CTL_TOP_TENANTS] = {"top_tenants",
        "select tenant, sum(running)::int8, sum(waits)::int8,"
        " sum(late)::int8, coalesce((extract(epoch from fleet_now()"
        "  - min(since)) * 1e6)::int8, 0) from ("
        " (select tenant, 1 as running, 0 as waits, 0 as late, since"
        "  from live limit " TOP_ROWS ") union all"
        " (select tenant, 0, (due > fleet_now())::int,"
        "  (due <= fleet_now())::int, null from waiting order by due"
        "  limit " TOP_ROWS ")) r"
        " group by tenant order by 2 desc, 4 desc, 3 desc, 1 limit $1",
        1, {PG_INT4}},
    [SQL_CTL_NOW] = {"now", "select fleet_now()", 0, {0}},
    /* tenant or null, id or null, since, until or null, after (at, entry), kind
     * or null, head of the actor or null, rows at most */
    [SQL_CTL_ENTRIES] = {"entries",
        "select entry, at, tenant, id, attempt_no, kind, actor, reason,"
        " trace_id, detail, null::int8 from ledger"
        " where ($1::text is null or tenant = $1)"
        " and ($2::uuid is null or id = $2) and at >= $3"
        " and ($4::timestamptz is null or at < $4)"
        " and at >= $5 and (at, entry) > ($5, $6)"
        " and ($7::int2 is null or kind = $7)"
        " and ($8::text is null or starts_with(actor, $8))"
        " order by at, entry limit $9",
        9,
        {PG_TEXT, PG_UUID, PG_TIMESTAMPTZ, PG_TIMESTAMPTZ, PG_TIMESTAMPTZ,
            PG_UUID, PG_INT2, PG_TEXT, PG_INT4}},
    /* tenant or null, id or null, since, until or null, after seq, rows at
     * most. Of one action there are few: they are found by its id. */
    [SQL_CTL_OUTCOMES] = {"outcomes",
        "select uuid_v7_of(o.finished_at, o.seq), o.finished_at, o.tenant,"
        " o.id, o.attempt_no, 0::int2, 'fleet', o.error_code,"
        " substr(a.traceparent, 4, 32), o.body, o.seq"
        " from (select * from outcome x where x.resolves is null"
        "  and ($1::text is null or x.tenant = $1)"
        "  and case when $2::uuid is null"
        "   then x.seq >= (select outcome_seq_at($3)) else x.id = $2 end"
        "  and x.finished_at >= $3"
        "  and ($4::timestamptz is null or (x.finished_at < $4"
        "   and x.seq <= (select outcome_seq_at($4 + interval '2 min'))))"
        "  and x.seq > $5 order by x.seq limit $6) o"
        " left join action a on a.id = o.id and a.window_no = o.window_no"
        " order by o.seq",
        6,
        {PG_TEXT, PG_UUID, PG_TIMESTAMPTZ, PG_TIMESTAMPTZ, PG_INT8, PG_INT4}},
    /* tenant, days, actor */
    [SQL_CTL_KEEP] = {"keep", "select keep_ledger($1, $2, $3)", 3,
        {PG_TEXT, PG_INT4, PG_TEXT}},
    [SQL_CTL_KEEP_LIST] = {"keep_list",
        "select tenant, keep_days, changed_at from ledger_keep"
        " order by tenant",
        0, {0}},
    /* tenant, status (each or null), before seq, rows at most, connector,
     * action, error code, since, until (each or null), rows to look at. The
     * last row has no id but how far it looked, and whether there may be more
     * behind that. */
    [SQL_CTL_ACTION_LIST] = {"action_list",
        "with scanned as materialized (select seq, id, window_no, tenant,"
        "  status, calls, finished_at, error_code, resolves from outcome o"
        "  where ($1::text is null or o.tenant = $1) and o.seq < $3"
        "  and ($8::timestamptz is null or o.seq >= (select "
        "outcome_seq_at($8)))"
        "  and ($9::timestamptz is null or o.seq <="
        "   (select outcome_seq_at($9 + interval '2 min')))"
        "  order by o.seq desc limit $10),"
        " found as (select o.seq, o.id, o.tenant, a.connector, a.action,"
        "   o.calls, o.finished_at, o.status, o.error_code"
        "  from scanned o left join action a on a.id = o.id"
        "   and a.window_no = o.window_no"
        "  where o.resolves is null and ($2::int2 is null or o.status = $2)"
        "  and ($5::text is null or a.connector = $5)"
        "  and ($6::text is null or a.action = $6)"
        "  and ($7::text is null or o.error_code = $7)"
        "  and ($8::timestamptz is null or o.finished_at >= $8)"
        "  and ($9::timestamptz is null or o.finished_at < $9)"
        "  order by o.seq desc limit $4)"
        " (select id, tenant, connector, action, calls, finished_at, status,"
        "  error_code, seq, null::bool from found order by seq desc)"
        " union all select null, null, null, null, null, null, null, null,"
        "  min(seq), count(*) = $10 or (select count(*) from found) = $4"
        " from scanned",
        10,
        {PG_TEXT, PG_INT2, PG_INT8, PG_INT4, PG_TEXT, PG_TEXT, PG_TEXT,
            PG_TIMESTAMPTZ, PG_TIMESTAMPTZ, PG_INT4}},
    /* tenant, connector, action, state (3: waiting), reason (each or null),
     * after id, rows at most */
    [SQL_CTL_LIVE_LIST] = {"live_list",
        "select u.id, u.tenant, a.connector, a.action, u.calls, u.at, u.state,"
        " u.reason from (select id, window_no, tenant, state, null::int2 as"
        "   reason, calls, since as at from live where id > $6"
        "  union all select id, window_no, tenant, 3::int2, reason, calls, due"
        "   from waiting where id > $6) u"
        " join action a on a.id = u.id and a.window_no = u.window_no"
        " where ($1::text is null or u.tenant = $1)"
        " and ($2::text is null or a.connector = $2)"
        " and ($3::text is null or a.action = $3)"
        " and ($4::int2 is null or u.state = $4)"
        " and ($5::int2 is null or u.reason = $5)"
        " order by u.id limit $7",
        7, {PG_TEXT, PG_TEXT, PG_TEXT, PG_INT2, PG_INT2, PG_UUID, PG_INT4}},
    [SQL_CTL_CANCEL] = {"cancel", CANCEL_SQL, 4,
        {PG_UUID_ARRAY, PG_TEXT, PG_BYTEA, PG_TEXT}},
    /* tenant, connector or null, after id, rows at most */
    [SQL_CTL_UNFINISHED] = {"unfinished",
        "select u.id from (select id, window_no, tenant from live"
        "   where not is_cancelled"
        "  union all select id, window_no, tenant from waiting) u"
        " where u.tenant = $1 and u.id > $3 and ($2::text is null"
        "  or exists (select from action a where a.id = u.id"
        "   and a.window_no = u.window_no and a.connector = $2))"
        " order by u.id limit $4",
        4, {PG_TEXT, PG_TEXT, PG_UUID, PG_INT4}},
    /* id: its newest outcome, and what was said of it */
    [SQL_CTL_RESOLVE_READ] = {"resolve_read",
        "select o.seq, o.tenant, o.status, o.body, fleet_now(), r.event,"
        " r.status from (select * from outcome x where x.id = $1"
        "  and x.resolves is null order by x.seq desc limit 1) o"
        " left join resolution r on r.outcome_seq = o.seq",
        1, {PG_UUID}},
    /* seq of the outcome, id of the event, status, note, actor, document. The
     * key of the first table lets one of two pass; the event draws its number
     * after that, so its transaction has begun to write. */
    [SQL_CTL_RESOLVE] = {"resolve",
        "with target as (select * from outcome o where o.seq = $1"
        "   and o.status = 8 and o.resolves is null),"
        " made as (insert into resolution (outcome_seq, id, event, tenant,"
        "   status, note, actor)"
        "  select seq, id, $2, tenant, $3, $4, $5 from target"
        "  on conflict do nothing returning *),"
        " noted as (" LEDGER_INSERT " select g.id, g.tenant, " LEDGER_KEEP_DAYS
        ", 0, 10, g.actor, (array['SUCCEEDED', 'FAILED'])[g.status],"
        " " LEDGER_TRACE_OF_ID ", convert_to(json_build_object('event',"
        "  g.event, 'note', g.note)::text, 'UTF8') from made g)"
        " insert into outcome (id, window_no, tenant, status, attempt_no,"
        "  calls, body, resolves)"
        " select m.event, t.window_no, m.tenant, m.status, t.attempt_no,"
        "  t.calls, $6, m.outcome_seq"
        " from made m join target t on t.seq = m.outcome_seq returning seq",
        6, {PG_INT8, PG_UUID, PG_INT2, PG_TEXT, PG_TEXT, PG_BYTEA}},
    /* tenant, connector, action (each or null), reason, actor. One row: it is
     * new; it was there. Neither: there are too many. */
    [SQL_CTL_PAUSE_ADD] = {"pause_add",
        "with made as (insert into pause (tenant, connector, action, reason,"
        "   actor) select $1, $2, $3, $4, $5"
        "  where (select count(*) from pause) < 1000"
        "  on conflict do nothing returning *),"
        " noted as (" LEDGER_INSERT " select null, g.tenant, " LEDGER_KEEP_DAYS
        ", 0, 5, g.actor, g.reason, null, convert_to(json_build_object("
        "  'op', 'pause', 'tenant', g.tenant, 'connector', g.connector,"
        "  'action', g.action)::text, 'UTF8') from made g)"
        " select (select number from made), exists (select from pause p"
        "  where " IS_SCOPE ")",
        5, {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT}},
    /* number */
    [SQL_CTL_PAUSE_CONFIRMED] = {"pause_confirmed",
        "select count(*), count(*) filter (where pause_seen >= $1) from worker"
        " where state = 1 and lease_until > fleet_now()",
        1, {PG_INT8}},
    /* tenant, connector, action, reason (each or null), actor */
    [SQL_CTL_PAUSE_LIFT] = {"pause_lift",
        "with gone as (delete from pause p where " IS_SCOPE " returning *),"
        " noted as (" LEDGER_INSERT " select null, g.tenant, " LEDGER_KEEP_DAYS
        ", 0, 5, $5, $4, null, convert_to(json_build_object("
        "  'op', 'resume', 'tenant', g.tenant, 'connector', g.connector,"
        "  'action', g.action)::text, 'UTF8') from gone g)"
        " select number from gone",
        5, {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT}},
    [SQL_CTL_PAUSE_LIST] = {"pause_list",
        "select p.tenant, p.connector, p.action, p.actor, p.reason,"
        " (select count(*) from waiting w where w.reason = 5"
        "  and w.pause_no = p.number), p.since from pause p order by p.number",
        0, {0}},
    /* tenant, connector, action (each or null) */
    [SQL_CTL_PAUSE_COUNT] = {"pause_count",
        "select count(*) from (select id, window_no, tenant from live"
        "  union all select id, window_no, tenant from waiting) u"
        " join action a on a.id = u.id and a.window_no = u.window_no"
        " where ($1::text is null or u.tenant = $1)"
        " and ($2::text is null or a.connector = $2)"
        " and ($3::text is null or a.action = $3)",
        3, {PG_TEXT, PG_TEXT, PG_TEXT}},
    /* tenant, source, scheme, parameter, secret, verify token or null,
     * keeps_rejected, max_body_bytes, rate_per_s, answer_ms, mapping or null. No
     * row: there is one of that name. */
    [SQL_CTL_HOOK_ADD] = {"hook_add",
        "insert into webhook_source (tenant, source, scheme, parameter,"
        " secret, verify_token, keeps_rejected, max_body_bytes, rate_per_s,"
        " answer_ms, mapping)"
        " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
        " on conflict do nothing returning 1",
        11,
        {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_BYTEA, PG_BYTEA, PG_BOOL,
            PG_INT4, PG_INT4, PG_INT4, PG_BYTEA}},
    /* tenant or null, source or null */
    [SQL_CTL_HOOK_LIST] = {"hook_list",
        "select tenant, source, scheme, parameter, is_disabled, secret_no,"
        " old_until, substring(secret for 33), verify_token is not null,"
        " keeps_rejected, max_body_bytes, rate_per_s, answer_ms, changed_at,"
        " mapping from webhook_source where ($1::text is null or tenant = $1)"
        " and ($2::text is null or source = $2) order by tenant, source",
        2, {PG_TEXT, PG_TEXT}},
    /* tenant, source, secret, seconds that the one before stays valid */
    [SQL_CTL_HOOK_ROTATE] = {"hook_rotate",
        "update webhook_source set secret = $3, secret_no = secret_no + 1,"
        " old_secret = case when $4 > 0 then secret end,"
        " old_until = case when $4 > 0"
        "  then fleet_now() + make_interval(secs => $4) end,"
        " version = version + 1, changed_at = fleet_now()"
        " where tenant = $1 and source = $2",
        4, {PG_TEXT, PG_TEXT, PG_BYTEA, PG_INT4}},
    /* tenant, source, is_disabled */
    [SQL_CTL_HOOK_SWITCH] = {"hook_switch",
        "update webhook_source set is_disabled = $3, version = version + 1,"
        " changed_at = fleet_now() where tenant = $1 and source = $2",
        3, {PG_TEXT, PG_TEXT, PG_BOOL}},
    /* tenant, source, mapping or null */
    [SQL_CTL_HOOK_MAP] = {"hook_map",
        "update webhook_source set mapping = $3, version = version + 1,"
        " changed_at = fleet_now() where tenant = $1 and source = $2",
        3, {PG_TEXT, PG_TEXT, PG_BYTEA}},
    /* tenant, days */
    [SQL_CTL_HOOK_KEEP] = {"hook_keep", "select keep_webhooks($1, $2)", 2,
        {PG_TEXT, PG_INT4}},
    /* tenant */
    [SQL_CTL_HOOK_KEPT] = {"hook_kept",
        "select coalesce((select keep_days from webhook_retention"
        "  where tenant = $1), 30)",
        1, {PG_TEXT}},
    /* tenant, source, sender id, type, verdict, decision, since, until (each or
     * null), the place behind which the page begins (at or null), rows */
    [SQL_CTL_DELIVERY_LIST] = {"delivery_list",
        "select w.at, w.kafka_partition, w.kafka_offset, w.id, w.source,"
        " w.sender_id, w.type, w.verdict, w.reason, w.decision, w.error,"
        " octet_length(w.body), w.replay_of is not null, " STATUS_OF_DELIVERY
        " from (select * from webhook where tenant = $1"
        "  and ($2::text is null or source = $2)"
        "  and ($3::text is null or sender_id = $3)"
        "  and ($4::text is null or type = $4)"
        "  and ($5::int2 is null or verdict = $5)"
        "  and ($6::int2 is null or decision = $6)"
        "  and ($7::timestamptz is null or at >= $7)"
        "  and ($8::timestamptz is null or at < $8)"
        "  and ($9::timestamptz is null or (at <= $9"
        "   and (at, kafka_partition, kafka_offset) < ($9, $10, $11)))"
        "  order by at desc, kafka_partition desc, kafka_offset desc"
        "  limit $12) w",
        12,
        {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_INT2, PG_INT2, PG_TIMESTAMPTZ,
            PG_TIMESTAMPTZ, PG_TIMESTAMPTZ, PG_INT4, PG_INT8, PG_INT4}},
    /* id, tenant or null */
    [SQL_CTL_DELIVERY_SHOW] = {"delivery_show",
        "select w.at, w.kafka_partition, w.kafka_offset, w.id, w.tenant,"
        " w.source, w.sender_id, w.type, w.verdict, w.reason, w.scheme,"
        " w.secret_no, w.decision, w.error, w.replay_of, w.method, w.headers,"
        " w.body, " STATUS_OF_DELIVERY ","
        " coalesce((select s.is_disabled from webhook_source s"
        "  where s.tenant = w.tenant and s.source = w.source), false)"
        " from webhook w where w.id = $1 and ($2::text is null or w.tenant = "
        "$2)"
        " order by w.at, w.kafka_partition, w.kafka_offset limit 20",
        2, {PG_UUID, PG_TEXT}},
    /* id, tenant, actor, reason or null */
    [SQL_CTL_DELIVERY_NOTE] = {"delivery_note",
        LEDGER_INSERT " select g.id, g.tenant, " LEDGER_KEEP_DAYS
                      ", 0, 5, $3, $4, null, convert_to(json_build_object("
                      "  'op', 'webhook_replay')::text, 'UTF8')"
                      " from (select $1::uuid as id, $2::text as tenant) g",
        4, {PG_UUID, PG_TEXT, PG_TEXT, PG_TEXT}},
    [SQL_CTL_BEGIN] = {"begin", "begin", 0, {0}},
    [SQL_CTL_COMMIT] = {"commit", "commit", 0, {0}},
    /* id */
    [SQL_CTL_TENANT_OF] = {"tenant_of",
        "select tenant from action where id = $1"
        " union all select tenant from outcome where id = $1"
        " union all select tenant from reservation where id = $1 limit 1",
        1, {PG_UUID}},
    /* Creating a replay: see schema/replay_sql.h. */
    [SQL_CTL_REPLAY_LOCK] = {"replay_lock", REPLAY_LOCK_SQL, 1, {PG_TEXT}},
    [SQL_CTL_REPLAY_CLASH] = {"replay_clash", REPLAY_CLASH_SQL, 2,
        {PG_UUID_ARRAY, PG_TEXT}},
    [SQL_CTL_REPLAY_CREATE] = {"replay_create", REPLAY_CREATE_SQL, 20,
        {REPLAY_CREATE_TYPES}},
    [SQL_CTL_REPLAY_IDS] = {"replay_ids", REPLAY_IDS_SQL, 3,
        {PG_UUID, PG_INT4, PG_UUID_ARRAY}},
    [SQL_CTL_REPLAY_GET] = {"replay_get", REPLAY_GET_SQL, 2,
        {PG_UUID, PG_TEXT}},
    [SQL_CTL_REPLAY_LIST] = {"replay_list", REPLAY_LIST_SQL, 3,
        {PG_TEXT, PG_UUID, PG_INT4}},
    [SQL_CTL_REPLAY_ACT] = {"replay_act", REPLAY_ACT_SQL, 4,
        {PG_UUID, PG_TEXT, PG_INT4, PG_TEXT}},
    [SQL_CTL_SCHEDULE_PREPARE] = {"schedule_prepare", SCHEDULE_PREPARE_SQL,
        SCHEDULE_PREPARE_PARAMS},
    [SQL_CTL_SCHEDULE_ADD] = {"schedule_add", SCHEDULE_ADD_SQL,
        SCHEDULE_ADD_PARAMS},
    [SQL_CTL_SCHEDULE_GET] = {"schedule_get", SCHEDULE_GET_SQL,
        SCHEDULE_GET_PARAMS},
    [SQL_CTL_SCHEDULE_LIST] = {"schedule_list", SCHEDULE_LIST_SQL,
        SCHEDULE_LIST_PARAMS},
    [SQL_CTL_SCHEDULE_SWITCH] = {"schedule_switch", SCHEDULE_SWITCH_SQL,
        SCHEDULE_SWITCH_PARAMS},
    [SQL_CTL_SCHEDULE_REMOVE] = {"schedule_remove", SCHEDULE_REMOVE_SQL,
        SCHEDULE_REMOVE_PARAMS},
};
