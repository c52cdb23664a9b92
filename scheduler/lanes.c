/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/lanes.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/log.h"
#include "scheduler/lane.h"
#include "scheduler/readback.h"

enum { NAME_SIZE = 300, LANE_COUNT = 2 };

enum job { JOB_NONE, JOB_START, JOB_PUBLISH, JOB_DROP, JOB_QUIT };

struct lanes {
    /* Of the loop. */
    const struct lanes_events *events;
    void *owner;
    struct loop_wake *wake;
    enum job running; /* given and not answered */
    bool is_drop_wanted;
    pthread_t thread;

    /* Handed over under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t given;
    pthread_cond_t ended;
    enum job job; /* JOB_NONE: the thread waits */
    bool is_quitting;
    bool is_answered;
    bool has_failed;
    bool is_over; /* the thread has returned */
    struct err err;
    struct lane_start *start;
    struct lane_batch *batch;

    atomic_bool is_cancelled;

    /* Of the thread. */
    const struct conf *conf;
    char topic[NAME_SIZE];
    char group[NAME_SIZE];
    struct lane_target target;
    struct lane *lane[LANE_COUNT];
    int turn;
};

/* -- in the thread ------------------------------------------------------------------- */

static void destroy_lanes(struct lanes *lanes)
{
    for (int i = 0; i < LANE_COUNT; i++) {
        lane_close(lanes->lane[i]);
        lanes->lane[i] = NULL;
    }
}

/* A, then B: two relays that fenced in different orders could each keep one. */
static int fence_lanes(struct lanes *lanes, struct err *err)
{
    for (int i = 0; i < LANE_COUNT; i++) {
        char id[NAME_SIZE + 4];
        (void)snprintf(id, sizeof(id), "%s.%c", lanes->group, (char)('a' + i));
        lanes->lane[i] = lane_open(&lanes->target, id, err);
        if (lanes->lane[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

static int run_start(
    struct lanes *lanes, struct lane_start *start, struct err *err)
{
    destroy_lanes(lanes);
    struct readback *readback = readback_open(
        lanes->conf, lanes->topic, lanes->group, &lanes->is_cancelled, err);
    if (readback == NULL) {
        return -1;
    }
    int result = readback_check_topic(readback, &start->max_record_bytes, err);
    if (result == 0) {
        lanes->target.max_record_bytes = start->max_record_bytes;
        result = fence_lanes(lanes, err);
    }
    if (result == 0) {
        result = readback_read(readback, start, err);
    }
    readback_close(readback);
    /* B's state decides nothing before A has committed something. */
    lanes->turn = 0;
    return result;
}

static int run_publish(
    struct lanes *lanes, struct lane_batch *batch, struct err *err)
{
    struct lane *lane = lanes->lane[lanes->turn];
    if (lane == NULL) {
        return err_set(
            err, ERR_UNKNOWN, "LANE_FAILED", "the lanes are not open");
    }
    if (lane_publish(lane, batch, err) != 0) {
        return -1;
    }
    lanes->turn = 1 - lanes->turn;
    return 0;
}

static int run_job(struct lanes *lanes, enum job job, struct err *err)
{
    int result = 0;
    switch (job) {
    case JOB_START:
        result = run_start(lanes, lanes->start, err);
        break;
    case JOB_PUBLISH:
        result = run_publish(lanes, lanes->batch, err);
        break;
    case JOB_NONE:
    case JOB_DROP:
    case JOB_QUIT:
        destroy_lanes(lanes);
        break;
    }
    if (result != 0) {
        destroy_lanes(lanes);
    }
    return result;
}

static enum job await_job(struct lanes *lanes)
{
    (void)pthread_mutex_lock(&lanes->lock);
    while (lanes->job == JOB_NONE && !lanes->is_quitting) {
        (void)pthread_cond_wait(&lanes->given, &lanes->lock);
    }
    const enum job job = lanes->is_quitting ? JOB_QUIT : lanes->job;
    (void)pthread_mutex_unlock(&lanes->lock);
    return job;
}

static void answer(struct lanes *lanes, int result, const struct err *err)
{
    (void)pthread_mutex_lock(&lanes->lock);
    lanes->job = JOB_NONE;
    lanes->is_answered = true;
    lanes->has_failed = result != 0;
    lanes->err = *err;
    (void)pthread_mutex_unlock(&lanes->lock);
    loop_wake_send(lanes->wake);
}

static void *run_thread(void *arg)
{
    struct lanes *lanes = arg;
    enum job job = await_job(lanes);
    while (job != JOB_QUIT) {
        struct err err = ERR_INIT;
        const int result = run_job(lanes, job, &err);
        answer(lanes, result, &err);
        job = await_job(lanes);
    }
    destroy_lanes(lanes);
    (void)pthread_mutex_lock(&lanes->lock);
    lanes->is_over = true;
    (void)pthread_cond_signal(&lanes->ended);
    (void)pthread_mutex_unlock(&lanes->lock);
    return NULL;
}

/* -- on the loop --------------------------------------------------------------------- */

static void give(struct lanes *lanes, enum job job)
{
    lanes->running = job;
    (void)pthread_mutex_lock(&lanes->lock);
    lanes->job = job;
    lanes->is_answered = false;
    (void)pthread_cond_signal(&lanes->given);
    (void)pthread_mutex_unlock(&lanes->lock);
}

static bool take_answer(struct lanes *lanes, bool *has_failed, struct err *err)
{
    (void)pthread_mutex_lock(&lanes->lock);
    const bool is_answered = lanes->is_answered;
    lanes->is_answered = false;
    *has_failed = lanes->has_failed;
    *err = lanes->err;
    (void)pthread_mutex_unlock(&lanes->lock);
    return is_answered;
}

static void on_wake(void *owner)
{
    struct lanes *lanes = owner;
    struct err err = ERR_INIT;
    bool has_failed = false;
    if (!take_answer(lanes, &has_failed, &err)) {
        return;
    }
    const enum job job = lanes->running;
    lanes->running = JOB_NONE;
    atomic_store(&lanes->is_cancelled, false);
    if (lanes->is_drop_wanted) {
        lanes->is_drop_wanted = false;
        give(lanes, JOB_DROP);
    }
    if (job == JOB_START) {
        lanes->events->on_started(lanes->owner, has_failed ? &err : NULL);
    } else if (job == JOB_PUBLISH) {
        lanes->events->on_published(lanes->owner, has_failed ? &err : NULL);
    }
}

struct lanes *lanes_open(struct loop *loop, const struct conf *conf, int shard,
    const struct lanes_events *events, void *owner)
{
    struct lanes *lanes = mem_zalloc(1, sizeof(*lanes));
    lanes->events = events;
    lanes->owner = owner;
    lanes->conf = conf;
    kafka_topic_name(conf, "outcomes", lanes->topic);
    (void)snprintf(lanes->group, sizeof(lanes->group), "%srelay.%d",
        conf_text(conf, "topics.prefix"), shard);
    lanes->target = (struct lane_target){.conf = conf,
        .topic = lanes->topic,
        .group = lanes->group,
        .is_cancelled = &lanes->is_cancelled};
    (void)pthread_mutex_init(&lanes->lock, NULL);
    (void)pthread_cond_init(&lanes->given, NULL);
    (void)pthread_cond_init(&lanes->ended, NULL);
    atomic_init(&lanes->is_cancelled, false);
    lanes->wake = loop_wake_new(loop, on_wake, lanes);
    if (pthread_create(&lanes->thread, NULL, run_thread, lanes) != 0) {
        (void)fputs("cannot create a thread\n", stderr);
        abort();
    }
    return lanes;
}

bool lanes_is_busy(const struct lanes *lanes)
{
    return lanes->running != JOB_NONE;
}

void lanes_start(struct lanes *lanes, struct lane_start *start)
{
    lanes->start = start;
    give(lanes, JOB_START);
}

void lanes_publish(struct lanes *lanes, struct lane_batch *batch)
{
    lanes->batch = batch;
    give(lanes, JOB_PUBLISH);
}

void lanes_drop(struct lanes *lanes)
{
    if (lanes->running == JOB_NONE) {
        give(lanes, JOB_DROP);
    } else if (lanes->running != JOB_DROP) {
        atomic_store(&lanes->is_cancelled, true);
        lanes->is_drop_wanted = true;
    }
}

/* Tells the thread to end, and waits for it. */
static bool end_thread(struct lanes *lanes, int64_t wait_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000;
    int result = 0;
    (void)pthread_mutex_lock(&lanes->lock);
    lanes->is_quitting = true;
    (void)pthread_cond_signal(&lanes->given);
    while (!lanes->is_over && result == 0) {
        result = pthread_cond_timedwait(&lanes->ended, &lanes->lock, &until);
    }
    const bool is_over = lanes->is_over;
    (void)pthread_mutex_unlock(&lanes->lock);
    return is_over;
}

bool lanes_close(struct lanes *lanes, int64_t wait_ms)
{
    atomic_store(&lanes->is_cancelled, true);
    if (!end_thread(lanes, wait_ms)) {
        return false;
    }
    (void)pthread_join(lanes->thread, NULL);
    loop_wake_free(lanes->wake);
    (void)pthread_cond_destroy(&lanes->ended);
    (void)pthread_cond_destroy(&lanes->given);
    (void)pthread_mutex_destroy(&lanes->lock);
    free(lanes);
    return true;
}
