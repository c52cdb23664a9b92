/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a run. Times and memory in the units of their names. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "scheduler/ctl/bench.h"

#define MAX_REPORT_BYTES ((size_t)64 << 10)

static const char *const CONDITIONS[BENCH_CONDITION_COUNT] = {
    [BENCH_TWO_WORKERS] = "two_workers",
    [BENCH_FOUR_WORKERS] = "four_workers",
    [BENCH_EIGHT_WORKERS] = "eight_workers",
    [BENCH_HELD] = "held",
    [BENCH_WAITING] = "waiting",
};

static bool is_measured(const struct bench_figures *figures)
{
    return figures->has[BENCH_SATURATION] || figures->has[BENCH_HALF] ||
           figures->has[BENCH_LOW];
}

static double ratio_of(const struct bench *bench, double rate)
{
    return bench->floor_rate > 0 ? rate / bench->floor_rate : 0;
}

/* -- for machines --------------------------------------------------------------- */

static void put_number(
    struct buf *out, const char *name, double value, int digits)
{
    json_put_name(out, name);
    buf_printf(out, "%.*f", digits, value);
}

static void put_latency(struct buf *out, const struct bench_latency *latency)
{
    put_number(out, "p50_ms", latency->p50_ms, 3);
    put_number(out, "p99_ms", latency->p99_ms, 3);
    put_number(out, "p999_ms", latency->p999_ms, 3);
}

static void put_saturation(struct buf *out, const struct bench *bench,
    const struct bench_figures *figures)
{
    put_number(out, "rate", figures->rate, 1);
    if (bench->floor_rate > 0)
        put_number(out, "ratio", ratio_of(bench, figures->rate), 4);
    json_put_name(out, "cpu_us");
    buf_put_char(out, '{');
    for (size_t i = 0; i < BENCH_PROCESS_COUNT; i++)
        put_number(out, bench_process_name((enum bench_process)i),
            figures->cpu_us[i], 2);
    buf_put_char(out, '}');
    put_number(out, "rss_mib", figures->rss_mib, 1);
    put_number(out, "wal_bytes", figures->wal_bytes, 0);
}

/* By the side of what the same run reached without. */
static void put_again(struct buf *out, const struct bench_figures *figures)
{
    for (size_t i = 0; i < BENCH_CONDITION_COUNT; i++) {
        if (figures->again[i] <= 0)
            continue;
        json_put_name(out, CONDITIONS[i]);
        buf_put_char(out, '{');
        put_number(out, "rate", figures->again[i], 1);
        if (figures->rate > 0)
            put_number(out, "ratio", figures->again[i] / figures->rate, 3);
        buf_put_char(out, '}');
    }
}

static void put_kind(
    struct buf *out, const struct bench *bench, enum bench_kind kind)
{
    const struct bench_figures *figures = &bench->kinds[kind];
    json_put_name(out, bench_kind_name(kind));
    buf_put_char(out, '{');
    if (figures->has[BENCH_SATURATION])
        put_saturation(out, bench, figures);
    put_again(out, figures);
    if (figures->has[BENCH_HALF])
        put_latency(out, &figures->half);
    if (figures->has[BENCH_LOW]) {
        json_put_name(out, "low");
        buf_put_char(out, '{');
        put_latency(out, &figures->low);
        buf_put_char(out, '}');
    }
    buf_put_char(out, '}');
}

void bench_report_put(struct buf *report, const struct bench *bench)
{
    const struct bench_plan *plan = &bench->plan;
    struct buf out;
    buf_init(&out, MAX_REPORT_BYTES);
    buf_put_char(&out, '{');
    json_put_name(&out, "bench");
    json_put_cstring(&out, "pipeline");
    json_put_name(&out, "cores");
    buf_put_int(&out, sysconf(_SC_NPROCESSORS_ONLN));
    json_put_name(&out, "records");
    buf_put_int(&out, plan->records);
    if (plan->has_phase[BENCH_FLOOR]) {
        json_put_name(&out, "floor");
        buf_put_char(&out, '{');
        json_put_name(&out, "records");
        buf_put_int(&out, plan->floor_records);
        put_number(&out, "rate", bench->floor_rate, 1);
        buf_put_char(&out, '}');
    }
    for (size_t i = 0; i < BENCH_KIND_COUNT; i++)
        if (is_measured(&bench->kinds[i]))
            put_kind(&out, bench, (enum bench_kind)i);
    if (plan->due > 0) {
        json_put_name(&out, "retries");
        buf_put_char(&out, '{');
        json_put_name(&out, "count");
        buf_put_int(&out, plan->due);
        put_number(&out, "p50_ms", bench->retries.p50_ms, 3);
        put_number(&out, "p99_ms", bench->retries.p99_ms, 3);
        json_put_name(&out, "early");
        buf_put_int(&out, bench->retries.early);
        buf_put_char(&out, '}');
    }
    if (plan->has_phase[BENCH_IDLE]) {
        json_put_name(&out, "idle");
        buf_put_char(&out, '{');
        put_number(&out, "cpu_percent", bench->idle_cpu_percent, 2);
        put_number(&out, "transactions_per_s", bench->idle_transactions, 1);
        buf_put_char(&out, '}');
    }
    buf_put_char(&out, '}');
    *report = out;
}

/* -- for people -------------------------------------------------------------------- */

#define CELL_SIZE 64
#define MAX_CELLS 16

struct row {
    char cells[MAX_CELLS][CELL_SIZE];
    size_t count;
};

static void put_cell(struct row *row, bool has, double value, int digits)
{
    struct buf text;
    if (!has) {
        row->cells[row->count++][0] = '-';
        return;
    }
    buf_init(&text, CELL_SIZE - 1);
    buf_printf(&text, "%.*f", digits, value);
    memcpy(row->cells[row->count++], buf_str(&text), text.len + 1);
    buf_fini(&text);
}

static void add_row(struct ctl_table *table, const char *name, struct row *row)
{
    const char *cells[MAX_CELLS + 1] = {name};
    for (size_t i = 0; i < row->count; i++)
        cells[i + 1] = row->cells[i];
    ctl_table_add(table, cells);
}

static void put_latency_cells(
    struct row *row, bool has, const struct bench_latency *latency)
{
    put_cell(row, has, latency->p50_ms, 1);
    put_cell(row, has, latency->p99_ms, 1);
    put_cell(row, has, latency->p999_ms, 1);
}

static void print_figures(const struct bench *bench)
{
    static const char *const columns[] = {"kind", "rate/s", "of floor",
        "half p50", "p99", "p99.9", "50/s p50", "p99", "p99.9", "rss MiB",
        "WAL bytes"};
    struct ctl_table *table =
        ctl_table_new(&bench->ctl, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < BENCH_KIND_COUNT; i++) {
        const struct bench_figures *figures = &bench->kinds[i];
        const bool has_rate = figures->has[BENCH_SATURATION];
        struct row row = {.count = 0};
        if (!is_measured(figures))
            continue;
        put_cell(&row, has_rate, figures->rate, 0);
        put_cell(&row, has_rate && bench->floor_rate > 0,
            ratio_of(bench, figures->rate), 3);
        put_latency_cells(&row, figures->has[BENCH_HALF], &figures->half);
        put_latency_cells(&row, figures->has[BENCH_LOW], &figures->low);
        put_cell(&row, has_rate, figures->rss_mib, 0);
        put_cell(&row, has_rate, figures->wal_bytes, 0);
        add_row(table, bench_kind_name((enum bench_kind)i), &row);
    }
    ctl_table_end(table);
    putchar('\n');
}

static void print_processes(const struct bench *bench)
{
    const char *columns[BENCH_PROCESS_COUNT + 1] = {"cpu us an action"};
    for (size_t i = 0; i < BENCH_PROCESS_COUNT; i++)
        columns[i + 1] = bench_process_name((enum bench_process)i);
    struct ctl_table *table =
        ctl_table_new(&bench->ctl, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < BENCH_KIND_COUNT; i++) {
        struct row row = {.count = 0};
        if (!bench->kinds[i].has[BENCH_SATURATION])
            continue;
        for (size_t k = 0; k < BENCH_PROCESS_COUNT; k++)
            put_cell(&row, true, bench->kinds[i].cpu_us[k], 1);
        add_row(table, bench_kind_name((enum bench_kind)i), &row);
    }
    ctl_table_end(table);
    putchar('\n');
}

static void print_conditions(const struct bench *bench)
{
    bool has_any = false;
    for (size_t i = 0; i < BENCH_KIND_COUNT; i++) {
        const struct bench_figures *figures = &bench->kinds[i];
        for (size_t k = 0; k < BENCH_CONDITION_COUNT; k++) {
            if (figures->again[k] <= 0)
                continue;
            printf("%s, %s: %.0f/s", bench_kind_name((enum bench_kind)i),
                CONDITIONS[k], figures->again[k]);
            if (figures->rate > 0)
                printf(", %.2f of without", figures->again[k] / figures->rate);
            putchar('\n');
            has_any = true;
        }
    }
    if (has_any)
        putchar('\n');
}

void bench_report(const struct bench *bench, bool is_json)
{
    struct buf report;
    if (is_json) {
        bench_report_put(&report, bench);
        puts(buf_str(&report));
        buf_fini(&report);
        return;
    }
    const bool *has = bench->plan.has_phase;
    if (has[BENCH_FLOOR])
        printf("floor: %.0f records/s (consume, COPY, produce, commit "
               "offsets)\n\n",
            bench->floor_rate);
    if (has[BENCH_SATURATION] || has[BENCH_HALF] || has[BENCH_LOW])
        print_figures(bench);
    if (has[BENCH_SATURATION])
        print_processes(bench);
    print_conditions(bench);
    if (bench->plan.due > 0)
        printf("retries at 1,000/s begin %.1f ms after they are due (p50), "
               "%.1f ms (p99); %lld early\n\n",
            bench->retries.p50_ms, bench->retries.p99_ms,
            (long long)bench->retries.early);
    if (has[BENCH_IDLE])
        printf("idle: %.2f %% of a core, %.1f transactions/s in Postgres\n",
            bench->idle_cpu_percent, bench->idle_transactions);
    puts("Each request had exactly one outcome; verify agrees.");
}
