/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/health.h"

#include <string.h>

#include "common/log.h"
#include "worker/admit.h"
#include "worker/worker.h"

enum { MAX_METRICS = 4 << 20 };

static void set_levels(const struct worker *worker)
{
    const struct stats *stats = &worker->stats;
    const char *reason = NULL;
    const struct admit *admit = worker->admit;
    metric_set(stats->jobs, NULL, (double)worker->jobs.count);
    metric_set(stats->job_bytes, NULL, (double)worker->jobs.bytes);
    metric_set(stats->ready, NULL, worker_is_ready(worker, &reason) ? 1 : 0);
    if (admit != NULL) {
        metric_set(stats->running, NULL, (double)admit_running(admit));
        metric_set(stats->waiting_turn, NULL, (double)admit_waiting(admit));
        metric_set(stats->tenants, NULL, (double)admit_tenants(admit));
    }
}

static void reply_metrics(
    const struct worker *worker, struct http_request *request)
{
    struct buf text;
    set_levels(worker);
    buf_init(&text, MAX_METRICS);
    metrics_format(&text);
    http_reply(request, 200, "text/plain; version=0.0.4", buf_span(&text));
    buf_fini(&text);
}

static void reply_ready(
    const struct worker *worker, struct http_request *request)
{
    const char *reason = NULL;
    if (worker_is_ready(worker, &reason)) {
        http_reply(request, 200, "text/plain", SPAN_LIT("ready\n"));
    } else {
        http_problem(request, 503, "UNAVAILABLE", NULL, reason);
    }
}

static void on_request(void *owner, struct http_request *request)
{
    const struct worker *worker = owner;
    const char *path = http_path(request);
    const char *method = http_method(request);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        http_problem(request, 405, "METHOD_NOT_ALLOWED", NULL,
            "this path does not have that method");
    } else if (strcmp(path, "/healthz") == 0) {
        http_reply(request, 200, "text/plain", SPAN_LIT("ok\n"));
    } else if (strcmp(path, "/readyz") == 0) {
        reply_ready(worker, request);
    } else if (strcmp(path, "/metrics") == 0) {
        reply_metrics(worker, request);
    } else {
        http_problem(request, 404, "NOT_FOUND", NULL, "nothing here");
    }
}

struct http_server *health_open(struct worker *worker, struct err *err)
{
    const struct http_options options = {
        .address = conf_text(worker->conf, "http.listen"),
        .is_behind_proxy = conf_bool(worker->conf, "http.behind_proxy"),
        .max_body_bytes = 1024,
        .max_connections = 64,
        .max_connections_per_address = 64,
        .idle_timeout_s = 30,
        .body_timeout_s = 10,
    };
    if (options.address[0] == '\0') {
        return NULL;
    }
    struct http_server *server =
        http_server_open(worker->loop, &options, on_request, worker, err);
    if (server != NULL) {
        LOG(INFO, "http_listening",
            (&(struct log_fields){
                .name1 = "address", .value1 = http_server_address(server)}),
            "health and metrics");
    }
    return server;
}
