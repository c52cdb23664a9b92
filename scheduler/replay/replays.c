/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/replay/replays.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "common/log.h"
#include "common/metrics.h"
#include "scheduler/relay.h"
#include "scheduler/replay/replayer.h"
#include "scheduler/scheduler.h"

enum { LOOK_MS = 200, CLOSE_WAIT_S = 5 };

/* A counter of the thread, and how much of it the metric has. */
struct counted {
    atomic_llong *source;
    struct metric *metric;
    long long told;
};

struct replays {
    struct scheduler *scheduler;
    struct loop_timer *timer;
    struct replayer_meters meters;
    struct counted counted[5];
    struct metric *active;

    /* The thread's while is_running; the loop's else. */
    struct replayer replayer;
    pthread_t thread;
    bool is_running;
    atomic_bool is_cancelled;
    atomic_bool is_over;
};

/* -- on the thread --------------------------------------------------------------- */

static void *run_thread(void *arg)
{
    struct replays *replays = arg;
    replayer_run(&replays->replayer);
    atomic_store(&replays->is_over, true);
    return NULL;
}

/* -- on the loop ------------------------------------------------------------------ */

/* Signals are the loop's. */
static void start_thread(struct replays *replays)
{
    sigset_t all;
    sigset_t before;
    atomic_store(&replays->is_cancelled, false);
    atomic_store(&replays->is_over, false);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code =
        pthread_create(&replays->thread, NULL, run_thread, replays);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    replays->is_running = code == 0;
}

static void tell(struct replays *replays)
{
    for (size_t i = 0; i < ARRAY_LEN(replays->counted); i++) {
        struct counted *counted = &replays->counted[i];
        const long long now = atomic_load(counted->source);
        metric_add(counted->metric, NULL, (double)(now - counted->told));
        counted->told = now;
    }
    metric_set(replays->active, NULL,
        replays->is_running ? (double)atomic_load(&replays->meters.active)
                            : 0.0);
}

static void look(void *owner)
{
    struct replays *replays = owner;
    const bool is_wanted = !replays->scheduler->is_stopping &&
                           relay_is_leader(replays->scheduler->relay);
    if (replays->is_running && !is_wanted) {
        atomic_store(&replays->is_cancelled, true);
    }
    if (replays->is_running && atomic_load(&replays->is_over)) {
        (void)pthread_join(replays->thread, NULL); /* it has nothing left */
        replays->is_running = false;
    }
    if (!replays->is_running && is_wanted) {
        start_thread(replays);
    }
    tell(replays);
}

/* -- life --------------------------------------------------------------------------- */

static void make_metrics(struct replays *replays)
{
    struct replayer_meters *meters = &replays->meters;
    const struct counted counted[] = {
        {&meters->published,
            metric_counter("actionist_replay_actions_total",
                "Actions that replays have put on their way.", NULL),
            0},
        {&meters->skipped,
            metric_counter("actionist_replay_skipped_total",
                "Actions that replays have left out.", NULL),
            0},
        {&meters->ended,
            metric_counter("actionist_replay_ended_total",
                "Actions of replays that have ended.", NULL),
            0},
        {&meters->sent,
            metric_counter("actionist_replay_outcomes_total",
                "Outcomes that replays have sent again.", NULL),
            0},
        {&meters->failed,
            metric_counter("actionist_replay_failed_total",
                "Steps of replays that failed and were tried again.", NULL),
            0},
    };
    for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
        replays->counted[i] = counted[i];
    }
    replays->active = metric_gauge("actionist_replays_active",
        "Replays that this scheduler works on.", NULL);
}

struct replays *replays_open(struct scheduler *scheduler)
{
    struct replays *replays = mem_zalloc(1, sizeof(*replays));
    replays->scheduler = scheduler;
    replays->replayer = (struct replayer){.conf = scheduler->conf,
        .conninfo = conf_text(scheduler->conf, "postgres"),
        .most_in_flight =
            conf_int(scheduler->conf, "scheduler.replay_in_flight"),
        .is_cancelled = &replays->is_cancelled,
        .meters = &replays->meters};
    make_metrics(replays);
    replays->timer = loop_timer_new(&scheduler->loop, look, replays);
    loop_timer_start(replays->timer, 0, LOOK_MS);
    return replays;
}

bool replays_close(struct replays *replays)
{
    if (replays == NULL) {
        return true;
    }
    atomic_store(&replays->is_cancelled, true);
    if (replays->is_running) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += CLOSE_WAIT_S;
        if (pthread_timedjoin_np(replays->thread, NULL, &until) != 0) {
            return false;
        }
    }
    loop_timer_free(replays->timer);
    free(replays);
    return true;
}
