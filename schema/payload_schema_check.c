/* SPDX-License-Identifier: Apache-2.0 */
/* Recursion is bounded: payloads nest RECORD_PAYLOAD_DEPTH levels at most. */
#include "schema/payload_schema_internal.h"

#include <string.h>

#include "schema/decimal.h"

static int invalid(
    struct fault *fault, const struct path *path, const char *what)
{
    return path_fault(fault, CODE_PAYLOAD_INVALID, path, "%s", what);
}

/* -- equality ----------------------------------------------------------------- */

static bool strings_are_equal(struct json_value a, struct json_value b)
{
    struct buf left;
    struct buf right;
    buf_init(&left, a.raw.len);
    buf_init(&right, b.raw.len);
    json_decode(a, &left);
    json_decode(b, &right);
    const bool is_equal = span_equal(buf_span(&left), buf_span(&right));
    buf_fini(&left);
    buf_fini(&right);
    return is_equal;
}

static bool values_are_equal(struct json_value a, struct json_value b);

static bool arrays_are_equal(struct json_value a, struct json_value b)
{
    struct json_cursor left = json_enter(a);
    struct json_cursor right = json_enter(b);
    struct json_member x;
    struct json_member y;
    bool has_more = json_next(&left, &x);
    while (has_more) {
        if (!json_next(&right, &y) || !values_are_equal(x.value, y.value)) {
            return false;
        }
        has_more = json_next(&left, &x);
    }
    return !json_next(&right, &y);
}

static bool objects_are_equal(struct json_value a, struct json_value b)
{
    struct json_cursor left = json_enter(a);
    struct json_member member;
    struct buf name;
    buf_init(&name, a.raw.len);
    size_t count = 0;
    bool is_equal = true;
    while (is_equal && json_next(&left, &member)) {
        struct json_value other;
        buf_clear(&name);
        json_decode_name(member.name, &name);
        is_equal = json_find_span(b, buf_span(&name), &other) &&
                   values_are_equal(member.value, other);
        count++;
    }
    buf_fini(&name);
    struct json_cursor right = json_enter(b);
    while (is_equal && json_next(&right, &member)) {
        is_equal = count > 0;
        count--;
    }
    return is_equal && count == 0;
}

/* As JSON values: 1.0 is 1, the order of members does not count. */
static bool values_are_equal(struct json_value a, struct json_value b)
{
    if (a.type != b.type) {
        return false;
    }
    switch (a.type) {
    case JSON_OBJECT:
        return objects_are_equal(a, b);
    case JSON_ARRAY:
        return arrays_are_equal(a, b);
    case JSON_STRING:
        return strings_are_equal(a, b);
    case JSON_NUMBER:
        return decimal_compare(a.raw, b.raw) == 0;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
    case JSON_TYPE_COUNT:
        break;
    }
    return true;
}

/* -- keywords ------------------------------------------------------------------ */

static int check_type(const struct payload_schema *schema,
    struct json_value value, const struct path *path, struct fault *fault)
{
    const unsigned types = schema->types;
    if (types == 0 || (types & TYPE_BIT(value.type)) != 0) {
        return 0;
    }
    if ((types & TYPE_BIT_INTEGER) != 0 && value.type == JSON_NUMBER &&
        decimal_is_integer(value.raw)) {
        return 0;
    }
    struct buf text;
    buf_init(&text, 128);
    buf_put_str(&text, "must be of type ");
    payload_schema_put_types(&text, types);
    (void)invalid(fault, path, buf_str(&text)); /* fills fault */
    buf_fini(&text);
    return -1;
}

static int check_values(const struct payload_schema *schema,
    struct json_value value, const struct path *path, struct fault *fault)
{
    if (schema->has_constant && !values_are_equal(schema->constant, value)) {
        return invalid(fault, path, "must be the value the schema demands");
    }
    for (size_t i = 0; i < schema->value_count; i++) {
        if (values_are_equal(schema->values[i], value)) {
            return 0;
        }
    }
    if (schema->value_count > 0) {
        return invalid(fault, path, "must be one of the schema's values");
    }
    return 0;
}

static int check_number(const struct payload_schema *schema,
    struct json_value value, const struct path *path, struct fault *fault)
{
    if (schema->minimum.len > 0 &&
        decimal_compare(value.raw, schema->minimum) < 0) {
        return path_fault(fault, CODE_PAYLOAD_INVALID, path,
            "must be at least %.*s", (int)schema->minimum.len,
            schema->minimum.ptr);
    }
    if (schema->maximum.len > 0 &&
        decimal_compare(value.raw, schema->maximum) > 0) {
        return path_fault(fault, CODE_PAYLOAD_INVALID, path,
            "must be at most %.*s", (int)schema->maximum.len,
            schema->maximum.ptr);
    }
    return 0;
}

static int check_range(const struct schema_range *range, int64_t count,
    const char *what, const struct path *path, struct fault *fault)
{
    if (range->has_min && count < range->min) {
        return path_fault(fault, CODE_PAYLOAD_INVALID, path,
            "must have at least %lld %s", (long long)range->min, what);
    }
    if (range->has_max && count > range->max) {
        return path_fault(fault, CODE_PAYLOAD_INVALID, path,
            "must have at most %lld %s", (long long)range->max, what);
    }
    return 0;
}

static int check_string(const struct payload_schema *schema,
    struct json_value value, const struct path *path, struct fault *fault)
{
    if (!schema->length.has_min && !schema->length.has_max) {
        return 0;
    }
    struct buf text;
    buf_init(&text, value.raw.len);
    json_decode(value, &text);
    int64_t count = 0;
    for (size_t i = 0; i < text.len; i++) {
        const bool is_start = ((unsigned char)text.data[i] & 0xC0U) != 0x80U;
        count += is_start ? 1 : 0;
    }
    buf_fini(&text);
    return check_range(&schema->length, count, "characters", path, fault);
}

static int check_array(const struct payload_schema *schema,
    struct json_value value, const struct path *path, struct fault *fault)
{
    struct json_cursor cursor = json_enter(value);
    struct json_member item;
    size_t count = 0;
    while (json_next(&cursor, &item)) {
        const struct path at = path_index(path, count);
        if (schema->items != NULL &&
            payload_schema_check(schema->items, item.value, &at, fault) != 0) {
            return -1;
        }
        count++;
    }
    return check_range(
        &schema->item_count, (int64_t)count, "items", path, fault);
}

/* One member against properties and additionalProperties; notes it in seen. */
static int check_member(const struct payload_schema *schema, struct span name,
    struct json_value value, bool *seen, const struct path *path,
    struct fault *fault)
{
    const struct path at = path_span(path, name);
    for (size_t i = 0; i < schema->name_count; i++) {
        if (!span_equal(schema->names[i].name, name)) {
            continue;
        }
        seen[i] = true;
        if (schema->names[i].schema != NULL) {
            return payload_schema_check(
                schema->names[i].schema, value, &at, fault);
        }
        break;
    }
    if (schema->additional == NULL) {
        return 0;
    }
    if (schema->additional->is_never) {
        return invalid(fault, &at, "is not a member the schema allows");
    }
    return payload_schema_check(schema->additional, value, &at, fault);
}

static int check_object(const struct payload_schema *schema,
    struct json_value value, const struct path *path, struct fault *fault)
{
    bool seen[PAYLOAD_SCHEMA_MAX_NAMES] = {false};
    struct json_cursor cursor = json_enter(value);
    struct json_member member;
    struct buf name;
    buf_init(&name, value.raw.len);
    int result = 0;
    while (result == 0 && json_next(&cursor, &member)) {
        buf_clear(&name);
        json_decode_name(member.name, &name);
        result = check_member(
            schema, buf_span(&name), member.value, seen, path, fault);
    }
    buf_fini(&name);
    for (size_t i = 0; result == 0 && i < schema->name_count; i++) {
        if (schema->names[i].is_required && !seen[i]) {
            const struct path at = path_span(path, schema->names[i].name);
            result = invalid(fault, &at, "is required");
        }
    }
    return result;
}

int payload_schema_check(const struct payload_schema *schema,
    struct json_value value, const struct path *path, struct fault *fault)
{
    if (schema->is_never) {
        return invalid(fault, path, "is not allowed by the schema");
    }
    if (check_type(schema, value, path, fault) != 0 ||
        check_values(schema, value, path, fault) != 0) {
        return -1;
    }
    switch (value.type) {
    case JSON_OBJECT:
        return check_object(schema, value, path, fault);
    case JSON_ARRAY:
        return check_array(schema, value, path, fault);
    case JSON_STRING:
        return check_string(schema, value, path, fault);
    case JSON_NUMBER:
        return check_number(schema, value, path, fault);
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
    case JSON_TYPE_COUNT:
        break;
    }
    return 0;
}
