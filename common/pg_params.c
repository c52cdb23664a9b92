/* SPDX-License-Identifier: Apache-2.0 */
/* The binary encoding of parameters (src/backend/utils/adt/arrayfuncs.c,
 * array_recv, for arrays). */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "common/pg.h"
#include "common/time.h"

enum {
    PARAMS_MAX_BYTES = 256 * 1024 * 1024,
    /* Dimensions, has-nulls, element type, length, lower bound: int32 each. */
    ARRAY_HEADER = 20,
    ARRAY_HEADER_EMPTY = 12,
    ARRAY_AT_DIMENSIONS = 0,
    ARRAY_AT_NULLS = 4,
    ARRAY_AT_LENGTH = 12
};

void pg_params_init(struct pg_params *params)
{
    *params = (struct pg_params){.count = 0};
    buf_init(&params->bytes, PARAMS_MAX_BYTES);
}

void pg_params_fini(struct pg_params *params)
{
    buf_fini(&params->bytes);
    params->count = 0;
}

void pg_params_clear(struct pg_params *params)
{
    buf_clear(&params->bytes);
    params->count = 0;
}

static void begin_value(struct pg_params *params, bool is_null)
{
    assert(params->count < PG_MAX_PARAMS);
    params->is_null[params->count] = is_null;
    params->start[params->count] = params->bytes.len;
}

static void end_value(struct pg_params *params)
{
    const size_t start = params->start[params->count];
    params->size[params->count] = params->bytes.len - start;
    params->count++;
}

static void put_int2(struct pg_params *params, int16_t value)
{
    const uint16_t wire = htobe16((uint16_t)value);
    buf_put(&params->bytes, &wire, sizeof(wire));
}

static void put_int4(struct pg_params *params, int32_t value)
{
    const uint32_t wire = htobe32((uint32_t)value);
    buf_put(&params->bytes, &wire, sizeof(wire));
}

static void put_int8(struct pg_params *params, int64_t value)
{
    const uint64_t wire = htobe64((uint64_t)value);
    buf_put(&params->bytes, &wire, sizeof(wire));
}

void pg_param_null(struct pg_params *params)
{
    begin_value(params, true);
    end_value(params);
}

void pg_param_bool(struct pg_params *params, bool value)
{
    begin_value(params, false);
    buf_put_char(&params->bytes, value ? 1 : 0);
    end_value(params);
}

void pg_param_int2(struct pg_params *params, int16_t value)
{
    begin_value(params, false);
    put_int2(params, value);
    end_value(params);
}

void pg_param_int4(struct pg_params *params, int32_t value)
{
    begin_value(params, false);
    put_int4(params, value);
    end_value(params);
}

void pg_param_int8(struct pg_params *params, int64_t value)
{
    begin_value(params, false);
    put_int8(params, value);
    end_value(params);
}

static void put_bytes_param(struct pg_params *params, struct span bytes)
{
    begin_value(params, false);
    buf_put_span(&params->bytes, bytes);
    end_value(params);
}

void pg_param_text(struct pg_params *params, struct span text)
{
    put_bytes_param(params, text);
}

void pg_param_bytea(struct pg_params *params, struct span bytes)
{
    put_bytes_param(params, bytes);
}

void pg_param_uuid(struct pg_params *params, const uint8_t uuid[16])
{
    put_bytes_param(
        params, (struct span){.ptr = (const char *)uuid, .len = 16});
}

void pg_param_time(struct pg_params *params, int64_t wall_us)
{
    pg_param_int8(params, time_to_pg(wall_us));
}

/* -- arrays ---------------------------------------------------------------- */

/* Changes an int32 of the header of the array that is being put. The header
 * is cut off only when the buffer has overflowed: then nothing matters. */
static void patch(struct pg_params *params, size_t at, uint32_t value)
{
    if (params->bytes.is_overflowed) {
        return;
    }
    const uint32_t wire = htobe32(value);
    char *header = params->bytes.data + params->start[params->count];
    memcpy(header + at, &wire, sizeof(wire));
}

static uint32_t array_length(const struct pg_params *params)
{
    uint32_t wire = 0;
    const char *header = params->bytes.data + params->start[params->count];
    memcpy(&wire, header + ARRAY_AT_LENGTH, sizeof(wire));
    return be32toh(wire);
}

/* Counts one more element and puts its length, -1 for null. */
static void begin_element(struct pg_params *params, int32_t size)
{
    if (params->bytes.is_overflowed) {
        return;
    }
    patch(params, ARRAY_AT_LENGTH, array_length(params) + 1);
    put_int4(params, size);
}

void pg_array_begin(struct pg_params *params, enum pg_type element)
{
    begin_value(params, false);
    put_int4(params, 1);
    put_int4(params, 0);
    put_int4(params, (int32_t)element);
    put_int4(params, 0);
    put_int4(params, 1);
}

void pg_array_null(struct pg_params *params)
{
    begin_element(params, -1);
    patch(params, ARRAY_AT_NULLS, 1);
}

void pg_array_bool(struct pg_params *params, bool value)
{
    begin_element(params, 1);
    buf_put_char(&params->bytes, value ? 1 : 0);
}

void pg_array_int2(struct pg_params *params, int16_t value)
{
    begin_element(params, 2);
    put_int2(params, value);
}

void pg_array_int4(struct pg_params *params, int32_t value)
{
    begin_element(params, 4);
    put_int4(params, value);
}

void pg_array_int8(struct pg_params *params, int64_t value)
{
    begin_element(params, 8);
    put_int8(params, value);
}

void pg_array_time(struct pg_params *params, int64_t wall_us)
{
    pg_array_int8(params, time_to_pg(wall_us));
}

void pg_array_bytes(struct pg_params *params, struct span bytes)
{
    if (bytes.len > PARAMS_MAX_BYTES) {
        params->bytes.is_overflowed = true;
        return;
    }
    begin_element(params, (int32_t)bytes.len);
    buf_put_span(&params->bytes, bytes);
}

void pg_array_end(struct pg_params *params)
{
    /* An empty array has no dimensions at all. */
    if (!params->bytes.is_overflowed && array_length(params) == 0) {
        patch(params, ARRAY_AT_DIMENSIONS, 0);
        params->bytes.len -= ARRAY_HEADER - ARRAY_HEADER_EMPTY;
    }
    end_value(params);
}
