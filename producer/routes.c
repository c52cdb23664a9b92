/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/routes.h"

#include <string.h>
#include <strings.h>

#include "producer/actions.h"
#include "producer/cancel.h"
#include "producer/health.h"
#include "producer/keys.h"
#include "producer/producer.h"
#include "producer/replay_door.h"
#include "producer/reply.h"
#include "producer/schedules.h"
#include "producer/wait.h"
#include "producer/webhook.h"

struct route {
    const char *method;
    const char *path; /* "*" in it is one segment */
    const char *name; /* in metrics */
    /* One of the two: for anybody, or for callers with a key. */
    void (*open)(struct producer *producer, struct http_request *request);
    void (*handler)(struct exchange *exchange);
};

static const struct route ROUTES[] = {
    {"POST", "/v1/actions", "actions_post", NULL, actions_post},
    {"GET", "/v1/actions/*", "actions_get", NULL, wait_get},
    {"POST", "/v1/actions/*/cancel", "actions_cancel", NULL, cancel_post},
    {"POST", REPLAY_DOOR_PATH, "replays_post", NULL, replay_door_post},
    {"GET", REPLAY_DOOR_PATH, "replays_list", NULL, replay_door_list},
    {"GET", REPLAY_DOOR_PATH "/*", "replays_get", NULL, replay_door_get},
    {"POST", REPLAY_DOOR_PATH "/*/pause", "replays_pause", NULL,
        replay_door_pause},
    {"POST", REPLAY_DOOR_PATH "/*/resume", "replays_resume", NULL,
        replay_door_resume},
    {"POST", REPLAY_DOOR_PATH "/*/cancel", "replays_cancel", NULL,
        replay_door_cancel},
    {"POST", "/v1/schedules", "schedules_post", NULL, schedules_post},
    {"GET", "/v1/schedules", "schedules_list", NULL, schedules_list},
    {"GET", "/v1/schedules/*", "schedules_get", NULL, schedules_get},
    {"DELETE", "/v1/schedules/*", "schedules_delete", NULL, schedules_delete},
    {"POST", "/v1/schedules/*/pause", "schedules_pause", NULL, schedules_pause},
    {"POST", "/v1/schedules/*/resume", "schedules_resume", NULL,
        schedules_resume},
    {"POST", "/hooks/*/*", "hooks_post", webhook_post, NULL},
    {"GET", "/hooks/*/*", "hooks_get", webhook_get, NULL},
    {"GET", "/healthz", "healthz", health_live, NULL},
    {"GET", "/readyz", "readyz", health_ready, NULL},
    {"GET", "/metrics", "metrics", health_metrics, NULL},
};

static bool path_is(const struct route *route, const char *path)
{
    const char *pattern = route->path;
    const char *star = strchr(pattern, '*');
    while (star != NULL) {
        const size_t len = (size_t)(star - pattern);
        if (strncmp(pattern, path, len) != 0) {
            return false;
        }
        const size_t segment = strcspn(path + len, "/");
        if (segment == 0) {
            return false;
        }
        path += len + segment;
        pattern = star + 1;
        star = strchr(pattern, '*');
    }
    return strcmp(pattern, path) == 0;
}

static void refuse_path(struct producer *producer, struct http_request *request,
    const char *allowed)
{
    if (allowed != NULL) {
        http_reply_header(request, "Allow", allowed);
        reply_problem(&producer->meters, request, 405, CODE_METHOD_NOT_ALLOWED,
            NULL, NULL);
    } else {
        reply_problem(
            &producer->meters, request, 404, CODE_NOT_FOUND, NULL, NULL);
    }
}

static void go(struct producer *producer, struct http_request *request,
    const struct route *route)
{
    if (route->open != NULL) {
        route->open(producer, request);
        return;
    }
    struct exchange *exchange = exchange_open(producer, request, route->name);
    exchange->handler = route->handler;
    keys_authenticate(exchange);
}

void routes_on_request(void *owner, struct http_request *request)
{
    struct producer *producer = owner;
    const char *expect = http_header(request, "Expect");
    if (expect != NULL && strcasecmp(expect, "100-continue") != 0) {
        reply_problem(&producer->meters, request, 417, CODE_BAD_REQUEST, NULL,
            "the only expectation that can be met is 100-continue");
        return;
    }
    struct buf allowed;
    buf_init(&allowed, 64);
    for (size_t i = 0; i < ARRAY_LEN(ROUTES); i++) {
        if (!path_is(&ROUTES[i], http_path(request))) {
            continue;
        }
        if (strcmp(ROUTES[i].method, http_method(request)) == 0) {
            go(producer, request, &ROUTES[i]);
            buf_fini(&allowed);
            return;
        }
        buf_printf(
            &allowed, "%s%s", allowed.len > 0 ? ", " : "", ROUTES[i].method);
    }
    refuse_path(producer, request, allowed.len > 0 ? buf_str(&allowed) : NULL);
    buf_fini(&allowed);
}
