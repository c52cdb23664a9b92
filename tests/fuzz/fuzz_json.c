/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes json_parse() and what reads its results. What we accept cJSON must
 * accept too; what we read must hold together: the canonical form parses, is
 * its own canonical form, and every member is found by its name.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/json.h"

enum { DEPTH = 64, CJSON_NUMBER_MAX = 60 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

/* cJSON cuts longer numbers at 63 bytes and then stumbles over the rest. */
static bool has_long_number(struct span text)
{
    size_t run = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        const bool is_numeric =
            (c >= '0' && c <= '9') || (c != '\0' && strchr("+-.eE", c) != NULL);
        run = is_numeric ? run + 1 : 0;
        if (run > CJSON_NUMBER_MAX) {
            return true;
        }
    }
    return false;
}

static void check_cjson_accepts(struct span text)
{
    if (has_long_number(text)) {
        return;
    }
    const char *end = NULL;
    cJSON *other = cJSON_ParseWithLengthOpts(text.ptr, text.len, &end, false);
    require(other != NULL);
    cJSON_Delete(other);
}

static void check_members(struct json_value root)
{
    if (root.type != JSON_OBJECT && root.type != JSON_ARRAY) {
        return;
    }
    struct json_cursor cursor = json_enter(root);
    struct json_member member;
    struct buf name;
    buf_init(&name, SIZE_MAX);
    /* A prefix is enough: each find walks the object from its start. */
    for (int i = 0; i < 64 && json_next(&cursor, &member); i++) {
        struct json_value found;
        struct err err = ERR_INIT;
        require(json_parse(member.value.raw, DEPTH, &found, &err) == 0);
        require(found.type == member.value.type);
        if (root.type == JSON_OBJECT) {
            buf_clear(&name);
            json_decode_name(member.name, &name);
            require(json_find_span(root, buf_span(&name), &found));
            require(found.raw.ptr == member.value.raw.ptr);
        }
    }
    buf_fini(&name);
}

static void check_canonical(struct json_value root)
{
    struct buf once;
    struct buf twice;
    struct json_value again;
    struct err err = ERR_INIT;
    buf_init(&once, SIZE_MAX);
    buf_init(&twice, SIZE_MAX);
    json_canonical(root, &once);
    require(json_parse(buf_span(&once), DEPTH, &again, &err) == 0);
    json_canonical(again, &twice);
    require(span_equal(buf_span(&once), buf_span(&twice)));
    buf_fini(&once);
    buf_fini(&twice);
}

static void check_string(struct json_value root)
{
    if (root.type != JSON_STRING) {
        return;
    }
    struct buf plain;
    struct buf written;
    struct buf back;
    struct json_value again;
    struct err err = ERR_INIT;
    buf_init(&plain, SIZE_MAX);
    buf_init(&written, SIZE_MAX);
    buf_init(&back, SIZE_MAX);
    json_decode(root, &plain);
    require(utf8_is_valid(buf_span(&plain)));
    json_put_string(&written, buf_span(&plain));
    require(json_parse(buf_span(&written), 1, &again, &err) == 0);
    json_decode(again, &back);
    require(span_equal(buf_span(&plain), buf_span(&back)));
    buf_fini(&plain);
    buf_fini(&written);
    buf_fini(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span text = {.ptr = (const char *)data, .len = size};
    struct json_value root;
    struct err err = ERR_INIT;
    if (json_parse(text, DEPTH, &root, &err) != 0) {
        require(err.class == ERR_PERMANENT);
        return 0;
    }
    require(utf8_is_valid(text));
    check_cjson_accepts(text);
    check_members(root);
    check_canonical(root);
    check_string(root);
    return 0;
}
