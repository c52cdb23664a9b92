/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

#include <string.h>

#include "common/crypt.h"
#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/admit.h"
#include "worker/begin.h"
#include "worker/call.h"
#include "worker/claim.h"
#include "worker/connectors.h"
#include "worker/control.h"
#include "worker/deliveries.h"
#include "worker/drain.h"
#include "worker/intake.h"
#include "worker/lease.h"
#include "worker/pauses.h"
#include "worker/presence.h"
#include "worker/reconcile.h"
#include "worker/rejects.h"
#include "worker/release.h"
#include "worker/repeat_notes.h"
#include "worker/settle.h"
#include "worker/take.h"

enum { EXIT_KEEPER_DIED = 70 };

static const struct conf_setting SETTINGS[] = {
    {"http.listen", CONF_TEXT, "127.0.0.1:9463", 0, 0,
        "Address of /healthz, /readyz and /metrics; port 0: any; empty: "
        "none."},
    {"http.behind_proxy", CONF_BOOL, "false", 0, 1,
        "Allows a public address without TLS."},
    {"worker.name", CONF_TEXT, "", 0, 0,
        "Name of this worker in lists and for `actionist drain`; empty: the "
        "host's."},
    {"worker.presence_postgres", CONF_CONNINFO, "", 0, 0,
        "Direct connection for presence, where `postgres` goes through a "
        "pooler in session mode; empty: the same."},
    {"worker.concurrency", CONF_INT, "512", 1, 10000,
        "Actions that run at once."},
    {"worker.tenant_concurrency", CONF_INT, "256", 1, 10000,
        "... of one tenant."},
    {"worker.tenant_queue", CONF_INT, "2000", 1, 100000,
        "Claimed actions of one tenant waiting here; more are parked in "
        "Postgres, unless they would be done within a second."},
    {"worker.max_jobs", CONF_INT, "8000", 100, 100000,
        "Actions in memory; at that the intake pauses."},
    {"worker.max_bytes", CONF_INT, "50331648", 4194304, 1073741824,
        "Bytes of requests and results in memory; at that the intake "
        "pauses."},
    {"worker.drain_s", CONF_INT, "30", 0, 3600,
        "How long running calls may go on after SIGTERM."},
};

struct conf_setting *worker_settings(size_t *count)
{
    struct conf_setting *all =
        mem_zalloc(ARRAY_LEN(SETTINGS) + RUN_SETTINGS_COUNT, sizeof(*all));
    memcpy(all, SETTINGS, sizeof(SETTINGS));
    memcpy(all + ARRAY_LEN(SETTINGS), RUN_SETTINGS,
        RUN_SETTINGS_COUNT * sizeof(*all));
    *count = ARRAY_LEN(SETTINGS) + RUN_SETTINGS_COUNT;
    return all;
}

/* -- opening and closing --------------------------------------------------- */

static struct pg *open_db(struct worker *worker, const char *name)
{
    const struct pg_options options = {
        .conninfo = conf_text(worker->conf, "postgres"),
        .name = name,
        .statements = SQL_WORKER,
        .statement_count = SQL_WORKER_COUNT,
        .are_plans_pinned = true,
    };
    return pg_open(worker->loop, &options);
}

static void open_rooms(struct worker *worker)
{
    worker->claim_db = open_db(worker, "actionist-worker claim");
    worker->settle_db = open_db(worker, "actionist-worker settle");
    worker->connectors = connectors_open(worker);
    worker->settle = settle_open(worker);
    worker->admit = admit_open(worker);
    worker->pauses = pauses_open(worker);
    worker->drain = drain_open(worker);
    worker->begin = begin_open(worker);
    worker->claim = claim_open(worker);
    worker->deliveries = deliveries_open(worker);
    worker->take = take_open(worker);
    worker->reconcile = reconcile_open(worker);
    worker->release = release_open(worker);
    worker->repeat_notes = worker_repeat_notes_open(worker);
    worker->intake = intake_open(worker);
    worker->lease = lease_open(worker);
    worker->presence = presence_open(worker);
}

int worker_open(struct worker *worker, struct err *err)
{
    worker->is_closing = false;
    worker->is_restarting = false;
    worker->clock_us = 0;
    uuid_v7(worker->boot_id);
    uuid_format(worker->boot_id, worker->boot_text);
    open_rooms(worker);
    worker->rejects = rejects_open(worker, err);
    if (worker->rejects == NULL) {
        return -1;
    }
    worker->control = control_open(worker, err);
    return worker->control == NULL ? -1 : 0;
}

void worker_close(struct worker *worker)
{
    worker->is_closing = true;
    presence_close(worker->presence);
    pg_close(worker->claim_db);
    pg_close(worker->settle_db);
    intake_close(worker->intake);
    rejects_close(worker->rejects);
    control_close(worker->control);
    lease_close(worker->lease);
    release_close(worker->release);
    worker_repeat_notes_close(worker->repeat_notes);
    reconcile_close(worker->reconcile);
    take_close(worker->take);
    claim_close(worker->claim);
    deliveries_close(worker->deliveries);
    begin_close(worker->begin);
    pauses_close(worker->pauses);
    drain_close(worker->drain);
    admit_close(worker->admit);
    settle_close(worker->settle);
    jobs_free_all(&worker->jobs);
    connectors_close(worker->connectors);
    worker->presence = NULL;
    worker->claim_db = NULL;
    worker->settle_db = NULL;
    worker->intake = NULL;
    worker->rejects = NULL;
    worker->control = NULL;
    worker->lease = NULL;
    worker->release = NULL;
    worker->repeat_notes = NULL;
    worker->reconcile = NULL;
    worker->take = NULL;
    worker->claim = NULL;
    worker->deliveries = NULL;
    worker->begin = NULL;
    worker->pauses = NULL;
    worker->drain = NULL;
    worker->admit = NULL;
    worker->settle = NULL;
    worker->connectors = NULL;
}

/* -- its life -------------------------------------------------------------- */

void worker_restart(struct worker *worker, const char *reason)
{
    if (worker->is_restarting || worker->is_closing) {
        return;
    }
    LOG(ERROR, "identity_lost",
        (&(struct log_fields){.name1 = "boot_id", .value1 = worker->boot_text}),
        "%s; the children are killed and the worker starts over", reason);
    metric_add(worker->stats.restarts, NULL, 1);
    /* From here on no result is settled: others own the rows. */
    worker->is_restarting = true;
    run_kill_all(worker->run);
    loop_end(worker->loop);
}

void worker_stop(struct worker *worker, int exit_code)
{
    if (exit_code != 0) {
        worker->exit_code = exit_code;
    }
    worker->is_parked = false;
    if (worker->is_standing_by) {
        worker->is_draining = true;
        loop_end(worker->loop);
        return;
    }
    if (worker->is_draining || worker->is_closing) {
        return;
    }
    worker->is_draining = true;
    release_start(worker->release);
}

void worker_park(struct worker *worker)
{
    if (worker->is_draining || worker->is_closing || worker->is_restarting) {
        return;
    }
    worker->is_parked = true;
    worker->is_draining = true;
    release_start(worker->release);
}

void worker_on_run_done(void *owner, const struct run_result *result)
{
    struct worker *worker = owner;
    if (!worker->is_restarting && !worker->is_closing) {
        call_done(worker, result);
    }
}

void worker_on_run_dead(void *owner)
{
    struct worker *worker = owner;
    LOG(ERROR, "keeper_died", NULL,
        "no child can be started any more; the worker settles what it knows "
        "and ends");
    worker_stop(worker, EXIT_KEEPER_DIED);
}

int64_t worker_now_us(const struct worker *worker)
{
    return worker->clock_us == 0 ? now_wall_us()
                                 : worker->clock_us + now_mono_us();
}

static const char *what_is_missing(const struct worker *worker)
{
    if (worker->is_standing_by) {
        return "the worker is drained by an operator";
    }
    if (worker->is_closing || worker->is_restarting ||
        worker->presence == NULL) {
        return "the worker is starting over";
    }
    if (worker->is_draining) {
        return "the worker is stopping";
    }
    if (!pg_is_up(worker->claim_db) || !pg_is_up(worker->settle_db)) {
        return "postgres cannot be reached";
    }
    if (!presence_is_held(worker->presence) || !lease_is_safe(worker->lease)) {
        return "the presence lock or the lease is not held";
    }
    if (!connectors_is_loaded(worker->connectors)) {
        return "the connectors are not loaded";
    }
    if (!intake_is_up(worker->intake) || !rejects_is_up(worker->rejects)) {
        return "kafka cannot be reached";
    }
    return NULL;
}

bool worker_is_ready(const struct worker *worker, const char **reason)
{
    *reason = what_is_missing(worker);
    return *reason == NULL;
}
