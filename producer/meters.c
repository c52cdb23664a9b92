/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/meters.h"

#include "common/err.h"

#define NAME(rest) "actionist_producer_" rest

static const double SECONDS[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
static const double SIZES[] = {1, 2, 5, 10, 20, 50, 100, 200, 512};

void meters_init(struct meters *meters)
{
    meters->answers = metric_counter(
        NAME("answers_total"), "Answers by HTTP status.", "status");
    meters->problems = metric_counter(
        NAME("problems_total"), "Refused requests by code.", "code");
    meters->seconds = metric_histogram(NAME("request_seconds"),
        "From a whole request to its answer.", "route", SECONDS,
        ARRAY_LEN(SECONDS));
    meters->reservations = metric_counter(NAME("reservations_total"),
        "Idempotency keys reserved, by verdict.", "verdict");
    meters->batch_size = metric_histogram(NAME("reservation_batch_size"),
        "Reservations of one commit.", NULL, SIZES, ARRAY_LEN(SIZES));
    meters->produced = metric_counter(NAME("records_total"),
        "Records produced, by how their delivery ended.", "delivery");
    meters->webhooks = metric_counter(
        NAME("webhooks_total"), "Webhook requests, by verdict.", "verdict");
    meters->requests = metric_gauge(
        NAME("requests"), "Requests that have no answer yet.", NULL);
    meters->waiters = metric_gauge(
        NAME("waiters"), "Requests that wait for an outcome.", NULL);
    meters->ready = metric_gauge(
        NAME("ready"), "1 while the producer can accept actions.", NULL);
}
