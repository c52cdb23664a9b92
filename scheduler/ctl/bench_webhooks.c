/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench webhooks: how long senders wait for their answer, alone and beside
 * thousands of connections that never end their requests; and whether each
 * delivery that was answered can be looked up afterwards.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/time.h"
#include "scheduler/ctl/bench_hooks.h"
#include "scheduler/ctl/dev_process.h"

#define TENANT "bench"
#define STORED_WAIT_US (120 * US_PER_S)
enum { SPARE_FILES = 500, WARM_S = 5, LOOK_US = 100000 };

struct measured {
    struct hooks_figures warm; /* before anything counts */
    struct hooks_figures alone;
    struct hooks_figures beside;
    size_t slow;
    size_t held; /* of the slow ones, in the end */
};

/* -- the source -------------------------------------------------------------------- */

static int add_source(
    const struct bench *bench, const char *config, const char *source)
{
    int code = CTL_FAILED;
    char *path = dev_file(&bench->fleet, "bench-secret");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool is_written = file != NULL && fputs(HOOKS_SECRET, file) >= 0;
    if (file != NULL && fclose(file) != 0)
        is_written = false;
    if (is_written)
        code = bench_run_self(
            (const char *const[]){"webhook", "source", "add", source,
                "--tenant", TENANT, "--scheme", "github", "--secret-file", path,
                "--rate", "100000", "--config", config},
            14);
    else
        ctl_fail(CTL_FAILED, "%s cannot be written", path);
    free(path);
    return code;
}

/* -- measuring --------------------------------------------------------------------- */

/* Of both ends of each slow connection this process has one. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* the next check tells */
    }
}

static int check_descriptors(size_t slow, struct err *err)
{
    struct rlimit limit = {.rlim_cur = 0};
    raise_descriptor_limit();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < slow + HOOKS_SENDERS + SPARE_FILES)
        return err_set(err, ERR_PERMANENT, "LIMIT",
            "%zu slow connections need more open files than `ulimit -Hn` "
            "allows (%llu): raise it, or give --slow",
            slow, (unsigned long long)limit.rlim_cur);
    return 0;
}

static int measure(const struct bench *bench, const struct hooks_target *target,
    struct measured *measured, struct err *err)
{
    const struct bench_plan *plan = &bench->plan;
    int64_t number = 0;
    /* The broker compiles what it runs in its first seconds. */
    const int64_t warm_s = plan->hooks_s < WARM_S ? plan->hooks_s : WARM_S;
    if (hooks_send(target, plan->hooks_rate, warm_s, &number, &measured->warm,
            err) != 0 ||
        hooks_send(target, plan->hooks_rate, plan->hooks_s, &number,
            &measured->alone, err) != 0)
        return -1;
    measured->slow = (size_t)plan->hooks_slow;
    if (measured->slow == 0)
        return 0;
    struct hooks_slow *slow = hooks_slow_open(target, measured->slow, err);
    if (slow == NULL)
        return -1;
    int rc = hooks_send(target, plan->hooks_rate, plan->hooks_s, &number,
        &measured->beside, err);
    measured->held = hooks_slow_held(slow);
    hooks_slow_close(slow);
    return rc;
}

static int count_stored(
    struct bench *bench, const char *source, int64_t *count, struct err *err)
{
    const char *const values[] = {TENANT, source};
    PGresult *rows = PQexecParams(bench->conn,
        "select count(distinct id)::text from actionist.webhook"
        " where tenant = $1 and source = $2",
        2, NULL, values, NULL, NULL, 0);
    int rc = 0;
    if (PQresultStatus(rows) != PGRES_TUPLES_OK ||
        !span_to_int(span_of(PQgetvalue(rows, 0, 0)), count))
        rc = err_set(
            err, ERR_TRANSIENT, "POSTGRES", "%s", PQerrorMessage(bench->conn));
    PQclear(rows);
    return rc;
}

/* What was answered is there: nothing was lost on the way. */
static int wait_stored(
    struct bench *bench, const char *source, int64_t wanted, struct err *err)
{
    const int64_t end_us = now_mono_us() + STORED_WAIT_US;
    int64_t count = 0;
    while (count < wanted) {
        if (count_stored(bench, source, &count, err) != 0)
            return -1;
        if (count < wanted && (now_mono_us() > end_us || dev_is_interrupted()))
            return err_set(err, ERR_PERMANENT, "LOST",
                "%" PRId64 " of %" PRId64 " answered deliveries are stored",
                count, wanted);
        if (count < wanted)
            (void)usleep(LOOK_US);
    }
    return 0;
}

/* -- the figures ------------------------------------------------------------------- */

static void put_figures(struct buf *out, const struct hooks_figures *figures)
{
    buf_printf(out,
        "\"deliveries\":%" PRId64 ",\"rate\":%.1f,\"p50_ms\":%.3f,"
        "\"p99_ms\":%.3f,\"p999_ms\":%.3f",
        figures->taken, figures->rate, figures->latency.p50_ms,
        figures->latency.p99_ms, figures->latency.p999_ms);
}

static void report_json(const struct measured *measured)
{
    struct buf out;
    buf_init(&out, 4096);
    buf_put_str(&out, "{\"bench\":\"webhooks\",");
    put_figures(&out, &measured->alone);
    if (measured->slow > 0) {
        buf_printf(&out, ",\"slow\":{\"connections\":%zu,\"held\":%zu,",
            measured->slow, measured->held);
        put_figures(&out, &measured->beside);
        buf_put_char(&out, '}');
    }
    buf_put_char(&out, '}');
    puts(buf_str(&out));
    buf_fini(&out);
}

static void report(struct ctl *ctl, const struct measured *measured)
{
    static const char *const columns[] = {
        "beside", "deliveries", "rate", "p50_ms", "p99_ms", "p999_ms"};
    const struct hooks_figures *rows[] = {&measured->alone, &measured->beside};
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < (measured->slow > 0 ? 2U : 1U); i++) {
        char cells[6][320]; /* a double may be long */
        snprintf(cells[0], sizeof cells[0], "%zu slow ones",
            i == 0 ? (size_t)0 : measured->held);
        snprintf(cells[1], sizeof cells[1], "%" PRId64, rows[i]->taken);
        snprintf(cells[2], sizeof cells[2], "%.0f", rows[i]->rate);
        snprintf(cells[3], sizeof cells[3], "%.2f", rows[i]->latency.p50_ms);
        snprintf(cells[4], sizeof cells[4], "%.2f", rows[i]->latency.p99_ms);
        snprintf(cells[5], sizeof cells[5], "%.2f", rows[i]->latency.p999_ms);
        ctl_table_add(table, (const char *[]){cells[0], cells[1], cells[2],
                                 cells[3], cells[4], cells[5]});
    }
    ctl_table_end(table);
}

int bench_webhooks(struct ctl *ctl, struct bench *bench, const char *config)
{
    struct err err = ERR_INIT;
    struct measured measured = {.slow = 0};
    char source[64];
    char path[128];
    snprintf(source, sizeof source, "bench-%s", bench->run);
    snprintf(path, sizeof path, "/hooks/" TENANT "/%s", source);
    const struct hooks_target target = {
        .port = bench->fleet.ports[DEV_PRODUCER],
        .path = path,
        .run = bench->run};
    if (check_descriptors((size_t)bench->plan.hooks_slow, &err) != 0)
        return ctl_fail_err(&err);
    if (add_source(bench, config, source) != CTL_DONE)
        return CTL_FAILED;
    bench->conn = pg_connect_blocking(
        conf_text(bench->ctl.conf, "postgres.owner"), "actionist bench", &err);
    if (bench->conn == NULL || measure(bench, &target, &measured, &err) != 0 ||
        wait_stored(bench, source,
            measured.warm.taken + measured.alone.taken + measured.beside.taken,
            &err) != 0)
        return ctl_fail_err(&err);
    if (ctl->is_json)
        report_json(&measured);
    else
        report(ctl, &measured);
    return CTL_DONE;
}
