/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/positions.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"

void positions_init(struct positions *positions)
{
    *positions = (struct positions){.count = 0};
}

void positions_fini(struct positions *positions)
{
    free(positions->next);
    positions_init(positions);
}

static void grow(struct positions *positions, int32_t count)
{
    if (count <= positions->count) {
        return;
    }
    positions->next =
        mem_resize(positions->next, (size_t)count, sizeof(*positions->next));
    for (int32_t i = positions->count; i < count; i++) {
        positions->next[i] = POSITION_UNKNOWN;
    }
    positions->count = count;
}

void positions_copy(struct positions *to, const struct positions *from)
{
    positions_fini(to);
    grow(to, from->count);
    for (int32_t i = 0; i < from->count; i++) {
        to->next[i] = from->next[i];
    }
}

int64_t positions_get(const struct positions *positions, int32_t partition)
{
    return partition < positions->count ? positions->next[partition]
                                        : POSITION_UNKNOWN;
}

void positions_advance(
    struct positions *positions, int32_t partition, int64_t next)
{
    grow(positions, partition + 1);
    if (positions->next[partition] < next) {
        positions->next[partition] = next;
    }
}

void positions_format(const struct positions *positions, struct buf *out)
{
    buf_put_char(out, '{');
    bool is_first = true;
    for (int32_t i = 0; i < positions->count; i++) {
        if (positions->next[i] == POSITION_UNKNOWN) {
            continue;
        }
        buf_printf(out, "%s\"%ld\":%lld", is_first ? "" : ",", (long)i,
            (long long)positions->next[i]);
        is_first = false;
    }
    buf_put_char(out, '}');
}

int positions_parse(
    struct positions *positions, struct span text, struct err *err)
{
    positions_fini(positions);
    struct json_value root;
    if (json_parse(text, 2, &root, err) != 0) {
        return err_wrap(err, "positions");
    }
    if (root.type != JSON_OBJECT) {
        return err_set(
            err, ERR_PERMANENT, "BAD_POSITIONS", "positions: not an object");
    }
    struct json_cursor cursor = json_enter(root);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        int64_t partition = -1;
        int64_t next = -1;
        if (!span_to_int(member.name, &partition) || partition < 0 ||
            partition >= POSITIONS_MAX || member.value.type != JSON_NUMBER ||
            !json_to_int(member.value, &next) || next < 0) {
            return err_set(err, ERR_PERMANENT, "BAD_POSITIONS",
                "positions: not partition numbers and offsets");
        }
        positions_advance(positions, (int32_t)partition, next);
    }
    return 0;
}
