/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel: the one statement by which an action is cancelled, from the HTTP door
 * and from the command, and what its answer means. No I/O.
 *
 * What is live gets marked: a worker ends it instead of starting it or of
 * trying it again; a call that runs is left to end, since its result decides.
 * What waits becomes live again, marked, under a higher fence and without an
 * owner: the next worker that takes it ends it. So there is one place where
 * the outcome of a cancelled action is made, and one row lock that decides who
 * wins against a start, a finish and a retry.
 */
#ifndef CANCEL_H
#define CANCEL_H

#include <stdbool.h>

#include "schema/ledger.h"

/*
 * Ids (sorted), tenant or null, ledger note, who asks. One row an id. The reads see what
 * was before the statement, so a row that moved meanwhile shows as open but
 * not taken: ask again. `since` lies back, so that the dispatcher sends the row
 * at its next look.
 */
#define CANCEL_SQL                                                             \
    "with asked as (select id from unnest($1::uuid[]) as u (id)),"             \
    " marked as (update live l set is_cancelled = true from asked i"           \
    "  where l.id between i.id and i.id and not l.is_cancelled"                \
    "  and ($2::text is null or l.tenant = $2)"                                \
    "  returning l.id, l.window_no, l.tenant, l.attempt_no),"                  \
    " gone as (delete from waiting w using asked i"                            \
    "  where w.id between i.id and i.id"                                       \
    "  and ($2::text is null or w.tenant = $2) returning w.*),"                \
    " moved as (insert into live (id, window_no, tenant, attempt_no, state,"   \
    "   effect, calls, deaths, is_effect_unknown, is_cancelled, deadline,"     \
    "   started_at, since, replay_id, root_id)"                                \
    "  select id, window_no, tenant, attempt_no + 1, 1, effect, calls, "       \
    "deaths,"                                                                  \
    "   is_effect_unknown, true, deadline, started_at,"                        \
    "   fleet_now() - interval '1 s', replay_id, root_id from gone"            \
    "  returning id, window_no, tenant, attempt_no),"                          \
    " taken as (select * from marked union all select * from moved),"          \
    " noted as (" LEDGER_INSERT "  select g.id, g.tenant, " LEDGER_KEEP_DAYS   \
    ", g.attempt_no, 8, $4, 'CANCELLED', " LEDGER_TRACE ", $3 from taken g)"   \
    " select i.id, coalesce(a.tenant, o.tenant, r.tenant),"                    \
    "  exists (select from taken t where t.id = i.id),"                        \
    "  exists (select from live l where l.id = i.id and l.is_cancelled),"      \
    "  exists (select from live l where l.id = i.id)"                          \
    "   or exists (select from waiting w where w.id = i.id),"                  \
    "  o.status"                                                               \
    " from asked i left join lateral (select id, tenant, window_no"            \
    "   from action x where x.id = i.id order by window_no desc limit 1) a"    \
    "  on true"                                                                \
    " left join lateral (select tenant, status from outcome x"                 \
    "   where x.id = i.id"                                                     \
    "   and (a.window_no is null or x.window_no = a.window_no)"                \
    "   order by x.seq + 0 desc limit 1) o on true"                            \
    " left join reservation r on r.id = i.id"

/* Columns of CANCEL_SQL. */
enum cancel_column {
    CANCEL_ID,
    CANCEL_TENANT, /* null: no such action */
    CANCEL_IS_TAKEN,
    CANCEL_IS_MARKED,
    CANCEL_IS_OPEN,
    CANCEL_STATUS /* of its outcome; null: none */
};

struct cancel_row {
    bool is_known;      /* it has a tenant, and it is the caller's */
    bool is_taken;      /* this statement marked it */
    bool is_marked;     /* an earlier one had */
    bool is_open;       /* live or waiting before this statement */
    enum status status; /* 0: no outcome yet */
};

enum cancel_word {
    CANCEL_UNKNOWN,   /* no such action */
    CANCEL_UNDER_WAY, /* marked; what runs decides */
    CANCEL_DONE,      /* it has ended as cancelled */
    CANCEL_TOO_LATE,  /* it has ended otherwise */
    CANCEL_AGAIN,     /* it moved meanwhile: repeat the statement */
    CANCEL_NOT_YET    /* accepted, not claimed: nothing to mark so far */
};
enum cancel_word cancel_judge(const struct cancel_row *row);

/* How often to repeat CANCEL_AGAIN before calling it "try later". */
#define CANCEL_TRIES 10

#endif
