/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/sql_scheduler.h"

#include "schema/ledger.h"
#include "schema/replay.h"
#include "schema/schedule_rows.h"

#define OUTCOME_COLUMNS "seq, id, window_no, tenant, body"

/* Work that waits for a person is never due by time. */
#define IS_TIMED "reason not in (4, 5)"

/* Only the lease ends the begun call of an unsafe action whose owner is dead:
 * if presence was wrong, the owner still says how it ended. */
#define IS_LEASED                                                              \
    "(l.state = 2 and l.effect = 3 and exists (select from worker w"           \
    " where w.boot_id = l.owner and w.lease_until > fleet_now()))"

/* Microseconds until the first row is due, at most a minute. */
#define NEXT_DUE_US                                                            \
    "coalesce((select extract(epoch from least(due, fleet_now()"               \
    " + interval '1 min') - fleet_now()) * 1000000 from waiting"               \
    " where " IS_TIMED " order by due limit 1), 60000000)::int8"

const struct pg_statement SQL_RELAY[SQL_RELAY_COUNT] = {
    /* The session's lock on a shard, class "ACTI". */
    [SQL_RELAY_LOCK] = {"relay_lock",
        "select pg_try_advisory_lock(1095779393, 100 + $1)", 1, {PG_INT4}},
    [SQL_RELAY_FACTS] = {"relay_facts",
        "select s.cache_size, s.increment_by, s.cycle,"
        " coalesce(s.last_value, 0), current_setting('synchronous_commit'),"
        " (select system_identifier from pg_control_system()),"
        " ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))"
        "::bit(32)::int4,"
        " current_setting('synchronous_standby_names') <> ''"
        " from pg_sequences s where s.schemaname = 'actionist'"
        " and s.sequencename = 'outcome_seq'",
        0, {0}},
    [SQL_RELAY_CHECKPOINT_READ] = {"checkpoint_read",
        "select low, high, array_to_json(gaps)::text, positions::text,"
        " system_identifier, timeline from relay_checkpoint where shard = $1",
        1, {PG_INT2}},
    /* Never goes back: a relay that was left behind touches no row. */
    [SQL_RELAY_CHECKPOINT_WRITE] = {"checkpoint_write",
        "insert into relay_checkpoint as c (shard, low, high, gaps, positions,"
        "  system_identifier, timeline)"
        " values ($1, $2, $3, $4, $5::text::jsonb, $6, $7)"
        " on conflict (shard) do update set low = excluded.low,"
        "  high = excluded.high, gaps = excluded.gaps,"
        "  positions = excluded.positions,"
        "  system_identifier = excluded.system_identifier,"
        "  timeline = excluded.timeline, updated_at = fleet_now()"
        " where c.low <= excluded.low and c.high <= excluded.high",
        7,
        {PG_INT2, PG_INT8, PG_INT8, PG_INT8_ARRAY, PG_TEXT, PG_INT8, PG_INT4}},
    [SQL_RELAY_IDS] = {"relay_ids",
        "select seq, id from outcome where seq = any ($1) order by seq", 1,
        {PG_INT8_ARRAY}},
    [SQL_RELAY_XMIN] = {"relay_xmin",
        "select pg_snapshot_xmin(pg_current_snapshot())::text::int8", 0, {0}},
    /* high, rows at most, gaps to ask for, bytes at most. A row beyond the
     * bytes comes without its body, so that the reader knows it exists. The
     * gaps' order makes the planner take the primary key also of a partition
     * that was empty when it planned. */
    [SQL_RELAY_ROWS] = {"relay_rows",
        "select r.seq, r.id, r.tenant, a.traceparent,"
        " case when r.bytes_so_far - octet_length(r.body) < $4 then r.body end"
        " from (select " OUTCOME_COLUMNS ","
        "   sum(octet_length(body)) over (order by seq) as bytes_so_far"
        "  from ((select " OUTCOME_COLUMNS " from outcome where seq > $1"
        "    order by seq limit $2)"
        "   union all"
        "   (select " OUTCOME_COLUMNS " from outcome where seq = any ($3)"
        "    order by seq)) o) r"
        " left join action a on a.id = r.id and a.window_no = r.window_no"
        " order by r.seq",
        4, {PG_INT8, PG_INT4, PG_INT8_ARRAY, PG_INT8}},
    /* Every transaction that drew a number before this has a lower id. */
    [SQL_RELAY_BOUND] = {"relay_bound",
        "select pg_current_xact_id()::text::int8", 0, {0}},
    /* A read does not wait for a synchronous standby, this does. */
    [SQL_RELAY_REPLICATED] = {"relay_replicated",
        "select pg_logical_emit_message(true, '', '')", 0, {0}},
};

const struct pg_statement SQL_PULSE[SQL_PULSE_COUNT] = {
    /* The checkpointer's start shows only to members of pg_read_all_stats;
     * a restart of the server also ends this session, which we see anyway. */
    [SQL_PULSE_LOOK] = {"pulse_look",
        "with held as (select distinct (l.classid::int8 << 32) |"
        "   l.objid::int8 as key from pg_locks l"
        "  where l.locktype = 'advisory' and l.objsubid = 1 and l.granted"
        "  and l.database = (select d.oid from pg_database d"
        "   where d.datname = current_database())),"
        " server as (select left(pg_walfile_name(pg_current_wal_lsn()), 8) ||"
        "  coalesce((select ' ' || max(s.backend_start)::text"
        "   from pg_stat_activity s where s.backend_type = 'checkpointer'),"
        "   '') as name),"
        " next as (select " NEXT_DUE_US " as due_us),"
        " untaken as (select count(*) as rows, coalesce(extract(epoch from"
        "   fleet_now() - min(since)) * 1000000, 0)::int8 as age_us"
        "  from live where owner is null),"
        " tick as (select coalesce((select extract(epoch from least(next_at,"
        "   fleet_now() + interval '1 min') - fleet_now()) * 1000000"
        "   from schedule where state = 1 order by next_at limit 1),"
        "   60000000)::int8 as next_us),"
        " firing as (select coalesce((select extract(epoch from fleet_now()"
        "   - since) * 1000000 from schedule_firing order by since limit 1),"
        "   -1)::int8 as age_us)"
        " select fleet_now(), (select moved_us from fleet_clock"
        "   where number = 1), server.name, next.due_us, untaken.rows, "
        "untaken.age_us,"
        "  exists (select from waiting where reason = 5)"
        "  or exists (select from waiting where reason in (4, 5)"
        "   and deadline <= fleet_now()),"
        "  tick.next_us, firing.age_us,"
        "  w.boot_id, held.key is not null, w.lease_until < fleet_now()"
        " from server cross join next cross join untaken"
        " cross join tick cross join firing"
        " left join worker w on w.state = 1"
        " left join held on held.key = w.presence_key",
        0, {0}},
};

const struct pg_statement SQL_CLOCK[SQL_CLOCK_COUNT] = {
    [SQL_CLOCK_PATIENCE] = {"clock_patience", "set local lock_timeout = '5s'",
        0, {0}},
    [SQL_CLOCK_LOCK] = {"clock_lock", "lock table waiting in share mode", 0,
        {0}},
    /* The sum of moves as it was, by how many us, and the times of dbclock.h:
     * of a step back, what was written since is not later than now. Only waits
     * that were measured; a time that somebody named stays what it is. */
    [SQL_CLOCK_MOVE] = {"clock_move",
        "with moved as (update fleet_clock set moved_us = moved_us + $2,"
        "   moves = moves + 1, moved_at = fleet_now()"
        "  where number = 1 and moved_us = $1 returning number),"
        " rows as (update waiting w"
        "   set due = w.due + $2 * interval '1 microsecond',"
        "   since = w.since + $2 * interval '1 microsecond' from moved"
        "  where w.reason in (1, 2, 3, 6)"
        "  and (w.since <= $3 or w.since > greatest($4, fleet_now()))"
        "  returning w.id)"
        " select (select count(*) from moved) > 0, (select count(*) from rows)",
        4, {PG_INT8, PG_INT8, PG_TIMESTAMPTZ, PG_TIMESTAMPTZ}},
};

/* `id between x and x`: see the note in sql_worker.c. */
const struct pg_statement SQL_WORK[SQL_WORK_COUNT] = {
    /* rows at most, and a time that the clock has surely reached (dbclock.h) */
    [SQL_WORK_DUE_TAKE] = {"due_take",
        "with picked as (select id from waiting"
        "   where due <= least(fleet_now(), $2)"
        "   and " IS_TIMED " and (deadline is null or deadline > fleet_now())"
        "   order by due limit $1 for update skip locked),"
        " gone as (delete from waiting w using picked p"
        "  where w.id between p.id and p.id"
        "  returning w.*)"
        " insert into live (id, window_no, tenant, attempt_no, state, effect,"
        "  calls, deaths, is_effect_unknown, deadline, started_at,"
        "  replay_id, root_id)"
        " select id, window_no, tenant, attempt_no + 1, 1, effect, calls,"
        "  deaths, is_effect_unknown, deadline, started_at, replay_id,"
        "  root_id from gone"
        " returning id, tenant, attempt_no",
        2, {PG_INT4, PG_TIMESTAMPTZ}},
    [SQL_WORK_DUE_NEXT] = {"due_next", "select " NEXT_DUE_US, 0, {0}},
    /* rows at most */
    [SQL_WORK_DUE_EXPIRED] = {"due_expired",
        "select id, attempt_no, calls, is_effect_unknown from waiting"
        " where due <= fleet_now() and " IS_TIMED
        " and deadline <= fleet_now() order by due limit $1",
        1, {PG_INT4}},
    /* rows at most. The pauses that hold something are found one by one, by
     * the index; those of them that are gone let go, in the order of due. */
    [SQL_WORK_HELD_TAKE] = {"held_take",
        "with recursive held as ((select pause_no as no from waiting"
        "   where reason = 5 order by pause_no limit 1)"
        "  union all select (select w.pause_no from waiting w"
        "   where w.reason = 5 and w.pause_no > h.no"
        "   order by w.pause_no limit 1) from held h where h.no is not null),"
        " ended as materialized (select h.no from held h"
        "  where h.no is not null and (select p.number from pause p"
        "   where p.number between h.no and h.no) is null),"
        " picked as (select w.id from ended e cross join lateral"
        "  (select x.id from waiting x where x.reason = 5"
        "   and x.pause_no = e.no order by x.due limit $1"
        "   for update skip locked) w limit $1),"
        " gone as (delete from waiting w using picked p"
        "  where w.id between p.id and p.id returning w.*),"
        " moved as (insert into live (id, window_no, tenant, attempt_no,"
        "   state, effect, calls, deaths, is_effect_unknown, deadline,"
        "   started_at, replay_id, root_id)"
        "  select id, window_no, tenant, attempt_no + 1, 1, effect, calls,"
        "   deaths, is_effect_unknown, deadline, started_at, replay_id,"
        "   root_id from gone"
        "  returning id, tenant, attempt_no)"
        " select m.id, m.tenant, m.attempt_no from moved m"
        " join gone g on g.id = m.id order by g.due",
        1, {PG_INT4}},
    /* rows at most */
    [SQL_WORK_HELD_EXPIRED] = {"held_expired",
        "select id, attempt_no, calls, is_effect_unknown from waiting"
        " where reason in (4, 5) and deadline <= fleet_now()"
        " order by deadline limit $1",
        1, {PG_INT4}},
    /* older than, in us; rows at most */
    [SQL_WORK_UNTAKEN] = {"untaken",
        "select id, tenant, attempt_no from live where owner is null"
        " and since < fleet_now() - $1 * interval '1 microsecond'"
        " order by since limit $2",
        2, {PG_INT8, PG_INT4}},
    /* boot id, whether its lease has to have run out; else its presence has
     * to be free, and stays ours until this transaction ends. */
    [SQL_WORK_MARK_DEAD] = {"mark_dead",
        "update worker set state = 3 where boot_id = $1 and state = 1"
        " and case when $2 then lease_until < fleet_now()"
        "  else pg_try_advisory_xact_lock(presence_key) end"
        " returning boot_id",
        2, {PG_UUID, PG_BOOL}},
    /* Owners that are no living workers. */
    [SQL_WORK_ORPHANS] = {"orphans",
        "select distinct l.owner from live l where l.owner is not null"
        " and not exists (select from worker w where w.boot_id = l.owner"
        "  and w.state = 1) and not " IS_LEASED " limit 100",
        0, {0}},
    /* boot id, rows at most */
    [SQL_WORK_ORPHANS_OF] = {"orphans_of",
        "select id, tenant, attempt_no, state, effect, calls, deaths,"
        "  is_effect_unknown from live l where owner = $1"
        " and not exists (select from worker w where w.boot_id = $1"
        "  and w.state = 1) and not " IS_LEASED " order by id limit $2",
        2, {PG_UUID, PG_INT4}},
    /* ids (sorted), attempt numbers, states, calls to add, whether the effect
     * is unknown, boot id of the dead owner, ledger notes. A row that moved
     * since it was read is left alone. */
    [SQL_WORK_RUN_AGAIN] = {"run_again",
        "with moved as (update live l set state = 1, owner = null,"
        "   attempt_no = l.attempt_no + 1, deaths = l.deaths + 1,"
        "   calls = l.calls + i.calls, is_effect_unknown = i.is_unknown,"
        "   started_at = case when i.calls > 0"
        "    then coalesce(l.started_at, l.since) else l.started_at end,"
        "   since = fleet_now()"
        "  from unnest($1::uuid[], $2::int4[], $3::int2[], $4::int4[],"
        "   $5::bool[], $7::bytea[])"
        "   as i (id, attempt_no, state, calls, is_unknown, note)"
        "  where l.id between i.id and i.id"
        "  and l.attempt_no = i.attempt_no"
        "  and l.state = i.state and l.owner = $6"
        "  and not exists (select from worker w where w.boot_id = $6"
        "   and w.state = 1)"
        "  returning l.id, l.window_no, l.tenant, l.attempt_no,"
        "   i.attempt_no as was, i.note),"
        " noted as (" LEDGER_INSERT "  select g.id, g.tenant, " LEDGER_KEEP_DAYS
        ", g.was, 4, 'scheduler', 'WORKER_LOST', " LEDGER_TRACE
        ", g.note from moved g)"
        " select id, tenant, attempt_no from moved",
        7,
        {PG_UUID_ARRAY, PG_INT4_ARRAY, PG_INT2_ARRAY, PG_INT4_ARRAY,
            PG_BOOL_ARRAY, PG_UUID, PG_BYTEA_ARRAY}},
    /* ids */
    [SQL_WORK_LIVE_FACTS] = {"live_facts",
        "select l.id, l.attempt_no, l.tenant, coalesce(l.started_at, l.since),"
        "  a.connector, a.action, a.manifest, a.request, fleet_now(),"
        " " REPLAY_OF_ACTION " from unnest($1::uuid[]) as u (id)"
        " join live l on l.id between u.id and u.id"
        " join action a on a.id between l.id and l.id"
        "  and a.window_no = l.window_no",
        1, {PG_UUID_ARRAY}},
    /* ids */
    [SQL_WORK_WAITING_FACTS] = {"waiting_facts",
        "select t.id, t.attempt_no, t.tenant, t.started_at, a.connector,"
        "  a.action, a.manifest, a.request, fleet_now(),"
        " " REPLAY_OF_ACTION " from unnest($1::uuid[]) as u (id)"
        " join waiting t on t.id between u.id and u.id"
        " join action a on a.id between t.id and t.id"
        "  and a.window_no = t.window_no",
        1, {PG_UUID_ARRAY}},
    /* ids (sorted), attempt numbers, statuses, calls, error codes, bodies.
     * Only rows whose owner does not live. */
    [SQL_WORK_LIVE_END] = {"live_end",
        "with gone as (delete from live l using unnest($1::uuid[],"
        "   $2::int4[], $3::int2[], $4::int4[], $5::text[], $6::bytea[])"
        "   as i (id, attempt_no, status, calls, error_code, body)"
        "  where l.id between i.id and i.id"
        "  and l.attempt_no = i.attempt_no"
        "  and not exists (select from worker w where w.boot_id = l.owner"
        "   and w.state = 1)"
        "  returning l.id, l.window_no, l.tenant, i.status, i.attempt_no,"
        "   i.calls, i.error_code, i.body, l.replay_id, l.root_id)"
        " insert into outcome (id, window_no, tenant, status, attempt_no,"
        "  calls, error_code, body, replay_id, root_id)"
        " select id, window_no, tenant, status, attempt_no, calls, error_code,"
        "  body, replay_id, root_id from gone returning status",
        6,
        {PG_UUID_ARRAY, PG_INT4_ARRAY, PG_INT2_ARRAY, PG_INT4_ARRAY,
            PG_TEXT_ARRAY, PG_BYTEA_ARRAY}},
    [SQL_WORK_WAITING_END] = {"waiting_end",
        "with gone as (delete from waiting t using unnest($1::uuid[],"
        "   $2::int4[], $3::int2[], $4::int4[], $5::text[], $6::bytea[])"
        "   as i (id, attempt_no, status, calls, error_code, body)"
        "  where t.id between i.id and i.id"
        "  and t.attempt_no = i.attempt_no"
        "  returning t.id, t.window_no, t.tenant, i.status, i.attempt_no,"
        "   i.calls, i.error_code, i.body, t.replay_id, t.root_id)"
        " insert into outcome (id, window_no, tenant, status, attempt_no,"
        "  calls, error_code, body, replay_id, root_id)"
        " select id, window_no, tenant, status, attempt_no, calls, error_code,"
        "  body, replay_id, root_id from gone returning status",
        6,
        {PG_UUID_ARRAY, PG_INT4_ARRAY, PG_INT2_ARRAY, PG_INT4_ARRAY,
            PG_TEXT_ARRAY, PG_BYTEA_ARRAY}},
    [SQL_WORK_PARTITIONS] = {"partitions",
        "select ensure_partitions() + ensure_webhook_partitions()", 0, {0}},
    [SQL_WORK_DROP_LEDGER] = {"drop_ledger", "select drop_ledger_month()", 0,
        {0}},
    [SQL_WORK_DROP_WEBHOOKS] = {"drop_webhooks",
        "select drop_webhook_partitions()", 0, {0}},
    /* rows at most */
    [SQL_WORK_PURGE_RESERVATIONS] = {"purge_reservations",
        "delete from reservation where id in (select id from reservation"
        "  where reserved_at < fleet_now() - interval '48 h'"
        "  order by reserved_at limit $1)",
        1, {PG_INT4}},
    /* How many transactions began after the oldest of those that still write,
     * the snapshots that are still open and what replication slots hold back.
     * Snapshots of other roles show only to members of pg_read_all_stats. */
    [SQL_WORK_XMIN_LAG] = {"xmin_lag",
        "select greatest(pg_snapshot_xmax(s)::text::int8"
        "  - pg_snapshot_xmin(s)::text::int8,"
        " (select max(age(h.xmin)) from (select a.backend_xmin as xmin"
        "   from pg_stat_activity a where a.datname = current_database()"
        "   or a.backend_type = 'walsender'"
        "   union all select r.xmin from pg_replication_slots r) h))"
        " from pg_current_snapshot() s",
        0, {0}},
    /* after (next_at, id), rows at most */
    [SQL_WORK_SCHEDULES_DUE] = {"schedules_due",
        "select " SCHEDULE_COLUMNS " from schedule"
        " where state = 1 and next_at <= fleet_now()"
        " and (next_at, id) > ($1, $2) order by next_at, id limit $3",
        3, {PG_TIMESTAMPTZ, PG_UUID, PG_INT4}},
    /* id, cursor as it was read, cursor to be or null for the end, missed,
     * ticks, ids of their actions, requests. The cursor is the fence: of
     * several schedulers one moves it, and it alone has firings. */
    [SQL_WORK_FIRE] = {"fire",
        "with moved as (update schedule set next_at = $3,"
        "   state = case when $3 is null then 3 else 1 end,"
        "   missed_count = missed_count + $4,"
        "   fired_count = fired_count + coalesce(array_length($5, 1), 0),"
        "   last_at = coalesce(($5)[array_upper($5, 1)], last_at),"
        "   last_action = coalesce(($6)[array_upper($6, 1)], last_action)"
        "  where id between $1 and $1 and state = 1 and next_at = $2"
        "  returning id, tenant)"
        " insert into schedule_firing (schedule_id, tick, action_id, tenant,"
        "  request) select m.id, f.tick, f.action_id, m.tenant, f.request"
        " from moved m, unnest($5::timestamptz[], $6::uuid[], $7::bytea[])"
        "  as f (tick, action_id, request)"
        " returning schedule_id, tick, tenant, request",
        7,
        {PG_UUID, PG_TIMESTAMPTZ, PG_TIMESTAMPTZ, PG_INT8, PG_TIMESTAMPTZ_ARRAY,
            PG_UUID_ARRAY, PG_BYTEA_ARRAY}},
    /* older than, in us; rows at most. One whose action has ended may be so
     * old that its key would act again: it is done. */
    [SQL_WORK_FIRINGS] = {"firings",
        "select f.schedule_id, f.tick, f.tenant, f.request,"
        "  exists (select from outcome o"
        "   where o.id between f.action_id and f.action_id)"
        " from schedule_firing f"
        " where f.since < fleet_now() - $1 * interval '1 microsecond'"
        " order by f.since limit $2",
        2, {PG_INT8, PG_INT4}},
    /* schedules, ticks: Kafka has them */
    [SQL_WORK_FIRED] = {"fired",
        "delete from schedule_firing f"
        " using unnest($1::uuid[], $2::timestamptz[]) as i (id, tick)"
        " where f.schedule_id between i.id and i.id and f.tick = i.tick",
        2, {PG_UUID_ARRAY, PG_TIMESTAMPTZ_ARRAY}},
};

const struct pg_statement SQL_WINDOW[SQL_WINDOW_COUNT] = {
    /* least age of the newest, in seconds */
    [SQL_WINDOW_ROTATE] = {"window_rotate",
        "select rotate_window($1 * interval '1 s')", 1, {PG_INT8}},
    /* retention in seconds */
    [SQL_WINDOW_CLOSED] = {"window_closed",
        "select number from action_window"
        " where closed_at < fleet_now() - $1 * interval '1 s' order by number",
        1, {PG_INT8}},
    /* number, retention in seconds. A checkpoint's low may only be behind. */
    [SQL_WINDOW_DROP] = {"window_drop",
        "select drop_window($1, coalesce((select low from relay_checkpoint"
        "  where shard = 0), 0), $2 * interval '1 s')",
        2, {PG_INT4, PG_INT8}},
};
