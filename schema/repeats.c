/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/repeats.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_SOURCE = 320 };

/* Ids are hashes already. */
static size_t slot_of(const uint8_t *id)
{
    uint32_t head = 0;
    memcpy(&head, id, sizeof(head));
    return head % REPEATS_SLOTS;
}

bool repeats_add(struct repeats *repeats, const struct repeat *repeat)
{
    size_t at = slot_of(repeat->id);
    struct repeat *row = &repeats->rows[at];
    while (row->count > 0 && memcmp(row->id, repeat->id, UUID_SIZE) != 0) {
        at = (at + 1) % REPEATS_SLOTS;
        row = &repeats->rows[at];
    }
    if (row->count == 0 && repeats->count == REPEATS_MAX) {
        return false;
    }
    const int count = row->count;
    repeats->count += count == 0;
    *row = *repeat;
    row->count = count + 1;
    return true;
}

static void put_source(struct pg_params *params, const struct repeat *row)
{
    struct buf source;
    if (row->topic == NULL) {
        pg_array_bytes(params, SPAN_LIT("http"));
        return;
    }
    buf_init(&source, MAX_SOURCE);
    buf_printf(&source, "%s:%" PRId32 ":%" PRId64, row->topic, row->partition,
        row->offset);
    pg_array_bytes(params, buf_span(&source));
    buf_fini(&source);
}

static void put_column(const struct repeats *repeats, struct pg_params *params,
    enum pg_type type,
    void (*put)(struct pg_params *params, const struct repeat *row))
{
    pg_array_begin(params, type);
    for (size_t i = 0; i < REPEATS_SLOTS; i++) {
        if (repeats->rows[i].count > 0) {
            put(params, &repeats->rows[i]);
        }
    }
    pg_array_end(params);
}

static void put_id(struct pg_params *params, const struct repeat *row)
{
    pg_array_bytes(params, (struct span){(const char *)row->id, UUID_SIZE});
}

static void put_tenant(struct pg_params *params, const struct repeat *row)
{
    pg_array_bytes(params, span_of(row->tenant));
}

static void put_count(struct pg_params *params, const struct repeat *row)
{
    pg_array_int4(params, row->count);
}

void repeats_put(const struct repeats *repeats, struct pg_params *params)
{
    put_column(repeats, params, PG_UUID, put_id);
    put_column(repeats, params, PG_TEXT, put_tenant);
    put_column(repeats, params, PG_INT4, put_count);
    put_column(repeats, params, PG_TEXT, put_source);
}

void repeats_clear(struct repeats *repeats)
{
    memset(repeats, 0, sizeof(*repeats));
}
