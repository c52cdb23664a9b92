/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of the shard, held by the relay's own session. It only chooses who
 * tries: what keeps two relays apart is the fencing of the lanes.
 */
#include "common/log.h"
#include "scheduler/relay_private.h"

enum { TRY_EVERY_MS = 500 };

static void on_tried(void *arg, const struct pg_outcome *outcome)
{
    struct relay *relay = arg;
    if (!relay_takes(relay, RELAY_FOLLOWING, outcome, "the leader's lock")) {
        return;
    }
    if (!pg_get_bool(outcome->results[0], 0, 0)) {
        relay_clear_alarm(relay);
        loop_timer_start(relay->timer, TRY_EVERY_MS, 0);
        return;
    }
    LOG(INFO, "relay_leads",
        (&(struct log_fields){.number_name = "shard", .number = relay->shard}),
        "this scheduler leads the relay");
    relay_check(relay);
}

void leader_follow(struct relay *relay)
{
    relay_set_phase(relay, RELAY_FOLLOWING);
    pg_params_clear(&relay->params);
    pg_param_int4(&relay->params, relay->shard);
    pg_run(relay->pg, SQL_RELAY_LOCK, &relay->params, on_tried, relay);
}
