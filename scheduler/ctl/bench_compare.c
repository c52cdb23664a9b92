/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A saved report beside the one of this run: each number that both have, by
 * its path in the document.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "scheduler/ctl/bench.h"
#include "scheduler/ctl/file.h"

enum { MAX_DEPTH = 8, PATH_SIZE = 128, CELL_SIZE = 48 };
#define MAX_SAVED_BYTES ((size_t)1 << 20)

int bench_saved_read(const char *path, struct buf *saved, struct err *err)
{
    struct json_value root;
    struct json_value kind;
    struct err why = ERR_INIT;
    buf_init(saved, MAX_SAVED_BYTES);
    if (file_read(path, saved, err) != 0)
        return -1;
    if (json_parse(buf_span(saved), MAX_DEPTH, &root, &why) == 0 &&
        root.type == JSON_OBJECT && json_find(root, "bench", &kind) &&
        span_is(kind.raw, "\"pipeline\""))
        return 0;
    return err_set(err, ERR_PERMANENT, "NO_REPORT",
        "%s is not what `actionist bench --json` printed", path);
}

/* Numbers of JSON end before anything that strtod() would go on with. */
static double number_of(struct json_value value)
{
    char text[CELL_SIZE] = "";
    const size_t len =
        value.raw.len < sizeof text - 1 ? value.raw.len : sizeof text - 1;
    memcpy(text, value.raw.ptr, len);
    return strtod(text, NULL);
}

static void add_row(
    struct ctl_table *table, const char *path, double before, double now)
{
    char cells[3][CELL_SIZE];
    snprintf(cells[0], CELL_SIZE, "%.6g", before);
    snprintf(cells[1], CELL_SIZE, "%.6g", now);
    snprintf(cells[2], CELL_SIZE, before > 0 ? "%+.1f %%" : "-",
        before > 0 ? 100.0 * (now - before) / before : 0.0);
    const char *const row[] = {path, cells[0], cells[1], cells[2]};
    ctl_table_add(table, row);
}

static void compare(struct ctl_table *table, const char *prefix,
    struct json_value before, struct json_value now, int depth)
{
    struct json_cursor cursor = json_enter(before);
    struct json_member member;
    struct json_value same;
    char path[PATH_SIZE];
    while (depth < MAX_DEPTH && json_next(&cursor, &member)) {
        struct buf name;
        buf_init(&name, PATH_SIZE - 1);
        buf_put_str(&name, prefix);
        buf_put_str(&name, prefix[0] != '\0' ? "." : "");
        buf_put_span(&name, member.name);
        memcpy(path, buf_str(&name), name.len + 1);
        const bool has_same = json_find_span(now, member.name, &same) &&
                              same.type == member.value.type;
        if (has_same && same.type == JSON_OBJECT)
            compare(table, path, member.value, same, depth + 1);
        else if (has_same && same.type == JSON_NUMBER)
            add_row(table, path, number_of(member.value), number_of(same));
        buf_fini(&name);
    }
}

void bench_compare(const struct bench *bench, const struct buf *saved)
{
    static const char *const columns[] = {"figure", "saved", "now", "change"};
    struct json_value before;
    struct json_value now;
    struct err err = ERR_INIT;
    struct buf report;
    bench_report_put(&report, bench);
    if (json_parse(buf_span(saved), MAX_DEPTH, &before, &err) == 0 &&
        json_parse(buf_span(&report), MAX_DEPTH, &now, &err) == 0) {
        struct ctl_table *table =
            ctl_table_new(&bench->ctl, columns, ARRAY_LEN(columns));
        putchar('\n');
        compare(table, "", before, now, 0);
        ctl_table_end(table);
    }
    buf_fini(&report);
}
