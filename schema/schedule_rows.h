/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_rows: the statements on schedules that producer and command share,
 * and their rows: as JSON, and back into a struct schedule. Every change is
 * noted in the ledger by the statement that makes it.
 */
#ifndef SCHEDULE_ROWS_H
#define SCHEDULE_ROWS_H

#include "common/pg.h"
#include "schema/ledger.h"
#include "schema/schedule.h"

/* Of one tenant. */
#define SCHEDULE_MAX_COUNT 1000
#define SCHEDULE_VIEW_MAX_BYTES (SCHEDULE_MAX_BYTES + 4096)

/* Columns of every statement that returns schedules. */
enum schedule_column {
    SCHEDULE_NOW, /* of the database */
    SCHEDULE_ID,
    SCHEDULE_TENANT,
    SCHEDULE_NAME,
    SCHEDULE_DOCUMENT,
    SCHEDULE_STATE,
    SCHEDULE_NEXT_AT,
    SCHEDULE_LAST_AT,
    SCHEDULE_LAST_ACTION,
    SCHEDULE_FIRED,
    SCHEDULE_MISSED,
    SCHEDULE_CREATED_AT,
    SCHEDULE_CHANGED_AT
};
#define SCHEDULE_COLUMNS                                                       \
    "fleet_now(), id, tenant, name, document, state, next_at, last_at,"        \
    " last_action, fired_count, missed_count, created_at, changed_at"

/* id or null, tenant or null, name or null */
#define SCHEDULE_GET_SQL                                                       \
    "select " SCHEDULE_COLUMNS " from schedule"                                \
    " where ($1::uuid is null or id = $1)"                                     \
    " and ($2::text is null or tenant = $2)"                                   \
    " and ($3::text is null or name = $3) limit 1"
/* tenant or null, after (tenant, name), rows at most */
#define SCHEDULE_LIST_SQL                                                      \
    "select " SCHEDULE_COLUMNS " from schedule"                                \
    " where ($1::text is null or tenant = $1) and (tenant, name) > ($2, $3)"   \
    " order by tenant, name limit $4"

#define SCHEDULE_NOTED(op, actor)                                              \
    " noted as (" LEDGER_INSERT " select null, g.tenant, " LEDGER_KEEP_DAYS    \
    ", 0, 5, " actor ", null, null, convert_to(json_build_object('op', " op    \
    ", 'schedule', g.name, 'id', g.id)::text, 'UTF8') from changed g)"

/* The clock, how many the tenant has, and the one of that name if any.
 * tenant, name */
#define SCHEDULE_PREPARE_SQL                                                   \
    "select fleet_now(), s.id, s.tenant, s.name, s.document, s.state,"         \
    " s.next_at, s.last_at, s.last_action, s.fired_count, s.missed_count,"     \
    " s.created_at, s.changed_at,"                                             \
    " (select count(*) from schedule c where c.tenant = $1)"                   \
    " from (select) one"                                                       \
    " left join schedule s on s.tenant = $1 and s.name = $2"
enum { SCHEDULE_COUNT = SCHEDULE_CHANGED_AT + 1 };
/* id, tenant, name, document, next_at, now as it was read, actor. No row:
 * there is one of that name by now. */
#define SCHEDULE_ADD_SQL                                                       \
    "with changed as (insert into schedule (id, tenant, name, document,"       \
    "  next_at, created_at) values ($1, $2, $3, $4, $5, $6)"                   \
    "  on conflict (tenant, name) do nothing"                                  \
    "  returning " SCHEDULE_COLUMNS                                            \
    ")," SCHEDULE_NOTED("'schedule.add'", "$7") " select * from changed"
/* id, tenant, state it has to be in, state to be, next_at or null to leave it,
 * actor, op. No row: it is not in that state any more, or gone. */
#define SCHEDULE_SWITCH_SQL                                                    \
    "with changed as (update schedule set state = $4,"                         \
    "  next_at = coalesce($5, next_at), changed_at = fleet_now()"              \
    "  where id = $1 and tenant = $2 and state = $3"                           \
    "  returning " SCHEDULE_COLUMNS                                            \
    ")," SCHEDULE_NOTED("$7::text", "$6") " select * from changed"
/* id, tenant, actor */
#define SCHEDULE_REMOVE_SQL                                                    \
    "with changed as (delete from schedule where id = $1 and tenant = $2"      \
    "  returning " SCHEDULE_COLUMNS                                            \
    ")," SCHEDULE_NOTED("'schedule.remove'", "$3") " select * from changed"

/* The types of their parameters. */
#define SCHEDULE_GET_PARAMS                                                    \
    3,                                                                         \
    {                                                                          \
        PG_UUID, PG_TEXT, PG_TEXT                                              \
    }
#define SCHEDULE_LIST_PARAMS                                                   \
    4,                                                                         \
    {                                                                          \
        PG_TEXT, PG_TEXT, PG_TEXT, PG_INT4                                     \
    }
#define SCHEDULE_PREPARE_PARAMS                                                \
    2,                                                                         \
    {                                                                          \
        PG_TEXT, PG_TEXT                                                       \
    }
#define SCHEDULE_ADD_PARAMS                                                    \
    7,                                                                         \
    {                                                                          \
        PG_UUID, PG_TEXT, PG_TEXT, PG_BYTEA, PG_TIMESTAMPTZ, PG_TIMESTAMPTZ,   \
            PG_TEXT                                                            \
    }
#define SCHEDULE_SWITCH_PARAMS                                                 \
    7,                                                                         \
    {                                                                          \
        PG_UUID, PG_TEXT, PG_INT2, PG_INT2, PG_TIMESTAMPTZ, PG_TEXT, PG_TEXT   \
    }
#define SCHEDULE_REMOVE_PARAMS                                                 \
    3,                                                                         \
    {                                                                          \
        PG_UUID, PG_TEXT, PG_TEXT                                              \
    }

/* The schedule of a row; borrows from it. -1: a document that this version
 * cannot read, as a fault. */
int schedule_of_row(const PGresult *rows, int row, struct schedule *schedule,
    struct fault *fault) MUST_CHECK;
/* When a paused schedule goes on: ticks of the pause are left out, but a
 * one-off stays what it is. */
int schedule_row_resume(const PGresult *rows, int row, int64_t *next_us,
    struct fault *fault) MUST_CHECK;
/* Appends one JSON object. */
void schedule_put_row(struct buf *out, const PGresult *rows, int row);
/* True if the document of a row says the same, in whatever form. */
bool schedule_row_is(const PGresult *rows, int row, struct span document);

#endif
