/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes manifest_load(), and each action of what loads with a payload: it
 * may be refused, but never crash or leave the limits of a call.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

static void check_action(const struct manifest_action *action)
{
    static const char text[] =
        "{\"spec\":\"actionist/1\",\"tenant\":\"acme\",\"connector\":\"a\","
        "\"action\":\"b\",\"payload\":{\"a\":{\"b\":[1,\"x\"]},"
        "\"s\":\"\\u0000/..\",\"n\":1.10}}";
    const struct record_source source = {.door = RECORD_DOOR_KAFKA,
        .tenant = SPAN_LIT("acme"),
        .has_tenant = true,
        .topic = "t"};
    struct record record;
    struct fault fault = FAULT_INIT;
    require(
        record_parse(SPAN_LIT(text), &source, &record, &fault) == RECORD_OK);
    require(action_timeout_ms(action) > 0);
    require(action_max_attempts(action) > 0);
    require((action_effect(action) == EFFECT_KEYED) ==
            (action_key_header(action) != NULL));
    struct call call;
    struct buf storage;
    buf_init(&storage, (size_t)4 << 20);
    if (action_check_payload(action, record.payload, &fault) != 0) {
        require(fault.code == CODE_PAYLOAD_INVALID);
    }
    if (action_render(action, &record, &storage, &call, &fault) == 0) {
        require(call.url.len <= CALL_MAX_URL);
        require(call.header_count <= CALL_MAX_HEADERS);
    } else {
        require(fault.code == CODE_TEMPLATE_INVALID);
    }
    buf_fini(&storage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span text = {.ptr = (const char *)data, .len = size};
    struct fault fault = FAULT_INIT;
    struct manifest *manifest = manifest_load(text, &fault);
    if (manifest == NULL) {
        require(fault.code != CODE_NONE && fault.detail[0] != '\0');
        return 0;
    }
    require(name_is_valid(span_of(manifest_name(manifest))));
    for (size_t i = 0; i < manifest_action_count(manifest); i++) {
        check_action(manifest_action_at(manifest, i));
    }
    manifest_free(manifest);
    return 0;
}
