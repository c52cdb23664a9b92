/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/audit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/time.h"
#include "scheduler/relay.h"
#include "scheduler/scheduler.h"
#include "scheduler/verify/pass.h"

enum {
    LAG_S = 30, /* what a pass judges again: see pass.h */
    REST = 20,  /* times as long as a pass takes is waited after it */
    CLOSE_WAIT_S = 2
};

struct audit {
    struct scheduler *scheduler;
    const char *conninfo;
    struct loop_timer *timer;
    struct loop_wake *wake;
    int64_t every_ms;
    int64_t unaccounted; /* of the last pass */
    int64_t duplicates;

    /* The thread's while is_running; the loop's else. */
    pthread_t thread;
    bool is_running;
    atomic_bool is_cancelled;
    struct pass_options options;
    struct pass_result result;
    struct err err;
    int code;
    int64_t took_us;

    struct metric *unaccounted_now;
    struct metric *duplicates_now;
    struct metric *passes;
    struct metric *failed;
    struct metric *seconds;
};

/* -- on the thread --------------------------------------------------------------- */

static void *run_pass(void *arg)
{
    struct audit *audit = arg;
    const int64_t began_us = now_mono_us();
    audit->err = (struct err)ERR_INIT;
    audit->code = -1;
    PGconn *conn = pg_connect_blocking(
        audit->conninfo, "actionist-scheduler audit", &audit->err);
    if (conn != NULL) {
        audit->code =
            pass_run(conn, &audit->options, &audit->result, &audit->err);
        PQfinish(conn);
    }
    audit->took_us = now_mono_us() - began_us;
    loop_wake_send(audit->wake);
    return NULL;
}

/* -- on the loop ------------------------------------------------------------------ */

static void complain(const struct pass_result *result)
{
    for (int kind = VERIFY_MISSING; kind < VERIFY_KIND_COUNT; kind++) {
        const struct verify_tally *tally = &result->tallies[kind];
        if (tally->count == 0) {
            continue;
        }
        LOG(ERROR, "audit_found",
            (&(struct log_fields){
                .action_id = tally->sample_count > 0 ? tally->samples[0] : NULL,
                .name1 = "kind",
                .value1 = verify_kind_name((enum verify_kind)kind),
                .number_name = "count",
                .number = tally->count}),
            "%s; `actionist verify` names them",
            verify_kind_text((enum verify_kind)kind));
    }
}

static void take_result(struct audit *audit)
{
    const int64_t unaccounted = verify_unaccounted(audit->result.tallies);
    const int64_t duplicates = verify_duplicates(audit->result.tallies);
    metric_add(audit->passes, NULL, 1);
    metric_set(audit->seconds, NULL, (double)audit->took_us / (double)US_PER_S);
    metric_set(audit->unaccounted_now, NULL, (double)unaccounted);
    metric_set(audit->duplicates_now, NULL, (double)duplicates);
    /* Once for each change, not once a pass. */
    if (unaccounted != audit->unaccounted || duplicates != audit->duplicates) {
        complain(&audit->result);
        if (unaccounted == 0 && duplicates == 0) {
            LOG(INFO, "audit_clean", NULL, "all is accounted for again");
        }
    }
    audit->unaccounted = unaccounted;
    audit->duplicates = duplicates;
}

static void on_wake(void *owner)
{
    struct audit *audit = owner;
    if (!audit->is_running) {
        return;
    }
    (void)pthread_join(audit->thread, NULL); /* it has nothing left to do */
    audit->is_running = false;
    if (audit->code == 0) {
        take_result(audit);
    } else if (!audit->scheduler->is_stopping) {
        metric_add(audit->failed, NULL, 1);
        LOG(WARN, "audit_failed", (&(struct log_fields){.err = &audit->err}),
            "will be tried again");
    }
    const int64_t rest_ms = audit->took_us / US_PER_MS * REST;
    loop_timer_start(
        audit->timer, rest_ms > audit->every_ms ? rest_ms : audit->every_ms, 0);
}

/* Signals are the loop's. */
static bool start_thread(struct audit *audit)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&audit->thread, NULL, run_pass, audit);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0;
}

static void run(void *owner)
{
    struct audit *audit = owner;
    if (!audit->scheduler->is_stopping &&
        relay_is_leader(audit->scheduler->relay) && start_thread(audit)) {
        audit->is_running = true;
        return;
    }
    /* Whoever leads says what it finds. */
    metric_set(audit->unaccounted_now, NULL, 0);
    metric_set(audit->duplicates_now, NULL, 0);
    audit->unaccounted = 0;
    audit->duplicates = 0;
    loop_timer_start(audit->timer, audit->every_ms, 0);
}

/* -- life --------------------------------------------------------------------------- */

static void make_metrics(struct audit *audit)
{
    audit->unaccounted_now = metric_gauge("actionist_unaccounted",
        "Actions and outcomes that the audit cannot account for; 0 is well.",
        NULL);
    audit->duplicates_now = metric_gauge("actionist_duplicates",
        "Actions or outcomes that are there twice; 0 is well.", NULL);
    audit->passes = metric_counter(
        "actionist_audit_passes_total", "Passes of the audit.", NULL);
    audit->failed = metric_counter("actionist_audit_failed_total",
        "Passes of the audit that could not be finished.", NULL);
    audit->seconds = metric_gauge("actionist_audit_seconds",
        "How long the last pass of the audit took.", NULL);
}

struct audit *audit_open(struct scheduler *scheduler)
{
    struct audit *audit = mem_zalloc(1, sizeof(*audit));
    audit->scheduler = scheduler;
    audit->conninfo = conf_text(scheduler->conf, "postgres");
    audit->every_ms = conf_int(scheduler->conf, "scheduler.audit_s") * 1000;
    atomic_init(&audit->is_cancelled, false);
    audit->options = (struct pass_options){.conf = scheduler->conf,
        .name = "scheduler",
        .lag_s = LAG_S,
        .has_kafka = true,
        .is_cancelled = &audit->is_cancelled};
    make_metrics(audit);
    audit->wake = loop_wake_new(&scheduler->loop, on_wake, audit);
    audit->timer = loop_timer_new(&scheduler->loop, run, audit);
    loop_timer_start(audit->timer, audit->every_ms, 0);
    return audit;
}

bool audit_close(struct audit *audit)
{
    if (audit == NULL) {
        return true;
    }
    atomic_store(&audit->is_cancelled, true);
    if (audit->is_running) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += CLOSE_WAIT_S;
        if (pthread_timedjoin_np(audit->thread, NULL, &until) != 0) {
            return false;
        }
    }
    loop_timer_free(audit->timer);
    loop_wake_free(audit->wake);
    free(audit);
    return true;
}
