/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what a worker makes of a record of the topic `webhooks`: whatever it
 * holds, the view is one JSON document and the request one that can be read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema/mapping.h"
#include "schema/webhook_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char mapping_source[] =
    "{\"connector\":\"c\",\"action\":\"a\",\"payload\":{\"all\":\"{{body}}\","
    "\"a\":\"<{{body.a}}>\",\"h\":\"{{headers.x}}\",\"t\":\"{{webhook.type}}\""
    "}}";

static void require(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

static void check_view(const struct webhook_capture *capture)
{
    struct buf view;
    struct json_value root;
    struct json_value ignored;
    struct err err = ERR_INIT;
    buf_init(&view, WEBHOOK_VIEW_MAX);
    webhook_view_put(&view, capture, SPAN_LIT("t"));
    require(json_parse(buf_span(&view), WEBHOOK_VIEW_DEPTH, &root, &err) == 0);
    require(json_find(root, "body", &ignored) &&
            json_find(root, "headers", &ignored) &&
            json_find(root, "webhook", &ignored));
    buf_fini(&view);
}

static void check_request(
    const struct webhook_capture *capture, struct span request)
{
    struct record record;
    struct fault fault = FAULT_INIT;
    const struct record_source source = {.door = RECORD_DOOR_KAFKA,
        .tenant = span_of(capture->tenant),
        .has_tenant = true,
        .topic = "t"};
    const enum record_verdict verdict =
        record_parse(request, &source, &record, &fault);
    require(verdict == RECORD_OK || fault.code == CODE_TOO_DEEP ||
            fault.code == CODE_TOO_LARGE);
    if (verdict == RECORD_OK) {
        require(strncmp(record.key, "webhook:", 8) == 0);
        require(strcmp(record.tenant, capture->tenant) == 0);
    }
}

static void apply(const struct webhook_capture *capture)
{
    static struct mapping *mapping;
    struct fault fault = FAULT_INIT;
    struct buf type;
    struct buf request;
    if (mapping == NULL) {
        mapping = mapping_load(SPAN_LIT(mapping_source), &fault);
        require(mapping != NULL);
    }
    buf_init(&type, WEBHOOK_MAX_TYPE);
    buf_init(&request, RECORD_MAX_KAFKA_BYTES);
    const enum webhook_decision decision =
        mapping_apply(mapping, capture, &type, &request, &fault);
    if (decision == WEBHOOK_MAPPED) {
        check_request(capture, buf_span(&request));
    } else {
        require(decision == WEBHOOK_FAILED && fault.code != CODE_NONE);
    }
    buf_fini(&type);
    buf_fini(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span text = {.ptr = (const char *)data, .len = size};
    struct webhook_capture capture;
    struct fault fault = FAULT_INIT;
    if (webhook_capture_parse(&capture, text, SPAN_LIT("acme"), &fault) == 0) {
        check_view(&capture);
        apply(&capture);
    }
    webhook_capture_fini(&capture);
    return 0;
}
