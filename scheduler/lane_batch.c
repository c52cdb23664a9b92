/* SPDX-License-Identifier: Apache-2.0 */
/* The data that the loop and the lanes' thread hand to each other. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/lanes.h"

void lane_batch_init(struct lane_batch *batch, size_t max_bytes)
{
    *batch = (struct lane_batch){.count = 0};
    buf_init(&batch->bytes, max_bytes);
}

void lane_batch_fini(struct lane_batch *batch)
{
    free(batch->rows);
    batch->rows = NULL;
    batch->count = 0;
    batch->cap = 0;
    buf_fini(&batch->bytes);
}

void lane_batch_clear(struct lane_batch *batch)
{
    batch->count = 0;
    buf_clear(&batch->bytes);
}

static size_t put(struct buf *bytes, struct span span)
{
    const size_t at = bytes->len;
    buf_put_span(bytes, span);
    return at;
}

void lane_batch_add(struct lane_batch *batch, int64_t seq, const uint8_t *id,
    struct span tenant, struct span trace, struct span body)
{
    if (batch->count == batch->cap) {
        batch->cap = batch->cap == 0 ? 256 : batch->cap * 2;
        batch->rows = mem_resize(batch->rows, batch->cap, sizeof(*batch->rows));
    }
    struct lane_row *row = &batch->rows[batch->count];
    batch->count++;
    *row = (struct lane_row){.seq = seq,
        .tenant_at = put(&batch->bytes, tenant),
        .tenant_len = tenant.len,
        .trace_at = put(&batch->bytes, trace),
        .trace_len = trace.len,
        .body_at = put(&batch->bytes, body),
        .body_len = body.len,
        .offset = -1};
    memcpy(row->id, id, UUID_SIZE);
}

void lane_start_init(struct lane_start *start)
{
    *start = (struct lane_start){.watermark = -1};
    positions_init(&start->positions);
}

void lane_start_fini(struct lane_start *start)
{
    positions_fini(&start->positions);
    free(start->found);
    lane_start_init(start);
}
