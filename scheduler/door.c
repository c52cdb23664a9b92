/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/door.h"

#include <stdlib.h>
#include <string.h>

#include "common/http_server.h"
#include "common/json.h"
#include "common/log.h"
#include "common/metrics.h"
#include "scheduler/pulse.h"
#include "scheduler/relay.h"
#include "scheduler/scheduler.h"

enum { METRICS_MAX_BYTES = 8 << 20, READY_MAX_BYTES = 4096 };

struct door {
    struct scheduler *scheduler;
    struct http_server *server;
};

static void answer_metrics(struct http_request *request)
{
    struct buf text;
    buf_init(&text, METRICS_MAX_BYTES);
    metrics_format(&text);
    http_reply(request, 200, "text/plain; version=0.0.4", buf_span(&text));
    buf_fini(&text);
}

static void put_part(
    struct buf *out, const char *name, bool is_well, const char *why)
{
    json_put_name(out, name);
    if (is_well) {
        json_put_cstring(out, "ok");
    } else {
        json_put_cstring(out, why);
    }
}

static void answer_ready(
    const struct scheduler *scheduler, struct http_request *request)
{
    const char *why = NULL;
    const bool is_relay_well = relay_is_healthy(scheduler->relay, &why);
    const bool is_database_up =
        pg_is_up(scheduler->work) && pulse_is_up(scheduler->pulse);
    const bool is_kafka_up = kafka_producer_is_up(scheduler->producer);
    const bool is_ready = is_relay_well && is_database_up && is_kafka_up &&
                          !scheduler->is_stopping;
    struct buf body;
    buf_init(&body, READY_MAX_BYTES);
    buf_put_char(&body, '{');
    put_part(&body, "postgres", is_database_up, "not connected");
    put_part(&body, "kafka", is_kafka_up, "not connected");
    put_part(&body, "relay", is_relay_well, why);
    json_put_name(&body, "leader");
    buf_put_str(
        &body, relay_is_leader(scheduler->relay) ? "true}\n" : "false}\n");
    http_reply(
        request, is_ready ? 200 : 503, "application/json", buf_span(&body));
    buf_fini(&body);
}

static void on_request(void *owner, struct http_request *request)
{
    const struct door *door = owner;
    const struct span path = span_of(http_path(request));
    const char *method = http_method(request);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        http_reply_header(request, "Allow", "GET, HEAD");
        http_problem(request, 405, "METHOD_NOT_ALLOWED", NULL,
            "this path does not have that method");
    } else if (span_is(path, "/healthz")) {
        http_reply(request, 200, "application/json",
            SPAN_LIT("{\"status\":\"ok\"}\n"));
    } else if (span_is(path, "/readyz")) {
        answer_ready(door->scheduler, request);
    } else if (span_is(path, "/metrics")) {
        answer_metrics(request);
    } else {
        http_problem(request, 404, "NOT_FOUND", NULL, "nothing here");
    }
}

struct door *scheduler_door_open(struct scheduler *scheduler, struct err *err)
{
    struct door *door = mem_zalloc(1, sizeof(*door));
    door->scheduler = scheduler;
    const struct http_options options = {
        .address = conf_text(scheduler->conf, "http.listen"),
        .is_behind_proxy = conf_bool(scheduler->conf, "http.behind_proxy"),
        .max_body_bytes = 4096,
        .max_connections = 64,
        .max_connections_per_address = 64,
        .idle_timeout_s = 30,
        .body_timeout_s = 10};
    door->server =
        http_server_open(&scheduler->loop, &options, on_request, door, err);
    if (door->server == NULL) {
        free(door);
        return NULL;
    }
    LOG(INFO, "listening",
        (&(struct log_fields){
            .name1 = "address", .value1 = http_server_address(door->server)}),
        "health and metrics");
    return door;
}

void scheduler_door_close(struct door *door)
{
    if (door != NULL) {
        http_server_close(door->server);
        free(door);
    }
}
