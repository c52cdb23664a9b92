/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain: lets workers finish what they run and take no more, until --undo. The
 * truth is a row; the command waits until the workers are through.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/signal.h"
#include "schema/sql_ctl.h"

#define POLL_US 50000
#define SIGNAL_EVERY_US (2 * US_PER_S)
enum { MAX_TEXT = 500, DEFAULT_TIMEOUT_S = 60, MAX_TIMEOUT_S = 3600 };

static const char *const COLUMNS[] = {"worker", "state"};
static const char *const LIST_COLUMNS[] = {"worker", "boot_id", "state",
    "running_count", "started_at", "actor", "reason"};

struct wish {
    const char *worker; /* "": all */
    const char *reason;
    int64_t timeout_s;
};

static void print_state(
    const struct ctl *ctl, const struct wish *wish, const char *state)
{
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    ctl_table_add(
        table, (const char *[]){
                   wish->worker[0] != '\0' ? wish->worker : "all", state});
    ctl_table_end(table);
}

/* -- what there is ---------------------------------------------------------------- */

static char *copy_cell(const PGresult *rows, int row, int column)
{
    return pg_is_null(rows, row, column)
               ? NULL
               : span_dup(pg_get_bytes(rows, row, column));
}

static void add_worker(struct ctl_table *table, const PGresult *rows, int row)
{
    char started[TIME_TEXT_SIZE] = "";
    char count[24];
    char *name = copy_cell(rows, row, 0);
    char *boot = copy_cell(rows, row, 1);
    char *reason = copy_cell(rows, row, 4);
    char *actor = copy_cell(rows, row, 5);
    const char *state = boot == NULL     ? "drained"
                        : reason != NULL ? "draining"
                                         : "working";
    if (!pg_is_null(rows, row, 2))
        time_format_rfc3339(pg_get_time(rows, row, 2), started);
    snprintf(count, sizeof count, "%lld", (long long)pg_get_int(rows, row, 3));
    ctl_table_add(
        table, (const char *[]){name != NULL && name[0] != '\0' ? name : "all",
                   boot, state, count, started, actor, reason});
    free(name);
    free(boot);
    free(reason);
    free(actor);
}

static int list(struct ctl *ctl)
{
    int code = CTL_DONE;
    struct pg_params params;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    pg_params_init(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_WORKERS, &params, &code);
    struct ctl_table *table =
        ctl_table_new(ctl, LIST_COLUMNS, ARRAY_LEN(LIST_COLUMNS));
    for (int row = 0; row < (rows != NULL ? pg_rows(rows) : 0); row++)
        add_worker(table, rows, row);
    ctl_table_end(table);
    PQclear(rows);
    pg_params_fini(&params);
    PQfinish(conn);
    return code;
}

/* -- doing it ------------------------------------------------------------------------ */

/* Workers that live and are meant; what they have in hand. */
static int count_left(
    PGconn *conn, const struct wish *wish, int64_t *workers, int64_t *actions)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(wish->worker));
    PGresult *rows = ctl_query(conn, SQL_CTL_DRAIN_LEFT, &params, &code);
    if (rows != NULL) {
        *workers = pg_get_int(rows, 0, 0);
        *actions = pg_get_int(rows, 0, 1);
    }
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

static int wait_through(struct ctl *ctl, PGconn *conn, const struct wish *wish)
{
    int64_t workers = 1;
    int64_t actions = 0;
    int64_t told_us = 0;
    const int64_t end_us = now_mono_us() + wish->timeout_s * US_PER_S;
    for (;;) {
        const int code = count_left(conn, wish, &workers, &actions);
        if (code != CTL_DONE)
            return code;
        if (workers == 0 || now_mono_us() >= end_us)
            break;
        /* One that was starting may have missed the first. */
        if (now_mono_us() - told_us > SIGNAL_EVERY_US) {
            ctl_signal(ctl, "drain", wish->worker);
            told_us = now_mono_us();
            if (ctl->is_terminal && !ctl->is_json)
                fprintf(stderr, "%lld workers finish %lld actions\n",
                    (long long)workers, (long long)actions);
        }
        usleep(POLL_US);
    }
    if (workers > 0)
        return ctl_fail(CTL_TRY_LATER,
            "%lld workers still have %lld actions in hand; they go on to "
            "drain",
            (long long)workers, (long long)actions);
    print_state(ctl, wish, "drained");
    return CTL_DONE;
}

static int drain(struct ctl *ctl, PGconn *conn, const struct wish *wish)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(wish->worker));
    pg_param_text(&params, span_of(wish->reason));
    ctl_put_actor(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_DRAIN, &params, &code);
    PQclear(rows);
    pg_params_fini(&params);
    return code == CTL_DONE ? wait_through(ctl, conn, wish) : code;
}

static int undo(struct ctl *ctl, PGconn *conn, const struct wish *wish)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(wish->worker));
    if (wish->reason != NULL)
        pg_param_text(&params, span_of(wish->reason));
    else
        pg_param_null(&params);
    ctl_put_actor(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_DRAIN_LIFT, &params, &code);
    if (rows != NULL && pg_rows(rows) == 0)
        code = ctl_fail(CTL_NOT_FOUND,
            "nothing of that name is drained; `actionist drain` lists");
    else if (rows != NULL)
        print_state(ctl, wish, "works again");
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

/* -- the command ------------------------------------------------------------------------ */

struct words {
    const char *worker;
    const char *timeout;
    bool is_all;
    bool is_undo;
};

static int parse(const struct words *words, struct wish *wish)
{
    if (words->is_all == (words->worker != NULL))
        return ctl_fail(CTL_USAGE, "which worker? Name one, or --all");
    if (!words->is_undo && wish->reason == NULL)
        return ctl_fail(CTL_USAGE, "--reason is required");
    if (wish->reason != NULL &&
        (wish->reason[0] == '\0' || strlen(wish->reason) > MAX_TEXT))
        return ctl_fail(
            CTL_USAGE, "--reason takes 1 to %d bytes of text", MAX_TEXT);
    if (words->timeout != NULL &&
        (!span_to_int(span_of(words->timeout), &wish->timeout_s) ||
            wish->timeout_s < 0 || wish->timeout_s > MAX_TIMEOUT_S))
        return ctl_fail(CTL_USAGE, "--timeout takes 0 to %d", MAX_TIMEOUT_S);
    wish->worker = words->is_all ? "" : words->worker;
    return CTL_DONE;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct wish wish = {.timeout_s = DEFAULT_TIMEOUT_S};
    struct words words = {.is_all = false};
    const struct ctl_option options[] = {
        {"all", NULL, "all workers, also those that start later", NULL,
            &words.is_all},
        {"reason", "TEXT", "why; kept in the ledger", &wish.reason, NULL},
        {"undo", NULL, "let them work again", NULL, &words.is_undo},
        {"timeout", "S", "how long to wait for them, 60 by default",
            &words.timeout, NULL},
    };
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_DRAIN, options, ARRAY_LEN(options), argc,
            argv, &words.worker, 1, &code) < 0)
        return code;
    if (words.worker == NULL && !words.is_all && !words.is_undo &&
        wish.reason == NULL)
        return list(ctl);
    code = parse(&words, &wish);
    if (code != CTL_DONE)
        return code;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    code = words.is_undo ? undo(ctl, conn, &wish) : drain(ctl, conn, &wish);
    PQfinish(conn);
    return code;
}

const struct command COMMAND_DRAIN = {
    .name = "drain",
    .arguments = "[WORKER]",
    .summary = "Let workers finish and take no more, or list the workers",
    .details =
        "By the name that workers have in the list: worker.name, or the name "
        "of their host.\nWhat runs may end within worker.drain_s, what has not "
        "begun goes to others; the\nprocess stays and stands by until --undo. "
        "Exit code 75 if they are not through yet.",
    .run = run,
};
