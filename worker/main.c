/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actionist-worker: claims action requests, runs them in children, settles
 * what happened. Holds no state: any number may run, and killing any loses
 * nothing. SIGTERM drains; a second one ends it at once (130).
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/crypt.h"
#include "common/kafka.h"
#include "common/log.h"
#include "schema/migrations.h"
#include "worker/drain.h"
#include "worker/health.h"
#include "worker/worker.h"

static const char *const TOPICS[] = {
    "actions", "webhooks", "dispatch", "control", "rejects"};

static void on_stop(void *owner)
{
    worker_stop(owner, 0);
}

static int check_stores(const struct conf *conf, struct err *err)
{
    static char names[ARRAY_LEN(TOPICS)][256];
    const char *topics[ARRAY_LEN(TOPICS)];
    for (size_t i = 0; i < ARRAY_LEN(TOPICS); i++) {
        kafka_topic_name(conf, TOPICS[i], names[i]);
        topics[i] = names[i];
    }
    if (pg_check_start(conf_text(conf, "postgres"), SCHEMA_VERSION, err) != 0) {
        return -1;
    }
    return kafka_check_topics(conf, topics, ARRAY_LEN(TOPICS), NULL, err);
}

/* Whether the worker opens again after it was closed. */
static bool comes_back(struct worker *worker)
{
    if (worker->is_parked) {
        worker->is_parked = false;
        worker->is_draining = false;
        return drain_stand_by(worker);
    }
    return worker->is_restarting && !worker->is_draining;
}

/* Lives under one identity after the other until it is told to stop. */
static int serve(struct worker *worker, struct err *err)
{
    int result = 0;
    do {
        result = worker_open(worker, err);
        if (result == 0) {
            loop_run(worker->loop);
        }
        worker_close(worker);
    } while (result == 0 && comes_back(worker));
    return result;
}

static int run_worker(const struct conf *conf, const struct keeper *keeper,
    int *exit_code, struct err *err)
{
    struct loop loop;
    struct worker *worker = mem_zalloc(1, sizeof(*worker));
    struct err door_err = ERR_INIT;
    int result = -1;

    loop_init(&loop, on_stop, worker);
    worker->loop = &loop;
    worker->conf = conf;
    worker->is_closing = true; /* until it is opened */
    stats_init(&worker->stats);
    struct http_server *door = health_open(worker, &door_err);
    worker->run = run_open(&loop, conf, keeper, worker_on_run_done,
        worker_on_run_dead, worker, err);
    if (door_err.class != ERR_NONE) {
        *err = door_err;
    } else if (worker->run != NULL) {
        result = serve(worker, err);
    }
    *exit_code = worker->exit_code;
    http_server_close(door);
    run_close(worker->run);
    loop_fini(&loop);
    free(worker);
    return result;
}

static int start(
    struct conf *conf, int argc, char **argv, int *exit_code, struct err *err)
{
    uint8_t boot_id[UUID_SIZE];
    char boot_text[UUID_TEXT_SIZE];
    struct keeper keeper;

    if (conf_load(conf, argc, argv, err) != 0) {
        return -1;
    }
    uuid_v7(boot_id);
    uuid_format(boot_id, boot_text);
    /* Before any thread, connection or secret. */
    if (keeper_start(conf, boot_text, &keeper, err) != 0 ||
        log_set_level(conf_text(conf, "log.level"), err) != 0 ||
        check_stores(conf, err) != 0) {
        return -1;
    }
    return run_worker(conf, &keeper, exit_code, err);
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    size_t count = 0;
    int exit_code = 0;

    log_init("actionist-worker");
    struct conf_setting *settings = worker_settings(&count);
    struct conf *conf = conf_new("actionist-worker", settings, count);
    if (start(conf, argc, argv, &exit_code, &err) != 0) {
        (void)fprintf(stderr, "actionist-worker: %s\n", err.msg);
        exit_code = conf_exit_code(&err);
    }
    conf_free(conf);
    free(settings);
    return exit_code;
}
