/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/sql_worker.h"

#include "schema/connector_cache.h"
#include "schema/ledger.h"
#include "schema/repeats.h"
#include "schema/replay.h"

/*
 * Rows are looked up by `id between x and x`, which is `id = x` but for the
 * planner: it cannot merge by it, so a walk through the whole of `live` is not
 * one of its choices. Plans live as long as the session, and one made while
 * `live` was empty, which it often is, would else have walked it for each
 * batch for ever.
 */

/* A worker whose row is dead must not write anything any more: its rows were
 * taken in the transaction that marked it. The boot id and ")" follow. */
#define ALIVE_IS                                                               \
    "exists (select from worker w where w.state = 1 and w.boot_id = "

/* By its name, or with all. */
#define IS_DRAINED                                                             \
    "select exists (select from drain where worker in ('', $1::text))"

/* In the order of enum live_column; r is the row, a its action. */
#define LIVE_COLUMNS                                                           \
    "r.id, r.tenant, r.attempt_no, r.state, r.effect, r.calls,"                \
    " r.is_effect_unknown, r.is_cancelled, r.deadline, r.started_at,"          \
    " a.manifest, a.request, a.accepted_at, " REPLAY_OF_ACTION

const struct pg_statement SQL_WORKER[SQL_WORKER_COUNT] = {
    /* Shared with other claims; rotation of the idempotency window takes it
     * exclusively. So the window read by the next statement stays current. */
    [SQL_WORKER_CLAIM_LOCK] = {"claim_lock",
        "select pg_advisory_xact_lock_shared(1095779393, 2)", 0, {0}},
    /* ids (sorted), tenants, connectors, actions, fingerprints, manifests,
     * sources, traceparents, requests, effects, deadlines, boot id. Returns
     * the ids that are new; all others are read again by CONFLICTS. */
    [SQL_WORKER_CLAIM] = {"claim",
        "with input as (select * from unnest($1::uuid[], $2::text[],"
        "  $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::text[],"
        "  $8::text[], $9::bytea[], $10::int2[], $11::timestamptz[])"
        "  as t (id, tenant, connector, action, fingerprint, manifest, source,"
        "   traceparent, request, effect, deadline)),"
        " newest as (select max(number) as number from action_window),"
        " fresh as (insert into action (id, window_no, tenant, connector,"
        "   action, fingerprint, manifest, source, traceparent, request,"
        "   effect, deadline)"
        "  select i.id, n.number, i.tenant, i.connector, i.action,"
        "   i.fingerprint, i.manifest, i.source, i.traceparent, i.request,"
        "   i.effect, i.deadline"
        "  from input i cross join newest n"
        "  where " ALIVE_IS "$12)"
        "  and not exists (select from action a where a.id = i.id"
        "   and a.window_no <> n.number)"
        "  on conflict do nothing"
        "  returning id, window_no, tenant, effect, deadline)"
        " insert into live (id, window_no, tenant, attempt_no, state, owner,"
        "  effect, deadline)"
        " select id, window_no, tenant, 1, 1, $12, coalesce(effect, 1),"
        "  deadline from fresh returning id",
        12,
        {PG_UUID_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY,
            PG_BYTEA_ARRAY, PG_BYTEA_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY,
            PG_BYTEA_ARRAY, PG_INT2_ARRAY, PG_TIMESTAMPTZ_ARRAY, PG_UUID}},
    /* ids. In a statement of its own, hence with a snapshot that sees what the
     * claim collided with. */
    [SQL_WORKER_CONFLICTS] = {"conflicts",
        "select a.id, a.fingerprint, l.owner"
        " from unnest($1::uuid[]) as u (id)"
        " join action a on a.id between u.id and u.id"
        " left join live l on l.id between a.id and a.id",
        1, {PG_UUID_ARRAY}},
    /* A read does not wait for a synchronous standby; a commit that wrote
     * something does. */
    [SQL_WORKER_FLUSH] = {"flush",
        "select pg_logical_emit_message(true, '', '')", 0, {0}},
    /* ids (sorted), attempt numbers, boot id. No owner: in words that keep the
     * planner from walking through the index of all that have none. */
    [SQL_WORKER_TAKE] = {"take",
        "with taken as (update live l set owner = $3, since = fleet_now()"
        "  from unnest($1::uuid[], $2::int4[]) as i (id, attempt_no)"
        "  where l.id between i.id and i.id and l.attempt_no = i.attempt_no"
        "  and num_nulls(l.owner) = 1 and l.state = 1 and " ALIVE_IS "$3)"
        "  returning l.*)"
        " select " LIVE_COLUMNS " from taken r"
        " join action a on a.id between r.id and r.id"
        "  and a.window_no = r.window_no",
        3, {PG_UUID_ARRAY, PG_INT4_ARRAY, PG_UUID}},
    /* boot id, rows at most. What was dispatched and is still nobody's: the
     * dispatch record stands in a partition that nobody reads right now. Work
     * of a dead worker does not have to wait for the group to notice. */
    [SQL_WORKER_COLLECT] = {"collect",
        "with picked as (select id from live where owner is null"
        "  and state = 1 and since < fleet_now() - interval '100 ms'"
        "  order by since limit $2 for update skip locked),"
        " taken as (update live l set owner = $1, since = fleet_now()"
        "  from picked p where l.id between p.id and p.id"
        "  and " ALIVE_IS "$1)"
        "  returning l.*)"
        " select " LIVE_COLUMNS " from taken r"
        " join action a on a.id between r.id and r.id"
        "  and a.window_no = r.window_no",
        2, {PG_UUID, PG_INT4}},
    /* ids, boot id: rows that are mine already */
    [SQL_WORKER_LOAD] = {"load",
        "select " LIVE_COLUMNS " from unnest($1::uuid[]) as u (id)"
        " join live r on r.id between u.id and u.id and r.owner = $2"
        " join action a on a.id between r.id and r.id"
        "  and a.window_no = r.window_no",
        2, {PG_UUID_ARRAY, PG_UUID}},
    /* ids (sorted), attempt numbers, boot id. Returns the ids whose gate may
     * open. */
    [SQL_WORKER_BEGIN] = {"begin",
        "update live l set state = 2,"
        "  started_at = coalesce(l.started_at, fleet_now())"
        " from unnest($1::uuid[], $2::int4[]) as i (id, attempt_no)"
        " where l.id between i.id and i.id"
        "  and l.attempt_no = i.attempt_no and l.owner = $3"
        " and l.state = 1 and not l.is_cancelled"
        " and exists (select from worker w where w.boot_id = $3"
        "  and w.state = 1 and w.lease_until > fleet_now())"
        " returning l.id",
        3, {PG_UUID_ARRAY, PG_INT4_ARRAY, PG_UUID}},
    /* ids */
    [SQL_WORKER_BEGIN_READ] = {"begin_read",
        "select l.id, l.attempt_no, l.state, l.owner, l.is_cancelled"
        " from unnest($1::uuid[]) as u (id)"
        " join live l on l.id between u.id and u.id",
        1, {PG_UUID_ARRAY}},
    /* ids (sorted), attempt numbers, statuses, calls, error codes, bodies,
     * boot id. The outcome exists only for the row this statement deletes. */
    [SQL_WORKER_SETTLE] = {"settle",
        "with gone as (delete from live l using unnest($1::uuid[],"
        "   $2::int4[], $3::int2[], $4::int4[], $5::text[], $6::bytea[])"
        "   as i (id, attempt_no, status, calls, error_code, body)"
        "  where l.id between i.id and i.id and l.attempt_no = i.attempt_no"
        "  and l.owner = $7"
        "  returning l.id, l.window_no, l.tenant, i.status, i.attempt_no,"
        "   i.calls, i.error_code, i.body, l.replay_id, l.root_id)"
        " insert into outcome (id, window_no, tenant, status, attempt_no,"
        "  calls, error_code, body, replay_id, root_id)"
        " select id, window_no, tenant, status, attempt_no, calls, error_code,"
        "  body, replay_id, root_id from gone returning id",
        7,
        {PG_UUID_ARRAY, PG_INT4_ARRAY, PG_INT2_ARRAY, PG_INT4_ARRAY,
            PG_TEXT_ARRAY, PG_BYTEA_ARRAY, PG_UUID}},
    /* ids (sorted), attempt numbers, reasons, earliest dues or null, waits in
     * ms, calls, is_effect_unknown, started_at, errors or null, ledger notes
     * or null, boot id, error codes or null, pauses or null. What is paused
     * keeps its due, which is its place in the queue. A cancelled row does not wait. A
     * note is that of a call; a wait without one is noted too, but what is
     * parked again and again only once. */
    [SQL_WORKER_POSTPONE] = {"postpone",
        "with gone as (delete from live l using unnest($1::uuid[],"
        "   $2::int4[], $3::int2[], $4::timestamptz[], $5::int8[], $6::int4[],"
        "   $7::bool[], $8::timestamptz[], $9::bytea[], $10::bytea[],"
        "   $12::text[], $13::int8[])"
        "   as i (id, attempt_no, reason, due, wait_ms, calls, is_unknown,"
        "    started_at, error, note, code, pause_no)"
        "  where l.id between i.id and i.id and l.attempt_no = i.attempt_no"
        "  and l.owner = $11 and not l.is_cancelled"
        "  returning l.id, l.window_no, l.tenant, l.effect, l.deaths,"
        "   l.deadline, l.replay_id, l.root_id, i.attempt_no, i.reason,"
        "   case when i.reason = 5 then i.due else greatest(i.due,"
        "    fleet_now() + i.wait_ms * interval '1 millisecond') end as due,"
        "   i.calls, i.is_unknown, i.started_at, i.error, i.note, i.code,"
        "   i.pause_no),"
        " noted as (" LEDGER_INSERT "  select g.id, g.tenant, " LEDGER_KEEP_DAYS
        ", g.attempt_no, case when g.note is null then 7 else 1 end,"
        "   'worker:' || $11::text, case when g.note is null"
        "    then " LEDGER_REASON " else g.code end,"
        "   " LEDGER_TRACE ", coalesce(g.note,"
        "    convert_to(json_build_object('due', g.due,"
        "     'pause', g.pause_no)::text, 'UTF8'))"
        "  from gone g where g.note is not null or g.reason <> 6"
        "   or g.attempt_no = 1)"
        " insert into waiting (id, window_no, tenant, attempt_no, reason, due,"
        "  effect, calls, deaths, is_effect_unknown, deadline, started_at,"
        "  error, pause_no, replay_id, root_id)"
        " select id, window_no, tenant, attempt_no, reason, due,"
        "  effect, calls, case when note is null then deaths else 0 end,"
        "  is_unknown, deadline, started_at, error, pause_no, replay_id,"
        "  root_id from gone returning id",
        13,
        {PG_UUID_ARRAY, PG_INT4_ARRAY, PG_INT2_ARRAY, PG_TIMESTAMPTZ_ARRAY,
            PG_INT8_ARRAY, PG_INT4_ARRAY, PG_BOOL_ARRAY, PG_TIMESTAMPTZ_ARRAY,
            PG_BYTEA_ARRAY, PG_BYTEA_ARRAY, PG_UUID, PG_TEXT_ARRAY,
            PG_INT8_ARRAY}},
    /* ids, attempt numbers. One row each: the live row if any, the status of
     * the outcome with this fence, and whether this attempt waits. */
    [SQL_WORKER_SETTLE_READ] = {"settle_read",
        "select i.id, l.attempt_no, l.owner, l.is_cancelled,"
        " (select o.status from outcome o where o.id = i.id"
        "  and o.attempt_no = i.attempt_no limit 1),"
        " exists (select from waiting t where t.id = i.id"
        "  and t.attempt_no = i.attempt_no)"
        " or exists (select from ledger g where g.id = i.id"
        "  and g.attempt_no = i.attempt_no and g.kind in (1, 7))"
        " from unnest($1::uuid[], $2::int4[]) as i (id, attempt_no)"
        " left join live l on l.id between i.id and i.id",
        2, {PG_UUID_ARRAY, PG_INT4_ARRAY}},
    /* ids, tenants, attempt numbers, details, codes or null, boot id */
    [SQL_WORKER_NOTE_LATE] = {"note_late",
        LEDGER_INSERT
        " select g.id, g.tenant, " LEDGER_KEEP_DAYS
        ", g.attempt_no, 2, 'worker:' || $6::text, g.code,"
        " " LEDGER_TRACE_OF_ID ", g.detail"
        " from unnest($1::uuid[], $2::text[], $3::int4[], $4::bytea[],"
        "  $5::text[]) as g (id, tenant, attempt_no, detail, code)",
        6,
        {PG_UUID_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY, PG_BYTEA_ARRAY,
            PG_TEXT_ARRAY, PG_UUID}},
    [SQL_WORKER_NOTE_REPEATS] = {"note_repeats", REPEATS_SQL, 5,
        {PG_UUID_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY, PG_TEXT_ARRAY, PG_TEXT}},
    /* ids (sorted), attempt numbers, boot id. The higher fence makes sure that
     * nothing we still have under way can touch the row. */
    [SQL_WORKER_HAND_BACK] = {"hand_back",
        "update live l set owner = null, attempt_no = l.attempt_no + 1,"
        "  since = fleet_now()"
        " from unnest($1::uuid[], $2::int4[]) as i (id, attempt_no)"
        " where l.id between i.id and i.id"
        "  and l.attempt_no = i.attempt_no and l.owner = $3"
        " and l.state = 1",
        3, {PG_UUID_ARRAY, PG_INT4_ARRAY, PG_UUID}},
    /* boot id. live has no index on the owner: it holds only what is in
     * flight. */
    [SQL_WORKER_OWNED] = {"owned",
        "select id, attempt_no from live where owner = $1", 1, {PG_UUID}},
    /* receipts, partitions, offsets, ids, tenants, sources, sender ids or null,
     * types or null, verdicts, reasons or null, schemes, secret numbers or null,
     * decisions, errors or null, replay_of or null, methods, headers, bodies.
     * A record that was read before meets its own row. */
    [SQL_WORKER_DELIVERIES] = {"deliveries",
        "insert into webhook (keep_days, at, kafka_partition, kafka_offset, id,"
        "  tenant, source, sender_id, type, verdict, reason, scheme, secret_no,"
        "  decision, error, replay_of, method, headers, body)"
        " select k.keep_days, least(greatest(i.at, k.from_at),"
        "   k.to_at - interval '1 microsecond'), i.partition, i.off, i.id,"
        "  i.tenant, i.source, i.sender_id, i.type, i.verdict, i.reason,"
        "  i.scheme, i.secret_no, i.decision, i.error, i.replay_of, i.method,"
        "  i.headers, i.body"
        " from unnest($1::timestamptz[], $2::int4[], $3::int8[], $4::uuid[],"
        "  $5::text[], $6::text[], $7::text[], $8::text[], $9::int2[],"
        "  $10::text[], $11::text[], $12::int4[], $13::int2[], $14::bytea[],"
        "  $15::uuid[], $16::text[], $17::bytea[], $18::bytea[])"
        "  as i (at, partition, off, id, tenant, source, sender_id, type,"
        "   verdict, reason, scheme, secret_no, decision, error, replay_of,"
        "   method, headers, body)"
        " left join lateral (select keep_days from webhook_retention"
        "  where tenant = i.tenant limit 1) r on true"
        " cross join lateral (select * from webhook_keep"
        "  where keep_days = any (array[r.keep_days, 30])"
        "  order by keep_days = 30 limit 1) k"
        " on conflict do nothing",
        18,
        {PG_TIMESTAMPTZ_ARRAY, PG_INT4_ARRAY, PG_INT8_ARRAY, PG_UUID_ARRAY,
            PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY,
            PG_INT2_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY,
            PG_INT2_ARRAY, PG_BYTEA_ARRAY, PG_UUID_ARRAY, PG_TEXT_ARRAY,
            PG_BYTEA_ARRAY, PG_BYTEA_ARRAY}},
    /* Both change with each change of a source. */
    [SQL_WORKER_MAPPING_COUNTS] = {"mapping_counts",
        "select count(*), coalesce(sum(version), 0)::int8 from webhook_source",
        0, {0}},
    [SQL_WORKER_MAPPINGS] = {"mappings",
        "select tenant, source, mapping from webhook_source"
        " where mapping is not null order by tenant, source limit 10000",
        0, {0}},
    /* digests known already */
    [SQL_WORKER_IS_DRAINED] = {"is_drained", IS_DRAINED, 1, {PG_TEXT}},
    [SQL_WORKER_PAUSES] = {"pauses",
        "select number, coalesce(tenant, ''), coalesce(connector, ''),"
        " coalesce(action, '') from pause order by number",
        0, {0}},
    /* boot id, number */
    [SQL_WORKER_PAUSE_SEEN] = {"pause_seen",
        "update worker set pause_seen = $2 where boot_id = $1", 2,
        {PG_UUID, PG_INT8}},
    [SQL_WORKER_CONNECTORS] = {"connectors", CONNECTOR_CACHE_SQL, 1,
        {PG_BYTEA_ARRAY}},
};

const struct pg_statement SQL_PRESENCE[SQL_PRESENCE_COUNT] = {
    /* presence key. The process id tells a pooler in between. */
    [SQL_PRESENCE_LOCK] = {"presence_lock",
        "select pg_try_advisory_lock($1), pg_backend_pid()", 1, {PG_INT8}},
    /* boot id, name, presence key */
    [SQL_PRESENCE_REGISTER] = {"presence_register",
        "insert into worker (boot_id, name, presence_key, lease_until)"
        " values ($1, $2, $3, fleet_now() + interval '10 s')"
        " on conflict (boot_id) do nothing",
        3, {PG_UUID, PG_TEXT, PG_INT8}},
    /* boot id. No row: somebody marked us dead. */
    [SQL_PRESENCE_RENEW] = {"presence_renew",
        "update worker set lease_until = fleet_now() + interval '10 s'"
        " where boot_id = $1 and state = 1 returning fleet_now()",
        1, {PG_UUID}},
    /* boot id */
    [SQL_PRESENCE_STOP] = {"presence_stop",
        "update worker set state = 2 where boot_id = $1 and state = 1", 1,
        {PG_UUID}},
    [SQL_PRESENCE_IS_DRAINED] = {"presence_is_drained", IS_DRAINED, 1,
        {PG_TEXT}},
};
