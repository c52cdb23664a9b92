/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench: how fast the fleet is, in parts of a floor that keeps nothing,
 * measured in the same run on the same machine. It starts a private fleet, or
 * uses one of `dev up`, and checks its own result.
 */
#include <errno.h>
#include <limits.h>
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
    FLOOR_PER_RECORD = 10,
    QUICK_SETTLE_MS = 1500,
    /* A session that falls silent tells its statistics 10 s later. */
    SETTLE_MS = 11000
};
#define MAX_RATE INT64_C(1000000)
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

static const char *const PHASE_NAMES[BENCH_PHASE_COUNT] = {
    [BENCH_FLOOR] = "floor",
    [BENCH_SATURATION] = "saturation",
    [BENCH_HALF] = "half",
    [BENCH_LOW] = "low",
    [BENCH_IDLE] = "idle",
};

struct ask {
    const char *dir;
    const char *records;
    const char *kind;
    const char *phase;
    const char *rate;
    const char *slow;
    const char *profile;
    const char *processes;
    const char *held;
    const char *waiting;
    const char *compare;
    const char *due;
    bool is_quick;
};

static void say(void *arg, const char *what)
{
    const struct ctl *ctl = arg;
    if (!ctl->is_json)
        fprintf(stderr, "%s ...\n", what);
}

/* -- other programs --------------------------------------------------------------- */

/* Runs this command; its exit code, or -1 (said so). */
int bench_run_self(const char *const *words, size_t count)
{
    struct err err = ERR_INIT;
    struct buf text;
    char *argv[18] = {NULL};
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
    return bench_run_self(
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
        code = bench_run_self(
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

/* -- the command -------------------------------------------------------------------- */

static int verify(struct ctl *ctl, const char *config)
{
    say(ctl, "verify");
    const int code = bench_run_self(
        (const char *const[]){"verify", "--json", "--config", config}, 4);
    if (code == CTL_DONE || code < 0)
        return code == CTL_DONE ? CTL_DONE : CTL_FAILED;
    return ctl_fail(code == CTL_NEGATIVE ? CTL_NEGATIVE : CTL_FAILED,
        "verify does not agree with the result (exit code %d)", code);
}

static int measure_pipeline(
    struct ctl *ctl, struct bench *bench, const char *config)
{
    struct err err = ERR_INIT;
    int code = add_connector(bench, config);
    if (code == CTL_DONE && (open_stores(bench, &err) != 0 ||
                                bench_measure(bench, say, ctl, &err) != 0))
        code = ctl_fail_err(&err);
    close_stores(bench);
    if (code == CTL_DONE)
        code = verify(ctl, config);
    if (code == CTL_DONE)
        bench_report(bench, ctl->is_json);
    if (code == CTL_DONE && bench->saved.len > 0)
        bench_compare(bench, &bench->saved);
    return code;
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
    if (code == CTL_DONE && bench->plan.hooks_rate > 0)
        code = bench_webhooks(ctl, bench, config);
    else if (code == CTL_DONE)
        code = measure_pipeline(ctl, bench, config);
    close_stores(bench);
    conf_free(bench->ctl.conf);
    free(config);
    return code;
}

static int read_number(const char *option, const char *text, int64_t least,
    int64_t most, int64_t *number)
{
    if (text == NULL)
        return CTL_DONE;
    if (!span_to_int(span_of(text), number) || *number < least ||
        *number > most)
        return ctl_fail(CTL_USAGE, "%s takes a number from %lld to %lld",
            option, (long long)least, (long long)most);
    return CTL_DONE;
}

/* Marks the name that was asked for, or all; false: there is no such name. */
static bool choose(
    const char *asked, const char *const *names, size_t count, bool *chosen)
{
    bool has_any = false;
    for (size_t i = 0; i < count; i++) {
        chosen[i] = asked == NULL || strcmp(asked, names[i]) == 0;
        has_any = has_any || chosen[i];
    }
    return has_any;
}

static int read_conditions(const struct ask *ask, struct bench_plan *plan)
{
    int code = read_number(
        "--processes", ask->processes, 1, BENCH_MAX_WORKERS, &plan->processes);
    if (code == CTL_DONE)
        code = read_number("--held", ask->held, 1, 3600, &plan->held_s);
    if (code == CTL_DONE)
        code = read_number(
            "--waiting", ask->waiting, 1, MAX_RECORDS, &plan->waiting);
    if (code == CTL_DONE)
        code = read_number("--due", ask->due, 1, MAX_RECORDS, &plan->due);
    if (code == CTL_DONE && plan->waiting + plan->due > 0 && ask->dir != NULL)
        return ctl_fail(CTL_USAGE,
            "--waiting and --due fill the tables of a new fleet, not of --dir");
    return code;
}

static int read_plan(const struct ask *ask, struct bench_plan *plan)
{
    *plan = (struct bench_plan){
        .records = ask->is_quick ? 5000 : 100000,
        .half_s = ask->is_quick ? 1 : 10,
        .low_s = ask->is_quick ? 1 : 10,
        .settle_ms = ask->is_quick ? QUICK_SETTLE_MS : SETTLE_MS,
        .idle_s = ask->is_quick ? 1 : 10,
        .profile = ask->profile,
    };
    int code = read_number(
        "--records", ask->records, 100, MAX_RECORDS, &plan->records);
    if (code == CTL_DONE)
        code = read_number("--rate", ask->rate, 1, MAX_RATE, &plan->rate);
    if (code == CTL_DONE)
        code = read_conditions(ask, plan);
    if (code != CTL_DONE)
        return code;
    plan->floor_records = plan->records * FLOOR_PER_RECORD;
    if (!choose(ask->kind, KIND_NAMES, BENCH_KIND_COUNT, plan->has_kind))
        return ctl_fail(CTL_USAGE, "--kind takes echo, http or unsafe");
    if (!choose(ask->phase, PHASE_NAMES, BENCH_PHASE_COUNT, plan->has_phase))
        return ctl_fail(
            CTL_USAGE, "--phase takes floor, saturation, half, low or idle");
    if (plan->has_phase[BENCH_HALF] && !plan->has_phase[BENCH_SATURATION] &&
        plan->rate == 0)
        return ctl_fail(
            CTL_USAGE, "--phase half needs --rate: nothing says what is half");
    if (plan->profile != NULL && !plan->has_phase[BENCH_SATURATION])
        return ctl_fail(CTL_USAGE, "--profile needs the phase saturation");
    return CTL_DONE;
}

static int read_hooks_plan(const struct ask *ask, struct bench_plan *plan)
{
    *plan = (struct bench_plan){
        .hooks_rate = ask->is_quick ? 200 : 2000,
        .hooks_s = ask->is_quick ? 1 : 10,
        .hooks_slow = ask->is_quick ? 500 : 10000,
    };
    if (ask->records != NULL || ask->kind != NULL || ask->phase != NULL ||
        ask->profile != NULL || ask->processes != NULL || ask->held != NULL ||
        ask->waiting != NULL || ask->compare != NULL || ask->due != NULL)
        return ctl_fail(CTL_USAGE,
            "bench webhooks takes --rate, --slow, --quick and --dir");
    const int code =
        read_number("--rate", ask->rate, 1, MAX_RATE, &plan->hooks_rate);
    return code != CTL_DONE
               ? code
               : read_number("--slow", ask->slow, 0, 100000, &plan->hooks_slow);
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

/* Before anything is started: a whole run for nothing is annoying. */
static int open_profile(struct bench *bench)
{
    struct err err = ERR_INIT;
    if (bench->plan.profile == NULL)
        return CTL_DONE;
    if (bench_profile_check(bench, &err) != 0)
        return ctl_fail(CTL_FAILED, "%s", err.msg);
    bench->profile = fopen(bench->plan.profile, "we");
    if (bench->profile == NULL)
        return ctl_fail(
            CTL_FAILED, "%s: %s", bench->plan.profile, strerror(errno));
    return CTL_DONE;
}

static int close_profile(struct bench *bench, int code)
{
    if (bench->profile == NULL || fclose(bench->profile) == 0)
        return code;
    return ctl_fail(CTL_FAILED, "%s: %s", bench->plan.profile, strerror(errno));
}

static int read_saved(struct bench *bench, const struct ask *ask, bool is_json)
{
    struct err err = ERR_INIT;
    buf_init(&bench->saved, 1);
    if (ask->compare == NULL)
        return CTL_DONE;
    if (is_json)
        return ctl_fail(CTL_USAGE, "--compare is for people, --json is not");
    buf_fini(&bench->saved);
    return bench_saved_read(ask->compare, &bench->saved, &err) == 0
               ? CTL_DONE
               : ctl_fail(CTL_FAILED, "%s", err.msg);
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
        {"phase", "P", "floor, saturation, half, low or idle alone", &ask.phase,
            NULL},
        {"rate", "N",
            "requests/s of the phase half, in place of half; webhooks: "
            "deliveries/s (2000)",
            &ask.rate, NULL},
        {"slow", "N", "webhooks: slow connections beside them (10000)",
            &ask.slow, NULL},
        {"processes", "N", "saturate again with 2, 4, 8 workers, N at most",
            &ask.processes, NULL},
        {"held", "S",
            "... with a REPEATABLE READ transaction, held so many seconds",
            &ask.held, NULL},
        {"waiting", "N", "... with so many retries that wait", &ask.waiting,
            NULL},
        {"due", "N", "how late N retries begin that fall due at 1,000 a second",
            &ask.due, NULL},
        {"compare", "F", "show what --json has saved in F beside this run",
            &ask.compare, NULL},
        {"profile", "F",
            "write where the time at saturation goes, as folded stacks "
            "(needs perf)",
            &ask.profile, NULL},
        {"dir", "D", "a fleet of `dev up`, which goes on; else a new one",
            &ask.dir, NULL},
    };
    const char *rest[1] = {NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_BENCH, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    const bool is_hooks = rest[0] != NULL && strcmp(rest[0], "webhooks") == 0;
    if (rest[0] != NULL && !is_hooks && strcmp(rest[0], "pipeline") != 0)
        return ctl_fail(
            CTL_USAGE, "bench knows pipeline and webhooks, not '%s'", rest[0]);
    bench.ctl.is_json = false;
    bench.ctl.is_terminal = ctl->is_terminal;
    snprintf(bench.run, sizeof bench.run, "%08x",
        (unsigned)(random_u64() & UINT32_MAX));
    code = is_hooks ? read_hooks_plan(&ask, &bench.plan)
                    : read_plan(&ask, &bench.plan);
    if (code == CTL_DONE)
        code = read_saved(&bench, &ask, ctl->is_json);
    if (code == CTL_DONE)
        code = open_profile(&bench);
    if (code == CTL_DONE)
        code = bench_in(ctl, &bench, ask.dir);
    buf_fini(&bench.saved);
    return close_profile(&bench, code);
}

const struct command COMMAND_BENCH = {
    .name = "bench",
    .arguments = "[pipeline|webhooks]",
    .summary = "Measure the fleet against a floor that keeps nothing",
    .details =
        "In one run on one machine: the floor, then requests of each kind at\n"
        "saturation, at half of that and at 50 a second; what each process\n"
        "costs an action; the idle fleet. Checks that each request had "
        "exactly\n"
        "one outcome. Ratios need --phase left out. How to read the figures: "
        "tests/bench/README.md.\n\n"
        "webhooks: signed deliveries at a fixed rate, from the moment each is "
        "due to\nits answer, alone and beside slow connections; then each must "
        "be stored.",
    .run = run,
};
