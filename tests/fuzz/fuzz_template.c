/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes action_render() with any payload: whatever it holds, the call stays
 * at its host and path, its headers stay one line, its body stays JSON.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema/manifest.h"

#define BASE "https://api.example.com/v1/"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char manifest_source[] =
    "{\"manifest\":1,\"name\":\"b\",\"version\":\"1\",\"base_url\":\"" BASE
    "\",\"actions\":{\"a\":{\"idempotency\":\"keyed\",\"request\":{"
    "\"method\":\"POST\",\"path\":\"/x/{{payload.p}}/y\","
    "\"query\":{\"q\":\"{{payload.q}}\"},"
    "\"headers\":{\"X-H\":\"h {{payload.h}}\"},"
    "\"json\":{\"v\":\"{{payload.v}}\",\"t\":\"<{{payload.t}}>\","
    "\"all\":\"{{payload}}\"}}}}}";

static void require(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

static void check_url(struct span url)
{
    require(url.len <= CALL_MAX_URL);
    require(url.len > sizeof(BASE) - 1);
    require(memcmp(url.ptr, BASE "x/", sizeof(BASE "x/") - 1) == 0);
    size_t slashes = 0;
    size_t marks = 0;
    for (size_t i = 0; i < url.len; i++) {
        const char c = url.ptr[i];
        require(c > 0x20 && c < 0x7F && c != '#' && c != '\\' && c != '@');
        slashes += c == '/' ? 1 : 0;
        marks += c == '?' ? 1 : 0;
    }
    require(slashes == 6 && marks == 1);
    require(memmem(url.ptr, url.len, "/../", 4) == NULL);
}

static void check_call(const struct call *call)
{
    check_url(call->url);
    for (size_t i = 0; i < call->header_count; i++) {
        const struct span value = call->headers[i].value;
        for (size_t k = 0; k < value.len; k++) {
            const unsigned char c = (unsigned char)value.ptr[k];
            require((c >= 0x20 || c == '\t') && c != 0x7F);
        }
    }
    struct json_value root;
    struct json_value ignored;
    struct err err = ERR_INIT;
    require(json_parse(call->body, RECORD_PAYLOAD_DEPTH + 2, &root, &err) == 0);
    require(json_find(root, "v", &ignored) && json_find(root, "t", &ignored) &&
            json_find(root, "all", &ignored));
}

static void render(struct json_value payload)
{
    static struct manifest *manifest;
    struct fault fault = FAULT_INIT;
    if (manifest == NULL) {
        manifest = manifest_load(SPAN_LIT(manifest_source), &fault);
        require(manifest != NULL);
    }
    const struct record record = {
        .tenant = "acme", .connector = "b", .action = "a", .payload = payload};
    struct buf storage;
    struct call call;
    buf_init(&storage, (size_t)4 << 20);
    if (action_render(manifest_find(manifest, "a"), &record, &storage, &call,
            &fault) == 0) {
        check_call(&call);
    } else {
        require(fault.code == CODE_TEMPLATE_INVALID);
        require(strncmp(fault.pointer, "/payload", 8) == 0);
    }
    buf_fini(&storage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span text = {.ptr = (const char *)data, .len = size};
    struct json_value payload;
    struct err err = ERR_INIT;
    if (json_parse(text, RECORD_PAYLOAD_DEPTH, &payload, &err) == 0) {
        render(payload);
    }
    return 0;
}
