/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/record.h"

void record_put_kafka(
    struct buf *out, const struct record *record, struct span text)
{
    struct json_value ignored;
    const size_t head = (size_t)(record->root.raw.ptr - text.ptr) + 1;
    buf_put(out, text.ptr, head); /* up to the opening brace */
    /* The object holds connector and action at least, so a comma always
     * follows what is added. */
    if (!json_find(record->root, "spec", &ignored)) {
        buf_put_str(out, "\"spec\":\"actionist/1\",");
    }
    if (!json_find(record->root, "tenant", &ignored)) {
        buf_put_str(out, "\"tenant\":");
        json_put_cstring(out, record->tenant);
        buf_put_char(out, ',');
    }
    if (!json_find(record->root, "idempotency_key", &ignored)) {
        buf_put_str(out, "\"idempotency_key\":");
        json_put_cstring(out, record->key);
        buf_put_char(out, ',');
    }
    buf_put(out, text.ptr + head, text.len - head);
}
