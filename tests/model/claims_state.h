/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claims_state: what claims_model remembers. All fields are bytes, so that a
 * state has no padding and can be compared as it is.
 */
#ifndef CLAIMS_STATE_H
#define CLAIMS_STATE_H

#include <stdint.h>

#include "tests/model/claims_model.h"

enum { CLAIMS_BOOTS = 3, CLAIMS_MAX_DELAYED = 2, CLAIMS_MAX_ATTEMPTS = 4 };

/* -- the database ----------------------------------------------------------- */

struct claims_live {
    uint8_t attempt_no; /* 0: there is no row */
    uint8_t state;      /* enum live_state */
    uint8_t owner;      /* boot + 1; 0: nobody */
    uint8_t calls;
    uint8_t deaths;
    uint8_t is_unknown;
    uint8_t is_cancelled;
};

struct claims_waiting {
    uint8_t attempt_no; /* 0: there is no row */
    uint8_t calls;
    uint8_t deaths;
    uint8_t is_unknown;
};

/* The worker's row of a boot. */
enum claims_boot_row { BOOT_UNBORN, BOOT_ALIVE, BOOT_STOPPED, BOOT_DEAD };

/* What an outcome said that is not so. */
enum claims_lie {
    LIE_NONE,
    LIE_UNTRUE,  /* success without effect, or no effect where there was one */
    LIE_LATE,    /* written over somebody else's row */
    LIE_NEEDLESS /* indeterminate although nothing had happened to anybody */
};

/* -- a worker's memory ------------------------------------------------------- */

enum claims_claim {
    CLAIM_IDLE,
    CLAIM_READY,  /* the record is in memory */
    CLAIM_LOCKED, /* window lock held, newest window read */
    CLAIM_UNREAD  /* not inserted: what is there has to be read */
};

enum claims_job {
    JOB_NONE,
    JOB_READY,
    JOB_BEGIN_READ,
    JOB_BEGUN, /* the gate may open */
    JOB_RUNNING,
    JOB_SETTLE,
    JOB_SETTLE_READ,
};

/* Settled as no terminal status: it waits. */
enum { WANTED_WAIT = 0 };

struct claims_boot {
    uint8_t row; /* enum claims_boot_row */
    uint8_t is_running;
    uint8_t is_draining;
    uint8_t is_wanted; /* the row has to be loaded */
    uint8_t claim;     /* enum claims_claim */
    uint8_t window;    /* CLAIM_LOCKED: the newest */
    uint8_t is_older;  /* ... and whether an older one had the id */
    uint8_t job;       /* enum claims_job */
    uint8_t attempt_no;
    uint8_t calls;
    uint8_t is_unknown;
    uint8_t is_cancelled;
    uint8_t is_in_doubt;
    uint8_t wanted; /* enum status or WANTED_WAIT */
};

/* -- statements -------------------------------------------------------------- */

enum claims_sql {
    SQL_NONE,
    SQL_CLAIM,
    SQL_COLLECT,
    SQL_BEGIN,
    SQL_SETTLE,
    SQL_POSTPONE,
    SQL_HAND_BACK,
    SQL_SET_BACK,
    SQL_RUN_AGAIN,
    SQL_LIVE_END,
    SQL_WAITING_END,
    CLAIMS_SQL_COUNT
};

struct claims_statement {
    uint8_t sql; /* enum claims_sql */
    uint8_t boot;
    uint8_t attempt_no;
    uint8_t state; /* as read by the sweeper */
    uint8_t status;
    uint8_t calls;
    uint8_t is_unknown;
};

struct claims_state {
    struct claims_live live;
    struct claims_waiting waiting;
    uint8_t actions; /* a bit a window */
    uint8_t window;  /* the newest: 0 or 1 */
    uint8_t noted;   /* a bit an attempt that has waited */
    uint8_t outcomes;
    uint8_t outcome_status;
    uint8_t outcome_no;
    uint8_t is_offset_done;
    uint8_t is_cancel_used;
    uint8_t effects; /* started, and not refused by the provider */
    uint8_t lie;     /* enum claims_lie */
    struct claims_boot boots[CLAIMS_BOOTS];
    struct claims_statement delayed[CLAIMS_MAX_DELAYED]; /* sorted */
};

bool claims_is_alive(const struct claims_state *state, int boot);

/* Runs a statement now; returns how many rows it returned. */
int claims_execute(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement);

/* The scheduler's and the caller's: they need no answer. */
void claims_due_take(
    struct claims_state *state, const struct claims_config *config);
void claims_cancel(struct claims_state *state);

#endif
