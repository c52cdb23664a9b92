/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pg: one Postgres connection on the loop, in libpq pipeline mode.
 *
 * Statements come from a table and are prepared at connect. A batch is one
 * transaction: the steps between pg_begin() and pg_commit() go out in one
 * round trip, wrapped in BEGIN and COMMIT when there is more than one. Batches
 * run in order. Binary parameters and results throughout.
 *
 * Each batch ends in exactly one of three ways, and callers must tell them
 * apart: PG_DONE (committed), PG_FAILED (certainly not applied; err has the
 * SQLSTATE's class) and PG_UNKNOWN (the connection was lost, or the deadline
 * passed, after it was sent: it may be applied, or be applied later: read
 * back). A deadline closes the socket; a commit is never cancelled.
 *
 * The connection comes back by itself with back-off; batches given while it is
 * down end in PG_FAILED (class TRANSIENT) at once. Session settings: read
 * committed, synchronous_commit on, time zone UTC, fixed search_path,
 * statement_timeout 5 s, lock_timeout 2 s, idle_in_transaction 10 s, and the
 * pinned plans of reliability E2 (generic plans, no hash or merge join, no
 * sequential scan, no jit) when options say so.
 */
#ifndef PG_H
#define PG_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/conf.h"
#include "common/err.h"
#include "common/loop.h"

/* Type numbers of the parameters we use (pg_type.dat). */
enum pg_type {
    PG_BOOL = 16,
    PG_BYTEA = 17,
    PG_INT8 = 20,
    PG_INT2 = 21,
    PG_INT4 = 23,
    PG_TEXT = 25,
    PG_FLOAT8 = 701,
    PG_TIMESTAMPTZ = 1184,
    PG_UUID = 2950,
    PG_BOOL_ARRAY = 1000,
    PG_BYTEA_ARRAY = 1001,
    PG_INT2_ARRAY = 1005,
    PG_INT4_ARRAY = 1007,
    PG_TEXT_ARRAY = 1009,
    PG_INT8_ARRAY = 1016,
    PG_TIMESTAMPTZ_ARRAY = 1185,
    PG_UUID_ARRAY = 2951
};

#define PG_MAX_PARAMS 24

struct pg_statement {
    const char *name; /* e.g. "claim_insert"; unique in its table */
    const char *sql;  /* $1.. parameters */
    int param_count;
    enum pg_type params[PG_MAX_PARAMS];
};

/* -- parameters ------------------------------------------------------------ */

/* The values of one step. Copies what it is given; reusable after clear. */
struct pg_params {
    struct buf bytes;
    int count;
    bool is_null[PG_MAX_PARAMS];
    size_t start[PG_MAX_PARAMS];
    size_t size[PG_MAX_PARAMS];
};

void pg_params_init(struct pg_params *params);
void pg_params_fini(struct pg_params *params);
void pg_params_clear(struct pg_params *params);
void pg_param_null(struct pg_params *params);
void pg_param_bool(struct pg_params *params, bool value);
void pg_param_int2(struct pg_params *params, int16_t value);
void pg_param_int4(struct pg_params *params, int32_t value);
void pg_param_int8(struct pg_params *params, int64_t value);
void pg_param_text(struct pg_params *params, struct span text);
void pg_param_bytea(struct pg_params *params, struct span bytes);
void pg_param_uuid(struct pg_params *params, const uint8_t uuid[16]);
void pg_param_time(struct pg_params *params, int64_t wall_us);

/* One-dimensional arrays: begin, then one call an element, then end. The
 * element type is the scalar's (PG_UUID, PG_TEXT, ...). */
void pg_array_begin(struct pg_params *params, enum pg_type element);
void pg_array_null(struct pg_params *params);
void pg_array_bool(struct pg_params *params, bool value);
void pg_array_int2(struct pg_params *params, int16_t value);
void pg_array_int4(struct pg_params *params, int32_t value);
void pg_array_int8(struct pg_params *params, int64_t value);
void pg_array_time(struct pg_params *params, int64_t wall_us);
/* PG_UUID (16 bytes), PG_TEXT, PG_BYTEA */
void pg_array_bytes(struct pg_params *params, struct span bytes);
void pg_array_end(struct pg_params *params);

/* -- results (binary) ------------------------------------------------------ */

int pg_rows(const PGresult *result);
bool pg_is_null(const PGresult *result, int row, int column);
bool pg_get_bool(const PGresult *result, int row, int column);
int64_t pg_get_int(const PGresult *result, int row, int column); /* int2/4/8 */
struct span pg_get_bytes(const PGresult *result, int row, int column);
const uint8_t *pg_get_uuid(const PGresult *result, int row, int column);
int64_t pg_get_time(const PGresult *result, int row, int column); /* wall us */
/* Rows an INSERT, UPDATE or DELETE touched. */
int64_t pg_affected(const PGresult *result);

/* -- the connection -------------------------------------------------------- */

enum pg_end { PG_DONE, PG_FAILED, PG_UNKNOWN };

struct pg_outcome {
    enum pg_end end;
    const struct err *err;    /* for PG_FAILED and PG_UNKNOWN */
    char sqlstate[6];         /* "" when the server did not say */
    int result_count;         /* one a step, in order, for PG_DONE */
    PGresult *const *results; /* borrowed until the callback returns */
};

typedef void (*pg_done_fn)(void *arg, const struct pg_outcome *outcome);
/* is_up: connected, checked and prepared. Called on every change. */
typedef void (*pg_state_fn)(void *owner, bool is_up, const struct err *err);

struct pg;

struct pg_options {
    const char *conninfo; /* copied */
    const char *name;     /* application_name, e.g. "actionist-worker claim" */
    const struct pg_statement *statements;
    int statement_count;
    bool are_plans_pinned;
    int64_t deadline_ms; /* of a batch from send to end; default 10000 if 0 */
    /* One statement, run after connect; its failure is one to connect. NULL for
     * none. */
    const char *session_sql;
    pg_state_fn on_state;
    void *owner;
};

/* Starts connecting; never blocks, save for the lookup of a host name. */
struct pg *pg_open(struct loop *loop, const struct pg_options *options);
/* Ends batches under way with PG_UNKNOWN, unsent ones with PG_FAILED, before it
 * returns. May be called from any callback; nothing else may be called after.
 * NULL allowed. */
void pg_close(struct pg *pg);
bool pg_is_up(const struct pg *pg);
/* Drops the connection and connects again at once. Batches end as in
 * pg_close(), but from the loop. */
void pg_reset(struct pg *pg);
size_t pg_queued(const struct pg *pg);   /* batches not ended yet */
int pg_backend_pid(const struct pg *pg); /* 0 while down */

/* A batch: begin, steps, commit. A step's parameters are copied. done runs
 * later from the loop, never from inside pg_commit(). */
void pg_begin(struct pg *pg);
void pg_step(struct pg *pg, int statement, const struct pg_params *params);
void pg_commit(struct pg *pg, pg_done_fn done, void *arg);
/* One step as a batch of its own. */
void pg_run(struct pg *pg, int statement, const struct pg_params *params,
    pg_done_fn done, void *arg);

/* -- blocking, for the command and for checks at start --------------------- */

PGconn *pg_connect_blocking(
    const char *conninfo, const char *name, struct err *err) MUST_CHECK;
/* Runs one statement with binary parameters and results; NULL on failure. The
 * caller PQclear()s. */
PGresult *pg_query_blocking(PGconn *conn, const struct pg_statement *statement,
    const struct pg_params *params, struct err *err) MUST_CHECK;
/*
 * Checks what every program needs at start: reachable, primary and writable,
 * fsync not off (synchronous_commit is on by the session), no transaction
 * pooler in between (PQbackendPID() is pg_backend_pid() twice), the highest
 * number in actionist.migration, which `actionist migrate` keeps and the
 * runtime role may read, equal to expected_version. FATAL, with one line saying
 * what to do.
 */
int pg_check_start(
    const char *conninfo, int64_t expected_version, struct err *err) MUST_CHECK;

/* Maps an SQLSTATE to a class: one table, with a unit test. */
enum err_class pg_class_of(const char *sqlstate);

/* Whether the server rolled a batch back because of others (a deadlock, a
 * serialization failure): the same at once again may well succeed. */
bool pg_was_rolled_back(const struct pg_outcome *outcome);

#endif
