/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_sql: the statements about replays that the command and the HTTP door
 * share. Creating one is a transaction of LOCK, CREATE, IDS (once for 1000
 * ids, in order) and GET: so of two that name the same action one is refused.
 */
#ifndef REPLAY_SQL_H
#define REPLAY_SQL_H

#include "schema/ledger.h"
#include "schema/replay.h"

/* $1: tenant. Who creates replays of a tenant does so one after the other. */
#define REPLAY_LOCK_SQL                                                        \
    "select pg_advisory_xact_lock(1095779393, hashtext('replay ' || $1))"

/* An entry of the ledger about the replay g: an act, by whom, how far it is. */
#define REPLAY_NAME_(symbol, number, name) "'" name "',"
#define REPLAY_NOTE(op, actor)                                                 \
    LEDGER_INSERT                                                              \
    " select null, g.tenant, " LEDGER_KEEP_DAYS ", 0, 9, " actor               \
    ", g.reason, null, convert_to(json_strip_nulls(json_build_object("         \
    "  'op', " op ", 'replay', g.id, 'dry_run', g.is_dry_run,"                 \
    "  'new_key', g.has_new_key, 'force', g.is_forced,"                        \
    "  'ids', nullif(g.id_count, 0), 'status', (select "                       \
    "json_agg((array[" STATUS_LIST(                                            \
        REPLAY_NAME_) "''])[n]) from generate_series(1, 8) n"                  \
                      "   where (1 << n) & g.statuses <> 0), 'connector', "    \
                      "g.connector,"                                           \
                      "  'action', g.action, 'error_code', g.error_code, "     \
                      "'since', g.since,"                                      \
                      "  'until', g.until, 'source', g.source, 'to', "         \
                      "g.to_topic,"                                            \
                      "  'matched', g.matched, 'replayed', g.published, "      \
                      "'skipped',"                                             \
                      "  (select sum(s) from unnest(g.skips) s), 'succeeded'," \
                      "  coalesce(g.ends[1], 0)))::text, 'UTF8') from g"

/* The parameters of replay_put_wish(). The position of what is named by id is
 * how many of the ids, of the rest the seq. */
#define REPLAY_CREATE_SQL REPLAY_CREATE_SQL_IF("")
#define REPLAY_CREATE_SQL_IF(condition)                                        \
    "with g as (insert into replay (id, kind, tenant, id_count, connector, "   \
    "action,"                                                                  \
    " statuses, error_code, since, until, source, is_dry_run, is_held,"        \
    " has_new_key, is_forced, rate, max_rows, to_topic, actor, reason,"        \
    " from_seq, to_seq, position, tallied_seq)"                                \
    " select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"     \
    "  $15, $16, $17, $18, $19, $20, f.from_seq, s.last,"                      \
    "  case when $4 > 0 then 0 else f.from_seq end, s.last"                    \
    " from (select case when is_called then last_value else 0 end as last"     \
    "   from outcome_seq) s"                                                   \
    " cross join lateral (select case when $9::timestamptz is null then 0"     \
    "   else outcome_seq_at($9) - 1 end as from_seq) f" condition              \
    " returning *), noted as (" REPLAY_NOTE(                                   \
        "'create'", "g.actor") ")"                                             \
                               " select id from g"
#define REPLAY_CREATE_TYPES                                                    \
    PG_UUID, PG_INT2, PG_TEXT, PG_INT4, PG_TEXT, PG_TEXT, PG_INT4, PG_TEXT,    \
        PG_TIMESTAMPTZ, PG_TIMESTAMPTZ, PG_TEXT, PG_BOOL, PG_BOOL, PG_BOOL,    \
        PG_BOOL, PG_INT4, PG_INT8, PG_TEXT, PG_TEXT, PG_TEXT

/* replay, part, ids. Never into one that another transaction made. */
#define REPLAY_IDS_SQL                                                         \
    "insert into replay_ids (replay_id, part, ids) values ($1, $2, $3)"

/* ids, tenant. Another replay of the tenant, not over yet, that names one. */
#define REPLAY_CLASH_SQL                                                       \
    "select r.id from replay r join replay_ids i on i.replay_id = r.id"        \
    " where not r.is_settled and not r.is_dry_run and r.tenant = $2"           \
    " and r.phase <= 3 and i.ids && $1 limit 1"

/* id, tenant or null */
#define REPLAY_GET_SQL                                                         \
    "select" REPLAY_COLUMNS "from replay r"                                    \
    " where r.id = $1 and ($2::text is null or r.tenant = $2)"

/* tenant or null, after (an id of one) or null, rows at most */
#define REPLAY_LIST_SQL                                                        \
    "select" REPLAY_COLUMNS "from replay r"                                    \
    " where ($1::text is null or r.tenant = $1) and ($2::uuid is null"         \
    "  or (r.created_at, r.id) < (select x.created_at, x.id from replay x"     \
    "   where x.id = $2))"                                                     \
    " order by r.created_at desc, r.id desc limit $3"

/* id, tenant or null, act, actor. One row if it was done. Waits for a step under way:
 * after a pause was committed, nothing more is published. */
#define REPLAY_ACT_SQL                                                         \
    "with g as (update replay set is_paused = case $3 when 1 then true"        \
    "   when 2 then false else is_paused end,"                                 \
    "  is_held = is_held and $3 <> 2,"                                         \
    "  phase = case $3 when 3 then 5 else phase end,"                          \
    "  ended_at = case $3 when 3 then fleet_now() else ended_at end"           \
    " where id = $1 and ($2::text is null or tenant = $2) and phase <= 2"      \
    " returning *), noted as (" REPLAY_NOTE(                                   \
        "(array['pause', 'resume', 'cancel'])[$3]", "$4") ")"                  \
                                                          " select id from g"

#endif
