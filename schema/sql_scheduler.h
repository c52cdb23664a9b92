/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql_scheduler: the statements of the scheduler. Every write to a row of an
 * action names its fence (id, attempt_no). An outcome's seq is drawn only by
 * the column default of an INSERT fed by a DELETE, so that its transaction has
 * an id before it draws: the relay's tail depends on it.
 */
#ifndef SQL_SCHEDULER_H
#define SQL_SCHEDULER_H

#include "common/pg.h"

/* On the relay's connection, which also holds the leader's lock. */
enum sql_relay {
    SQL_RELAY_LOCK,
    SQL_RELAY_FACTS,
    SQL_RELAY_CHECKPOINT_READ,
    SQL_RELAY_CHECKPOINT_WRITE,
    SQL_RELAY_IDS,
    SQL_RELAY_XMIN,
    SQL_RELAY_ROWS,
    SQL_RELAY_BOUND,
    SQL_RELAY_REPLICATED,
    SQL_RELAY_COUNT
};
extern const struct pg_statement SQL_RELAY[SQL_RELAY_COUNT];

/* Columns of SQL_RELAY_FACTS. */
enum relay_fact {
    RELAY_FACT_CACHE,
    RELAY_FACT_INCREMENT,
    RELAY_FACT_IS_CYCLIC,
    RELAY_FACT_LAST_VALUE,
    RELAY_FACT_SYNCHRONOUS_COMMIT,
    RELAY_FACT_SYSTEM,
    RELAY_FACT_TIMELINE,
    RELAY_FACT_HAS_STANDBY
};

/* Columns of SQL_RELAY_CHECKPOINT_READ. */
enum checkpoint_column {
    CHECKPOINT_LOW,
    CHECKPOINT_HIGH,
    CHECKPOINT_GAPS,      /* JSON array */
    CHECKPOINT_POSITIONS, /* JSON object */
    CHECKPOINT_SYSTEM,
    CHECKPOINT_TIMELINE
};

/* Columns of SQL_RELAY_ROWS. */
enum relay_column {
    RELAY_SEQ,
    RELAY_ID,
    RELAY_TENANT,
    RELAY_TRACEPARENT,
    RELAY_BODY /* null: over the byte budget of this read */
};

/* On the connection that looks and never writes. */
enum sql_pulse { SQL_PULSE_LOOK, SQL_PULSE_COUNT };
extern const struct pg_statement SQL_PULSE[SQL_PULSE_COUNT];

/* Columns of SQL_PULSE_LOOK: one row a living worker, or one row without. */
enum pulse_column {
    PULSE_CLOCK,          /* what the database's clock shows */
    PULSE_MOVED_US,       /* the sum of what waits were moved by */
    PULSE_SERVER,         /* changes when the server restarted or failed over */
    PULSE_NEXT_DUE_US,    /* from now; negative: overdue */
    PULSE_UNTAKEN,        /* live rows that nobody has taken */
    PULSE_UNTAKEN_AGE_US, /* of the oldest */
    PULSE_HAS_HELD,       /* work that no clock brings back may have to move */
    PULSE_NEXT_TICK_US,   /* of schedules, from now; negative: overdue */
    PULSE_FIRING_AGE_US,  /* of the oldest not published; -1: none */
    PULSE_BOOT_ID,
    PULSE_IS_HELD,
    PULSE_IS_EXPIRED
};

/* After a step of the database's clock. The first two are one transaction:
 * whatever was under way on waiting has ended once they have. */
enum sql_clock {
    SQL_CLOCK_PATIENCE,
    SQL_CLOCK_LOCK,
    SQL_CLOCK_MOVE, /* columns: enum clock_column */
    SQL_CLOCK_COUNT
};
extern const struct pg_statement SQL_CLOCK[SQL_CLOCK_COUNT];

enum clock_column {
    CLOCK_IS_MOVED, /* false: somebody else was first */
    CLOCK_ROWS
};

/* On the connection for everything that moves rows. */
enum sql_work {
    SQL_WORK_DUE_TAKE,
    SQL_WORK_DUE_NEXT,
    SQL_WORK_DUE_EXPIRED,
    SQL_WORK_HELD_TAKE,
    SQL_WORK_HELD_EXPIRED,
    SQL_WORK_UNTAKEN,
    SQL_WORK_MARK_DEAD,
    SQL_WORK_ORPHANS,
    SQL_WORK_ORPHANS_OF,
    SQL_WORK_RUN_AGAIN,
    SQL_WORK_LIVE_FACTS,
    SQL_WORK_WAITING_FACTS,
    SQL_WORK_LIVE_END,
    SQL_WORK_WAITING_END,
    SQL_WORK_PARTITIONS,
    SQL_WORK_DROP_LEDGER,
    SQL_WORK_DROP_WEBHOOKS,
    SQL_WORK_PURGE_RESERVATIONS,
    SQL_WORK_XMIN_LAG,
    SQL_WORK_SCHEDULES_DUE, /* columns: enum schedule_column */
    SQL_WORK_FIRE,
    SQL_WORK_FIRINGS,
    SQL_WORK_FIRED,
    SQL_WORK_COUNT
};
extern const struct pg_statement SQL_WORK[SQL_WORK_COUNT];

/* Columns of SQL_WORK_FIRE and SQL_WORK_FIRINGS. */
enum firing_column {
    FIRING_SCHEDULE,
    FIRING_TICK,
    FIRING_TENANT,
    FIRING_REQUEST,
    FIRING_IS_ENDED /* FIRINGS: its action has an outcome */
};

/* On the connection of the idempotency windows. */
enum sql_window {
    SQL_WINDOW_ROTATE, /* null: not yet */
    SQL_WINDOW_CLOSED,
    SQL_WINDOW_DROP, /* false: not yet */
    SQL_WINDOW_COUNT
};
extern const struct pg_statement SQL_WINDOW[SQL_WINDOW_COUNT];

/* Columns of SQL_WORK_ORPHANS_OF. */
enum orphan_column {
    ORPHAN_ID,
    ORPHAN_TENANT,
    ORPHAN_ATTEMPT_NO,
    ORPHAN_STATE,
    ORPHAN_EFFECT,
    ORPHAN_CALLS,
    ORPHAN_DEATHS,
    ORPHAN_IS_EFFECT_UNKNOWN
};

/* Columns of SQL_WORK_LIVE_FACTS and SQL_WORK_WAITING_FACTS. */
enum ending_column {
    ENDING_ID,
    ENDING_ATTEMPT_NO,
    ENDING_TENANT,
    ENDING_STARTED_AT,
    ENDING_CONNECTOR,
    ENDING_ACTION,
    ENDING_MANIFEST,
    ENDING_REQUEST,
    ENDING_NOW,
    ENDING_REPLAY_OF /* the columns of enum replay_of_column */
};

#endif
