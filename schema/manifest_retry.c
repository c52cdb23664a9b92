/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "schema/manifest_internal.h"

enum { MAX_ATTEMPTS = 100, MAX_BASE_MS = 3600000, MAX_MAX_MS = 86400000 };

static int load_max_attempts(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct retry_rules *retry = target;
    int64_t number = 0;
    if (load_integer(load, value, 1, MAX_ATTEMPTS, &number, path) != 0) {
        return -1;
    }
    retry->max_attempts = (int)number;
    return 0;
}

static int load_base_ms(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct retry_rules *retry = target;
    return load_integer(load, value, 1, MAX_BASE_MS, &retry->base_ms, path);
}

static int load_max_ms(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct retry_rules *retry = target;
    return load_integer(load, value, 1, MAX_MAX_MS, &retry->max_ms, path);
}

static int load_reset_name(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct reset_header *header = target;
    const char *name = load_text(load, value, 64, path);
    if (name == NULL) {
        return -1;
    }
    if (!header_name_is_free(span_of(name))) {
        return load_refuse(load, path, "is not a usable header name");
    }
    char *lower = arena_copy(&load->manifest->arena, span_of(name));
    for (char *c = lower; *c != '\0'; c++) {
        if (*c >= 'A' && *c <= 'Z') {
            *c = (char)(*c - 'A' + 'a');
        }
    }
    header->name = lower;
    return 0;
}

static int load_reset_unit(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    static const char *const names[] = {
        [RESET_EPOCH_S] = "epoch_s",
        [RESET_EPOCH_MS] = "epoch_ms",
        [RESET_DELTA_S] = "delta_s",
    };
    struct reset_header *header = target;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (value.type == JSON_STRING && json_string_is(value, names[i])) {
            header->unit = (enum reset_unit)i;
            return 0;
        }
    }
    return load_refuse(load, path, "must be epoch_s, epoch_ms or delta_s");
}

static int load_reset_headers(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    static const struct member_rule rules[] = {
        {"name", load_reset_name, true},
        {"unit", load_reset_unit, true},
    };
    struct retry_rules *retry = target;
    const size_t count = load_count(value);
    if (value.type != JSON_ARRAY || count > MANIFEST_MAX_RESET_HEADERS) {
        return load_refuse(load, path, "must be an array of at most 8");
    }
    struct reset_header *headers =
        arena_alloc(&load->manifest->arena, count + 1, sizeof(*headers));
    struct json_cursor cursor = json_enter(value);
    struct json_member item;
    size_t index = 0;
    while (json_next(&cursor, &item)) {
        const struct path at = path_index(path, index);
        if (load_object(load, &headers[index], item.value, &at, rules,
                ARRAY_LEN(rules)) != 0) {
            return -1;
        }
        index++;
    }
    retry->reset_headers = headers;
    retry->reset_count = count;
    return 0;
}

int load_retry(const struct load *load, void *target, struct json_value value,
    const struct path *path)
{
    static const struct member_rule rules[] = {
        {"max_attempts", load_max_attempts, false},
        {"base_ms", load_base_ms, false},
        {"max_ms", load_max_ms, false},
        {"reset_headers", load_reset_headers, false},
    };
    struct retry_rules *retry = target;
    if (load_object(load, retry, value, path, rules, ARRAY_LEN(rules)) != 0) {
        return -1;
    }
    if (retry->max_ms < retry->base_ms) {
        const struct path at = path_member(path, "max_ms");
        return load_refuse(load, &at, "must not be less than base_ms");
    }
    return 0;
}
