/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/checkpoint.h"

#include <stdlib.h>

#include "common/json.h"
#include "schema/sql_scheduler.h"

enum { POSITIONS_MAX_BYTES = 1 << 22 };

void checkpoint_init(struct checkpoint *checkpoint)
{
    *checkpoint = (struct checkpoint){.exists = false};
    positions_init(&checkpoint->positions);
}

void checkpoint_fini(struct checkpoint *checkpoint)
{
    free(checkpoint->gaps);
    positions_fini(&checkpoint->positions);
    checkpoint_init(checkpoint);
}

static size_t count_elements(struct json_value array)
{
    struct json_cursor cursor = json_enter(array);
    struct json_member member;
    size_t count = 0;
    while (json_next(&cursor, &member)) {
        count++;
    }
    return count;
}

static int parse_gaps(
    struct checkpoint *checkpoint, struct span text, struct err *err)
{
    struct json_value root;
    if (json_parse(text, 2, &root, err) != 0) {
        return err_wrap(err, "gaps");
    }
    const size_t count = root.type == JSON_ARRAY ? count_elements(root) : 0;
    checkpoint->gaps = mem_zalloc(count + 1, sizeof(*checkpoint->gaps));
    struct json_cursor cursor = json_enter(root);
    struct json_member member;
    while (checkpoint->gap_count < count && json_next(&cursor, &member)) {
        if (member.value.type != JSON_NUMBER ||
            !json_to_int(
                member.value, &checkpoint->gaps[checkpoint->gap_count])) {
            return err_set(err, ERR_FATAL, "BAD_CHECKPOINT",
                "the relay's checkpoint holds a gap that is no number");
        }
        checkpoint->gap_count++;
    }
    return 0;
}

int checkpoint_parse(
    struct checkpoint *checkpoint, const PGresult *result, struct err *err)
{
    checkpoint_fini(checkpoint);
    if (pg_rows(result) == 0) {
        return 0;
    }
    checkpoint->exists = true;
    checkpoint->low = pg_get_int(result, 0, CHECKPOINT_LOW);
    checkpoint->high = pg_get_int(result, 0, CHECKPOINT_HIGH);
    checkpoint->system = pg_get_int(result, 0, CHECKPOINT_SYSTEM);
    checkpoint->timeline = (int32_t)pg_get_int(result, 0, CHECKPOINT_TIMELINE);
    const struct span gaps = pg_get_bytes(result, 0, CHECKPOINT_GAPS);
    const struct span positions = pg_get_bytes(result, 0, CHECKPOINT_POSITIONS);
    if (parse_gaps(checkpoint, gaps, err) != 0 ||
        positions_parse(&checkpoint->positions, positions, err) != 0) {
        return err_wrap(err, "the relay's checkpoint");
    }
    return 0;
}

void checkpoint_put(struct pg_params *params, int shard,
    const struct relay_core *core, const struct positions *positions,
    int64_t system, int32_t timeline)
{
    struct buf text;
    buf_init(&text, POSITIONS_MAX_BYTES);
    positions_format(positions, &text);
    pg_param_int2(params, (int16_t)shard);
    pg_param_int8(params, core->low);
    pg_param_int8(params, core->high);
    pg_array_begin(params, PG_INT8);
    for (size_t i = 0; i < core->gap_count; i++) {
        pg_array_int8(params, core->gaps[i].seq);
    }
    pg_array_end(params);
    pg_param_text(params, buf_span(&text));
    pg_param_int8(params, system);
    pg_param_int4(params, timeline);
    buf_fini(&text);
}
