/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/sql_producer.h"

#include "schema/cancel.h"
#include "schema/connector_cache.h"
#include "schema/repeats.h"
#include "schema/replay_sql.h"
#include "schema/schedule_rows.h"

/* $21: ids. Dry runs name nothing. */
#define UNLESS_NAMED                                                           \
    " where not exists (select from replay r join replay_ids i"                \
    "  on i.replay_id = r.id where r.tenant = $3 and r.id <> $1"               \
    "  and not r.is_settled and not r.is_dry_run and r.phase <= 3"             \
    "  and i.ids && $21) on conflict (id) do nothing"

const struct pg_statement SQL_RESERVE[SQL_RESERVE_COUNT] = {
    /* ids (sorted), tenants, fingerprints. Waits for another producer that is
     * reserving the same id; returns the ids that are new. */
    [SQL_RESERVE_INSERT] = {"reserve_insert",
        "insert into reservation (id, tenant, fingerprint)"
        " select id, tenant, fingerprint"
        " from unnest($1::uuid[], $2::text[], $3::bytea[])"
        "  as t (id, tenant, fingerprint)"
        " on conflict do nothing returning id",
        3, {PG_UUID_ARRAY, PG_TEXT_ARRAY, PG_BYTEA_ARRAY}},
    /* ids. In a statement of its own, hence with a snapshot that sees what the
     * insert collided with. */
    [SQL_RESERVE_READ] = {"reserve_read",
        "select i.id, r.fingerprint,"
        " (select a.fingerprint from action a where a.id = i.id"
        "  order by a.window_no desc limit 1)"
        " from unnest($1::uuid[]) as i (id)"
        " left join reservation r on r.id = i.id",
        1, {PG_UUID_ARRAY}},
    [SQL_RESERVE_SCHEDULE_ADD] = {"reserve_schedule_add", SCHEDULE_ADD_SQL,
        SCHEDULE_ADD_PARAMS},
    [SQL_RESERVE_SCHEDULE_SWITCH] = {"reserve_schedule_switch",
        SCHEDULE_SWITCH_SQL, SCHEDULE_SWITCH_PARAMS},
    [SQL_RESERVE_SCHEDULE_REMOVE] = {"reserve_schedule_remove",
        SCHEDULE_REMOVE_SQL, SCHEDULE_REMOVE_PARAMS},
    [SQL_RESERVE_CANCEL] = {"reserve_cancel", CANCEL_SQL, 4,
        {PG_UUID_ARRAY, PG_TEXT, PG_BYTEA, PG_TEXT}},
    [SQL_RESERVE_NOTE_REPEATS] = {"reserve_note_repeats", REPEATS_SQL, 5,
        {PG_UUID_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY, PG_TEXT_ARRAY, PG_TEXT}},
    /* Creating a replay: see schema/replay_sql.h. A repeat by the same key
     * finds its row there. ... and the ids that none that runs may name. */
    [SQL_RESERVE_REPLAY_LOCK] = {"reserve_replay_lock", REPLAY_LOCK_SQL, 1,
        {PG_TEXT}},
    [SQL_RESERVE_REPLAY_CREATE] = {"reserve_replay_create",
        REPLAY_CREATE_SQL_IF(UNLESS_NAMED), 21,
        {REPLAY_CREATE_TYPES, PG_UUID_ARRAY}},
    [SQL_RESERVE_REPLAY_IDS] = {"reserve_replay_ids",
        "insert into replay_ids (replay_id, part, ids) select $1, $2, $3"
        " where exists (select from replay r where r.id = $1"
        "  and not r.is_settled) on conflict do nothing",
        3, {PG_UUID, PG_INT4, PG_UUID_ARRAY}},
    [SQL_RESERVE_REPLAY_GET] = {"reserve_replay_get", REPLAY_GET_SQL, 2,
        {PG_UUID, PG_TEXT}},
    [SQL_RESERVE_REPLAY_ACT] = {"reserve_replay_act", REPLAY_ACT_SQL, 4,
        {PG_UUID, PG_TEXT, PG_INT4, PG_TEXT}},
};

const struct pg_statement SQL_LOOK[SQL_LOOK_COUNT] = {
    /* Keys are added and revoked, never changed or deleted: while both counts
     * stay, so does the table. */
    [SQL_LOOK_KEY_COUNTS] = {"look_key_counts",
        "select count(*), count(revoked_at) from api_key", 0, {0}},
    [SQL_LOOK_KEYS] = {"look_keys",
        "select hash, tenant from api_key where revoked_at is null", 0, {0}},
    /* digests known already */
    [SQL_LOOK_CONNECTORS] = {"look_connectors", CONNECTOR_CACHE_SQL, 1,
        {PG_BYTEA_ARRAY}},
    /* ids */
    [SQL_LOOK_FINISHED] = {"look_finished",
        "select i.id from unnest($1::uuid[]) as i (id)"
        " where exists (select from outcome o where o.id = i.id)",
        1, {PG_UUID_ARRAY}},
    /* ids. One snapshot: a settle moves a row from one table to another in one
     * commit, so an action is seen in one place. An outcome outlives the window
     * of its action; where the key was used again, the newest action counts.
     * By seq + 0, or the planner walks partitions that were empty when it
     * planned by their keys. */
    [SQL_LOOK_ACTIONS] = {"look_actions",
        "select i.id, r.tenant, coalesce(a.tenant, o.tenant), a.connector,"
        " a.action, o.body, l.state, l.calls, w.reason, w.due, w.calls"
        " from unnest($1::uuid[]) as i (id)"
        " left join reservation r on r.id = i.id"
        " left join lateral (select tenant, connector, action, window_no"
        "  from action where id = i.id order by window_no desc limit 1) a"
        "  on true"
        " left join lateral (select tenant, body from outcome x"
        "  where x.id = i.id"
        "  and (a.window_no is null or x.window_no = a.window_no)"
        "  order by x.seq + 0 desc limit 1) o on true"
        " left join live l on l.id = i.id"
        " left join waiting w on w.id = i.id",
        1, {PG_UUID_ARRAY}},
    /* Sources are added and changed, never deleted, and each change raises the
     * version of its row: while both sums stay, so does the table. */
    [SQL_LOOK_HOOK_COUNTS] = {"look_hook_counts",
        "select count(*), coalesce(sum(version), 0)::int8"
        " from webhook_source",
        0, {0}},
    [SQL_LOOK_HOOKS] = {"look_hooks",
        "select tenant, source, scheme, parameter, secret_no, secret,"
        " old_secret, old_until, verify_token, keeps_rejected,"
        " max_body_bytes, rate_per_s, answer_ms from webhook_source"
        " where not is_disabled order by tenant, source limit 20000",
        0, {0}},
    [SQL_LOOK_REPLAY] = {"look_replay", REPLAY_GET_SQL, 2, {PG_UUID, PG_TEXT}},
    [SQL_LOOK_REPLAYS] = {"look_replays", REPLAY_LIST_SQL, 3,
        {PG_TEXT, PG_UUID, PG_INT4}},
    /* ids, tenant, whether what has succeeded counts too, replay: if it is there
     * already, that counts. A first look: the scheduler judges each again when
     * it gets there. */
    [SQL_LOOK_REPLAYABLE] = {"look_replayable",
        "select count(*) filter (where is_known), count(*) filter ("
        "   where is_known and not is_open and ($3 or not has_succeeded))"
        "  + (select count(*) from replay r where r.id = $4),"
        "  count(*) filter (where is_known and is_open),"
        "  count(*) filter (where is_known and not is_open and has_succeeded)"
        " from (select o.id is not null or w.is_open as is_known,"
        "   w.is_open or exists (select from replay_open p"
        "    where p.root_id between r.root and r.root) as is_open,"
        "   coalesce(o.status = 1, false) or exists (select from outcome s"
        "    where s.root_id = r.root and s.status = 1) as has_succeeded"
        "  from unnest($1::uuid[]) as u (id)"
        "  left join lateral (select * from outcome x where x.id = u.id"
        "   and x.tenant = $2 and x.resolves is null"
        "   order by x.seq desc limit 1) o on true"
        "  cross join lateral (select coalesce(o.root_id, u.id) as root) r"
        "  cross join lateral (select"
        "    exists (select from live x where x.id between u.id and u.id"
        "     and x.tenant = $2)"
        "    or exists (select from waiting x where x.id between u.id and u.id"
        "     and x.tenant = $2)"
        "    or (o.id is null and exists (select from reservation x"
        "     where x.id = u.id and x.tenant = $2)) as is_open) w) f",
        4, {PG_UUID_ARRAY, PG_TEXT, PG_BOOL, PG_UUID}},
    [SQL_LOOK_SCHEDULE_PREPARE] = {"look_schedule_prepare",
        SCHEDULE_PREPARE_SQL, SCHEDULE_PREPARE_PARAMS},
    [SQL_LOOK_SCHEDULE_GET] = {"look_schedule_get", SCHEDULE_GET_SQL,
        SCHEDULE_GET_PARAMS},
    [SQL_LOOK_SCHEDULE_LIST] = {"look_schedule_list", SCHEDULE_LIST_SQL,
        SCHEDULE_LIST_PARAMS},
};
