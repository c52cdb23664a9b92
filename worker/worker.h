/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker: the context every room of the worker shares, and its life.
 *
 *   intake -> claim -> admit -> (begin ->) call -> settle
 *                take, reconcile -> revive -> admit
 *
 * A worker has one identity at a time, its boot id. When its lease is lost it
 * kills its children, forgets everything and comes back under a new one; the
 * keeper, the metrics and the health door stay.
 * All of it belongs to the loop's thread. Nothing here blocks, except
 * worker_close() (bounded: leaving the consumer group).
 */
#ifndef WORKER_H
#define WORKER_H

#include "common/conf.h"
#include "common/loop.h"
#include "common/pg.h"
#include "worker/job.h"
#include "worker/run/run.h"
#include "worker/stats.h"

#define WORKER_BATCH 200 /* records of one statement at most */
#define WORKER_BATCH_BYTES ((size_t)8 << 20)

struct worker {
    struct loop *loop;
    const struct conf *conf;
    struct run *run;
    struct stats stats;
    int exit_code;

    uint8_t boot_id[UUID_SIZE];
    char boot_text[UUID_TEXT_SIZE];
    struct pg *claim_db;  /* claim, take, begin */
    struct pg *settle_db; /* settle, reconcile, connectors */
    int64_t clock_us;     /* database clock minus our monotonic clock */
    bool is_closing;      /* callbacks of what is being closed do nothing */
    bool is_restarting;   /* the loop ends to come back with a new identity */
    bool is_draining;
    bool is_parked;      /* it stops to stand by, not to end */
    bool is_standing_by; /* closed, until an operator lets it work again */

    struct jobs jobs;
    struct presence *presence;
    struct lease *lease;
    struct connectors *connectors;
    struct pauses *pauses;
    struct drain *drain;
    struct control *control;
    struct intake *intake;
    struct rejects *rejects;
    struct claim *claim;
    struct deliveries *deliveries;
    struct take *take;
    struct admit *admit;
    struct begin *begin;
    struct settle *settle;
    struct reconcile *reconcile;
    struct release *release;
    struct repeat_notes *repeat_notes;
};

/* Opens everything under a new boot id. The intake starts by itself once the
 * presence lock is held, the lease is written and the connectors are read. */
int worker_open(struct worker *worker, struct err *err) MUST_CHECK;
void worker_close(struct worker *worker);

/* The identity is lost: kills the children and ends the loop; main opens the
 * worker anew. */
void worker_restart(struct worker *worker, const char *reason);
/* Stops in order, then ends the loop; exit_code is the program's. */
void worker_stop(struct worker *worker, int exit_code);

/* Stops in order, then stands by; see drain.h. */
void worker_park(struct worker *worker);

/* The database's clock as far as we know it, wall microseconds. Before the
 * first answer: our own wall clock. */
int64_t worker_now_us(const struct worker *worker);

/* True if all of it is up; otherwise reason is a static text. */
bool worker_is_ready(const struct worker *worker, const char **reason);

/* Callbacks for run_open(). */
void worker_on_run_done(void *owner, const struct run_result *result);
void worker_on_run_dead(void *owner);

/* The settings of the worker and of its children, in one table that the caller
 * frees. */
struct conf_setting *worker_settings(size_t *count);

#endif
