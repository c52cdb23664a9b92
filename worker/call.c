/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/call.h"

#include <stdio.h>

#include "common/crypt.h"
#include "schema/outcome.h"
#include "worker/admit.h"
#include "worker/judge.h"
#include "worker/settle.h"
#include "worker/worker.h"

enum { MAX_RENDERED = 4 << 20, PPM = 1000000 };

static const char *const END_NAMES[CALL_END_COUNT] = {
    [CALL_ANSWERED] = "answered",
    [CALL_NOT_SENT] = "not_sent",
    [CALL_DENIED] = "denied",
    [CALL_TIMED_OUT] = "timed_out",
    [CALL_TIMED_OUT_EARLY] = "timed_out_early",
    [CALL_BROKEN] = "broken",
    [CALL_LOST] = "lost",
};

/* -- starting -------------------------------------------------------------- */

static int hand_over(struct worker *worker, struct job *job,
    const struct call *call, struct err *err)
{
    size_t egress_count = 0;
    const struct egress_rule *egress =
        manifest_egress(job->manifest, &egress_count);
    jobs_insert_run(&worker->jobs, job);
    const struct run_job run_job = {
        .id = job->run_id,
        .tenant = job->record.tenant,
        .call = call,
        .timeout_ms = action_timeout_ms(job->action),
        .egress = egress,
        .egress_count = egress_count,
        .max_result_bytes = OUTCOME_MAX_RESULT,
    };
    if (run_start(worker->run, &run_job, err) != 0) {
        jobs_remove_run(&worker->jobs, job);
        return -1;
    }
    return 0;
}

/* It could be rendered when it was claimed, so this is a change of ours. */
static void refuse(
    struct worker *worker, struct job *job, const struct fault *fault)
{
    job_set_fault(job, fault);
    judge_rejected(&worker->jobs, job, worker_now_us(worker));
    settle_add(worker->settle, job);
    admit_done(worker->admit, job, 0);
}

int call_start(struct worker *worker, struct job *job, struct err *err)
{
    struct fault fault = FAULT_INIT;
    struct buf storage;
    struct call call;
    int result = 0;

    buf_init(&storage, MAX_RENDERED);
    if (action_render(job->action, &job->record, &storage, &call, &fault) !=
        0) {
        refuse(worker, job, &fault);
    } else {
        result = hand_over(worker, job, &call, err);
    }
    buf_fini(&storage);
    return result;
}

/* -- ends ------------------------------------------------------------------ */

/* Only a retry needs dice; for a success they would be a tenth of all the
 * worker does. */
static uint32_t draw_jitter(const struct run_result *result)
{
    const bool is_success = result->end == CALL_ANSWERED &&
                            result->http_status >= 200 &&
                            result->http_status < 300;
    return is_success ? 0 : (uint32_t)random_up_to(PPM);
}

static void end_call(
    struct worker *worker, struct job *job, const struct run_result *result)
{
    metric_add(worker->stats.calls, END_NAMES[result->end], 1);
    judge_call(
        &worker->jobs, job, result, worker_now_us(worker), draw_jitter(result));
    settle_add(worker->settle, job);
    admit_done(worker->admit, job, result->wall_ms);
}

void call_done(struct worker *worker, const struct run_result *result)
{
    struct job *job = jobs_find_run(&worker->jobs, result->id);
    if (job == NULL || result->id == 0) {
        return;
    }
    jobs_remove_run(&worker->jobs, job);
    metric_observe(
        worker->stats.call_seconds, NULL, (double)result->wall_ms / 1000.0);
    end_call(worker, job, result);
}

void call_lose(struct worker *worker, struct job *job)
{
    struct run_result result = {.end = CALL_LOST, .code = CODE_WORKER_LOST};
    (void)snprintf(result.message, sizeof(result.message), "%s",
        code_text(CODE_WORKER_LOST));
    end_call(worker, job, &result);
}

void call_forgo(struct worker *worker, struct job *job)
{
    struct run_result result = {
        .end = CALL_NOT_SENT, .code = CODE_RUNNER_UNAVAILABLE};
    (void)snprintf(result.message, sizeof(result.message), "%s",
        code_text(CODE_RUNNER_UNAVAILABLE));
    end_call(worker, job, &result);
}
