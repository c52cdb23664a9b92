/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "/_control/"
#define MAX_PAGE 100000
/* A page ends early once it holds this much. */
#define PAGE_BYTES ((size_t)16 * 1024 * 1024)

typedef void control_fn(struct provider *provider,
    const struct http_request *request, struct answer *answer);

/* Which entries a list shows. */
struct filter {
    struct buf path;
    struct buf key;
    bool has_path;
    bool has_key;
    bool is_prefix;
    uint64_t after;
    uint64_t limit;
};

bool control_owns(const struct http_request *request)
{
    return request->path.len >= strlen(PREFIX) &&
           memcmp(request->path.data, PREFIX, strlen(PREFIX)) == 0;
}

static void answer_error(struct answer *answer,
    const struct http_request *request, int status, const char *message)
{
    struct buf body;
    buf_init(&body, 4096);
    buf_text(&body, "{\"error\":");
    buf_json(&body, message, strlen(message));
    buf_text(&body, "}");
    answer_json(answer, request, status, &body);
    buf_fini(&body);
}

static int read_count(const struct http_request *request, const char *name,
    uint64_t max, uint64_t *value, struct problem *problem)
{
    struct buf text;
    buf_init(&text, HTTP_MAX_HEAD_BYTES + 1);
    bool is_good = true;
    if (http_query(request, name, &text)) {
        buf_append(&text, "", 1);
        char *end = NULL;
        const unsigned long long number = strtoull(text.data, &end, 10);
        is_good = text.len >= 2 && text.len <= 20 && text.data[0] >= '0' &&
                  text.data[0] <= '9' && *end == '\0' && number <= max;
        *value = number;
    }
    buf_fini(&text);
    return is_good
               ? 0
               : problem_set(problem, "%s: must be a whole number 0 to %llu",
                     name, (unsigned long long)max);
}

static void filter_fini(struct filter *filter)
{
    buf_fini(&filter->path);
    buf_fini(&filter->key);
}

static int filter_init(struct filter *filter,
    const struct http_request *request, struct problem *problem)
{
    *filter = (struct filter){.limit = 1000};
    buf_init(&filter->path, HTTP_MAX_HEAD_BYTES);
    buf_init(&filter->key, HTTP_MAX_HEAD_BYTES);
    filter->has_path = http_query(request, "path", &filter->path);
    filter->has_key = http_query(request, "key", &filter->key);
    if (filter->path.len > 0 &&
        filter->path.data[filter->path.len - 1] == '*') {
        filter->is_prefix = true;
        filter->path.len--;
    }
    if (read_count(request, "after", INT64_MAX, &filter->after, problem) != 0 ||
        read_count(request, "limit", MAX_PAGE, &filter->limit, problem) != 0) {
        filter_fini(filter);
        return -1;
    }
    return 0;
}

static bool is_same(const struct buf *buf, struct http_span span)
{
    return buf->len == span.len &&
           (span.len == 0 || memcmp(buf->data, span.data, span.len) == 0);
}

static bool filter_passes(
    const struct filter *filter, struct http_span path, struct http_span key)
{
    if (filter->is_prefix && path.len > filter->path.len) {
        path.len = filter->path.len;
    }
    return (!filter->has_path || is_same(&filter->path, path)) &&
           (!filter->has_key || is_same(&filter->key, key));
}

static void put_script(struct provider *provider,
    const struct http_request *request, struct answer *answer)
{
    struct problem problem = {""};
    const int count = script_set_load(
        &provider->scripts, request->body.data, request->body.len, &problem);
    if (count < 0) {
        answer_error(answer, request, 400, problem.msg);
        return;
    }
    struct buf body;
    buf_init(&body, 256);
    buf_printf(&body, "{\"scripts\":%d}", count);
    answer_json(answer, request, 200, &body);
    buf_fini(&body);
}

static void delete_script(struct provider *provider,
    const struct http_request *request, struct answer *answer)
{
    struct buf path;
    struct buf method;
    buf_init(&path, HTTP_MAX_HEAD_BYTES);
    buf_init(&method, HTTP_MAX_HEAD_BYTES);
    const bool has_path = http_query(request, "path", &path);
    (void)http_query(request, "method", &method); /* none means any */
    buf_append(&path, "", 1);
    buf_append(&method, "", 1);
    if (!has_path) {
        script_set_fini(&provider->scripts);
        answer_json_text(answer, request, 200, "{\"ok\":true}");
    } else if (script_set_remove(&provider->scripts, method.data, path.data)) {
        answer_json_text(answer, request, 200, "{\"ok\":true}");
    } else {
        answer_error(answer, request, 404, "path: has no script");
    }
    buf_fini(&path);
    buf_fini(&method);
}

static void delete_all(struct provider *provider,
    const struct http_request *request, struct answer *answer)
{
    provider_reset(provider);
    answer_json_text(answer, request, 200, "{\"ok\":true}");
}

static void end_page(struct buf *body, const char *more, uint64_t last)
{
    buf_printf(
        body, "],\"more\":%s,\"last\":%llu}", more, (unsigned long long)last);
}

static void get_effects(struct provider *provider,
    const struct http_request *request, struct answer *answer)
{
    struct filter filter;
    struct problem problem = {""};
    if (filter_init(&filter, request, &problem) != 0) {
        answer_error(answer, request, 400, problem.msg);
        return;
    }
    struct buf body;
    buf_init(&body, ANSWER_MAX_BYTES - HTTP_MAX_HEAD_BYTES);
    buf_text(&body, "{\"effects\":[");
    uint64_t shown = 0;
    uint64_t i = filter.after;
    for (; i < provider->ledger.count && shown < filter.limit &&
           body.len < PAGE_BYTES;
         i++) {
        const struct effect *effect = provider->ledger.items[i];
        const struct http_span path = {effect->path, strlen(effect->path)};
        const struct http_span key = {effect->key, strlen(effect->key)};
        if (filter_passes(&filter, path, key)) {
            buf_text(&body, shown > 0 ? ",\n" : "\n");
            ledger_format(&body, effect);
            shown++;
        }
    }
    end_page(&body, i < provider->ledger.count ? "true" : "false", i);
    answer_json(answer, request, 200, &body);
    buf_fini(&body);
    filter_fini(&filter);
}

static void get_requests(struct provider *provider,
    const struct http_request *request, struct answer *answer)
{
    struct filter filter;
    struct problem problem = {""};
    if (filter_init(&filter, request, &problem) != 0) {
        answer_error(answer, request, 400, problem.msg);
        return;
    }
    const struct reqlog *log = &provider->log;
    struct buf body;
    buf_init(&body, ANSWER_MAX_BYTES - HTTP_MAX_HEAD_BYTES);
    buf_text(&body, "{\"requests\":[");
    uint64_t shown = 0;
    uint64_t seq = filter.after + 1;
    seq = seq > log->first_seq ? seq : log->first_seq;
    for (;
         seq <= log->last_seq && shown < filter.limit && body.len < PAGE_BYTES;
         seq++) {
        const struct reqlog_entry *entry = reqlog_get(log, seq);
        if (filter_passes(&filter, reqlog_path(entry), reqlog_key(entry))) {
            buf_text(&body, shown > 0 ? ",\n" : "\n");
            reqlog_format(&body, entry);
            shown++;
        }
    }
    end_page(&body, seq <= log->last_seq ? "true" : "false", seq - 1);
    answer_json(answer, request, 200, &body);
    buf_fini(&body);
    filter_fini(&filter);
}

static void get_stats(struct provider *provider,
    const struct http_request *request, struct answer *answer)
{
    const struct provider_stats *stats = &provider->stats;
    const struct reqlog *log = &provider->log;
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"requests", stats->requests},
        {"incomplete", stats->incomplete},
        {"bad_requests", stats->bad_requests},
        {"answered", stats->answered},
        {"replays", stats->replays},
        {"effects", stats->effects},
        {"resets", stats->resets},
        {"ledger_full", stats->ledger_full},
        {"ledger_entries", provider->ledger.count},
        {"scripts", provider->scripts.live_count},
        {"log_kept", log->last_seq + 1 - log->first_seq},
        {"log_last_seq", log->last_seq},
        {"log_write_errors", log->write_errors},
        {"connections", stats->connections},
        {"connections_open", stats->connections_open},
        {"connections_refused", stats->connections_refused},
        {"clients_gone", stats->clients_gone},
    };
    struct buf body;
    buf_init(&body, 4096);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        buf_printf(&body, "%s\"%s\":%llu", i > 0 ? "," : "{", counts[i].name,
            (unsigned long long)counts[i].value);
    }
    buf_text(&body, "}");
    answer_json(answer, request, 200, &body);
    buf_fini(&body);
}

void control_answer(struct provider *provider,
    const struct http_request *request, struct answer *answer)
{
    static const struct {
        const char *method;
        const char *path;
        control_fn *run;
    } routes[] = {
        {"PUT", PREFIX "script", put_script},
        {"DELETE", PREFIX "script", delete_script},
        {"DELETE", PREFIX "reset", delete_all},
        {"GET", PREFIX "effects", get_effects},
        {"GET", PREFIX "requests", get_requests},
        {"GET", PREFIX "stats", get_stats},
    };
    int status = 404;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (!http_equals(request->path, routes[i].path)) {
            continue;
        }
        if (http_equals(request->method, routes[i].method)) {
            routes[i].run(provider, request, answer);
            return;
        }
        status = 405;
    }
    answer_error(answer, request, status,
        status == 405 ? "the path does not take this method"
                      : "no such path in the control API");
}
