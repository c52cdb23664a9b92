/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "common/json.h"
#include "common/time.h"
#include "scheduler/ctl/top.h"
#include "schema/sql_ctl.h"

enum { MAX_LOOK_BYTES = 1 << 20, NUMBER_SIZE = 330 };

/* The sums of a look by name, as people and machines see them. */
static const struct figure {
    const char *name;
    size_t offset;
} FIGURES[] = {
    {"running_count", offsetof(struct top_look, running)},
    {"untaken_count", offsetof(struct top_look, untaken)},
    {"waiting_count", offsetof(struct top_look, waiting)},
    {"overdue_count", offsetof(struct top_look, overdue)},
    {"oldest_ms", offsetof(struct top_look, oldest_us)},
    {"latest_ms", offsetof(struct top_look, latest_us)},
};

static int64_t value_of(
    const struct top_look *look, const struct figure *figure)
{
    const int64_t value =
        *(const int64_t *)(const void *)((const char *)look + figure->offset);
    return figure->offset >= offsetof(struct top_look, oldest_us)
               ? value / US_PER_MS
               : value;
}

/* -- for machines ---------------------------------------------------------- */

static void put_rates(struct buf *out, const struct top_look *look)
{
    json_put_name(out, "ended_per_s");
    buf_put_char(out, '{');
    for (int status = STATUS_SUCCEEDED; status < TOP_STATUSES; status++) {
        char text[NUMBER_SIZE];
        (void)snprintf(text, sizeof(text), "%.1f", look->per_s[status]);
        json_put_name(out, status_name((enum status)status));
        buf_put_str(out, text);
    }
    buf_put_char(out, '}');
}

static void put_cell(struct buf *out, const char *name, const PGresult *rows,
    int row, int column)
{
    json_put_name(out, name);
    if (pg_is_null(rows, row, column)) {
        buf_put_str(out, "null");
    } else {
        json_put_string(out, pg_get_bytes(rows, row, column));
    }
}

static void put_number(struct buf *out, const char *name, int64_t value)
{
    json_put_name(out, name);
    buf_put_int(out, value);
}

static void put_workers(struct buf *out, const PGresult *rows)
{
    json_put_name(out, "workers");
    buf_put_char(out, '[');
    for (int row = 0; row < pg_rows(rows); row++) {
        buf_put_str(out, row > 0 ? ",{" : "{");
        put_cell(out, "worker", rows, row, WORKER_NAME);
        put_cell(out, "boot_id", rows, row, WORKER_BOOT);
        put_number(out, "running_count", pg_get_int(rows, row, WORKER_RUNNING));
        put_cell(out, "draining", rows, row, WORKER_DRAIN_REASON);
        buf_put_char(out, '}');
    }
    buf_put_char(out, ']');
}

static void put_tenants(struct buf *out, const PGresult *rows)
{
    json_put_name(out, "tenants");
    buf_put_char(out, '[');
    for (int row = 0; row < pg_rows(rows); row++) {
        buf_put_str(out, row > 0 ? ",{" : "{");
        put_cell(out, "tenant", rows, row, TENANT_NAME);
        put_number(out, "running_count", pg_get_int(rows, row, TENANT_RUNNING));
        put_number(out, "waiting_count", pg_get_int(rows, row, TENANT_WAITING));
        put_number(out, "overdue_count", pg_get_int(rows, row, TENANT_OVERDUE));
        put_number(out, "oldest_ms",
            pg_get_int(rows, row, TENANT_OLDEST_US) / US_PER_MS);
        buf_put_char(out, '}');
    }
    buf_put_char(out, ']');
}

void top_show_json(const struct top_look *look)
{
    struct buf out;
    buf_init(&out, MAX_LOOK_BYTES);
    buf_put_char(&out, '{');
    json_put_name(&out, "at");
    json_put_time(&out, look->at_us);
    for (size_t i = 0; i < ARRAY_LEN(FIGURES); i++) {
        put_number(&out, FIGURES[i].name, value_of(look, &FIGURES[i]));
    }
    put_rates(&out, look);
    put_workers(&out, look->workers);
    put_tenants(&out, look->tenants);
    buf_put_char(&out, '}');
    puts(buf_str(&out));
    buf_fini(&out);
}

/* -- for people ------------------------------------------------------------ */

static void show_rates(const struct top_look *look)
{
    double sum = 0.0;
    for (int status = STATUS_SUCCEEDED; status < TOP_STATUSES; status++) {
        sum += look->per_s[status];
    }
    printf("ended %.1f/s", sum);
    for (int status = STATUS_SUCCEEDED; status < TOP_STATUSES; status++) {
        if (look->per_s[status] > 0.0) {
            printf("  %s %.1f", status_name((enum status)status),
                look->per_s[status]);
        }
    }
    puts("\n");
}

static void show_workers(const struct ctl *ctl, const PGresult *rows)
{
    static const char *const NAMES[] = {"worker", "state", "running"};
    struct ctl_table *table = ctl_table_new(ctl, NAMES, ARRAY_LEN(NAMES));
    for (int row = 0; row < pg_rows(rows); row++) {
        char count[NUMBER_SIZE];
        char *name = span_dup(pg_get_bytes(rows, row, WORKER_NAME));
        const bool is_alive = !pg_is_null(rows, row, WORKER_BOOT);
        const bool drains = !pg_is_null(rows, row, WORKER_DRAIN_REASON);
        (void)snprintf(count, sizeof(count), "%lld",
            (long long)pg_get_int(rows, row, WORKER_RUNNING));
        ctl_table_add(table, (const char *[]){name[0] != '\0' ? name : "all",
                                 !is_alive ? "drained"
                                 : drains  ? "draining"
                                           : "working",
                                 count});
        free(name);
    }
    if (ctl_table_end(table) == 0) {
        puts("no worker is alive");
    }
}

static void show_tenants(const struct ctl *ctl, const PGresult *rows)
{
    static const char *const NAMES[] = {
        "tenant", "running", "waiting", "overdue", "oldest"};
    struct ctl_table *table = ctl_table_new(ctl, NAMES, ARRAY_LEN(NAMES));
    for (int row = 0; row < pg_rows(rows); row++) {
        char cells[4][NUMBER_SIZE];
        char *name = span_dup(pg_get_bytes(rows, row, TENANT_NAME));
        for (int i = 0; i < 3; i++) {
            (void)snprintf(cells[i], NUMBER_SIZE, "%lld",
                (long long)pg_get_int(rows, row, TENANT_RUNNING + i));
        }
        (void)snprintf(cells[3], NUMBER_SIZE, "%.1f s",
            (double)pg_get_int(rows, row, TENANT_OLDEST_US) / US_PER_S);
        ctl_table_add(table,
            (const char *[]){name, cells[0], cells[1], cells[2], cells[3]});
        free(name);
    }
    ctl_table_end(table);
}

void top_show_tables(const struct ctl *ctl, const struct top_look *look)
{
    char at[TIME_TEXT_SIZE];
    time_format_rfc3339(look->at_us, at);
    printf("%s   running %lld (oldest %.1f s)   not taken yet %lld   "
           "waiting %lld   overdue %lld (longest %.1f s)\n",
        at, (long long)look->running, (double)look->oldest_us / US_PER_S,
        (long long)look->untaken, (long long)look->waiting,
        (long long)look->overdue, (double)look->latest_us / US_PER_S);
    show_rates(look);
    show_workers(ctl, look->workers);
    puts("");
    show_tenants(ctl, look->tenants);
}
