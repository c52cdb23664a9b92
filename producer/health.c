/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/health.h"

#include "common/json.h"
#include "producer/actions.h"
#include "producer/keys.h"
#include "producer/manifests.h"
#include "producer/reply.h"

#define METRICS_MAX ((size_t)4 << 20)

void health_live(struct producer *producer, struct http_request *request)
{
    reply_body(&producer->meters, request, 200, "application/json",
        SPAN_LIT("{\"status\":\"ok\"}\n"));
}

/* The parts that are missing, as JSON strings behind commas. */
static bool put_missing(const struct producer *producer, struct buf *out)
{
    const struct {
        const char *name;
        bool is_there;
    } parts[] = {
        {"listener", !producer->is_draining},
        {"kafka", actions_is_kafka_up(producer->actions)},
        {"postgres", pg_is_up(producer->reserve_db) &&
                         pg_is_up(producer->look_db) &&
                         keys_are_fresh(producer->keys)},
        {"connectors", manifests_are_read(producer->manifests)},
    };
    bool is_any = false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (!parts[i].is_there) {
            buf_put_str(out, is_any ? "," : "");
            json_put_cstring(out, parts[i].name);
            is_any = true;
        }
    }
    return is_any;
}

void health_ready(struct producer *producer, struct http_request *request)
{
    struct buf body;
    buf_init(&body, 512);
    buf_put_str(&body, "{\"status\":\"not ready\",\"missing\":[");
    const bool is_any = put_missing(producer, &body);
    buf_put_str(&body, "]}\n");
    if (is_any) {
        http_reply_header(request, "Retry-After", REPLY_RETRY_AFTER_S);
        reply_body(&producer->meters, request, 503, "application/json",
            buf_span(&body));
    } else {
        reply_body(&producer->meters, request, 200, "application/json",
            SPAN_LIT("{\"status\":\"ready\"}\n"));
    }
    buf_fini(&body);
}

void health_metrics(struct producer *producer, struct http_request *request)
{
    struct buf body;
    struct buf missing;
    buf_init(&body, METRICS_MAX);
    buf_init(&missing, 512);
    metric_set(
        producer->meters.ready, NULL, put_missing(producer, &missing) ? 0 : 1);
    metric_set(
        producer->meters.requests, NULL, (double)producer->exchanges.count);
    metrics_format(&body);
    reply_body(&producer->meters, request, 200, "text/plain; version=0.0.4",
        buf_span(&body));
    buf_fini(&missing);
    buf_fini(&body);
}
