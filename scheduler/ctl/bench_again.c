/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saturation once more under conditions that must not slow the fleet: more
 * workers, a snapshot that somebody holds, a crowd of waiting retries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/bench_again.h"
#include "scheduler/ctl/dev_process.h"

enum { MAX_WORDS = 5, ROWS_AT_ONCE = 50000, STOP_WAIT_MS = 15000 };
#define PRESENT_WAIT_US (60 * US_PER_S)

static int run_sql(PGconn *conn, const char *sql, struct err *err)
{
    PGresult *result = PQexec(conn, sql);
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return 0;
    return err_set(err, ERR_PERMANENT, "PG_FAILED", "%s", PQerrorMessage(conn));
}

/* Each kind of the plan; rates go to again[...][which]. */
static int saturate_all(
    struct bench *bench, enum bench_condition which, struct err *err)
{
    for (size_t i = 0; i < BENCH_KIND_COUNT; i++) {
        struct bench_figures *figures = &bench->kinds[i];
        if (bench->plan.has_kind[i] && bench_saturate(bench, (enum bench_kind)i,
                                           &figures->again[which], err) != 0)
            return -1;
    }
    return 0;
}

/* -- more workers ------------------------------------------------------------- */

static char *worker_file(
    const struct bench *bench, const char *where, int no, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, "%sworker-%d%s", where, no, suffix);
    return dev_file(&bench->fleet, name);
}

static int start_worker(const struct bench *bench, int no, struct err *err)
{
    char set[] = "--set";
    char port[] = "http.listen=127.0.0.1:0";
    char config[] = "--config";
    struct buf program;
    buf_init(&program, 4096);
    buf_printf(&program, "%s/actionist-worker", bench->fleet.bin);
    char *conf = dev_file(&bench->fleet, "worker.conf");
    char *log = worker_file(bench, "log/", no, ".log");
    char *pid_file = worker_file(bench, "", no, ".pid");
    char *argv[MAX_WORDS + 1] = {program.data, config, conf, set, port, NULL};
    (void)buf_str(&program);
    const int rc = dev_spawn(argv, bench->fleet.dir, log, pid_file, err);
    buf_fini(&program);
    free(conf);
    free(log);
    free(pid_file);
    return rc;
}

static void stop_workers(const struct bench *bench)
{
    for (int no = 2; no <= BENCH_MAX_WORKERS; no++) {
        char *pid_file = worker_file(bench, "", no, ".pid");
        if (dev_pid(pid_file) != 0)
            dev_stop(pid_file, STOP_WAIT_MS);
        free(pid_file);
    }
}

static int await_workers(struct bench *bench, int count, struct err *err)
{
    static const struct pg_statement present = {.name = "present",
        .sql = "select count(*) from worker where state = 1"
               " and lease_until > fleet_now()"};
    const int64_t until_us = now_mono_us() + PRESENT_WAIT_US;
    int64_t seen = 0;
    while (bench_read_number(bench->conn, &present, &seen, err) == 0) {
        if (seen >= count)
            return 0;
        if (dev_is_interrupted() || now_mono_us() > until_us)
            return err_set(err, ERR_TRANSIENT, "NOT_READY",
                "%d of %d workers are there", (int)seen, count);
        bench_pause(50);
    }
    return -1;
}

static int grow(struct bench *bench, struct err *err)
{
    int running = 1;
    for (size_t i = 0; i < BENCH_GROWTH; i++) {
        const int wanted = 2 << i;
        if (wanted > bench->plan.processes)
            break;
        while (running < wanted)
            if (start_worker(bench, ++running, err) != 0)
                return -1;
        if (await_workers(bench, wanted, err) != 0 ||
            saturate_all(bench,
                (enum bench_condition)(BENCH_TWO_WORKERS + (int)i), err) != 0)
            return -1;
    }
    return 0;
}

/* -- a snapshot that is held ------------------------------------------------------ */

/* Dead rows gather for as long as was asked for, under load; then it counts. */
static int saturate_held(struct bench *bench, struct err *err)
{
    const int64_t until_us = now_mono_us() + bench->plan.held_s * US_PER_S;
    do {
        if (saturate_all(bench, BENCH_HELD, err) != 0)
            return -1;
    } while (now_mono_us() < until_us);
    return 0;
}

static int hold(struct bench *bench, struct err *err)
{
    PGconn *other =
        pg_connect_blocking(conf_text(bench->ctl.conf, "postgres.owner"),
            "actionist bench held", err);
    if (other == NULL)
        return -1;
    int rc = run_sql(other,
        "begin isolation level repeatable read;"
        "set local idle_in_transaction_session_timeout = 0;"
        "select count(*) from live",
        err);
    if (rc == 0)
        rc = saturate_held(bench, err);
    /* If it was ended by the server, nothing was held. */
    if (rc == 0)
        rc = run_sql(other, "select count(*) from live; rollback", err);
    PQfinish(other);
    return rc;
}

/* -- retries that wait --------------------------------------------------------------- */

static void put_rows(struct buf *sql, const struct bench *bench,
    const char *mark, int64_t first, int64_t last, const char *due)
{
    buf_printf(sql,
        "with made as (insert into action (id, window_no, tenant, connector,"
        " action, fingerprint, manifest, source, request, effect)"
        " select md5('%s%s' || g)::uuid,"
        " (select max(number) from action_window),"
        " 'bench-wait', 'bench', 'echo', decode(repeat('00', 33), 'hex'),"
        " (select digest from connector where name = 'bench'"
        "  order by number desc limit 1), 'bench:0:' || g,"
        " convert_to('{\"spec\":\"actionist/1\",\"tenant\":\"bench-wait\","
        "\"connector\":\"bench\",\"action\":\"echo\","
        "\"idempotency_key\":\"%s-%s-' || g || '\"}', 'UTF8'), 1"
        " from generate_series(%lld, %lld) g)"
        " insert into waiting (id, window_no, tenant, attempt_no, reason, due,"
        " effect, calls) select md5('%s%s' || g)::uuid,"
        " (select max(number) from action_window), 'bench-wait', 1, 1, %s, 1, 1"
        " from generate_series(%lld, %lld) g",
        bench->run, mark, bench->run, mark, (long long)first, (long long)last,
        bench->run, mark, due, (long long)first, (long long)last);
}

int bench_fill_waiting(struct bench *bench, const char *mark, int64_t count,
    const char *due, struct err *err)
{
    struct buf sql;
    int rc = 0;
    buf_init(&sql, 4096);
    for (int64_t done = 0; rc == 0 && done < count; done += ROWS_AT_ONCE) {
        const int64_t left = count - done;
        buf_clear(&sql);
        put_rows(&sql, bench, mark, done + 1,
            done + (left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE), due);
        rc = run_sql(bench->conn, buf_str(&sql), err);
        if (rc == 0 && dev_is_interrupted())
            rc = err_set(err, ERR_PERMANENT, "INTERRUPTED", "interrupted");
    }
    buf_fini(&sql);
    return rc;
}

static int saturate_beside_waiting(struct bench *bench, struct err *err)
{
    if (bench_fill_waiting(bench, "wait", bench->plan.waiting,
            "fleet_now() + interval '1 day' + random() * interval '1 day'",
            err) != 0 ||
        run_sql(bench->conn, "analyze waiting", err) != 0)
        return -1;
    return saturate_all(bench, BENCH_WAITING, err);
}

/* -- all of them ------------------------------------------------------------------------ */

int bench_again(struct bench *bench, void (*say)(void *arg, const char *what),
    void *arg, struct err *err)
{
    const struct bench_plan *plan = &bench->plan;
    int rc = 0;
    if (plan->processes > 1) {
        say(arg, "workers");
        rc = grow(bench, err);
        stop_workers(bench);
    }
    if (rc == 0 && plan->held_s > 0) {
        say(arg, "held snapshot");
        rc = hold(bench, err);
    }
    if (rc == 0 && plan->waiting > 0) {
        say(arg, "waiting retries");
        rc = saturate_beside_waiting(bench, err);
    }
    if (rc == 0 && plan->due > 0) {
        say(arg, "due retries");
        rc = bench_due(bench, err);
    }
    return rc;
}
