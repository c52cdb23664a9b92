/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/admit.h"

#include <stdlib.h>

#include "common/log.h"
#include "common/time.h"
#include "worker/begin.h"
#include "worker/call.h"
#include "worker/fair.h"
#include "worker/judge.h"
#include "worker/lease.h"
#include "worker/pauses.h"
#include "worker/presence.h"
#include "worker/release.h"
#include "worker/settle.h"
#include "worker/worker.h"

enum {
    BLOCKED_MS = 20, /* a tenant whose runner is full */
    PARKED_MS = 1000,
    PARKED_SPREAD_MS = 1000
};
/* No new calls while so many bytes of results wait to be written. */
#define MAX_SETTLE_BYTES ((size_t)24 << 20)

struct admit {
    struct worker *worker;
    struct fair *fair;
    struct job_list begun; /* gates that may open, before all others */
    struct loop_timer *again;
    size_t max_running;
    int64_t held_us; /* place of the last paused one in the order of due */
    bool is_kicking; /* what a start ends must not start the next one */
};

static void on_again(void *owner)
{
    admit_kick(owner);
}

struct admit *admit_open(struct worker *worker)
{
    struct admit *admit = mem_zalloc(1, sizeof(*admit));
    const struct fair_limits limits = {
        .tenant_queue = (size_t)conf_int(worker->conf, "worker.tenant_queue"),
        .tenant_running =
            (size_t)conf_int(worker->conf, "worker.tenant_concurrency"),
        .patience_ms = PARKED_MS,
    };
    admit->worker = worker;
    admit->fair = fair_new(&limits);
    admit->max_running = (size_t)conf_int(worker->conf, "worker.concurrency");
    admit->again = loop_timer_new(worker->loop, on_again, admit);
    return admit;
}

void admit_close(struct admit *admit)
{
    if (admit == NULL) {
        return;
    }
    loop_timer_free(admit->again);
    fair_free(admit->fair);
    free(admit);
}

/* -- what needs no call ---------------------------------------------------- */

/* True if the job went on to be settled. */
static bool end_without_call(struct admit *admit, struct job *job)
{
    struct worker *worker = admit->worker;
    const int64_t now_us = worker_now_us(worker);
    if (job->fault != NULL || job->action == NULL) {
        judge_rejected(&worker->jobs, job, now_us);
    } else if (job->is_cancelled) {
        judge_ended(
            &worker->jobs, job, STATUS_CANCELLED, CODE_CANCELLED, now_us);
    } else if (job->deadline_us != 0 && job->deadline_us <= now_us) {
        judge_ended(
            &worker->jobs, job, STATUS_EXPIRED, CODE_DEADLINE_PASSED, now_us);
    } else {
        return false;
    }
    settle_add(worker->settle, job);
    return true;
}

static void postpone(struct admit *admit, struct job *job,
    enum wait_reason reason, int64_t due_us, int64_t wait_ms)
{
    job->settlement = (struct settlement){
        .reason = reason, .due_us = due_us, .wait_ms = wait_ms};
    settle_add(admit->worker->settle, job);
}

/* True if a pause holds the job, which then waits for its end. Places are
 * times that differ, so that what is held goes on in the order it came. */
static bool hold_if_paused(struct admit *admit, struct job *job)
{
    struct worker *worker = admit->worker;
    const int64_t pause_no = pauses_find(worker->pauses, &job->record);
    if (pause_no == 0) {
        return false;
    }
    const int64_t now_us = worker_now_us(worker);
    admit->held_us = now_us > admit->held_us ? now_us : admit->held_us + 1;
    postpone(admit, job, WAIT_PAUSED, admit->held_us, 0);
    job->settlement.pause_no = pause_no;
    return true;
}

void admit_add(struct admit *admit, struct job *job)
{
    struct worker *worker = admit->worker;
    if (end_without_call(admit, job)) {
        return;
    }
    if (worker->is_draining) {
        release_add(worker->release, job);
        return;
    }
    if (job->record.not_before_us > worker_now_us(worker)) {
        postpone(admit, job, WAIT_NOT_BEFORE, job->record.not_before_us, 0);
        return;
    }
    if (hold_if_paused(admit, job)) {
        return;
    }
    if (!fair_push(admit->fair, job)) {
        postpone(admit, job, WAIT_PARKED, 0,
            PARKED_MS + random_up_to(PARKED_SPREAD_MS));
        return;
    }
    job->queued_us = now_mono_us();
    admit_kick(admit);
}

/* -- starting -------------------------------------------------------------- */

static void try_again_soon(struct admit *admit)
{
    if (!loop_timer_is_active(admit->again)) {
        loop_timer_start(admit->again, BLOCKED_MS, 0);
    }
}

/* Of this attempt alone: what was waited for before it is not in it. */
static void note_delay(const struct worker *worker, const struct job *job)
{
    const int64_t delay_us = now_mono_us() - job->queued_us;
    metric_observe(
        worker->stats.queue_seconds, NULL, (double)delay_us / (double)US_PER_S);
}

/* False: the runner is full or not there; the job was not started. */
static bool open_gate(struct admit *admit, struct job *job)
{
    struct err err = ERR_INIT;
    if (call_start(admit->worker, job, &err) == 0) {
        note_delay(admit->worker, job);
        return true;
    }
    LOG(DEBUG, "call_not_started",
        (&(struct log_fields){.err = &err, .tenant = job->record.tenant}),
        "it is tried again");
    try_again_soon(admit);
    return false;
}

static void open_begun_gates(struct admit *admit)
{
    for (size_t left = admit->begun.count; left > 0; left--) {
        struct job *job = job_list_pop(&admit->begun);
        if (!open_gate(admit, job)) {
            job_list_push(&admit->begun, job);
        }
    }
}

static void start(struct admit *admit, struct job *job)
{
    if (end_without_call(admit, job) || hold_if_paused(admit, job)) {
        fair_done(admit->fair, job, 0);
        return;
    }
    if (job->effect == EFFECT_UNSAFE) {
        begin_add(admit->worker->begin, job);
        return;
    }
    if (!open_gate(admit, job)) {
        fair_put_back(admit->fair, job, now_mono_us() + BLOCKED_MS * US_PER_MS);
    }
}

static bool has_room(const struct admit *admit)
{
    return fair_running(admit->fair) < admit->max_running &&
           settle_bytes(admit->worker->settle) < MAX_SETTLE_BYTES;
}

void admit_kick(struct admit *admit)
{
    if (admit->is_kicking) {
        return;
    }
    /* No gate opens while others may believe that we are dead, nor before it
     * is known what is paused. */
    if (!lease_is_safe(admit->worker->lease) ||
        !presence_is_held(admit->worker->presence) ||
        !pauses_are_read(admit->worker->pauses)) {
        try_again_soon(admit);
        return;
    }
    admit->is_kicking = true;
    open_begun_gates(admit);
    while (!admit->worker->is_draining && has_room(admit)) {
        struct job *job = fair_take(admit->fair, now_mono_us());
        if (job == NULL) {
            break;
        }
        start(admit, job);
    }
    admit->is_kicking = false;
}

void admit_begun(struct admit *admit, struct job *job)
{
    job->live_state = LIVE_BEGUN;
    job_list_push(&admit->begun, job);
    admit_kick(admit);
}

void admit_done(struct admit *admit, struct job *job, int64_t wall_ms)
{
    if (job->tenant != NULL) {
        fair_done(admit->fair, job, wall_ms);
        admit_kick(admit);
    }
}

/* -- cancelling ----------------------------------------------------------- */

void admit_cancel(struct admit *admit, const uint8_t *id)
{
    struct job *job = jobs_find(&admit->worker->jobs, id);
    if (job == NULL) {
        return;
    }
    job->is_cancelled = true;
    if (fair_remove(admit->fair, job)) {
        (void)end_without_call(admit, job); /* always true: it is cancelled */
    }
}

/* -- pausing --------------------------------------------------------------- */

void admit_review(struct admit *admit)
{
    struct job_list list = {0};
    struct job *job = NULL;
    while ((job = fair_drain(admit->fair)) != NULL) {
        job_list_push(&list, job);
    }
    while ((job = job_list_pop(&list)) != NULL) {
        admit_add(admit, job);
    }
}

/* -- giving up ------------------------------------------------------------- */

struct job *admit_give_up(struct admit *admit)
{
    return fair_drain(admit->fair);
}

struct job *admit_give_up_begun(struct admit *admit)
{
    struct job *job = job_list_pop(&admit->begun);
    if (job != NULL) {
        fair_done(admit->fair, job, 0);
    }
    return job;
}

size_t admit_running(const struct admit *admit)
{
    return fair_running(admit->fair);
}

size_t admit_waiting(const struct admit *admit)
{
    return fair_waiting(admit->fair);
}

size_t admit_tenants(const struct admit *admit)
{
    return fair_tenants(admit->fair);
}
