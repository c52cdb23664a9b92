/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of a pass share.
 *
 * pass.c   marks, findings, the order of the steps
 * rows.c   what Postgres says about itself
 * topic.c  what the outcomes topic holds
 */
#ifndef PASS_PRIVATE_H
#define PASS_PRIVATE_H

#include "scheduler/positions.h"
#include "scheduler/verify/pass.h"
#include "schema/sql_verify.h"

struct pass {
    const struct pass_options *options;
    PGconn *conn;
    struct pg_params params;
    struct pass_result *result;

    /* the last mark */
    bool has_mark;
    int64_t mark_us;
    struct positions read_from;
    struct positions read_to;

    /* bounds of this pass */
    int64_t now_us;
    int64_t from_us; /* actions accepted after this are judged */
    int64_t low;
    int64_t last;
    struct verify_seen seen; /* base: outcomes above this are judged */
    int64_t floor;           /* unpublished is judged from this seq on */

    /* the next mark */
    int64_t next_us;
    int64_t next_seq;
    struct positions next_from;
    struct positions next_to;

    int64_t stored; /* findings of this pass */
    int64_t unstored[VERIFY_KIND_COUNT];
};

/* Runs a statement with pass->params, which it clears after. NULL: err. */
PGresult *pass_query(
    struct pass *pass, enum sql_verify statement, struct err *err) MUST_CHECK;
void pass_put_text(struct pass *pass, const char *text); /* NULL: null */
/* Something wrong between outcomes, actions and the topic. */
int pass_find(struct pass *pass, enum verify_kind kind, const char *what,
    struct err *err) MUST_CHECK;
/* After a step: progress, and -1 if the pass was cancelled. */
int pass_step(struct pass *pass, const char *what, int64_t count,
    struct err *err) MUST_CHECK;

/* Actions and unfinished work. */
int pass_judge_actions(struct pass *pass, struct err *err) MUST_CHECK;
/* Outcomes against actions and, after the topic was read, against it. */
int pass_judge_outcomes(struct pass *pass, struct err *err) MUST_CHECK;
int pass_read_topic(struct pass *pass, struct err *err) MUST_CHECK;

#endif
