/* SPDX-License-Identifier: Apache-2.0 */
/* top: a live look at rates, queues, the oldest work and the workers. */
#include "scheduler/ctl/top.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "schema/sql_ctl.h"

enum { DEFAULT_EVERY_S = 1, MAX_EVERY_S = 3600, MS_PER_SECOND = 1000 };

/* ECMA-48 and DEC private modes, as every terminal has them. An error stays
 * readable, since this is the usual screen. */
static const char HIDE_CURSOR[] = "\033[?25l";
static const char SHOW_CURSOR[] = "\033[?25h";
static const char CLEAR_SCREEN[] = "\033[H\033[2J";

static volatile sig_atomic_t has_stopped;

static void on_stop(int number)
{
    (void)number;
    has_stopped = 1;
}

/* Without SA_RESTART, so that a wait ends at once. */
static void catch_stop(void)
{
    struct sigaction action = {.sa_handler = on_stop};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

/* -- looking --------------------------------------------------------------- */

void top_look_fini(struct top_look *look)
{
    PQclear(look->workers);
    PQclear(look->tenants);
    *look = (struct top_look){0};
}

static void read_totals(struct top_look *look, const PGresult *row)
{
    look->at_us = pg_get_time(row, 0, TOP_AT);
    look->seq = pg_get_int(row, 0, TOP_SEQ);
    look->running = pg_get_int(row, 0, TOP_RUNNING);
    look->untaken = pg_get_int(row, 0, TOP_UNTAKEN);
    look->waiting = pg_get_int(row, 0, TOP_WAITING);
    look->overdue = pg_get_int(row, 0, TOP_OVERDUE);
    look->oldest_us = pg_get_int(row, 0, TOP_OLDEST_US);
    look->latest_us = pg_get_int(row, 0, TOP_LATEST_US);
}

static void read_rates(
    struct top_look *look, const struct top_look *before, const PGresult *rows)
{
    const double seconds =
        (double)(look->at_us - before->at_us) / (double)US_PER_S;
    for (int row = 0; row < pg_rows(rows) && seconds > 0.0; row++) {
        const int64_t status = pg_get_int(rows, row, 0);
        if (status > 0 && status < TOP_STATUSES) {
            look->per_s[status] = (double)pg_get_int(rows, row, 1) / seconds;
        }
    }
}

/* Exit code; an error was printed. before->at_us 0: there is none, so no rate
 * is asked for. */
static int take_look(
    PGconn *conn, const struct top_look *before, struct top_look *look)
{
    int code = CTL_DONE;
    struct pg_params params;
    *look = (struct top_look){0};
    pg_params_init(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_TOP_TOTALS, &params, &code);
    if (rows != NULL) {
        read_totals(look, rows);
    }
    PQclear(rows);
    if (code == CTL_DONE && before->at_us != 0) {
        pg_param_int8(&params, before->seq);
        rows = ctl_query(conn, SQL_CTL_TOP_ENDED, &params, &code);
        if (rows != NULL) {
            read_rates(look, before, rows);
        }
        PQclear(rows);
        pg_params_clear(&params);
    }
    if (code == CTL_DONE) {
        look->workers = ctl_query(conn, SQL_CTL_WORKERS, &params, &code);
    }
    if (code == CTL_DONE) {
        pg_param_int4(&params, TOP_TENANTS);
        look->tenants = ctl_query(conn, SQL_CTL_TOP_TENANTS, &params, &code);
    }
    pg_params_fini(&params);
    return code;
}

/* -- showing --------------------------------------------------------------- */

static void show(
    const struct ctl *ctl, const struct top_look *look, bool is_screen)
{
    if (ctl->is_json) {
        top_show_json(look);
    } else {
        if (is_screen) {
            fputs(CLEAR_SCREEN, stdout);
        }
        top_show_tables(ctl, look);
        if (is_screen) {
            puts("\nCtrl-C ends this.");
        }
    }
    (void)fflush(stdout);
}

/* A rate needs two looks, so the first is not shown. */
static int run_looks(
    const struct ctl *ctl, PGconn *conn, int64_t every_s, bool is_once)
{
    const bool is_screen = ctl->is_terminal && !ctl->is_json && !is_once;
    struct top_look before = {0};
    struct top_look look = {0};
    int code = take_look(conn, &before, &before);
    if (is_screen && code == CTL_DONE) {
        fputs(HIDE_CURSOR, stdout);
    }
    bool is_first = true;
    while (code == CTL_DONE && !has_stopped && (is_first || !is_once)) {
        (void)poll(NULL, 0, (int)((is_first ? 1 : every_s) * MS_PER_SECOND));
        if (has_stopped) {
            break;
        }
        is_first = false;
        code = take_look(conn, &before, &look);
        if (code == CTL_DONE) {
            show(ctl, &look, is_screen);
        }
        top_look_fini(&before);
        before = look;
    }
    top_look_fini(&before);
    if (is_screen) {
        fputs(SHOW_CURSOR, stdout);
    }
    return code;
}

/* -- the command ----------------------------------------------------------- */

static int run(struct ctl *ctl, int argc, char **argv)
{
    const char *every_text = NULL;
    bool is_once = false;
    int64_t every_s = DEFAULT_EVERY_S;
    const struct ctl_option options[] = {
        {"every", "S", "seconds between two looks (1)", &every_text, NULL},
        {"once", NULL, "one look, without a screen", NULL, &is_once},
    };
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_TOP, options, ARRAY_LEN(options), argc, argv,
            NULL, 0, &code) < 0) {
        return code;
    }
    if (every_text != NULL && (!span_to_int(span_of(every_text), &every_s) ||
                                  every_s < 1 || every_s > MAX_EVERY_S)) {
        return ctl_fail(CTL_USAGE, "--every takes 1 to 3600 seconds");
    }
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL) {
        return code;
    }
    catch_stop();
    code = run_looks(
        ctl, conn, every_s, is_once || (!ctl->is_terminal && !ctl->is_json));
    PQfinish(conn);
    return code;
}

const struct command COMMAND_TOP = {
    .name = "top",
    .arguments = "",
    .summary = "Watch rates, queues, the oldest work and the workers",
    .details =
        "On a terminal a screen that renews itself until Ctrl-C; elsewhere one "
        "look. With --json\none object a look. Queues are counted up to "
        "100000.",
    .run = run,
};
