/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench: how fast the fleet is, in parts of a floor that keeps nothing,
 * measured in the same run on the same machine. It starts a private fleet, or
 * uses one of `dev up`, and checks its own result.
 */
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/crypt.h"
#include "common/json.h"
#include "common/kafka.h"
#include "common/time.h"
#include "scheduler/ctl/bench.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/dev_process.h"

enum {
    WARM_RECORDS = 400,
    FLOOR_PER_RECORD = 10,
    SETTLE_MS = 1500,
    /* Without it thousands of tiny requests a second would measure the broker;
     * it is part of the time that is told. */
    PACED_LINGER_MS = 3
};
#define MAX_RECORDS INT64_C(10000000)
#define MAX_TEXT_BYTES ((size_t)1 << 20)

static const char *const KIND_NAMES[BENCH_KIND_COUNT] = {
    [BENCH_ECHO] = "echo",
    [BENCH_HTTP] = "http",
    [BENCH_UNSAFE] = "unsafe",
};

const char *bench_kind_name(enum bench_kind kind)
{
    return KIND_NAMES[kind];
}

struct ask {
    const char *dir;
    const char *records;
    const char *kind;
    bool is_quick;
};

static void say(const struct ctl *ctl, const char *what)
{
    if (!ctl->is_json)
        fprintf(stderr, "%s ...\n", what);
}

/* -- other programs --------------------------------------------------------------- */

/* Runs this command; its exit code, or -1 (said so). */
static int run_self(const char *const *words, size_t count)
{
    struct err err = ERR_INIT;
    struct buf text;
    char *argv[12] = {NULL};
    argv[0] = mem_strdup("/proc/self/exe");
    for (size_t i = 0; i < count; i++)
        argv[i + 1] = mem_strdup(words[i]);
    buf_init(&text, MAX_TEXT_BYTES);
    const int code = dev_run(argv, &text, &err);
    if (code < 0)
        ctl_fail(CTL_FAILED, "%s", err.msg);
    for (size_t i = 0; argv[i] != NULL; i++)
        free(argv[i]);
    buf_fini(&text);
    return code;
}

static int run_dev(const char *verb, const char *dir)
{
    return run_self(
        (const char *const[]){"dev", verb, "--dir", dir, "--json"}, 5);
}

/* Another cluster's settings must not reach this fleet. */
static void forget_environment(void)
{
    static const char prefix[] = "ACTIONIST_";
    size_t at = 0;
    while (environ[at] != NULL) {
        const char *equals = strchr(environ[at], '=');
        if (equals == NULL ||
            strncmp(environ[at], prefix, sizeof prefix - 1) != 0 ||
            strncmp(environ[at], "ACTIONIST_DEPLOY=", 17) == 0) {
            at++;
            continue;
        }
        char *name = span_dup(
            (struct span){environ[at], (size_t)(equals - environ[at])});
        (void)unsetenv(name);
        free(name);
    }
}

/* -- opening ------------------------------------------------------------------------ */

static void put_manifest(struct buf *out, const struct bench *bench)
{
    char *url = dev_url(&bench->fleet, DEV_DOUBLE);
    buf_put_str(out, "{\"manifest\":1,\"name\":\"bench\",\"version\":");
    buf_printf(out, "\"1.%u\"", (unsigned)bench->fleet.ports[DEV_DOUBLE]);
    json_put_name(out, "base_url");
    json_put_cstring(out, url);
    buf_put_str(out,
        ",\"actions\":{"
        "\"echo\":{\"idempotency\":\"natural\",\"runtime\":\"echo\"},"
        "\"http\":{\"idempotency\":\"natural\",\"request\":{"
        "\"method\":\"POST\",\"path\":\"/bench\","
        "\"json\":\"{{payload}}\"}},"
        "\"unsafe\":{\"idempotency\":\"unsafe\",\"request\":{"
        "\"method\":\"POST\",\"path\":\"/bench\","
        "\"json\":\"{{payload}}\"}}}}");
    free(url);
}

static int add_connector(const struct bench *bench, const char *config)
{
    struct buf text;
    int code = CTL_FAILED;
    char *path = dev_file(&bench->fleet, "bench-connector.json");
    buf_init(&text, MAX_TEXT_BYTES);
    put_manifest(&text, bench);
    FILE *file = fopen(path, "we");
    bool is_written =
        file != NULL && fwrite(text.data, 1, text.len, file) == text.len;
    if (file != NULL && fclose(file) != 0)
        is_written = false;
    if (is_written)
        code = run_self(
            (const char *const[]){"connector", "add", path, "--config", config},
            5);
    else
        ctl_fail(CTL_FAILED, "%s cannot be written", path);
    buf_fini(&text);
    free(path);
    return code == 0 ? CTL_DONE : CTL_FAILED;
}

static int open_stores(struct bench *bench, struct err *err)
{
    char actions[256];
    char outcomes[256];
    struct conf *conf = bench->ctl.conf;
    kafka_topic_name(conf, "actions", actions);
    kafka_topic_name(conf, "outcomes", outcomes);
    const char *const topics[] = {actions, outcomes};
    int partitions[2] = {0};
    if (kafka_check_topics(conf, topics, 2, partitions, err) != 0)
        return -1;
    bench->partitions = partitions[0];
    bench->reader = bench_reader_open(
        conf, outcomes, partitions[1], RD_KAFKA_OFFSET_END, err);
    bench->conn = pg_connect_blocking(
        conf_text(conf, "postgres.owner"), "actionist bench", err);
    return bench->reader == NULL || bench->conn == NULL ? -1 : 0;
}

static void close_stores(struct bench *bench)
{
    bench_reader_close(bench->reader);
    bench_producer_close(bench->producer);
    PQfinish(bench->conn);
    bench->reader = NULL;
    bench->producer = NULL;
    bench->conn = NULL;
}

/* -- phases ------------------------------------------------------------------------- */

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

static int read_number(PGconn *conn, const struct pg_statement *statement,
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
    if (read_number(bench->conn, &WAL_BYTES, &wal_before, err) != 0 ||
        run_load(bench, 5, &load, &timing, err) != 0 ||
        read_number(bench->conn, &WAL_BYTES, &wal_after, err) != 0)
        return -1;
    bench_usage_read(&bench->fleet, &after);
    figures->rate = timing.rate;
    figures->rss_mib = bench_peak_mib(&bench->fleet);
    figures->wal_bytes = (double)(wal_after - wal_before) / (double)load.count;
    for (size_t i = 0; i < BENCH_PROCESS_COUNT; i++)
        figures->cpu_us[i] =
            (double)(after.cpu_us[i] - before.cpu_us[i]) / (double)load.count;
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

static int measure_kind(struct bench *bench, enum bench_kind kind,
    const struct ctl *ctl, struct err *err)
{
    struct bench_figures *figures = &bench->kinds[kind];
    const struct bench_load warm = {.kind = kind, .count = WARM_RECORDS};
    struct bench_timing ignored;
    say(ctl, KIND_NAMES[kind]);
    if (run_load(bench, 5, &warm, &ignored, err) != 0 ||
        saturate(bench, kind, err) != 0 ||
        measure_paced(bench, kind, figures->rate / 2, bench->plan.half_s,
            &figures->half, err) != 0 ||
        measure_paced(bench, kind, BENCH_LOW_RATE, bench->plan.low_s,
            &figures->low, err) != 0)
        return -1;
    figures->is_measured = true;
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
    (void)poll(NULL, 0, SETTLE_MS);
    bench_usage_read(&bench->fleet, &before);
    const int64_t began_us = now_mono_us();
    if (read_number(bench->conn, &TRANSACTIONS, &count_before, err) != 0)
        return -1;
    (void)poll(NULL, 0, (int)(bench->plan.idle_s * 1000));
    if (read_number(bench->conn, &TRANSACTIONS, &count_after, err) != 0)
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

static int measure(struct bench *bench, const struct ctl *ctl, struct err *err)
{
    if (open_stores(bench, err) != 0)
        return -1;
    say(ctl, "floor");
    if (bench_floor(bench, err) != 0)
        return err_wrap(err, "floor");
    for (size_t i = 0; i < BENCH_KIND_COUNT; i++)
        if (bench->plan.has_kind[i] &&
            measure_kind(bench, (enum bench_kind)i, ctl, err) != 0)
            return -1;
    say(ctl, "idle");
    if (measure_idle(bench, err) != 0)
        return -1;
    if (bench->repeats > 0)
        return err_set(err, ERR_PERMANENT, "DOUBLED",
            "%lld outcomes came twice", (long long)bench->repeats);
    return 0;
}

/* -- the command -------------------------------------------------------------------- */

static int verify(const struct ctl *ctl, const char *config)
{
    say(ctl, "verify");
    const int code = run_self(
        (const char *const[]){"verify", "--json", "--config", config}, 4);
    if (code == CTL_DONE || code < 0)
        return code == CTL_DONE ? CTL_DONE : CTL_FAILED;
    return ctl_fail(code == CTL_NEGATIVE ? CTL_NEGATIVE : CTL_FAILED,
        "verify does not agree with the result (exit code %d)", code);
}

static int run_on_fleet(struct ctl *ctl, struct bench *bench)
{
    struct err err = ERR_INIT;
    char *config = dev_file(&bench->fleet, "actionist.conf");
    int code = CTL_DONE;
    bench->ctl.conf = conf_new("actionist", CTL_SETTINGS, CTL_SETTINGS_COUNT);
    if (conf_load_file(bench->ctl.conf, config, &err) != 0 ||
        dev_load_ports(&bench->fleet, &err) != 0)
        code = ctl_fail(CTL_FAILED, "%s", err.msg);
    if (code == CTL_DONE)
        code = add_connector(bench, config);
    if (code == CTL_DONE && measure(bench, ctl, &err) != 0)
        code = ctl_fail_err(&err);
    close_stores(bench);
    if (code == CTL_DONE)
        code = verify(ctl, config);
    if (code == CTL_DONE)
        bench_report(bench, ctl->is_json);
    conf_free(bench->ctl.conf);
    free(config);
    return code;
}

static int read_plan(const struct ask *ask, struct bench_plan *plan)
{
    *plan = (struct bench_plan){
        .records = ask->is_quick ? 5000 : 100000,
        .half_s = ask->is_quick ? 1 : 10,
        .low_s = ask->is_quick ? 1 : 10,
        .idle_s = ask->is_quick ? 1 : 10,
    };
    if (ask->records != NULL &&
        (!span_to_int(span_of(ask->records), &plan->records) ||
            plan->records < 100 || plan->records > MAX_RECORDS))
        return ctl_fail(CTL_USAGE, "--records takes a number from 100 to %lld",
            (long long)MAX_RECORDS);
    plan->floor_records = plan->records * FLOOR_PER_RECORD;
    bool has_any = false;
    for (size_t i = 0; i < BENCH_KIND_COUNT; i++) {
        plan->has_kind[i] =
            ask->kind == NULL || strcmp(ask->kind, KIND_NAMES[i]) == 0;
        has_any = has_any || plan->has_kind[i];
    }
    return has_any ? CTL_DONE
                   : ctl_fail(CTL_USAGE, "--kind takes echo, http or unsafe");
}

/* On the fleet of --dir, or on one that lives as long as the run. */
static int bench_in(struct ctl *ctl, struct bench *bench, const char *dir)
{
    struct err err = ERR_INIT;
    char own[PATH_MAX];
    const char *base = getenv("TMPDIR");
    snprintf(own, sizeof own, "%s/actionist-bench-%s",
        base != NULL && base[0] != '\0' ? base : "/tmp", bench->run);
    const bool is_own = dir == NULL;
    int code = CTL_DONE;
    if (dev_fleet_init(&bench->fleet, is_own ? own : dir, &err) != 0) {
        dev_fleet_fini(&bench->fleet);
        return ctl_fail(CTL_USAGE, "%s", err.msg);
    }
    forget_environment();
    dev_catch_interrupts();
    say(ctl, "fleet");
    /* Starts what does not run, and says itself what goes wrong. */
    if (run_dev("up", bench->fleet.dir) != 0)
        code = CTL_FAILED;
    if (code == CTL_DONE) {
        code = run_on_fleet(ctl, bench);
        if (is_own && run_dev("down", bench->fleet.dir) != 0)
            code = CTL_FAILED;
    }
    dev_fleet_fini(&bench->fleet);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    static struct bench bench;
    struct ask ask = {.dir = NULL};
    const struct ctl_option options[] = {
        {"quick", NULL, "a short run, to see that it works", NULL,
            &ask.is_quick},
        {"records", "N",
            "requests of each kind at saturation, ten times as many for the "
            "floor; 100000, quick 5000",
            &ask.records, NULL},
        {"kind", "K", "echo, http or unsafe alone", &ask.kind, NULL},
        {"dir", "D", "a fleet of `dev up`, which goes on; else a new one",
            &ask.dir, NULL},
    };
    const char *rest[1] = {NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_BENCH, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    if (rest[0] != NULL && strcmp(rest[0], "pipeline") != 0)
        return ctl_fail(CTL_USAGE, "bench knows pipeline, not '%s'", rest[0]);
    bench.ctl.is_json = false;
    bench.ctl.is_terminal = ctl->is_terminal;
    snprintf(bench.run, sizeof bench.run, "%08x",
        (unsigned)(random_u64() & UINT32_MAX));
    code = read_plan(&ask, &bench.plan);
    return code == CTL_DONE ? bench_in(ctl, &bench, ask.dir) : code;
}

const struct command COMMAND_BENCH = {
    .name = "bench",
    .arguments = "[pipeline]",
    .summary = "Measure the fleet against a floor that keeps nothing",
    .details =
        "In one run on one machine: the floor, then requests of each kind at\n"
        "saturation, at half of that and at 50 a second; what each process\n"
        "costs an action; the idle fleet. Checks that each request had "
        "exactly\n"
        "one outcome. How to read the figures: tests/bench/README.md.",
    .run = run,
};
