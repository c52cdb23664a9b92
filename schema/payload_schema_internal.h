/* SPDX-License-Identifier: Apache-2.0 */
/* What payload_schema_load.c and payload_schema_check.c share. */
#ifndef PAYLOAD_SCHEMA_INTERNAL_H
#define PAYLOAD_SCHEMA_INTERNAL_H

#include "schema/payload_schema.h"

/* A bit a JSON type of enum json_type, and one for "integer". */
#define TYPE_BIT(type) (1U << (unsigned)(type))
#define TYPE_BIT_INTEGER TYPE_BIT(JSON_TYPE_COUNT)
#define TYPE_BIT_BOOLEAN (TYPE_BIT(JSON_TRUE) | TYPE_BIT(JSON_FALSE))

/* A name of `properties` or `required`, or of both. */
struct schema_name {
    struct span name;                    /* decoded */
    const struct payload_schema *schema; /* NULL: not in properties */
    bool is_required;
};

struct schema_range {
    bool has_min;
    bool has_max;
    int64_t min;
    int64_t max;
};

struct payload_schema {
    bool is_never;  /* the schema `false` */
    unsigned types; /* 0: any */
    struct schema_name *names;
    size_t name_count;
    const struct payload_schema *additional; /* NULL: anything */
    const struct payload_schema *items;      /* NULL: anything */
    struct json_value *values;               /* enum, or const as one value */
    size_t value_count;                      /* 0: any value */
    struct json_value constant;
    bool has_constant;
    struct span minimum; /* number text; len 0: none */
    struct span maximum;
    struct schema_range length; /* code points */
    struct schema_range item_count;
};

/* The name of a set of types, for messages: "string or null". */
void payload_schema_put_types(struct buf *out, unsigned types);

#endif
