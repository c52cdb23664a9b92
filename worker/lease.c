/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/lease.h"

#include <stdlib.h>

#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/intake.h"
#include "worker/presence.h"
#include "worker/worker.h"

enum {
    RENEW_MS = 2000,
    WATCH_MS = 250,
    GIVE_UP_MS = 8000,
    GATE_MS = 7000,
    CLOCK_DRIFT_US = 100 /* between two renewals */
};

struct lease {
    struct worker *worker;
    struct loop_timer *renew;
    struct loop_timer *watch;
    int64_t sent_us;        /* of the renewal under way; 0: none */
    int64_t confirmed_us;   /* when the last confirmed one was sent; 0: none */
    int64_t clock_error_us; /* of worker->clock_us, at most; 0: not known */
    bool has_started;       /* the intake was let go */
};

static int64_t age_ms(const struct lease *lease)
{
    return (now_mono_us() - lease->confirmed_us) / US_PER_MS;
}

/*
 * The database read its clock somewhere between the question and the answer. A
 * slow answer says little, so a better one of before is kept for as long as
 * this one does not contradict it.
 */
static void set_clock(struct lease *lease, int64_t sent_us, int64_t fleet_us)
{
    struct worker *worker = lease->worker;
    const int64_t half_us = (now_mono_us() - sent_us) / 2;
    const int64_t clock_us = fleet_us - (sent_us + half_us);
    const int64_t moved_us = clock_us > worker->clock_us
                                 ? clock_us - worker->clock_us
                                 : worker->clock_us - clock_us;
    lease->clock_error_us += CLOCK_DRIFT_US;
    if (lease->clock_error_us > CLOCK_DRIFT_US && moved_us <= half_us &&
        half_us >= lease->clock_error_us) {
        return;
    }
    worker->clock_us = clock_us;
    lease->clock_error_us = half_us;
}

static void on_renewed(void *arg, const struct pg_outcome *outcome)
{
    struct lease *lease = arg;
    struct worker *worker = lease->worker;
    if (worker->is_closing) {
        return;
    }
    const int64_t sent_us = lease->sent_us;
    lease->sent_us = 0;
    if (outcome->end != PG_DONE) {
        return; /* the next one is soon; the watch counts the time */
    }
    if (pg_rows(outcome->results[0]) == 0) {
        worker_restart(worker, "the worker's row was marked dead");
        return;
    }
    lease->confirmed_us = sent_us;
    set_clock(lease, sent_us, pg_get_time(outcome->results[0], 0, 0));
    run_renewed(worker->run);
    if (!lease->has_started) {
        lease->has_started = true;
        intake_start(worker->intake);
    }
}

static void renew(void *owner)
{
    struct lease *lease = owner;
    struct presence *presence = lease->worker->presence;
    if (lease->sent_us != 0 || !pg_is_up(presence_db(presence))) {
        return;
    }
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, lease->worker->boot_id);
    lease->sent_us = now_mono_us();
    pg_run(
        presence_db(presence), SQL_PRESENCE_RENEW, &params, on_renewed, lease);
    pg_params_fini(&params);
}

static void watch(void *owner)
{
    struct lease *lease = owner;
    if (lease->confirmed_us != 0 && age_ms(lease) > GIVE_UP_MS) {
        worker_restart(lease->worker, "the lease could not be renewed");
    }
}

struct lease *lease_open(struct worker *worker)
{
    struct lease *lease = mem_zalloc(1, sizeof(*lease));
    lease->worker = worker;
    lease->renew = loop_timer_new(worker->loop, renew, lease);
    lease->watch = loop_timer_new(worker->loop, watch, lease);
    return lease;
}

void lease_close(struct lease *lease)
{
    if (lease == NULL) {
        return;
    }
    loop_timer_free(lease->renew);
    loop_timer_free(lease->watch);
    free(lease);
}

void lease_start(struct lease *lease)
{
    loop_timer_start(lease->renew, RENEW_MS, RENEW_MS);
    loop_timer_start(lease->watch, WATCH_MS, WATCH_MS);
    renew(lease);
}

void lease_renew_now(struct lease *lease)
{
    renew(lease);
}

bool lease_is_safe(const struct lease *lease)
{
    return lease->confirmed_us != 0 && age_ms(lease) < GATE_MS;
}
