/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/drain.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/log.h"
#include "schema/sql_worker.h"
#include "worker/worker.h"

enum { EVERY_MS = 30000, RETRY_MS = 250, LOOK_MS = 500 };

struct drain {
    struct worker *worker;
    struct loop_timer *every;
    struct loop_timer *again;
    bool is_reading;
    bool is_wanted; /* changed while a read was under way */
};

void worker_name(const struct worker *worker, char name[WORKER_NAME_SIZE])
{
    const char *given = conf_text(worker->conf, "worker.name");
    (void)snprintf(name, WORKER_NAME_SIZE, "worker");
    if (given[0] != '\0') {
        (void)snprintf(name, WORKER_NAME_SIZE, "%s", given);
    } else {
        (void)gethostname(name, WORKER_NAME_SIZE - 1);
        name[WORKER_NAME_SIZE - 1] = '\0';
    }
}

static void put_name(struct pg_params *params, const struct worker *worker)
{
    char name[WORKER_NAME_SIZE];
    worker_name(worker, name);
    pg_params_init(params);
    pg_param_text(params, span_of(name));
}

/* -- at work ----------------------------------------------------------------- */

static void on_read(void *arg, const struct pg_outcome *outcome)
{
    struct drain *drain = arg;
    if (drain->worker->is_closing) {
        return;
    }
    drain->is_reading = false;
    if (outcome->end != PG_DONE) {
        loop_timer_start(drain->again, RETRY_MS, 0);
        return;
    }
    if (pg_get_bool(outcome->results[0], 0, 0)) {
        worker_park(drain->worker);
        return;
    }
    if (drain->is_wanted) {
        drain_refresh(drain);
    }
}

void drain_refresh(struct drain *drain)
{
    struct pg_params params;
    drain->is_wanted = drain->is_reading;
    if (drain->is_reading) {
        return;
    }
    drain->is_reading = true;
    put_name(&params, drain->worker);
    pg_run(drain->worker->claim_db, SQL_WORKER_IS_DRAINED, &params, on_read,
        drain);
    pg_params_fini(&params);
}

static void on_timer(void *owner)
{
    drain_refresh(owner);
}

struct drain *drain_open(struct worker *worker)
{
    struct drain *drain = mem_zalloc(1, sizeof(*drain));
    drain->worker = worker;
    drain->every = loop_timer_new(worker->loop, on_timer, drain);
    drain->again = loop_timer_new(worker->loop, on_timer, drain);
    loop_timer_start(drain->every, EVERY_MS, EVERY_MS);
    drain_refresh(drain);
    return drain;
}

void drain_close(struct drain *drain)
{
    if (drain != NULL) {
        loop_timer_free(drain->every);
        loop_timer_free(drain->again);
        free(drain);
    }
}

/* -- standing by --------------------------------------------------------------- */

struct standby {
    struct worker *worker;
    struct pg *db;
    bool is_looking;
    bool is_lifted;
    bool is_over;
};

static void on_look(void *arg, const struct pg_outcome *outcome)
{
    struct standby *standby = arg;
    standby->is_looking = false;
    if (standby->is_over || outcome->end != PG_DONE) {
        return;
    }
    if (!pg_get_bool(outcome->results[0], 0, 0)) {
        standby->is_lifted = true;
        loop_end(standby->worker->loop);
    }
}

static void look(void *owner)
{
    struct standby *standby = owner;
    struct pg_params params;
    if (standby->is_looking || !pg_is_up(standby->db)) {
        return;
    }
    standby->is_looking = true;
    put_name(&params, standby->worker);
    pg_run(standby->db, SQL_PRESENCE_IS_DRAINED, &params, on_look, standby);
    pg_params_fini(&params);
}

bool drain_stand_by(struct worker *worker)
{
    struct standby standby = {.worker = worker};
    const struct pg_options options = {
        .conninfo = conf_text(worker->conf, "postgres"),
        .name = "actionist-worker standby",
        .statements = SQL_PRESENCE,
        .statement_count = SQL_PRESENCE_COUNT,
    };
    LOG(INFO, "standing_by", NULL,
        "drained by an operator; it comes back once that is lifted");
    standby.db = pg_open(worker->loop, &options);
    struct loop_timer *timer = loop_timer_new(worker->loop, look, &standby);
    loop_timer_start(timer, 0, LOOK_MS);
    worker->is_standing_by = true;
    loop_run(worker->loop);
    worker->is_standing_by = false;
    standby.is_over = true;
    loop_timer_free(timer);
    pg_close(standby.db);
    return standby.is_lifted && !worker->is_draining;
}
