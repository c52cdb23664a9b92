/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/manifest_internal.h"

#include <string.h>

int load_refuse(
    const struct load *load, const struct path *path, const char *what)
{
    return path_fault(load->fault, CODE_INVALID_MEMBER, path, "%s", what);
}

struct span load_name(const struct load *load, struct span raw_name)
{
    struct buf text;
    buf_init(&text, raw_name.len);
    json_decode_name(raw_name, &text);
    const struct span name = {
        .ptr = arena_copy(&load->manifest->arena, buf_span(&text)),
        .len = text.len};
    buf_fini(&text);
    return name;
}

size_t load_count(struct json_value container)
{
    if (container.type != JSON_OBJECT && container.type != JSON_ARRAY) {
        return 0;
    }
    struct json_cursor cursor = json_enter(container);
    struct json_member member;
    size_t count = 0;
    while (json_next(&cursor, &member)) {
        count++;
    }
    return count;
}

static const struct member_rule *find_rule(
    const struct member_rule *rules, size_t count, struct span name)
{
    for (size_t i = 0; i < count; i++) {
        if (span_is(name, rules[i].name)) {
            return &rules[i];
        }
    }
    return NULL;
}

static int load_member(const struct load *load, void *target,
    const struct member_rule *rule, struct json_value value,
    const struct path *path)
{
    if (rule == NULL) {
        return load_refuse(load, path, "is not a member of a manifest");
    }
    if (rule->fn == NULL) {
        return path_fault(load->fault, CODE_UNSUPPORTED, path,
            "%s is not supported by this version", rule->name);
    }
    return rule->fn(load, target, value, path);
}

int load_object(const struct load *load, void *target, struct json_value value,
    const struct path *path, const struct member_rule *rules, size_t count)
{
    if (value.type != JSON_OBJECT) {
        return load_refuse(load, path, "must be an object");
    }
    struct json_cursor cursor = json_enter(value);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        const struct span name = load_name(load, member.name);
        const struct path at = path_span(path, name);
        const struct member_rule *rule = find_rule(rules, count, name);
        if (load_member(load, target, rule, member.value, &at) != 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct json_value found;
        if (rules[i].is_required && !json_find(value, rules[i].name, &found)) {
            const struct path at = path_member(path, rules[i].name);
            return load_refuse(load, &at, "is required");
        }
    }
    return 0;
}

const char *load_text(const struct load *load, struct json_value value,
    size_t max, const struct path *path)
{
    if (value.type != JSON_STRING) {
        (void)load_refuse(load, path, "must be a string"); /* fills fault */
        return NULL;
    }
    struct buf text;
    buf_init(&text, max);
    json_decode(value, &text);
    const char *copy = NULL;
    if (text.is_overflowed || text.len == 0) {
        (void)path_fault(load->fault, CODE_INVALID_MEMBER, path,
            "must have 1 to %zu bytes", max); /* fills fault */
    } else if (memchr(text.data, '\0', text.len) != NULL) {
        (void)load_refuse(load, path, "must not contain a NUL");
    } else {
        copy = arena_copy(&load->manifest->arena, buf_span(&text));
    }
    buf_fini(&text);
    return copy;
}

int load_integer(const struct load *load, struct json_value value, int64_t min,
    int64_t max, int64_t *number, const struct path *path)
{
    int64_t wide = 0;
    if (value.type != JSON_NUMBER || !json_to_int(value, &wide) || wide < min ||
        wide > max) {
        return path_fault(load->fault, CODE_INVALID_MEMBER, path,
            "must be an integer from %lld to %lld", (long long)min,
            (long long)max);
    }
    *number = wide;
    return 0;
}
