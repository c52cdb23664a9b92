/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/stats.h"

#include "common/err.h"

#define NAME(rest) "actionist_worker_" rest

static const double CALL_BOUNDS[] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

static const double WHOLE_BOUNDS[] = {
    0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800, 3600, 21600, 86400};

static void init_intake(struct stats *stats)
{
    stats->records = metric_counter(
        NAME("records_total"), "Kafka records received.", "topic");
    stats->rejects = metric_counter(NAME("rejects_total"),
        "Unreadable records sent to the rejects topic.", "reason");
    stats->deliveries = metric_counter(NAME("deliveries_total"),
        "Captured webhooks by what became of them.", "decision");
    stats->claims =
        metric_counter(NAME("claims_total"), "Actions claimed.", NULL);
    stats->duplicates = metric_counter(
        NAME("duplicates_total"), "Repeats of claimed actions.", NULL);
    stats->conflicts = metric_counter(
        NAME("conflicts_total"), "Keys used again with other content.", NULL);
    stats->taken =
        metric_counter(NAME("taken_total"), "Dispatched actions taken.", NULL);
    stats->adopted = metric_counter(
        NAME("adopted_total"), "Own rows found without memory of them.", NULL);
    stats->pauses = metric_counter(NAME("pauses_total"),
        "Times the intake was paused since memory was full.", NULL);
}

static void init_calls(struct stats *stats)
{
    stats->calls =
        metric_counter(NAME("calls_total"), "Calls by how they ended.", "end");
    stats->call_seconds = metric_histogram(NAME("call_seconds"),
        "Duration of calls.", NULL, CALL_BOUNDS, ARRAY_LEN(CALL_BOUNDS));
    stats->queue_seconds = metric_histogram(NAME("queue_seconds"),
        "Time an attempt waited for its turn, once it could run.", NULL,
        CALL_BOUNDS, ARRAY_LEN(CALL_BOUNDS));
    stats->whole_seconds = metric_histogram(NAME("whole_seconds"),
        "Time from the first claim of an action to its outcome.", NULL,
        WHOLE_BOUNDS, ARRAY_LEN(WHOLE_BOUNDS));
    stats->outcomes =
        metric_counter(NAME("outcomes_total"), "Outcomes written.", "status");
    stats->postponed = metric_counter(
        NAME("postponed_total"), "Actions set to wait.", "reason");
    stats->late = metric_counter(NAME("late_total"),
        "Results dropped since their fence had moved.", NULL);
    stats->fenced = metric_counter(NAME("fenced_total"),
        "Calls not made since the action was not ours any more.", NULL);
    stats->doubts = metric_counter(
        NAME("doubts_total"), "Commits whose end was unknown.", "room");
    stats->found_committed = metric_counter(NAME("found_committed_total"),
        "Commits in doubt that turned out to be applied.", NULL);
    stats->found_aborted = metric_counter(NAME("found_aborted_total"),
        "Commits in doubt that turned out not to be applied.", NULL);
    stats->restarts = metric_counter(NAME("restarts_total"),
        "Times the worker came back under a new identity.", NULL);
}

static void init_levels(struct stats *stats)
{
    stats->jobs = metric_gauge(NAME("jobs"), "Actions in memory.", NULL);
    stats->job_bytes = metric_gauge(
        NAME("jobs_bytes"), "Bytes of requests and results in memory.", NULL);
    stats->running =
        metric_gauge(NAME("running"), "Actions that hold a slot.", NULL);
    stats->waiting_turn = metric_gauge(
        NAME("waiting_turn"), "Claimed actions waiting for a slot.", NULL);
    stats->tenants = metric_gauge(
        NAME("tenants"), "Tenants with work in this worker.", NULL);
    stats->ready =
        metric_gauge(NAME("ready"), "1 while /readyz says so.", NULL);
}

void stats_init(struct stats *stats)
{
    init_intake(stats);
    init_calls(stats);
    init_levels(stats);
}
