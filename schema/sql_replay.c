/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/sql_replay.h"

#include "schema/connector_cache.h"
#include "schema/replay_sql.h"

/* What a person found out of an outcome in doubt. */
#define IS_RESOLVED(outcome, status)                                           \
    "exists (select from resolution q where q.outcome_seq = " outcome ".seq"   \
    " and q.status = " status ")"

#define HAS_SUCCEEDED(outcome)                                                 \
    "(" outcome ".status = 1 or (" outcome                                     \
    ".status = 8 and " IS_RESOLVED(outcome, "1") "))"

/* The facts about o, an outcome with its line r.root and its action a, for
 * replay_judge(), in the order of enum replay_scan_column; $1 is the replay.
 * What a person found not to have happened counts as failed.
 * `id between x and x`: see the note in sql_worker.c. */
#define FACTS                                                                  \
    " o.id, r.root, o.window_no,"                                              \
    " case when o.status = 8 and " IS_RESOLVED("o",                            \
        "2") " then 2::int2"                                                   \
             "  else o.status end, o.error_code, a.connector, a.action, "      \
             "a.effect,"                                                       \
             " coalesce(a.effect_id, a.id),"                                   \
             " case when o.root_id is null then a.accepted_at else (select"    \
             "  min(x.accepted_at) from action x where x.id between r.root "   \
             "and r.root"                                                      \
             "  ) end,"                                                        \
             " a.id is not null,"                                              \
             " exists (select from pause p where (p.tenant is null"            \
             "   or p.tenant = o.tenant) and (p.connector is null"             \
             "   or p.connector = a.connector) and (p.action is null"          \
             "   or p.action = a.action)),"                                    \
             " " HAS_SUCCEEDED(                                                \
                 "o") "  or exists (select from outcome s where s.root_id = "  \
                      "r.root"                                                 \
                      "   and " HAS_SUCCEEDED(                                 \
                          "s") ")"                                             \
                               "  or (o.root_id is not null and exists "       \
                               "(select from outcome s"                        \
                               "   where s.id = r.root and " HAS_SUCCEEDED(    \
                                   "s") ")),"                                  \
                                        " exists (select from replay_open p"   \
                                        "  where p.root_id between r.root "    \
                                        "and r.root)"

#define IS_REPEATED                                                            \
    " exists (select from outcome s where s.root_id = r.root"                  \
    "  and s.replay_id = $1)"

/* $2 tenant, $3 after, $4 to, $5 rows: one page of a tenant's outcomes, however
 * few of them match. */
#define PAGE(columns, condition)                                               \
    "with page as materialized (select " columns " from outcome"               \
    "  where tenant = $2 and seq > $3 and seq <= $4" condition                 \
    "  order by seq limit $5),"                                                \
    " size as (select max(seq) as last, count(*) as count from page)"

/* $6 statuses, $7 error code, $8 since, $9 until, $10 connector, $11 action,
 * $12 source of the webhook that it was made of: of the page, what matches. */
#define MATCHES                                                                \
    " where ($6 = 0 or (1 << o.status) & $6 <> 0)"                             \
    " and ($7::text is null or o.error_code = $7)"                             \
    " and ($8::timestamptz is null or o.finished_at >= $8)"                    \
    " and ($9::timestamptz is null or o.finished_at < $9)"                     \
    " and ($10::text is null or a.connector = $10)"                            \
    " and ($11::text is null or a.action = $11)"                               \
    " and ($12::text is null or exists (select from webhook w"                 \
    "  where w.id = coalesce(o.root_id, o.id) and w.tenant = $2"               \
    "  and w.source = $12))"
#define PAGE_TYPES                                                             \
    PG_UUID, PG_TEXT, PG_INT8, PG_INT8, PG_INT4, PG_INT4, PG_TEXT,             \
        PG_TIMESTAMPTZ, PG_TIMESTAMPTZ, PG_TEXT, PG_TEXT, PG_TEXT

#define ACTION_OF_OUTCOME                                                      \
    " left join action a on a.id between o.id and o.id"                        \
    "  and a.window_no = o.window_no"

#define SCAN_SQL                                                               \
    PAGE("seq, id, window_no, tenant, status, error_code, finished_at,"        \
         " root_id",                                                           \
        " and resolves is null")                                               \
    ", m as (select o.seq," FACTS "," IS_REPEATED ", true"                     \
    "  from page o cross join lateral"                                         \
    "   (select coalesce(o.root_id, o.id) as root) r" ACTION_OF_OUTCOME        \
        MATCHES ")"                                                            \
    " select size.last, size.count, m.*, fleet_now() from size"                \
    " left join m on true order by 3"

/* $1 replay, $2 tenant, $3 after, $4 up to: of the ids that it was given. An id
 * that was claimed again since its last outcome is under way. */
#define NAMED_SQL                                                              \
    "with page as materialized ("                                              \
    "  select (i.part * 1000 + u.n)::int8 as at, u.id"                         \
    "  from replay_ids i cross join lateral"                                   \
    "   unnest(i.ids) with ordinality as u (id, n)"                            \
    "  where i.replay_id = $1 and i.part >= $3 / 1000"                         \
    "  and i.part <= ($4 - 1) / 1000"                                          \
    "  and i.part * 1000 + u.n > $3 and i.part * 1000 + u.n <= $4)"            \
    " select max(g.at) over (), count(*) over (), g.at, f.*, l.is_known,"      \
    "  fleet_now()"                                                            \
    " from page g"                                                             \
    " cross join lateral (select"                                              \
    "   exists (select from live x where x.id between g.id and g.id"           \
    "    and x.tenant = $2)"                                                   \
    "   or exists (select from waiting x where x.id between g.id and g.id"     \
    "    and x.tenant = $2) as is_open) w"                                     \
    " left join lateral (select * from outcome x where x.id = g.id"            \
    "  and x.tenant = $2 and x.resolves is null"                               \
    "  order by x.seq desc limit 1) o on true"                                 \
    " cross join lateral (select o.id is not null or w.is_open"                \
    "   or exists (select from reservation x where x.id = g.id"                \
    "    and x.tenant = $2) as is_known) l"                                    \
    " cross join lateral (select coalesce(o.root_id, g.id) as root) "          \
    "r" ACTION_OF_OUTCOME " cross join lateral (select" FACTS                  \
    "  or w.is_open or (l.is_known and o.id is null)," IS_REPEATED ") f"       \
    " order by g.at"

/* As SCAN_SQL, and $13 bytes at most: a row beyond them has no body. */
#define BODIES_SQL                                                             \
    PAGE("seq, id, window_no, status, error_code, finished_at, root_id,"       \
         " tenant, body",                                                      \
        "")                                                                    \
    ", m as (select o.seq, o.id, o.tenant, a.traceparent, o.body,"             \
    "   sum(octet_length(o.body)) over (order by o.seq) as bytes_so_far"       \
    "  from page o" ACTION_OF_OUTCOME MATCHES " and $1 is not null)"           \
    " select size.last, size.count, m.seq, m.id, m.tenant, m.traceparent,"     \
    "  case when m.bytes_so_far - octet_length(m.body) < $13"                  \
    "   then m.body end"                                                       \
    " from size left join m on true order by m.seq"

#define SETTLE_SQL                                                             \
    "with g as (update replay set phase = $4, is_settled = true,"              \
    "   ended_at = coalesce(ended_at, fleet_now()), trouble = null"            \
    "  where id = $1 and published = $2 and phase = $3"                        \
    "  and not is_settled returning *),"                                       \
    " noted as (" REPLAY_NOTE(                                                 \
        "'end'", "'scheduler'") ")"                                            \
                                " delete from replay_ids i using g where "     \
                                "i.replay_id = g.id"

/* $1 replay, $2 is_forced, then by row: ids of the new actions, what they
 * repeat: its id, its window, its line; effect ids, manifests, effects, whether
 * the effect is unknown, when the provider forgets the key or null. A statement
 * of its own after OPEN: whatever ran of a line before we held it has ended
 * where this one sees it. */
#define PUBLISH_SQL                                                            \
    "with input as (select * from unnest($3::uuid[], $4::uuid[],"              \
    "   $5::int4[], $6::uuid[], $7::uuid[], $8::bytea[], $9::int2[],"          \
    "   $10::bool[], $11::timestamptz[])"                                      \
    "  as t (id, of_id, of_window, root_id, effect_id, manifest, effect,"      \
    "   is_unknown, key_until)),"                                              \
    " newest as (select max(number) as number from action_window),"            \
    " fresh as (insert into action (id, window_no, tenant, connector,"         \
    "   action, fingerprint, manifest, source, traceparent, effect,"           \
    "   deadline, key_id, request, replay_id, replay_of, root_id,"             \
    "   effect_id)"                                                            \
    "  select i.id, n.number, a.tenant, a.connector, a.action,"                \
    "   a.fingerprint, i.manifest, 'replay:' || $1, a.traceparent,"            \
    "   i.effect, least(fleet_now() + (a.deadline - a.accepted_at),"           \
    "    i.key_until), a.key_id, a.request, $1, i.of_id, i.root_id,"           \
    "   i.effect_id"                                                           \
    "  from input i cross join newest n"                                       \
    "  join action a on a.id between i.of_id and i.of_id"                      \
    "   and a.window_no = i.of_window"                                         \
    "  where exists (select from replay_open p"                                \
    "    where p.root_id between i.root_id and i.root_id"                      \
    "    and p.action_id = i.id)"                                              \
    "  and not exists (select from outcome s where s.root_id = i.root_id"      \
    "   and (s.replay_id = $1 or (s.status = 1 and not $2)))"                  \
    "  on conflict do nothing"                                                 \
    "  returning id, window_no, tenant, effect, deadline, root_id,"            \
    "   replay_of, traceparent),"                                              \
    " noted as (" LEDGER_INSERT "  select g.replay_of, g.tenant,"              \
    " " LEDGER_KEEP_DAYS ", 0, 9, r.actor, r.reason,"                          \
    "  substr(g.traceparent, 4, 32), convert_to(json_build_object("            \
    "   'replay', r.id, 'action', g.id)::text, 'UTF8')"                        \
    "  from fresh g join replay r on r.id = $1)"                               \
    " insert into live (id, window_no, tenant, attempt_no, state, effect,"     \
    "  is_effect_unknown, deadline, since, replay_id, root_id)"                \
    " select f.id, f.window_no, f.tenant, 1, 1, f.effect, i.is_unknown,"       \
    "  f.deadline, fleet_now() - interval '1 s', $1, f.root_id"                \
    " from fresh f join input i on i.id = f.id returning id"

const struct pg_statement SQL_REPLAY[SQL_REPLAY_COUNT] = {
    /* The pinned plans of reliability E2; a step is short, or in trouble. */
    [SQL_REPLAY_SESSION] = {"replay_session",
        "select set_config(name, value, false) from (values"
        " ('statement_timeout', '20s'), ('lock_timeout', '2s'),"
        " ('idle_in_transaction_session_timeout', '20s'),"
        " ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),"
        " ('enable_seqscan', 'off'), ('jit', 'off')) as s (name, value)",
        0, {0}},
    [SQL_REPLAY_BEGIN] = {"replay_begin", "begin", 0, {0}},
    [SQL_REPLAY_COMMIT] = {"replay_commit", "commit", 0, {0}},
    [SQL_REPLAY_ROLLBACK] = {"replay_rollback", "rollback", 0, {0}},
    [SQL_REPLAY_ACTIVE] = {"replay_active",
        "select" REPLAY_COLUMNS "from replay r where not r.is_settled"
        " order by r.created_at limit 64",
        0, {0}},
    /* replay. Who wrote an outcome with a number up to to_seq had its
     * transaction id before it drew that number, hence before this one. */
    [SQL_REPLAY_BOUND] = {"replay_bound",
        "update replay set bound = pg_current_xact_id()::text::int8"
        " where id = $1 and bound is null",
        1, {PG_UUID}},
    /* to_seq, bound */
    [SQL_REPLAY_IS_SETTLED] = {"replay_is_settled",
        "select pg_snapshot_xmin(pg_current_snapshot())::text::int8 > $2"
        " or coalesce((select low from relay_checkpoint where shard = 0),"
        "  0) >= $1",
        2, {PG_INT8, PG_INT8}},
    /* digests known already */
    [SQL_REPLAY_CONNECTORS] = {"replay_connectors", CONNECTOR_CACHE_SQL, 1,
        {PG_BYTEA_ARRAY}},
    [SQL_REPLAY_SCAN] = {"replay_scan", SCAN_SQL, 12, {PAGE_TYPES}},
    [SQL_REPLAY_NAMED] = {"replay_named", NAMED_SQL, 4,
        {PG_UUID, PG_TEXT, PG_INT8, PG_INT8}},
    /* What replays have put there and nobody has ended or postponed yet. */
    [SQL_REPLAY_IN_FLIGHT] = {"replay_in_flight",
        "select count(*) from live where replay_id is not null", 0, {0}},
    /* As a claim does, and for the same reason: see sql_worker.c. */
    [SQL_REPLAY_CLAIM_LOCK] = {"replay_claim_lock",
        "select pg_advisory_xact_lock_shared(1095779393, 2)", 0, {0}},
    /* replay, position, phase */
    [SQL_REPLAY_GRAB] = {"replay_grab",
        "select id from replay where id = $1 and position = $2 and phase = "
        "$3"
        " and not is_paused for update",
        3, {PG_UUID, PG_INT8, PG_INT2}},
    /* replay, roots (sorted), ids of the new actions. Returns the roots that
     * are ours: of each line one action at a time. */
    [SQL_REPLAY_OPEN] = {"replay_open",
        "insert into replay_open (root_id, action_id, replay_id)"
        " select root_id, action_id, $1"
        " from unnest($2::uuid[], $3::uuid[]) as i (root_id, action_id)"
        " on conflict do nothing returning root_id",
        3, {PG_UUID, PG_UUID_ARRAY, PG_UUID_ARRAY}},
    [SQL_REPLAY_PUBLISH] = {"replay_publish", PUBLISH_SQL, 11,
        {PG_UUID, PG_BOOL, PG_UUID_ARRAY, PG_UUID_ARRAY, PG_INT4_ARRAY,
            PG_UUID_ARRAY, PG_UUID_ARRAY, PG_BYTEA_ARRAY, PG_INT2_ARRAY,
            PG_BOOL_ARRAY, PG_TIMESTAMPTZ_ARRAY}},
    /* roots, actions: opened in this transaction and not published */
    [SQL_REPLAY_CLOSE] = {"replay_close",
        "delete from replay_open p"
        " using unnest($1::uuid[], $2::uuid[]) as i (root_id, action_id)"
        " where p.root_id between i.root_id and i.root_id"
        " and p.action_id = i.action_id"
        " and not exists (select from live l"
        "  where l.id between i.action_id and i.action_id)",
        2, {PG_UUID_ARRAY, PG_UUID_ARRAY}},
    /* replay, phase, position, matched, planned, published, skips, sample,
     * is_paused, is_held, is_settled */
    [SQL_REPLAY_MOVE] = {"replay_move",
        "update replay set phase = $2, position = $3, matched = $4,"
        " planned = $5, published = $6, skips = $7, sample = $8,"
        " is_paused = $9, is_held = $10, is_settled = $11, trouble = null,"
        " ended_at = case when $11 then fleet_now() else ended_at end"
        " where id = $1",
        11,
        {PG_UUID, PG_INT2, PG_INT8, PG_INT8, PG_INT8, PG_INT8, PG_INT8_ARRAY,
            PG_UUID_ARRAY, PG_BOOL, PG_BOOL, PG_BOOL}},
    /* All outcomes up to it are published, and none will be added. */
    [SQL_REPLAY_LOW] = {"replay_low",
        "select coalesce((select low from relay_checkpoint where shard = "
        "0),"
        " 0)",
        0, {0}},
    /* replay, after, up to, rows. A line is free once the end of its action is
     * counted. */
    [SQL_REPLAY_TALLY] = {"replay_tally",
        "with held as (select id from replay where id = $1"
        "   and tallied_seq = $2 for update),"
        " n as materialized (select seq, status, root_id, id from outcome"
        "  where replay_id = $1 and seq > $2 and seq <= $3"
        "  and exists (select from held) order by seq limit $4),"
        " gone as (delete from replay_open p using n"
        "  where p.root_id between n.root_id and n.root_id"
        "  and p.action_id = n.id)"
        " select n.status, count(*), max(n.seq) from n group by n.status",
        4, {PG_UUID, PG_INT8, PG_INT8, PG_INT4}},
    /* replay, from, to, ends */
    [SQL_REPLAY_TALLIED] = {"replay_tallied",
        "update replay set tallied_seq = $3, ends = $4"
        " where id = $1 and tallied_seq = $2 returning id",
        4, {PG_UUID, PG_INT8, PG_INT8, PG_INT8_ARRAY}},
    /* replay, published, phase, new phase: nothing is left to be done */
    [SQL_REPLAY_SETTLE] = {"replay_settle", SETTLE_SQL, 4,
        {PG_UUID, PG_INT8, PG_INT2, PG_INT2}},
    /* replay, words */
    [SQL_REPLAY_TROUBLE] = {"replay_trouble",
        "update replay set trouble = $2"
        " where id = $1 and trouble is distinct from $2",
        2, {PG_UUID, PG_TEXT}},
    [SQL_REPLAY_BODIES] = {"replay_bodies", BODIES_SQL, 13,
        {PAGE_TYPES, PG_INT8}},
};
