/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/release.h"

#include <stdlib.h>

#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/admit.h"
#include "worker/begin.h"
#include "worker/call.h"
#include "worker/claim.h"
#include "worker/connectors.h"
#include "worker/deliveries.h"
#include "worker/intake.h"
#include "worker/presence.h"
#include "worker/settle.h"
#include "worker/take.h"
#include "worker/worker.h"

enum {
    TICK_MS = 50,
    SETTLE_GRACE_MS = 5000 /* to write down what was killed */
};

struct release {
    struct worker *worker;
    struct loop_timer *tick;
    struct job_list queue;
    struct job *batch[WORKER_BATCH]; /* under way, sorted by id */
    size_t count;
    int64_t kill_us; /* mono: children are killed */
    int64_t end_us;  /* mono: the loop ends in any case */
    bool has_killed;
    bool is_ending;
};

/* -- handing back ---------------------------------------------------------- */

static void on_handed_back(void *arg, const struct pg_outcome *outcome)
{
    struct release *release = arg;
    struct worker *worker = release->worker;
    if (worker->is_closing) {
        return;
    }
    for (size_t i = 0; i < release->count; i++) {
        if (outcome->end == PG_DONE) {
            job_free(&worker->jobs, release->batch[i]);
        } else {
            /* Said again: the fence in its WHERE makes that harmless. */
            job_list_push(&release->queue, release->batch[i]);
        }
    }
    release->count = 0;
}

static void hand_back(struct release *release)
{
    struct pg_params params;
    while (release->count < WORKER_BATCH && release->queue.head != NULL) {
        release->batch[release->count] = job_list_pop(&release->queue);
        release->count++;
    }
    if (release->count == 0) {
        return;
    }
    job_sort(release->batch, release->count);
    pg_params_init(&params);
    pg_array_begin(&params, PG_UUID);
    for (size_t i = 0; i < release->count; i++) {
        pg_array_bytes(
            &params, (struct span){(const char *)release->batch[i]->record.id,
                         UUID_SIZE});
    }
    pg_array_end(&params);
    pg_array_begin(&params, PG_INT4);
    for (size_t i = 0; i < release->count; i++) {
        pg_array_int4(&params, release->batch[i]->attempt_no);
    }
    pg_array_end(&params);
    pg_param_uuid(&params, release->worker->boot_id);
    pg_run(release->worker->settle_db, SQL_WORKER_HAND_BACK, &params,
        on_handed_back, release);
    pg_params_fini(&params);
}

void release_add(struct release *release, struct job *job)
{
    job_list_push(&release->queue, job);
}

/* Jobs that wait for a manifest: ready rows of ours go back, what is not
 * claimed is forgotten, and a begun row is left to the sweeper. */
static void give_up_waiting(struct release *release)
{
    struct worker *worker = release->worker;
    struct job *job = NULL;
    while ((job = connectors_give_up(worker->connectors)) != NULL) {
        if (job->attempt_no > 0 && job->live_state == LIVE_READY) {
            release_add(release, job);
        } else {
            job_free(&worker->jobs, job);
        }
    }
}

static void collect(struct release *release)
{
    struct worker *worker = release->worker;
    struct job *job = NULL;
    claim_drain(worker->claim);
    deliveries_drain(worker->deliveries);
    take_drain(worker->take);
    give_up_waiting(release);
    while ((job = admit_give_up(worker->admit)) != NULL) {
        release_add(release, job);
    }
    while ((job = begin_give_up(worker->begin)) != NULL) {
        admit_done(worker->admit, job, 0);
        release_add(release, job);
    }
}

/* -- the end --------------------------------------------------------------- */

static bool is_through(const struct release *release)
{
    const struct worker *worker = release->worker;
    return worker->jobs.count == 0 && release->count == 0 &&
           !claim_is_busy(worker->claim) && !take_is_busy(worker->take) &&
           !deliveries_is_busy(worker->deliveries) &&
           !begin_is_busy(worker->begin);
}

static void on_stopped(void *arg, const struct pg_outcome *outcome)
{
    struct release *release = arg;
    (void)outcome;
    if (!release->worker->is_closing) {
        loop_end(release->worker->loop);
    }
}

static void end(struct release *release)
{
    release->is_ending = true;
    if (!is_through(release)) {
        LOG(WARN, "drain_incomplete",
            (&(struct log_fields){.number_name = "actions",
                .number = (long long)release->worker->jobs.count}),
            "what is left is taken over by the fleet");
        loop_end(release->worker->loop);
        return;
    }
    LOG(INFO, "drained", NULL, "nothing is left");
    presence_stop(release->worker->presence, on_stopped, release);
}

static void kill_children(struct release *release)
{
    struct worker *worker = release->worker;
    struct job *job = NULL;
    release->has_killed = true;
    LOG(WARN, "drain_over",
        (&(struct log_fields){.number_name = "running",
            .number = (long long)run_active(worker->run)}),
        "the calls that still run are cut off");
    run_kill_all(worker->run);
    while ((job = admit_give_up_begun(worker->admit)) != NULL) {
        call_forgo(worker, job);
    }
}

static void on_tick(void *owner)
{
    struct release *release = owner;
    const int64_t now_us = now_mono_us();
    if (release->is_ending) {
        if (now_us >= release->end_us) {
            loop_end(release->worker->loop);
        }
        return;
    }
    collect(release);
    if (release->count == 0) {
        hand_back(release);
    }
    if (is_through(release) || now_us >= release->end_us) {
        end(release);
    } else if (now_us >= release->kill_us && !release->has_killed) {
        kill_children(release);
    }
}

void release_start(struct release *release)
{
    struct worker *worker = release->worker;
    const int64_t drain_s = conf_int(worker->conf, "worker.drain_s");
    if (loop_timer_is_active(release->tick)) {
        return;
    }
    LOG(INFO, "drain_started",
        (&(struct log_fields){
            .number_name = "drain_s", .number = (long long)drain_s}),
        "no more records are taken");
    release->kill_us = now_mono_us() + drain_s * US_PER_S;
    release->end_us = release->kill_us + SETTLE_GRACE_MS * US_PER_MS;
    intake_drain(worker->intake);
    loop_timer_start(release->tick, 0, TICK_MS);
}

/* -- life ------------------------------------------------------------------ */

struct release *release_open(struct worker *worker)
{
    struct release *release = mem_zalloc(1, sizeof(*release));
    release->worker = worker;
    release->tick = loop_timer_new(worker->loop, on_tick, release);
    return release;
}

void release_close(struct release *release)
{
    if (release != NULL) {
        loop_timer_free(release->tick);
        free(release);
    }
}
