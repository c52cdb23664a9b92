/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actionist-scheduler: publishes outcomes (relay), makes waiting work live again
 * (due, dispatch), takes over from dead workers (sweep), and tidies (upkeep).
 * Holds no state: any number may run, and killing any loses nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/log.h"
#include "scheduler/audit.h"
#include "scheduler/clock_moves.h"
#include "scheduler/dispatch.h"
#include "scheduler/door.h"
#include "scheduler/due.h"
#include "scheduler/ending.h"
#include "scheduler/held.h"
#include "scheduler/pulse.h"
#include "scheduler/relay.h"
#include "scheduler/replay/replays.h"
#include "scheduler/scheduler.h"
#include "scheduler/sweep.h"
#include "scheduler/ticks.h"
#include "scheduler/upkeep.h"
#include "scheduler/windows.h"
#include "schema/migrations.h"
#include "schema/sql_scheduler.h"

enum { STOP_MS = 10000, PRODUCER_CLOSE_MS = 2000 };

static const struct conf_setting settings[] = {
    {.name = "http.listen",
        .type = CONF_TEXT,
        .fallback = "127.0.0.1:9464",
        .help = "Address of /healthz, /readyz and /metrics; port 0: any."},
    {.name = "http.behind_proxy",
        .type = CONF_BOOL,
        .fallback = "false",
        .help = "Allows a public address without TLS."},
    {.name = "scheduler.relay_shard",
        .type = CONF_INT,
        .fallback = "0",
        .min = 0,
        .max = 0,
        .help = "The shard of outcomes that this scheduler's relay serves."},
    {.name = "scheduler.relay_batch_rows",
        .type = CONF_INT,
        .fallback = "1000",
        .min = 1,
        .max = 5000,
        .help = "Outcomes in one Kafka transaction, at most."},
    {.name = "scheduler.window_s",
        .type = CONF_INT,
        .fallback = "86400",
        .min = 1,
        .max = 2678400,
        .help = "How long an idempotency window takes new actions."},
    {.name = "scheduler.retention_s",
        .type = CONF_INT,
        .fallback = "604800",
        .min = 0,
        .max = 315360000,
        .help = "How long a window is kept after its last action ended; then "
                "its keys act again. No shorter than Kafka keeps `actions`, "
                "or a record that is read again acts again."},
    {.name = "scheduler.replay_in_flight",
        .type = CONF_INT,
        .fallback = "1000",
        .min = 1,
        .max = 10000,
        .help = "Actions that all replays together may have on their way and "
                "not yet ended, so that what is new does not queue behind "
                "them."},
    {.name = "scheduler.audit_s",
        .type = CONF_INT,
        .fallback = "15",
        .min = 1,
        .max = 86400,
        .help = "Time between two passes of the conservation audit, at "
                "least."},
};

/* -- the end ------------------------------------------------------------------- */

static void on_stopped(void *owner)
{
    struct scheduler *scheduler = owner;
    loop_end(&scheduler->loop);
}

static void on_too_late(void *owner)
{
    (void)owner;
    LOG(ERROR, "stop_timed_out", NULL,
        "Kafka or Postgres did not answer; what is under way will be read "
        "back by the next relay");
    _exit(0);
}

static void on_stop(void *owner)
{
    struct scheduler *scheduler = owner;
    LOG(INFO, "stopping", NULL, "a second signal ends the process at once");
    scheduler->is_stopping = true;
    struct loop_timer *limit =
        loop_timer_new(&scheduler->loop, on_too_late, NULL);
    loop_timer_start(limit, STOP_MS, 0);
    relay_stop(scheduler->relay, on_stopped, scheduler);
}

static void close_all(struct scheduler *scheduler)
{
    scheduler_door_close(scheduler->door);
    if (!audit_close(scheduler->audit) || !replays_close(scheduler->replays)) {
        on_too_late(scheduler);
    }
    windows_close(scheduler->windows);
    pulse_close(scheduler->pulse);
    /* Tells every owner of a statement under way, so they go after it. */
    pg_close(scheduler->work);
    if (!relay_close(scheduler->relay)) {
        on_too_late(scheduler);
    }
    kafka_producer_close(scheduler->producer, PRODUCER_CLOSE_MS);
    upkeep_close(scheduler->upkeep);
    sweep_close(scheduler->sweep);
    due_close(scheduler->due);
    held_close(scheduler->held);
    ticks_close(scheduler->ticks);
    ending_close(scheduler->ending);
    dispatch_close(scheduler->dispatch);
    clock_moves_close(scheduler->clock_moves);
    loop_fini(&scheduler->loop);
    conf_free(scheduler->conf);
}

/* -- the start ----------------------------------------------------------------- */

static int check(const struct conf *conf, struct err *err)
{
    char outcomes[256];
    char dispatch[256];
    char actions[256];
    kafka_topic_name(conf, "outcomes", outcomes);
    kafka_topic_name(conf, "dispatch", dispatch);
    kafka_topic_name(conf, "actions", actions);
    const char *const topics[] = {outcomes, dispatch, actions};
    if (log_set_level(conf_text(conf, "log.level"), err) != 0 ||
        pg_check_start(conf_text(conf, "postgres"), SCHEMA_VERSION, err) != 0) {
        return -1;
    }
    return kafka_check_topics(conf, topics, ARRAY_LEN(topics), NULL, err);
}

static int open_all(struct scheduler *scheduler, struct err *err)
{
    struct loop *loop = &scheduler->loop;
    loop_init(loop, on_stop, scheduler);
    scheduler->producer = kafka_producer_open(loop, scheduler->conf, 0, err);
    if (scheduler->producer == NULL) {
        return -1;
    }
    scheduler->work = pg_open(loop,
        &(struct pg_options){.conninfo = conf_text(scheduler->conf, "postgres"),
            .name = "actionist-scheduler work",
            .statements = SQL_WORK,
            .statement_count = SQL_WORK_COUNT,
            .are_plans_pinned = true});
    scheduler->clock_moves = clock_moves_open(scheduler);
    scheduler->dispatch = dispatch_open(scheduler);
    scheduler->ending = ending_open(scheduler);
    scheduler->due = due_open(scheduler);
    scheduler->held = held_open(scheduler);
    scheduler->ticks = ticks_open(scheduler);
    scheduler->sweep = sweep_open(scheduler);
    scheduler->pulse = pulse_open(scheduler);
    scheduler->upkeep = upkeep_open(scheduler);
    scheduler->relay = relay_open(loop, scheduler->conf);
    scheduler->windows = windows_open(scheduler);
    scheduler->audit = audit_open(scheduler);
    scheduler->replays = replays_open(scheduler);
    scheduler->door = scheduler_door_open(scheduler, err);
    return scheduler->door == NULL ? -1 : 0;
}

int main(int argc, char **argv)
{
    static struct scheduler scheduler;
    struct err err = ERR_INIT;
    log_init("actionist-scheduler");
    scheduler.conf =
        conf_new("actionist-scheduler", settings, ARRAY_LEN(settings));
    if (conf_load(scheduler.conf, argc, argv, &err) != 0 ||
        check(scheduler.conf, &err) != 0 || open_all(&scheduler, &err) != 0) {
        (void)fprintf(stderr, "actionist-scheduler: %s\n", err.msg);
        return conf_exit_code(&err);
    }
    LOG(INFO, "started", NULL, "the scheduler runs");
    loop_run(&scheduler.loop);
    close_all(&scheduler);
    LOG(INFO, "stopped", NULL, "all is saved");
    return 0;
}
