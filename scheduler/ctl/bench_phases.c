/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured, in which order: the floor, then each kind, then rest. */
#include <poll.h>
#include <stdio.h>

#include "common/time.h"
#include "scheduler/ctl/bench.h"
#include "scheduler/ctl/bench_again.h"

enum {
    WARM_RECORDS = 400,
    /* Without it thousands of tiny requests a second would measure the broker;
     * it is part of the time that is told. */
    PACED_LINGER_MS = 3
};

/* -- numbers of Postgres ------------------------------------------------------------ */

void bench_pause(int wait_ms)
{
    (void)poll(NULL, 0, wait_ms);
}

int bench_read_number(PGconn *conn, const struct pg_statement *statement,
    int64_t *value, struct err *err)
{
    PGresult *result = pg_query_blocking(conn, statement, NULL, err);
    if (result == NULL)
        return -1;
    *value = pg_get_int(result, 0, 0);
    PQclear(result);
    return 0;
}

static const struct pg_statement WAL_BYTES = {
    .name = "wal_bytes",
    .sql = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8",
};
static const struct pg_statement TRANSACTIONS = {
    .name = "transactions",
    .sql = "select (xact_commit + xact_rollback)::int8 from pg_stat_database"
           " where datname = current_database()",
};

/* -- loads ---------------------------------------------------------------------------- */

/* Runs one load with a producer that lingers as told. */
static int run_load(struct bench *bench, int linger_ms,
    const struct bench_load *load, struct bench_timing *timing, struct err *err)
{
    int64_t failed = 0;
    bench->producer =
        bench_producer_open(bench->ctl.conf, linger_ms, &failed, err);
    if (bench->producer == NULL)
        return -1;
    const int rc = bench_load_run(bench, load, timing, err);
    bench_producer_close(bench->producer);
    bench->producer = NULL;
    return rc;
}

/* The load, with a profile of it if one is wanted. */
static int run_saturation(struct bench *bench, const struct bench_load *load,
    struct bench_timing *timing, struct err *err)
{
    struct err ignored = ERR_INIT;
    if (bench->profile == NULL)
        return run_load(bench, 5, load, timing, err);
    if (bench_profile_begin(bench, err) != 0)
        return -1;
    const int rc = run_load(bench, 5, load, timing, err);
    const int end =
        bench_profile_end(bench, load->kind, rc == 0 ? err : &ignored);
    return rc == 0 ? end : rc;
}

int bench_saturate(
    struct bench *bench, enum bench_kind kind, double *rate, struct err *err)
{
    const struct bench_load load = {.kind = kind, .count = bench->plan.records};
    struct bench_timing timing;
    if (run_load(bench, 5, &load, &timing, err) != 0)
        return -1;
    *rate = timing.rate;
    return 0;
}

static int saturate(struct bench *bench, enum bench_kind kind, struct err *err)
{
    struct bench_figures *figures = &bench->kinds[kind];
    const struct bench_load load = {.kind = kind, .count = bench->plan.records};
    struct bench_timing timing;
    struct bench_usage before;
    struct bench_usage after;
    int64_t wal_before = 0;
    int64_t wal_after = 0;
    bench_peak_reset(&bench->fleet);
    bench_usage_read(&bench->fleet, &before);
    if (bench_read_number(bench->conn, &WAL_BYTES, &wal_before, err) != 0 ||
        run_saturation(bench, &load, &timing, err) != 0 ||
        bench_read_number(bench->conn, &WAL_BYTES, &wal_after, err) != 0)
        return -1;
    bench_usage_read(&bench->fleet, &after);
    figures->rate = timing.rate;
    figures->rss_mib = bench_peak_mib(&bench->fleet);
    figures->wal_bytes = (double)(wal_after - wal_before) / (double)load.count;
    for (size_t i = 0; i < BENCH_PROCESS_COUNT; i++)
        figures->cpu_us[i] =
            (double)(after.cpu_us[i] - before.cpu_us[i]) / (double)load.count;
    figures->has[BENCH_SATURATION] = true;
    return 0;
}

static int measure_paced(struct bench *bench, enum bench_kind kind, double rate,
    int64_t seconds, struct bench_latency *latency, struct err *err)
{
    struct bench_load load = {.kind = kind, .rate = rate};
    struct bench_timing timing;
    load.count = (int64_t)(rate * (double)seconds) + 1;
    if (run_load(bench, rate > BENCH_LOW_RATE ? PACED_LINGER_MS : 0, &load,
            &timing, err) != 0)
        return -1;
    *latency = timing.latency;
    return 0;
}

static int measure_half(
    struct bench *bench, enum bench_kind kind, struct err *err)
{
    struct bench_figures *figures = &bench->kinds[kind];
    const double rate =
        bench->plan.rate > 0 ? (double)bench->plan.rate : figures->rate / 2;
    figures->has[BENCH_HALF] = true;
    return measure_paced(
        bench, kind, rate, bench->plan.half_s, &figures->half, err);
}

static int measure_low(
    struct bench *bench, enum bench_kind kind, struct err *err)
{
    struct bench_figures *figures = &bench->kinds[kind];
    figures->has[BENCH_LOW] = true;
    return measure_paced(
        bench, kind, BENCH_LOW_RATE, bench->plan.low_s, &figures->low, err);
}

static int measure_kind(
    struct bench *bench, enum bench_kind kind, struct err *err)
{
    static int (*const phases[BENCH_PHASE_COUNT])(
        struct bench *, enum bench_kind, struct err *) = {
        [BENCH_SATURATION] = saturate,
        [BENCH_HALF] = measure_half,
        [BENCH_LOW] = measure_low,
    };
    const struct bench_load warm = {.kind = kind, .count = WARM_RECORDS};
    struct bench_timing ignored;
    if (run_load(bench, 5, &warm, &ignored, err) != 0)
        return -1;
    for (size_t i = 0; i < BENCH_PHASE_COUNT; i++)
        if (phases[i] != NULL && bench->plan.has_phase[i] &&
            phases[i](bench, kind, err) != 0)
            return -1;
    return 0;
}

/* What the fleet costs while nothing is to be done. */
static int measure_idle(struct bench *bench, struct err *err)
{
    static const enum bench_process ours[] = {
        BENCH_WORKER, BENCH_KEEPER, BENCH_RUNNER, BENCH_SCHEDULER};
    struct bench_usage before;
    struct bench_usage after;
    int64_t count_before = 0;
    int64_t count_after = 0;
    int64_t cpu_us = 0;
    bench_pause((int)bench->plan.settle_ms);
    bench_usage_read(&bench->fleet, &before);
    const int64_t began_us = now_mono_us();
    if (bench_read_number(bench->conn, &TRANSACTIONS, &count_before, err) != 0)
        return -1;
    bench_pause((int)(bench->plan.idle_s * 1000));
    if (bench_read_number(bench->conn, &TRANSACTIONS, &count_after, err) != 0)
        return -1;
    bench_usage_read(&bench->fleet, &after);
    const double spent_us = (double)(now_mono_us() - began_us);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        cpu_us += after.cpu_us[ours[i]] - before.cpu_us[ours[i]];
    bench->idle_cpu_percent = 100.0 * (double)cpu_us / spent_us;
    bench->idle_transactions =
        (double)(count_after - count_before) * (double)US_PER_S / spent_us;
    return 0;
}

int bench_measure(struct bench *bench, void (*say)(void *arg, const char *what),
    void *arg, struct err *err)
{
    const struct bench_plan *plan = &bench->plan;
    bool has_load = false;
    for (size_t i = BENCH_SATURATION; i <= BENCH_LOW; i++)
        has_load = has_load || plan->has_phase[i];
    if (plan->has_phase[BENCH_FLOOR]) {
        say(arg, "floor");
        if (bench_floor(bench, err) != 0)
            return err_wrap(err, "floor");
    }
    for (size_t i = 0; has_load && i < BENCH_KIND_COUNT; i++) {
        if (!plan->has_kind[i])
            continue;
        say(arg, bench_kind_name((enum bench_kind)i));
        if (measure_kind(bench, (enum bench_kind)i, err) != 0)
            return -1;
    }
    if (bench_again(bench, say, arg, err) != 0)
        return -1;
    if (plan->has_phase[BENCH_IDLE]) {
        say(arg, "idle");
        if (measure_idle(bench, err) != 0)
            return -1;
    }
    if (bench->repeats > 0)
        return err_set(err, ERR_PERMANENT, "DOUBLED",
            "%lld outcomes came twice", (long long)bench->repeats);
    return 0;
}
