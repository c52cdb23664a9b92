/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the relay share. Only relay*.c and leader.c include this.
 *
 * leader.c        waits for the lock of the shard
 * relay.c         the phases of a start, and the way back
 * relay_check.c   what must be true before anything is published
 * relay_tail.c    polls, batches, checkpoints
 */
#ifndef RELAY_PRIVATE_H
#define RELAY_PRIVATE_H

#include "common/metrics.h"
#include "common/pg.h"
#include "scheduler/checkpoint.h"
#include "scheduler/lanes.h"
#include "scheduler/relay.h"
#include "scheduler/relay_core.h"
#include "schema/sql_scheduler.h"

enum relay_phase {
    RELAY_DOWN,      /* no connection, or waiting to start again */
    RELAY_FOLLOWING, /* somebody else leads */
    RELAY_CHECKING,  /* facts and checkpoint are being read */
    RELAY_STARTING,  /* lanes are fenced, the topic is read back */
    RELAY_COMPARING, /* what was read back is compared with the rows */
    RELAY_TAILING,
    RELAY_STOPPED,
    RELAY_PHASE_COUNT
};

struct relay_stats {
    struct metric *is_leader;
    struct metric *is_alarmed;
    struct metric *published;
    struct metric *transactions;
    struct metric *low;
    struct metric *high;
    struct metric *gaps;
    struct metric *gaps_waited;
    struct metric *gaps_dead;
    struct metric *skipped;
    struct metric *fenced;
    struct metric *doubts;
    struct metric *duplicates;
    struct metric *below_watermark;
    struct metric *cut;
};

struct relay {
    struct loop *loop;
    const struct conf *conf;
    int shard;
    struct pg *pg;
    enum relay_phase phase;
    struct loop_timer *timer;
    struct loop_timer *pinger; /* keeps the session from looking frozen */
    struct pg_params params;
    struct relay_stats stats;
    int64_t backoff_ms;    /* before the next start after a doubt */
    int64_t not_before_us; /* of the next try for the lock */
    struct err alarm;      /* why it is not publishing; ERR_NONE: it is well */

    /* stopping */
    bool is_stopping;
    loop_fn on_stopped;
    void *stop_owner;

    /* one start */
    struct checkpoint checkpoint;
    struct lane_start start;
    bool is_start_given; /* to the lanes, and not answered */
    size_t compared;     /* of start.found */
    int64_t system;
    int32_t timeline;
    bool has_standby;

    /* tailing */
    struct lanes *lanes;
    struct relay_core core;
    struct lane_batch batch;
    struct positions delivered; /* ends of the read-back and what came after */
    bool is_polling;            /* a poll or its publishing is under way */
    bool is_full;               /* the last poll left something out */
    bool is_dirty;              /* changed since the last checkpoint */
    bool is_saving;
    int64_t dirty_us;     /* when it became so */
    int64_t active_us;    /* when rows last came */
    int64_t published_us; /* when the last transaction began */
    int64_t took_us;      /* a transaction lately, on the average */
};

/* -- relay.c --------------------------------------------------------------------- */

/* The one way back. FATAL refuses: an alarm, and a longer wait. */
void relay_restart(struct relay *relay, const struct err *err);
/* It works, or somebody else does it. */
void relay_clear_alarm(struct relay *relay);
/* For the callback of a statement: false (and started again) unless it is
 * done and belongs to this phase. */
bool relay_takes(struct relay *relay, enum relay_phase phase,
    const struct pg_outcome *outcome, const char *what);
void relay_set_phase(struct relay *relay, enum relay_phase phase);
void relay_stats_init(struct relay_stats *stats);

/* -- leader.c -------------------------------------------------------------------- */

void leader_follow(struct relay *relay); /* calls relay_check() once it leads */

/* -- relay_check.c ------------------------------------------------------------------ */

void relay_check(struct relay *relay);   /* then relay_begin_lanes() */
void relay_compare(struct relay *relay); /* then relay_tail() */

/* -- relay.c ------------------------------------------------------------------------- */

void relay_begin_lanes(struct relay *relay);
void relay_stopped(struct relay *relay); /* the last checkpoint is saved */

/* -- relay_tail.c -------------------------------------------------------------------- */

void relay_tail(struct relay *relay);      /* begins to tail */
void relay_tail_step(struct relay *relay); /* on the timer, and to stop */
void relay_on_published(void *owner, const struct err *err);

#endif
