/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/payload_schema_internal.h"

#include <string.h>

struct loader {
    struct arena *arena;
    struct payload_schema *schema;
    const struct path *path; /* of the keyword */
    struct fault *fault;
};

static int refuse(const struct loader *loader, const char *what)
{
    return path_fault(
        loader->fault, CODE_INVALID_MEMBER, loader->path, "%s", what);
}

static struct span decoded(struct arena *arena, struct span raw_name)
{
    struct buf text;
    buf_init(&text, raw_name.len);
    json_decode_name(raw_name, &text);
    const struct span copy = {
        .ptr = arena_copy(arena, buf_span(&text)), .len = text.len};
    buf_fini(&text);
    return copy;
}

static size_t count_of(struct json_value container)
{
    struct json_cursor cursor = json_enter(container);
    struct json_member member;
    size_t count = 0;
    while (json_next(&cursor, &member)) {
        count++;
    }
    return count;
}

/* -- type ------------------------------------------------------------------- */

struct type_row {
    const char *name;
    unsigned bits;
};

static const struct type_row type_rows[] = {
    {"object", TYPE_BIT(JSON_OBJECT)},
    {"array", TYPE_BIT(JSON_ARRAY)},
    {"string", TYPE_BIT(JSON_STRING)},
    {"number", TYPE_BIT(JSON_NUMBER)},
    {"integer", TYPE_BIT_INTEGER},
    {"boolean", TYPE_BIT_BOOLEAN},
    {"null", TYPE_BIT(JSON_NULL)},
};

void payload_schema_put_types(struct buf *out, unsigned types)
{
    const char *between = "";
    for (size_t i = 0; i < ARRAY_LEN(type_rows); i++) {
        if ((types & type_rows[i].bits) != 0) {
            buf_put_str(out, between);
            buf_put_str(out, type_rows[i].name);
            between = " or ";
        }
    }
}

static int load_type_name(struct loader *loader, struct json_value value)
{
    for (size_t i = 0; i < ARRAY_LEN(type_rows); i++) {
        if (value.type == JSON_STRING &&
            json_string_is(value, type_rows[i].name)) {
            loader->schema->types |= type_rows[i].bits;
            return 0;
        }
    }
    return refuse(loader, "must be object, array, string, number, integer, "
                          "boolean or null");
}

static int load_type(struct loader *loader, struct json_value value)
{
    if (value.type != JSON_ARRAY) {
        return load_type_name(loader, value);
    }
    struct json_cursor cursor = json_enter(value);
    struct json_member item;
    while (json_next(&cursor, &item)) {
        if (load_type_name(loader, item.value) != 0) {
            return -1;
        }
    }
    if (loader->schema->types == 0) {
        return refuse(loader, "must name at least one type");
    }
    return 0;
}

/* -- names -------------------------------------------------------------------- */

static struct schema_name *name_of(
    struct payload_schema *schema, struct span name)
{
    for (size_t i = 0; i < schema->name_count; i++) {
        if (span_equal(schema->names[i].name, name)) {
            return &schema->names[i];
        }
    }
    if (schema->name_count == PAYLOAD_SCHEMA_MAX_NAMES) {
        return NULL;
    }
    struct schema_name *entry = &schema->names[schema->name_count];
    entry->name = name;
    schema->name_count++;
    return entry;
}

static int load_properties(struct loader *loader, struct json_value value)
{
    if (value.type != JSON_OBJECT) {
        return refuse(loader, "must be an object");
    }
    struct json_cursor cursor = json_enter(value);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        const struct span name = decoded(loader->arena, member.name);
        struct schema_name *entry = name_of(loader->schema, name);
        if (entry == NULL) {
            return refuse(loader, "too many names (at most 256)");
        }
        const struct path path = path_span(loader->path, name);
        entry->schema = payload_schema_load(
            loader->arena, member.value, &path, loader->fault);
        if (entry->schema == NULL) {
            return -1;
        }
    }
    return 0;
}

static int load_required(struct loader *loader, struct json_value value)
{
    if (value.type != JSON_ARRAY) {
        return refuse(loader, "must be an array of strings");
    }
    struct json_cursor cursor = json_enter(value);
    struct json_member item;
    while (json_next(&cursor, &item)) {
        if (item.value.type != JSON_STRING) {
            return refuse(loader, "must be an array of strings");
        }
        const struct span raw = {
            .ptr = item.value.raw.ptr + 1, .len = item.value.raw.len - 2};
        struct schema_name *entry =
            name_of(loader->schema, decoded(loader->arena, raw));
        if (entry == NULL) {
            return refuse(loader, "too many names (at most 256)");
        }
        entry->is_required = true;
    }
    return 0;
}

static int load_additional(struct loader *loader, struct json_value value)
{
    loader->schema->additional =
        payload_schema_load(loader->arena, value, loader->path, loader->fault);
    return loader->schema->additional == NULL ? -1 : 0;
}

static int load_items(struct loader *loader, struct json_value value)
{
    loader->schema->items =
        payload_schema_load(loader->arena, value, loader->path, loader->fault);
    return loader->schema->items == NULL ? -1 : 0;
}

/* -- values ----------------------------------------------------------------- */

static int load_enum(struct loader *loader, struct json_value value)
{
    if (value.type != JSON_ARRAY) {
        return refuse(loader, "must be an array");
    }
    const size_t count = count_of(value);
    if (count == 0 || count > PAYLOAD_SCHEMA_MAX_NAMES) {
        return refuse(loader, "must hold 1 to 256 values");
    }
    struct payload_schema *schema = loader->schema;
    schema->values = arena_alloc(loader->arena, count, sizeof(*schema->values));
    struct json_cursor cursor = json_enter(value);
    struct json_member item;
    while (json_next(&cursor, &item)) {
        schema->values[schema->value_count] = item.value;
        schema->value_count++;
    }
    return 0;
}

static int load_const(struct loader *loader, struct json_value value)
{
    loader->schema->constant = value;
    loader->schema->has_constant = true;
    return 0;
}

static int load_number(
    struct loader *loader, struct json_value value, struct span *text)
{
    if (value.type != JSON_NUMBER) {
        return refuse(loader, "must be a number");
    }
    *text = value.raw;
    return 0;
}

static int load_minimum(struct loader *loader, struct json_value value)
{
    return load_number(loader, value, &loader->schema->minimum);
}

static int load_maximum(struct loader *loader, struct json_value value)
{
    return load_number(loader, value, &loader->schema->maximum);
}

static int load_count(struct loader *loader, struct json_value value,
    bool *has_limit, int64_t *limit)
{
    if (value.type != JSON_NUMBER || !json_to_int(value, limit) || *limit < 0) {
        return refuse(loader, "must be an integer of 0 or more");
    }
    *has_limit = true;
    return 0;
}

static int load_min_length(struct loader *loader, struct json_value value)
{
    struct schema_range *range = &loader->schema->length;
    return load_count(loader, value, &range->has_min, &range->min);
}

static int load_max_length(struct loader *loader, struct json_value value)
{
    struct schema_range *range = &loader->schema->length;
    return load_count(loader, value, &range->has_max, &range->max);
}

static int load_min_items(struct loader *loader, struct json_value value)
{
    struct schema_range *range = &loader->schema->item_count;
    return load_count(loader, value, &range->has_min, &range->min);
}

static int load_max_items(struct loader *loader, struct json_value value)
{
    struct schema_range *range = &loader->schema->item_count;
    return load_count(loader, value, &range->has_max, &range->max);
}

/* -- the schema --------------------------------------------------------------- */

struct keyword {
    const char *name;
    int (*load)(struct loader *loader, struct json_value value);
};

static const struct keyword keywords[] = {
    {"type", load_type},
    {"properties", load_properties},
    {"required", load_required},
    {"additionalProperties", load_additional},
    {"items", load_items},
    {"enum", load_enum},
    {"const", load_const},
    {"minimum", load_minimum},
    {"maximum", load_maximum},
    {"minLength", load_min_length},
    {"maxLength", load_max_length},
    {"minItems", load_min_items},
    {"maxItems", load_max_items},
};

static int load_keyword(
    struct loader *loader, struct span name, struct json_value value)
{
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++) {
        if (span_is(name, keywords[i].name)) {
            return keywords[i].load(loader, value);
        }
    }
    return refuse(loader, "this keyword of JSON Schema is not supported");
}

/* Only schemas that speak of names carry the table of them. */
static void make_names(struct arena *arena, struct json_value source,
    struct payload_schema *schema)
{
    struct json_value list;
    size_t count = 0;
    if (json_find(source, "properties", &list) && list.type == JSON_OBJECT) {
        count += count_of(list);
    }
    if (json_find(source, "required", &list) && list.type == JSON_ARRAY) {
        count += count_of(list);
    }
    if (count > PAYLOAD_SCHEMA_MAX_NAMES) {
        count = PAYLOAD_SCHEMA_MAX_NAMES;
    }
    schema->names = arena_alloc(arena, count + 1, sizeof(*schema->names));
}

struct payload_schema *payload_schema_load(struct arena *arena,
    struct json_value source, const struct path *path, struct fault *fault)
{
    struct payload_schema *schema = arena_alloc(arena, 1, sizeof(*schema));
    if (source.type == JSON_TRUE || source.type == JSON_FALSE) {
        schema->is_never = source.type == JSON_FALSE;
        return schema;
    }
    if (source.type != JSON_OBJECT) {
        (void)path_fault(fault, CODE_INVALID_MEMBER, path,
            "a schema must be an object, true or false"); /* fills fault */
        return NULL;
    }
    make_names(arena, source, schema);
    struct json_cursor cursor = json_enter(source);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        const struct span name = decoded(arena, member.name);
        const struct path at = path_span(path, name);
        struct loader loader = {
            .arena = arena, .schema = schema, .path = &at, .fault = fault};
        if (load_keyword(&loader, name, member.value) != 0) {
            return NULL;
        }
    }
    return schema;
}
