/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/presence.h"

#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/drain.h"
#include "worker/lease.h"
#include "worker/worker.h"

enum {
    LOCK_RETRY_MS = 100,
    FAILED_RETRY_MS = 1000,
    /* The server may take a while to see that an old session of ours ended. */
    LOCK_PATIENCE_MS = 8000,
    DEADLINE_MS = 4000
};

#define KEEPALIVE_WORDS                                                        \
    " keepalives=1 keepalives_idle=3 keepalives_interval=1"                    \
    " keepalives_count=3 tcp_user_timeout=5000"
#define KEEPALIVE_QUERY                                                        \
    "keepalives=1&keepalives_idle=3&keepalives_interval=1"                     \
    "&keepalives_count=3&tcp_user_timeout=5000"

/* A backend that works on a statement does not notice that its client died;
 * with this it looks every second. */
#define SESSION_SQL "set client_connection_check_interval = '1s'"

struct presence {
    struct worker *worker;
    struct pg *db;
    struct loop_timer *retry;
    int64_t key;
    int64_t lost_us; /* mono: since when the lock is not held; 0: held */
    bool is_held;
    bool is_registered;
};

char *presence_conninfo(const char *conninfo)
{
    struct buf text;
    size_t len = 0;
    buf_init(&text, 16384);
    buf_put_str(&text, conninfo);
    if (strncmp(conninfo, "postgres://", 11) == 0 ||
        strncmp(conninfo, "postgresql://", 13) == 0) {
        buf_put_char(&text, strchr(conninfo, '?') == NULL ? '?' : '&');
        buf_put_str(&text, KEEPALIVE_QUERY);
    } else {
        buf_put_str(&text, KEEPALIVE_WORDS);
    }
    return buf_take(&text, &len);
}

/* -- registering ----------------------------------------------------------- */

static void lock(struct presence *presence);

static void on_registered(void *arg, const struct pg_outcome *outcome)
{
    struct presence *presence = arg;
    if (presence->worker->is_closing) {
        return;
    }
    if (outcome->end != PG_DONE) {
        loop_timer_start(presence->retry, LOCK_RETRY_MS, 0);
        return;
    }
    presence->is_registered = true;
    presence->is_held = true;
    presence->lost_us = 0;
    LOG(INFO, "worker_registered",
        (&(struct log_fields){
            .name1 = "boot_id", .value1 = presence->worker->boot_text}),
        "present");
    lease_start(presence->worker->lease);
}

static void register_worker(struct presence *presence)
{
    char name[WORKER_NAME_SIZE];
    struct pg_params params;
    worker_name(presence->worker, name);
    pg_params_init(&params);
    pg_param_uuid(&params, presence->worker->boot_id);
    pg_param_text(&params, span_of(name));
    pg_param_int8(&params, presence->key);
    pg_run(
        presence->db, SQL_PRESENCE_REGISTER, &params, on_registered, presence);
    pg_params_fini(&params);
}

/* -- the lock -------------------------------------------------------------- */

static void on_lock_refused(struct presence *presence)
{
    if (now_mono_us() - presence->lost_us > LOCK_PATIENCE_MS * US_PER_MS) {
        worker_restart(presence->worker, "the presence lock is taken");
        return;
    }
    loop_timer_start(presence->retry, LOCK_RETRY_MS, 0);
}

/* After a loss the next connect asks again. But the session may stand and the
 * server refuse, for want of memory for locks or of a right: then this does. */
static void on_lock_failed(struct presence *presence, const struct err *err)
{
    if (!pg_is_up(presence->db)) {
        return;
    }
    LOG(WARN, "presence_failed", (&(struct log_fields){.err = err}),
        "the presence lock is asked for again");
    loop_timer_start(presence->retry, FAILED_RETRY_MS, 0);
}

static void on_locked(void *arg, const struct pg_outcome *outcome)
{
    struct presence *presence = arg;
    if (presence->worker->is_closing) {
        return;
    }
    if (outcome->end != PG_DONE) {
        on_lock_failed(presence, outcome->err);
        return;
    }
    const PGresult *rows = outcome->results[0];
    const int backend_pid = (int)pg_get_int(rows, 0, 1);
    if (backend_pid != pg_backend_pid(presence->db)) {
        LOG(ERROR, "presence_pooled", NULL,
            "there is a pooler between the worker and Postgres; presence "
            "needs a direct connection (setting worker.presence_postgres)");
        worker_stop(presence->worker, 1);
        return;
    }
    if (!pg_get_bool(rows, 0, 0)) {
        on_lock_refused(presence);
        return;
    }
    if (presence->is_registered) {
        presence->is_held = true;
        presence->lost_us = 0;
        LOG(INFO, "presence_regained", NULL, "present again");
        lease_renew_now(presence->worker->lease);
    } else {
        register_worker(presence);
    }
}

static void lock(struct presence *presence)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_int8(&params, presence->key);
    pg_run(presence->db, SQL_PRESENCE_LOCK, &params, on_locked, presence);
    pg_params_fini(&params);
}

static void on_retry(void *owner)
{
    struct presence *presence = owner;
    if (pg_is_up(presence->db) && !presence->is_held) {
        lock(presence);
    }
}

static void on_state(void *owner, bool is_up, const struct err *err)
{
    struct presence *presence = owner;
    (void)err;
    presence->is_held = false;
    if (is_up) {
        if (presence->lost_us == 0) {
            presence->lost_us = now_mono_us();
        }
        lock(presence);
    } else {
        presence->lost_us = 0;
    }
}

/* -- life ------------------------------------------------------------------ */

struct presence *presence_open(struct worker *worker)
{
    struct presence *presence = mem_zalloc(1, sizeof(*presence));
    const char *direct = conf_text(worker->conf, "worker.presence_postgres");
    char *conninfo = presence_conninfo(
        direct[0] == '\0' ? conf_text(worker->conf, "postgres") : direct);
    const struct pg_options options = {
        .conninfo = conninfo,
        .name = "actionist-worker presence",
        .statements = SQL_PRESENCE,
        .statement_count = SQL_PRESENCE_COUNT,
        .deadline_ms = DEADLINE_MS,
        .session_sql = SESSION_SQL,
        .on_state = on_state,
        .owner = presence,
    };
    presence->worker = worker;
    presence->key = (int64_t)(random_u64() >> 1);
    presence->retry = loop_timer_new(worker->loop, on_retry, presence);
    presence->db = pg_open(worker->loop, &options);
    free(conninfo);
    return presence;
}

void presence_close(struct presence *presence)
{
    if (presence == NULL) {
        return;
    }
    pg_close(presence->db);
    loop_timer_free(presence->retry);
    free(presence);
}

bool presence_is_held(const struct presence *presence)
{
    return presence->is_held;
}

struct pg *presence_db(struct presence *presence)
{
    return presence->db;
}

void presence_stop(struct presence *presence, pg_done_fn done, void *arg)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, presence->worker->boot_id);
    pg_run(presence->db, SQL_PRESENCE_STOP, &params, done, arg);
    pg_params_fini(&params);
}
