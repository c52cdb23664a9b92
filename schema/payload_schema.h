/* SPDX-License-Identifier: Apache-2.0 */
/*
 * payload_schema: the subset of JSON Schema that manifests may use for
 * payloads: type, required, properties, additionalProperties, enum, const,
 * minimum, maximum, minLength, maxLength, minItems, maxItems, items. Any other
 * keyword is refused at load. Lengths count code points; numbers are compared
 * as decimals. Keywords that do not fit a value's type say nothing about it.
 */
#ifndef PAYLOAD_SCHEMA_H
#define PAYLOAD_SCHEMA_H

#include "schema/arena.h"
#include "schema/path.h"

/* Also of required names and of the values of an enum. */
#define PAYLOAD_SCHEMA_MAX_NAMES 256

struct payload_schema;

/* source must live as long as the arena. path names the schema in faults.
 * NULL and a fault on failure. */
struct payload_schema *payload_schema_load(struct arena *arena,
    struct json_value source, const struct path *path, struct fault *fault);

/* 0, or -1 with PAYLOAD_INVALID and the pointer of what is wrong. */
int payload_schema_check(const struct payload_schema *schema,
    struct json_value value, const struct path *path,
    struct fault *fault) MUST_CHECK;

#endif
