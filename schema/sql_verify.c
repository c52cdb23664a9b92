/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/sql_verify.h"

#define SAMPLES "20"
#define IS_OF(parameter, table)                                                \
    "(" parameter "::text is null or " table ".tenant = " parameter ")"

/* Where the actions of `i` are: outcomes, and live or waiting. */
#define PLACES(from)                                                           \
    "select i.id, i.window_no, i.accepted_at, o.outcomes,"                     \
    " (exists (select from live l where l.id = i.id"                           \
    "   and l.window_no = i.window_no))::int"                                  \
    " + (exists (select from waiting w where w.id = i.id"                      \
    "   and w.window_no = i.window_no))::int as unfinished"                    \
    " from " from " i cross join lateral"                                      \
    " (select count(*)::int as outcomes from outcome x"                        \
    "   where x.id = i.id and x.window_no = i.window_no) o"

#define SAMPLE_OF(condition)                                                   \
    "(select string_agg(s.id::text, ' ') from (select id from judged"          \
    "  where " condition " limit " SAMPLES ") s)"

#define JUDGEMENT                                                              \
    " select (select count(*) from judged),"                                   \
    " (select count(*) from judged where outcomes + unfinished = 0),"          \
    " " SAMPLE_OF(                                                             \
        "outcomes + unfinished = 0") ","                                       \
                                     " (select count(*) from judged where "    \
                                     "outcomes + unfinished > 1),"             \
                                     " " SAMPLE_OF(                            \
                                         "outcomes + unfinished > 1")

const struct pg_statement SQL_VERIFY[SQL_VERIFY_COUNT] = {
    /* name: one pass of a name at a time; held by the session */
    [SQL_VERIFY_LOCK] = {"verify_lock",
        "select pg_try_advisory_lock(1095779393,"
        " case $1 when 'command' then 7 else 8 end)",
        1, {PG_TEXT}},
    /* name. What was found is forgotten for all names: a person has looked. */
    [SQL_VERIFY_RESET] = {"verify_reset",
        "with m as (delete from audit_mark where name = $1),"
        " o as (delete from audit_open where name = $1)"
        " delete from audit_finding",
        1, {PG_TEXT}},
    /* lag in seconds, from or null. The sums keep the planner from walking
     * the key from its far end. */
    [SQL_VERIFY_BOUNDS] = {"verify_bounds",
        "select fleet_now(),"
        " (select min(opened_at) from action_window) - interval '1 s',"
        " coalesce((select low from relay_checkpoint where shard = 0), 0),"
        " b.last,"
        " coalesce((select min(seq + 0) - 1 from outcome"
        "  where finished_at > fleet_now() - $1 * interval '1 s'), b.last),"
        " coalesce((select min(seq + 0) from outcome"
        "  where finished_at >= $2), b.last + 1)"
        " from (select coalesce(max(seq), 0) as last from outcome) b",
        2, {PG_INT8, PG_TIMESTAMPTZ}},
    /* name */
    [SQL_VERIFY_MARK_READ] = {"verify_mark_read",
        "select accepted_at, seq, read_from::text, read_to::text"
        " from audit_mark where name = $1",
        1, {PG_TEXT}},
    /* name, accepted_at, seq, read_from, read_to */
    [SQL_VERIFY_MARK_WRITE] = {"verify_mark_write",
        "insert into audit_mark (name, accepted_at, seq, read_from, read_to)"
        " values ($1, $2, $3, $4::text::jsonb, $5::text::jsonb)"
        " on conflict (name) do update set accepted_at = excluded.accepted_at,"
        "  seq = excluded.seq, read_from = excluded.read_from,"
        "  read_to = excluded.read_to, updated_at = fleet_now()",
        5, {PG_TEXT, PG_TIMESTAMPTZ, PG_INT8, PG_TEXT, PG_TEXT}},
    /* accepted after, accepted up to, tenant or null, name to remember what is
     * unfinished under or null */
    [SQL_VERIFY_ACTIONS] = {"verify_actions",
        "with slice as (select id, window_no, accepted_at from action a"
        "   where a.accepted_at > $1 and a.accepted_at <= $2 and " IS_OF("$3",
            "a") "),"
                 " judged as materialized (" PLACES(
                     "slice") "),"
                              " kept as (insert into audit_open (name, id, "
                              "window_no, accepted_at)"
                              "  select $4::text, id, window_no, accepted_at "
                              "from judged"
                              "  where $4::text is not null"
                              "  and not (outcomes = 1 and unfinished = 0)"
                              "  on conflict do nothing)" JUDGEMENT,
        4, {PG_TIMESTAMPTZ, PG_TIMESTAMPTZ, PG_TEXT, PG_TEXT}},
    /* name, the mark's accepted_at. What a broken-off pass left above the mark
     * will be met again. */
    [SQL_VERIFY_OPEN] = {"verify_open",
        "with slice as (select id, window_no, accepted_at from audit_open"
        "   where name = $1 and accepted_at <= $2),"
        " judged as materialized (" PLACES(
            "slice") "),"
                     " done as (delete from audit_open a using judged j where "
                     "a.name = $1"
                     "  and a.id = j.id and a.window_no = j.window_no"
                     "  and j.outcomes = 1 and j.unfinished = 0)" JUDGEMENT,
        2, {PG_TEXT, PG_TIMESTAMPTZ}},
    /* tenant or null. A worker's lease ends 10 s after its last sign of life;
     * work that waits for a person is never late. */
    [SQL_VERIFY_ORPHANS] = {"verify_orphans",
        "with judged as (select l.id from live l"
        "  left join worker w on w.boot_id = l.owner where " IS_OF("$1",
            "l") "  and case when l.owner is null"
                 "    then l.since < fleet_now() - interval '30 s'"
                 "    else w.boot_id is null"
                 "     or w.lease_until < fleet_now() - interval '20 s' end"
                 "  union all select t.id from waiting t"
                 "  where t.due < fleet_now() - interval '60 s'"
                 "  and t.reason not in (4, 5) and " IS_OF("$1",
                     "t") ")"
                          " select (select count(*) from judged)," SAMPLE_OF(
                              "true"),
        1, {PG_TEXT}},
    /* tenant or null */
    [SQL_VERIFY_STRAYS] = {"verify_strays",
        "select id::text from (select id, window_no, tenant from live"
        "  union all select id, window_no, tenant from waiting) u"
        " where " IS_OF("$1", "u") " and not exists (select from action a"
                                   "  where a.id = u.id and a.window_no = "
                                   "u.window_no) limit 1000",
        1, {PG_TEXT}},
    /* after, tenant or null */
    [SQL_VERIFY_LATE] = {"verify_late",
        "select count(*) from ledger g where g.kind = 2 and g.at > $1"
        " and " IS_OF("$2", "g"),
        2, {PG_TIMESTAMPTZ, PG_TEXT}},
    /* tenant or null */
    [SQL_VERIFY_OLDEST] = {"verify_oldest",
        "select u.tenant, count(*), greatest(0,"
        "  extract(epoch from fleet_now() - min(a.accepted_at)))::int8 as age"
        " from (select id, window_no, tenant from live"
        "  union all select id, window_no, tenant from waiting) u"
        " join action a on a.id = u.id and a.window_no = u.window_no"
        " where " IS_OF(
            "$1", "u") " group by u.tenant"
                       " order by age desc, u.tenant limit " SAMPLES,
        1, {PG_TEXT}},
    /* above seq, up to seq, tenant or null, rows at most */
    [SQL_VERIFY_OUTCOMES] = {"verify_outcomes",
        "select o.seq, o.id, o.resolves is null"
        " and not exists (select from action a"
        "  where a.id = o.id and a.window_no = o.window_no)"
        " and exists (select from action_window w"
        "  where w.number = o.window_no)"
        " from outcome o where o.seq > $1 and o.seq <= $2 and " IS_OF(
            "$3", "o") " order by o.seq limit $4",
        4, {PG_INT8, PG_INT8, PG_TEXT, PG_INT4}},
    /* seqs, ids: the places in the arrays, from 1, of those without a row */
    [SQL_VERIFY_UNKNOWN] = {"verify_unknown",
        "select i.place from unnest($1::int8[], $2::uuid[])"
        "  with ordinality as i (seq, id, place)"
        " where not exists (select from outcome o where o.seq = i.seq"
        "  and o.id = i.id)",
        2, {PG_INT8_ARRAY, PG_UUID_ARRAY}},
    /* name, kind, what */
    [SQL_VERIFY_FIND] = {"verify_find",
        "insert into audit_finding (name, kind, what) values ($1, $2, $3)"
        " on conflict do nothing",
        3, {PG_TEXT, PG_INT2, PG_TEXT}},
    /* name */
    [SQL_VERIFY_FINDINGS] = {"verify_findings",
        "select kind, count(*), (select string_agg(s.what, ' ') from"
        "  (select what from audit_finding x where x.name = $1"
        "    and x.kind = f.kind order by x.at, x.what limit " SAMPLES ") s)"
        " from audit_finding f where f.name = $1 group by kind",
        1, {PG_TEXT}},
};
