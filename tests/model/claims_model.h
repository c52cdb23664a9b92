/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claims_model: one action from its claim to its outcome, in every order in
 * which workers, the sweeper, the scheduler, a cancel and the statements of all
 * of them can meet: answers get lost, a statement given up may still run later
 * (a delayed one), processes die, presence and leases are lost while a worker
 * lives. What is concluded from what was read is the programs' own code
 * (worker/protocol.h, schema/state.h); the statements are written again here,
 * after schema/sql_worker.c, schema/sql_scheduler.c and schema/cancel.h.
 *
 * Promised: one outcome, which is true and final; an unsafe effect starts at
 * most once unless the provider refused it; an offset is committed only for
 * what is claimed; nothing is stuck. Presence and lease are one unfair step: a
 * worker may be declared dead at any time.
 */
#ifndef CLAIMS_MODEL_H
#define CLAIMS_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/codes.h"

/* A rule left out. */
enum claims_fault {
    CLAIMS_NO_FAULT,
    CLAIMS_OFFSET_FIRST,       /* the offset is committed before the claim */
    CLAIMS_CONFLICT_UNREAD,    /* what was not inserted is a duplicate */
    CLAIMS_NO_RECONCILE,       /* rows of mine are not compared with memory */
    CLAIMS_ROTATE_UNLOCKED,    /* a window is rotated in the middle of claims */
    CLAIMS_GATE_FIRST,         /* the gate is opened before begun */
    CLAIMS_BEGIN_UNREAD,       /* a begun that returned no row is dropped */
    CLAIMS_SET_BACK,           /* begun is set back to ready, unchanged */
    CLAIMS_SET_BACK_FENCED,    /* ... under a higher fence */
    CLAIMS_SETTLE_UNFENCED,    /* a result is written whoever owns the row */
    CLAIMS_LATE_PUBLISHED,     /* a late result becomes an outcome */
    CLAIMS_UNKNOWN_IS_FAILED,  /* a time-out is taken for a refusal */
    CLAIMS_UNSAFE_RETRIED,     /* a time-out of an unsafe call is tried again */
    CLAIMS_RESCUE_BY_AGE,      /* begun rows of living workers run again */
    CLAIMS_SWEEP_UNFENCED,     /* the sweeper acts on what it read before */
    CLAIMS_READY_IS_UNSTARTED, /* a dead worker's ready row had no effect */
    CLAIMS_FENCE_KEPT,         /* a due row keeps its fence */
    CLAIMS_NO_SWEEP,           /* nobody looks for rows of dead workers */
    CLAIMS_FAULT_COUNT
};

struct claims_config {
    enum effect effect;
    int workers;     /* that run at once: 2 or 3 */
    int delayed;     /* statements that may run late: 0 to 2 */
    bool can_die;    /* kills, drains and takeovers of living workers */
    bool can_drain;  /* SIGTERM */
    bool can_refuse; /* the provider answers 429 or 400 */
    bool can_cancel; /* one cancel, at any time */
    bool can_expire; /* a deadline that passes at any time */
    bool can_rotate; /* one rotation of the idempotency window */
    enum claims_fault fault;
};

/* The promise that some schedule breaks, or NULL. states: how many were seen.
 * is_verbose: the schedule is printed. */
const char *claims_model_run(
    const struct claims_config *config, bool is_verbose, size_t *states);

#endif
