/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/shown_call.h"

#include <string.h>
#include <strings.h>

#include "common/json.h"

enum { MAX_RENDERED = 4 << 20 };

/* Everything else may carry what an operator must not see. */
static const char *const PLAIN_HEADERS[] = {"accept", "accept-encoding",
    "accept-language", "content-language", "content-type", "idempotency-key",
    "prefer", "traceparent", "tracestate", "user-agent"};

static bool render(struct shown_call *shown, struct span text,
    struct span request, struct span tenant, const uint8_t *id)
{
    struct record record;
    struct fault fault = FAULT_INIT;
    const struct record_source source = {
        .door = RECORD_DOOR_KAFKA,
        .tenant = tenant,
        .has_tenant = true,
        .topic = "",
    };
    if (record_parse(request, &source, &record, &fault) != RECORD_OK)
        return false;
    memcpy(record.id, id, UUID_SIZE);
    shown->manifest = manifest_load(text, &fault);
    if (shown->manifest == NULL)
        return false;
    const struct manifest_action *action =
        manifest_find(shown->manifest, record.action);
    return action != NULL && action_render(action, &record, &shown->storage,
                                 &shown->call, &fault) == 0;
}

void shown_call_init(struct shown_call *shown, struct span manifest,
    struct span request, struct span tenant, const uint8_t *id)
{
    *shown = (struct shown_call){.is_there = false};
    buf_init(&shown->storage, MAX_RENDERED);
    shown->is_there = manifest.ptr != NULL && request.ptr != NULL &&
                      render(shown, manifest, request, tenant, id);
}

void shown_call_fini(struct shown_call *shown)
{
    manifest_free(shown->manifest);
    buf_fini(&shown->storage);
}

struct span shown_call_value(const struct call_header *header)
{
    for (size_t i = 0; i < ARRAY_LEN(PLAIN_HEADERS); i++)
        if (header->name.len == strlen(PLAIN_HEADERS[i]) &&
            strncasecmp(header->name.ptr, PLAIN_HEADERS[i], header->name.len) ==
                0)
            return header->value;
    return SPAN_LIT("***");
}

void shown_call_put(const struct shown_call *shown, struct buf *out)
{
    const struct call *call = &shown->call;
    if (!shown->is_there) {
        buf_put_str(out, "null");
        return;
    }
    buf_put_char(out, '{');
    json_put_name(out, "method");
    json_put_cstring(out, call->is_echo ? "echo" : call->method);
    json_put_name(out, "url");
    json_put_string(out, call->url);
    json_put_name(out, "headers");
    buf_put_char(out, '[');
    for (size_t i = 0; i < call->header_count; i++) {
        buf_put_str(out, i > 0 ? ",[" : "[");
        json_put_string(out, call->headers[i].name);
        buf_put_char(out, ',');
        json_put_string(out, shown_call_value(&call->headers[i]));
        buf_put_char(out, ']');
    }
    buf_put_char(out, ']');
    json_put_name(out, "body");
    if (call->body.ptr == NULL)
        buf_put_str(out, "null");
    else
        json_put_string(out, call->body);
    buf_put_char(out, '}');
}
