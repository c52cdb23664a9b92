/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/schedule_rows.h"

enum { MAX_DEPTH = RECORD_PAYLOAD_DEPTH + 2 };

int schedule_of_row(const PGresult *rows, int row, struct schedule *schedule,
    struct fault *fault)
{
    const struct span name = pg_get_bytes(rows, row, SCHEDULE_TENANT);
    char tenant[RECORD_MAX_NAME + 1] = "";
    for (size_t i = 0; i < name.len && i < RECORD_MAX_NAME; i++) {
        tenant[i] = name.ptr[i];
    }
    if (schedule_parse(pg_get_bytes(rows, row, SCHEDULE_DOCUMENT), tenant,
            schedule, fault) != 0) {
        return -1;
    }
    if (schedule->kind == SCHEDULE_EVERY && !schedule->has_start) {
        schedule->start_us = pg_get_time(rows, row, SCHEDULE_CREATED_AT);
    }
    return 0;
}

int schedule_row_resume(
    const PGresult *rows, int row, int64_t *next_us, struct fault *fault)
{
    struct schedule schedule;
    struct zone *zone = NULL;
    if (schedule_of_row(rows, row, &schedule, fault) != 0 ||
        schedule_open_zone(&schedule, &zone, fault) != 0) {
        return -1;
    }
    if (!schedule_next(
            &schedule, zone, pg_get_time(rows, row, SCHEDULE_NOW), next_us)) {
        *next_us = pg_get_time(rows, row, SCHEDULE_NEXT_AT);
    }
    zone_free(zone);
    return 0;
}

static void put_time(struct buf *out, const char *name, const PGresult *rows,
    int row, int column)
{
    json_put_name(out, name);
    if (pg_is_null(rows, row, column)) {
        buf_put_str(out, "null");
    } else {
        json_put_time(out, pg_get_time(rows, row, column));
    }
}

static void put_uuid(struct buf *out, const char *name, const PGresult *rows,
    int row, int column)
{
    char text[UUID_TEXT_SIZE];
    json_put_name(out, name);
    if (pg_is_null(rows, row, column)) {
        buf_put_str(out, "null");
    } else {
        uuid_format(pg_get_uuid(rows, row, column), text);
        json_put_cstring(out, text);
    }
}

void schedule_put_row(struct buf *out, const PGresult *rows, int row)
{
    const enum schedule_state state =
        (enum schedule_state)pg_get_int(rows, row, SCHEDULE_STATE);
    buf_put_char(out, '{');
    put_uuid(out, "id", rows, row, SCHEDULE_ID);
    json_put_name(out, "tenant");
    json_put_string(out, pg_get_bytes(rows, row, SCHEDULE_TENANT));
    json_put_name(out, "state");
    json_put_cstring(out, schedule_state_name(state));
    if (state == SCHEDULE_ACTIVE) {
        put_time(out, "next_at", rows, row, SCHEDULE_NEXT_AT);
    } else {
        json_put_name(out, "next_at");
        buf_put_str(out, "null");
    }
    put_time(out, "last_at", rows, row, SCHEDULE_LAST_AT);
    put_uuid(out, "last_action", rows, row, SCHEDULE_LAST_ACTION);
    json_put_name(out, "fired_count");
    buf_put_int(out, pg_get_int(rows, row, SCHEDULE_FIRED));
    json_put_name(out, "missed_count");
    buf_put_int(out, pg_get_int(rows, row, SCHEDULE_MISSED));
    put_time(out, "created_at", rows, row, SCHEDULE_CREATED_AT);
    put_time(out, "changed_at", rows, row, SCHEDULE_CHANGED_AT);
    json_put_name(out, "schedule");
    buf_put_span(out, pg_get_bytes(rows, row, SCHEDULE_DOCUMENT));
    buf_put_char(out, '}');
}

static void put_canonical(struct buf *out, struct span document)
{
    struct json_value root;
    struct err err = ERR_INIT;
    buf_init(out, 2 * SCHEDULE_MAX_BYTES);
    if (json_parse(document, MAX_DEPTH, &root, &err) == 0) {
        json_canonical(root, out);
    }
}

bool schedule_row_is(const PGresult *rows, int row, struct span document)
{
    struct buf ours;
    struct buf theirs;
    put_canonical(&ours, pg_get_bytes(rows, row, SCHEDULE_DOCUMENT));
    put_canonical(&theirs, document);
    const bool is_same = span_equal(buf_span(&ours), buf_span(&theirs));
    buf_fini(&ours);
    buf_fini(&theirs);
    return is_same;
}
