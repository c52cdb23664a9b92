/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of pg share: the connection and its batches. Only pg*.c
 * include this.
 *
 * A batch lives in exactly one place: building -> sent -> finished, or
 * building -> unsent -> sent -> finished while a failed transaction is being
 * rolled back. Its owner is the queue it is in.
 *
 * pg.c           life: open, connect, set up, lose, reconnect, close
 * pg_settings.c  the settings of a session
 * pg_setup.c     what a fresh session is told and asked
 * pg_batch.c     what goes out and how its results come back
 */
#ifndef PG_PRIVATE_H
#define PG_PRIVATE_H

#include "common/pg.h"

#define PG_STATEMENT_BEGIN "_begin"
#define PG_STATEMENT_COMMIT "_commit"
#define PG_STATEMENT_ROLLBACK "_rollback"

enum pg_state {
    PG_STATE_OFF,
    PG_STATE_CONNECTING,
    PG_STATE_SETUP,
    PG_STATE_UP
};

struct pg_step {
    int statement;
    struct pg_params params;
};

struct pg_batch {
    struct pg_batch *next;
    pg_done_fn done; /* NULL: our own ROLLBACK */
    void *arg;
    int64_t deadline_us; /* monotonic */
    struct pg_step *steps;
    int step_count;
    int step_cap;
    PGresult **results;
    int result_count;
    int seen; /* results so far, with those of BEGIN and COMMIT */
    bool has_failed;
    bool is_too_large;
    enum pg_end end; /* once finished */
    struct err err;
    char sqlstate[6];
};

struct pg_queue {
    struct pg_batch *head;
    struct pg_batch *tail;
};

struct pg {
    struct loop *loop;
    char *conninfo;
    char *name;
    char *session_sql;
    struct pg_options options; /* its texts are those above */
    enum pg_state state;
    PGconn *conn;
    struct loop_fd *watch;
    struct loop_timer *retry;    /* runs while off */
    struct loop_timer *deadline; /* of the connect, or of the oldest batch */
    struct loop_timer *deliver;  /* ends what ended outside of the loop */
    struct pg_batch *building;   /* between pg_begin and pg_commit */
    struct pg_queue sent;
    struct pg_queue again; /* refused only since the one before had failed */
    struct pg_queue unsent;
    struct pg_queue finished; /* the callback is still to run */
    size_t queued;
    int64_t backoff_ms;
    struct err lost; /* why the connection is, or is to be, given up */
    int setup_seen;
    unsigned hold; /* frames on the stack that use this struct */
    bool is_rolling_back;
    bool is_broken; /* to be lost at the next turn of the loop */
    bool was_told_up;
    bool is_closed;
};

/* -- pg_batch.c ------------------------------------------------------------ */

void pg_queue_push(struct pg_queue *queue, struct pg_batch *batch);
struct pg_batch *pg_queue_pop(struct pg_queue *queue); /* NULL when empty */
void pg_batch_free(struct pg_batch *batch);            /* NULL allowed */
/* Sends one batch and puts it into the sent queue. */
void pg_batch_send(struct pg *pg, struct pg_batch *batch);
/* Takes one result, which it owns from now on, for the oldest sent batch. */
void pg_batch_take_result(struct pg *pg, PGresult *result);
/* Ends all batches: sent ones unknown, unless they failed already. */
void pg_batch_end_all(struct pg *pg, const struct err *err);
/* Runs the callbacks of what is finished now. The caller holds pg. */
void pg_batch_deliver(struct pg *pg);

/* -- pg_settings.c --------------------------------------------------------- */

/* What a session is told first: as it is, and with its plans pinned. */
extern const char PG_SETTINGS[];
extern const char PG_SETTINGS_PINNED[];

/* -- pg_setup.c ------------------------------------------------------------ */

/* Starts connecting; NULL only when memory is exhausted. */
PGconn *pg_setup_connect(const char *conninfo, const char *name);
/* The same, to the end. */
PGconn *pg_setup_connect_blocking(const char *conninfo, const char *name);
/* How long a connect may take: the hosts of a list are tried in turn. */
int64_t pg_setup_deadline_ms(const struct pg *pg);
bool pg_conninfo_is_valid(const char *conninfo);
/* Enters pipeline mode and sends settings, checks and prepares. */
int pg_setup_send(struct pg *pg, struct err *err) MUST_CHECK;
/* Takes one result. 0: go on; 1: all is well; -1: give up. */
int pg_setup_take_result(
    struct pg *pg, PGresult *result, struct err *err) MUST_CHECK;

/* -- pg.c ------------------------------------------------------------------ */

/* Marks the connection as lost; it is given up from the loop. */
void pg_break(struct pg *pg, const struct err *err);
/* Flushes, and watches for room when the socket is full. */
void pg_flush(struct pg *pg);
void pg_arm_deadline(struct pg *pg);
/* The server's or libpq's message on one line, with the SQLSTATE's class. */
int pg_result_error(const PGresult *result, struct err *err);
int pg_conn_error(PGconn *conn, struct err *err);

#endif
