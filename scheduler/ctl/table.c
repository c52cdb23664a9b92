/* SPDX-License-Identifier: Apache-2.0 */
/* table: rows aligned for people, or one JSON object a line for machines. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "scheduler/ctl/ctl.h"

#define MAX_COLUMNS 20
#define MAX_BUFFERED_BYTES ((size_t)64 << 20)

struct ctl_table {
    bool is_json;
    const char *const *columns;
    size_t column_count;
    size_t row_count;
    size_t widths[MAX_COLUMNS];
    struct buf cells; /* every cell, each with its terminating zero */
};

struct ctl_table *ctl_table_new(
    const struct ctl *ctl, const char *const *columns, size_t count)
{
    struct ctl_table *table = mem_zalloc(1, sizeof *table);
    table->is_json = ctl->is_json;
    table->columns = columns;
    table->column_count = count;
    buf_init(&table->cells, MAX_BUFFERED_BYTES);
    for (size_t i = 0; i < count; i++)
        table->widths[i] = strlen(columns[i]);
    return table;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static bool is_number_column(const char *name)
{
    return ends_with(name, "_ms") || ends_with(name, "_s") ||
           ends_with(name, "_count") || ends_with(name, "_bytes") ||
           ends_with(name, "_no") || strcmp(name, "attempts") == 0;
}

static void print_json_row(
    const struct ctl_table *table, const char *const *cells)
{
    struct buf out;
    buf_init(&out, MAX_BUFFERED_BYTES);
    buf_put_char(&out, '{');
    for (size_t i = 0; i < table->column_count; i++) {
        json_put_name(&out, table->columns[i]);
        if (cells[i] == NULL || cells[i][0] == '\0')
            buf_put_str(&out, "null");
        else if (is_number_column(table->columns[i]))
            buf_put_str(&out, cells[i]);
        else
            json_put_cstring(&out, cells[i]);
    }
    buf_put_str(&out, "}");
    puts(buf_str(&out));
    buf_fini(&out);
}

void ctl_table_add(struct ctl_table *table, const char *const *cells)
{
    table->row_count++;
    if (table->is_json) {
        print_json_row(table, cells);
        return;
    }
    for (size_t i = 0; i < table->column_count; i++) {
        const char *cell = cells[i] != NULL ? cells[i] : "";
        size_t len = strlen(cell);
        if (len > table->widths[i])
            table->widths[i] = len;
        buf_put(&table->cells, cell, len + 1);
    }
}

static void print_row(const struct ctl_table *table, const char *const *cells)
{
    for (size_t i = 0; i < table->column_count; i++) {
        bool is_last = i + 1 == table->column_count;
        printf("%-*s%s", is_last ? 0 : (int)table->widths[i], cells[i],
            is_last ? "\n" : "  ");
    }
}

size_t ctl_table_end(struct ctl_table *table)
{
    size_t rows = table->row_count;
    if (!table->is_json && rows > 0) {
        const char *cells[MAX_COLUMNS];
        const char *at = buf_str(&table->cells);
        print_row(table, table->columns);
        for (size_t row = 0; row < rows; row++) {
            for (size_t i = 0; i < table->column_count; i++) {
                cells[i] = at;
                at += strlen(at) + 1;
            }
            print_row(table, cells);
        }
    }
    buf_fini(&table->cells);
    free(table);
    return rows;
}
