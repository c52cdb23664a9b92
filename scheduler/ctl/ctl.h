/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl: what every subcommand of `actionist` shares: settings, connections,
 * option tables, output for people and for machines, exit codes.
 *
 * One file a subcommand; each exports one struct command, listed in main.c.
 * Everything here may block: the command is no daemon.
 */
#ifndef CTL_H
#define CTL_H

#include <stdbool.h>
#include <stdio.h>

#include "common/conf.h"
#include "common/pg.h"

/* CONTRACTS, "Ops command". */
enum ctl_exit {
    CTL_DONE = 0,
    CTL_FAILED = 1,
    CTL_USAGE = 2,
    CTL_NOT_FOUND = 3,
    CTL_NEGATIVE = 4,
    CTL_CONFLICT = 5,
    CTL_TRY_LATER = 75
};

struct command;
struct ctl_option;

/* Gets what --help would print. All is borrowed for the time of the call. */
typedef void ctl_help_fn(void *owner, const struct command *command,
    const struct ctl_option *options, size_t option_count);

struct ctl {
    struct conf *conf;
    bool is_json;     /* --json: one document or NDJSON on standard output */
    bool is_terminal; /* standard output is one */
    ctl_help_fn *on_help; /* instead of printing; NULL: print */
    void *help_owner;
};

/* What each exit code means, in the order of their numbers. */
extern const struct ctl_exit_text {
    enum ctl_exit code;
    const char *text;
} CTL_EXITS[];
extern const size_t CTL_EXIT_COUNT;

/* -- options -------------------------------------------------------------------- */

/* One option of a subcommand. Exactly one of text and flag is set. */
struct ctl_option {
    const char *name;     /* "tenant" for --tenant */
    const char *argument; /* "T" in the help; NULL for a flag */
    const char *help;
    const char **text; /* where the value goes; borrowed from argv */
    bool *flag;
};

/* The options that every command has; text and flag are not set. */
extern const struct ctl_option CTL_GLOBAL_OPTIONS[];
extern const size_t CTL_GLOBAL_OPTION_COUNT;

struct command {
    const char *name;
    const char *arguments; /* after the name in the usage line */
    const char *summary;   /* one line, imperative */
    const char *details;   /* paragraphs under the usage line; may be NULL */
    int (*run)(struct ctl *ctl, int argc, char **argv);
};

/*
 * Reads the options of a subcommand, and the global ones, from argv[1..]; what
 * is left is moved to the front and counted. Returns the count, or -1 after
 * --help (exit 0) or a usage error (exit 2), with the exit code in *exit_code.
 */
int ctl_options(struct ctl *ctl, const struct command *command,
    const struct ctl_option *options, size_t option_count, int argc,
    char **argv, const char **rest, size_t rest_max, int *exit_code);

/* -- talking to people and machines ------------------------------------------------ */

/* Prints "actionist: <text>" on standard error and returns the code. */
int ctl_fail(enum ctl_exit code, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same with an err; transient errors end with CTL_TRY_LATER. */
int ctl_fail_err(const struct err *err);

/* A table for people, or one JSON object a line with --json. Columns whose name
 * ends in "_ms", "_s", "_no", "_bytes", "_count" or is "attempts" are numbers
 * in JSON. */
struct ctl_table;
struct ctl_table *ctl_table_new(
    const struct ctl *ctl, const char *const *columns, size_t count);
void ctl_table_add(struct ctl_table *table, const char *const *cells);
/* Prints what was added (people), frees. Returns the number of rows. */
size_t ctl_table_end(struct ctl_table *table);

/* -- Postgres ------------------------------------------------------------------------- */

extern const struct conf_setting CTL_SETTINGS[];
extern const size_t CTL_SETTINGS_COUNT;

/* As the owner role where postgres.owner is set, else the runtime role. NULL
 * after an error was printed; then *exit_code says which. */
PGconn *ctl_connect(struct ctl *ctl, int *exit_code);
/* The person at the command as an actor of the ledger, "operator:<login>". */
void ctl_actor(struct buf *out);
void ctl_put_actor(struct pg_params *params);
/* The database's clock; an exit code, an error was printed. */
int ctl_now(PGconn *conn, int64_t *now_us);
/* Runs one statement of SQL_CTL; NULL after an error was printed. */
PGresult *ctl_query(
    PGconn *conn, int statement, struct pg_params *params, int *exit_code);

#endif
