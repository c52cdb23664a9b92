/* SPDX-License-Identifier: Apache-2.0 */
/* Reading binary results. A value of another width than the getter's types is
 * our bug, not the server's: it aborts. */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "common/pg.h"
#include "common/time.h"

enum { UUID_SIZE = 16 };

int pg_rows(const PGresult *result)
{
    return PQntuples(result);
}

bool pg_is_null(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) != 0;
}

bool pg_get_bool(const PGresult *result, int row, int column)
{
    if (pg_is_null(result, row, column)) {
        return false;
    }
    assert(PQgetlength(result, row, column) == 1);
    return PQgetvalue(result, row, column)[0] != 0;
}

static int64_t get_int2(const char *value)
{
    uint16_t wire = 0;
    memcpy(&wire, value, sizeof(wire));
    return (int16_t)be16toh(wire);
}

static int64_t get_int4(const char *value)
{
    uint32_t wire = 0;
    memcpy(&wire, value, sizeof(wire));
    return (int32_t)be32toh(wire);
}

static int64_t get_int8(const char *value)
{
    uint64_t wire = 0;
    memcpy(&wire, value, sizeof(wire));
    return (int64_t)be64toh(wire);
}

int64_t pg_get_int(const PGresult *result, int row, int column)
{
    if (pg_is_null(result, row, column)) {
        return 0;
    }
    const char *value = PQgetvalue(result, row, column);
    const int length = PQgetlength(result, row, column);
    assert(length == 2 || length == 4 || length == 8);
    if (length == 2) {
        return get_int2(value);
    }
    return length == 4 ? get_int4(value) : get_int8(value);
}

struct span pg_get_bytes(const PGresult *result, int row, int column)
{
    if (pg_is_null(result, row, column)) {
        return (struct span){.ptr = NULL, .len = 0};
    }
    return (struct span){.ptr = PQgetvalue(result, row, column),
        .len = (size_t)PQgetlength(result, row, column)};
}

const uint8_t *pg_get_uuid(const PGresult *result, int row, int column)
{
    if (pg_is_null(result, row, column)) {
        return NULL;
    }
    assert(PQgetlength(result, row, column) == UUID_SIZE);
    return (const uint8_t *)PQgetvalue(result, row, column);
}

int64_t pg_get_time(const PGresult *result, int row, int column)
{
    if (pg_is_null(result, row, column)) {
        return 0;
    }
    assert(PQgetlength(result, row, column) == 8);
    return time_from_pg(get_int8(PQgetvalue(result, row, column)));
}

int64_t pg_affected(const PGresult *result)
{
    /* PQcmdTuples does not change the result, it only lacks the const. */
    PGresult *bare = NULL;
    memcpy(&bare, &result, sizeof(bare));
    int64_t count = 0;
    if (!span_to_int(span_of(PQcmdTuples(bare)), &count)) {
        return 0;
    }
    return count;
}
