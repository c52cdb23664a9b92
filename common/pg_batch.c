/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches in the pipeline. Each is a segment of its own up to a sync:
 * [BEGIN] step... [COMMIT] Sync. After an error the server skips to the sync.
 * When that happened inside BEGIN, the session stays in the failed transaction
 * and refuses the batches that were sent behind (25P02): a ROLLBACK goes out,
 * and they are sent again after it, in order. They were certainly not applied.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pg_private.h"
#include "common/time.h"

enum { ROLLBACK_DEADLINE_MS = 5000 };

static const char IN_FAILED_TRANSACTION[] = "25P02";
static const char STATEMENT_GONE[] = "26000";
static const char PLAN_OUTDATED[] = "0A000";

void pg_queue_push(struct pg_queue *queue, struct pg_batch *batch)
{
    batch->next = NULL;
    if (queue->head == NULL) {
        queue->head = batch;
    } else {
        queue->tail->next = batch;
    }
    queue->tail = batch;
}

struct pg_batch *pg_queue_pop(struct pg_queue *queue)
{
    struct pg_batch *batch = queue->head;
    if (batch != NULL) {
        queue->head = batch->next;
        batch->next = NULL;
    }
    return batch;
}

static void clear_results(struct pg_batch *batch)
{
    for (int i = 0; i < batch->result_count; i++) {
        PQclear(batch->results[i]);
    }
    batch->result_count = 0;
    batch->seen = 0;
}

void pg_batch_free(struct pg_batch *batch)
{
    if (batch == NULL) {
        return;
    }
    clear_results(batch);
    free(batch->results);
    for (int i = 0; i < batch->step_count; i++) {
        pg_params_fini(&batch->steps[i].params);
    }
    free(batch->steps);
    free(batch);
}

static bool is_transaction(const struct pg_batch *batch)
{
    return batch->step_count > 1;
}

/* -- building -------------------------------------------------------------- */

void pg_begin(struct pg *pg)
{
    assert(pg->building == NULL);
    pg->building = mem_zalloc(1, sizeof(*pg->building));
}

void pg_step(struct pg *pg, int statement, const struct pg_params *params)
{
    struct pg_batch *batch = pg->building;
    assert(batch != NULL);
    assert(statement >= 0 && statement < pg->options.statement_count);
    const int wanted = pg->options.statements[statement].param_count;
    assert(wanted == (params == NULL ? 0 : params->count));
    if (batch->step_count == batch->step_cap) {
        batch->step_cap = batch->step_cap == 0 ? 2 : batch->step_cap * 2;
        batch->steps = mem_resize(
            batch->steps, (size_t)batch->step_cap, sizeof(*batch->steps));
    }
    struct pg_step *step = &batch->steps[batch->step_count];
    batch->step_count++;
    step->statement = statement;
    pg_params_init(&step->params);
    if (params == NULL) {
        return;
    }
    struct buf bytes = step->params.bytes;
    step->params = *params;
    step->params.bytes = bytes;
    buf_put_span(&step->params.bytes, buf_span(&params->bytes));
    batch->is_too_large |= params->bytes.is_overflowed;
}

static void finish(struct pg *pg, struct pg_batch *batch, enum pg_end end)
{
    batch->end = end;
    pg_queue_push(&pg->finished, batch);
    /* Where the loop itself does not deliver at once, the timer will. */
    if (!loop_timer_is_active(pg->deliver)) {
        loop_timer_start(pg->deliver, 0, 0);
    }
}

static void refuse(struct pg *pg, struct pg_batch *batch)
{
    if (pg->is_closed) {
        (void)err_set(&batch->err, ERR_PERMANENT, "PG_CLOSED",
            "the connection to postgres was closed");
    } else if (batch->is_too_large) {
        (void)err_set(&batch->err, ERR_PERMANENT, "PG_TOO_LARGE",
            "the parameters of a statement are too large");
    } else {
        (void)err_set(
            &batch->err, ERR_TRANSIENT, "PG_DOWN", "postgres is not connected");
    }
    finish(pg, batch, PG_FAILED);
}

void pg_commit(struct pg *pg, pg_done_fn done, void *arg)
{
    struct pg_batch *batch = pg->building;
    assert(batch != NULL && batch->step_count > 0 && done != NULL);
    pg->building = NULL;
    batch->done = done;
    batch->arg = arg;
    batch->deadline_us = now_mono_us() + pg->options.deadline_ms * US_PER_MS;
    pg->queued++;
    if (!pg_is_up(pg) || batch->is_too_large) {
        refuse(pg, batch);
    } else if (pg->is_rolling_back) {
        pg_queue_push(&pg->unsent, batch);
    } else {
        pg_batch_send(pg, batch);
    }
}

void pg_run(struct pg *pg, int statement, const struct pg_params *params,
    pg_done_fn done, void *arg)
{
    pg_begin(pg);
    pg_step(pg, statement, params);
    pg_commit(pg, done, arg);
}

/* -- sending --------------------------------------------------------------- */

static bool send_plain(struct pg *pg, const char *statement)
{
    return PQsendQueryPrepared(pg->conn, statement, 0, NULL, NULL, NULL, 1) ==
           1;
}

static bool send_step(struct pg *pg, const struct pg_step *step)
{
    const struct pg_params *params = &step->params;
    const char *values[PG_MAX_PARAMS];
    int sizes[PG_MAX_PARAMS];
    int formats[PG_MAX_PARAMS];
    const char *bytes = buf_str(&params->bytes);
    for (int i = 0; i < params->count; i++) {
        values[i] = params->is_null[i] ? NULL : bytes + params->start[i];
        sizes[i] = (int)params->size[i];
        formats[i] = 1;
    }
    return PQsendQueryPrepared(pg->conn,
               pg->options.statements[step->statement].name, params->count,
               values, sizes, formats, 1) == 1;
}

void pg_batch_send(struct pg *pg, struct pg_batch *batch)
{
    bool is_ok = true;
    if (batch->done == NULL) {
        is_ok = send_plain(pg, PG_STATEMENT_ROLLBACK);
    }
    if (is_transaction(batch)) {
        is_ok = send_plain(pg, PG_STATEMENT_BEGIN);
    }
    for (int i = 0; is_ok && i < batch->step_count; i++) {
        is_ok = send_step(pg, &batch->steps[i]);
    }
    if (is_ok && is_transaction(batch)) {
        is_ok = send_plain(pg, PG_STATEMENT_COMMIT);
    }
    is_ok = is_ok && PQpipelineSync(pg->conn) == 1;
    /* Even a part may have reached the server: it counts as sent. */
    pg_queue_push(&pg->sent, batch);
    if (!is_ok) {
        struct err err = ERR_INIT;
        (void)pg_conn_error(pg->conn, &err);
        pg_break(pg, &err);
        return;
    }
    pg_flush(pg);
    pg_arm_deadline(pg);
}

/* Ends the failed transaction that the session is in. */
static void send_rollback(struct pg *pg)
{
    struct pg_batch *batch = mem_zalloc(1, sizeof(*batch));
    batch->deadline_us = now_mono_us() + ROLLBACK_DEADLINE_MS * US_PER_MS;
    pg->is_rolling_back = true;
    pg_batch_send(pg, batch);
}

static void send_waiting(struct pg *pg)
{
    struct pg_queue again = pg->again;
    struct pg_queue unsent = pg->unsent;
    pg->again.head = NULL;
    pg->unsent.head = NULL;
    struct pg_batch *batch = pg_queue_pop(&again);
    while (batch != NULL) {
        pg_batch_send(pg, batch);
        batch = pg_queue_pop(&again);
    }
    batch = pg_queue_pop(&unsent);
    while (batch != NULL) {
        pg_batch_send(pg, batch);
        batch = pg_queue_pop(&unsent);
    }
}

/* -- results --------------------------------------------------------------- */

static void keep_result(struct pg_batch *batch, PGresult *result)
{
    if (batch->results == NULL) {
        batch->results =
            mem_zalloc((size_t)batch->step_count, sizeof(PGresult *));
    }
    assert(batch->result_count < batch->step_count);
    batch->results[batch->result_count] = result;
    batch->result_count++;
}

/* Whether the server is past the steps: at COMMIT or at the sync. */
static bool is_committing(const struct pg_batch *batch)
{
    return batch->seen >= batch->step_count + (is_transaction(batch) ? 1 : 0);
}

static void take_success(struct pg_batch *batch, PGresult *result)
{
    const int index = batch->seen - (is_transaction(batch) ? 1 : 0);
    if (index >= 0 && index < batch->step_count) {
        batch->seen++;
        keep_result(batch, result);
        return;
    }
    if (index == batch->step_count && batch->done != NULL &&
        strcmp(PQcmdStatus(result), "COMMIT") != 0) {
        batch->has_failed = true;
        (void)err_set(&batch->err, ERR_TRANSIENT, "PG_ROLLED_BACK",
            "the transaction was rolled back at commit");
    }
    batch->seen++;
    PQclear(result);
}

static void take_error(
    struct pg *pg, struct pg_batch *batch, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    struct err err = ERR_INIT;
    (void)pg_result_error(result, &err);
    if (sqlstate == NULL) {
        /* Not the server's word: libpq lost the connection. */
        pg_break(pg, &err);
        return;
    }
    const char *severity =
        PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const bool is_session_dead =
        severity != NULL && strcmp(severity, "ERROR") != 0;
    if (is_session_dead) {
        pg_break(pg, &err);
    }
    /* A session that dies in its commit may have committed (a wait for a
     * replica that was cut short): unknown. */
    if (batch->has_failed || (is_session_dead && is_committing(batch))) {
        return;
    }
    batch->has_failed = true;
    batch->err = err;
    (void)snprintf(batch->sqlstate, sizeof(batch->sqlstate), "%s", sqlstate);
}

/* Whether the failed batch left the session inside its transaction. */
static bool is_stuck(const struct pg_batch *batch)
{
    return is_transaction(batch) && batch->has_failed && batch->seen >= 1 &&
           !is_committing(batch);
}

static void finish_failed(struct pg *pg, struct pg_batch *batch)
{
    if (pg->is_rolling_back &&
        strcmp(batch->sqlstate, IN_FAILED_TRANSACTION) == 0) {
        clear_results(batch);
        batch->has_failed = false;
        batch->sqlstate[0] = '\0';
        pg_queue_push(&pg->again, batch);
        return;
    }
    if (strcmp(batch->sqlstate, STATEMENT_GONE) == 0 ||
        strcmp(batch->sqlstate, PLAN_OUTDATED) == 0) {
        pg_break(pg, &batch->err); /* prepared anew by connecting anew */
    } else if (is_stuck(batch)) {
        send_rollback(pg);
    }
    finish(pg, batch, PG_FAILED);
}

static void finish_head(struct pg *pg)
{
    struct pg_batch *batch = pg_queue_pop(&pg->sent);
    if (batch->done == NULL) {
        const bool has_failed = batch->has_failed;
        if (has_failed) {
            pg_break(pg, &batch->err);
        }
        pg_batch_free(batch);
        pg->is_rolling_back = false;
        if (!has_failed) {
            send_waiting(pg);
        }
        return;
    }
    if (batch->has_failed) {
        finish_failed(pg, batch);
        return;
    }
    if (batch->result_count != batch->step_count) {
        (void)err_set(&batch->err, ERR_UNKNOWN, "PG_PROTOCOL",
            "postgres answered %d of %d statements", batch->result_count,
            batch->step_count);
        pg_break(pg, &batch->err);
        finish(pg, batch, PG_UNKNOWN);
        return;
    }
    finish(pg, batch, PG_DONE);
}

void pg_batch_take_result(struct pg *pg, PGresult *result)
{
    struct pg_batch *batch = pg->sent.head;
    assert(batch != NULL);
    switch (PQresultStatus(result)) {
    case PGRES_PIPELINE_SYNC:
        PQclear(result);
        finish_head(pg);
        return;
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
        take_success(batch, result);
        return;
    case PGRES_PIPELINE_ABORTED:
        PQclear(result);
        return;
    case PGRES_FATAL_ERROR:
    case PGRES_BAD_RESPONSE:
    case PGRES_EMPTY_QUERY:
    case PGRES_COPY_OUT:
    case PGRES_COPY_IN:
    case PGRES_COPY_BOTH:
    case PGRES_NONFATAL_ERROR:
    case PGRES_SINGLE_TUPLE:
    default:
        take_error(pg, batch, result);
        PQclear(result);
        return;
    }
}

/* -- the end --------------------------------------------------------------- */

static void end_sent(
    struct pg *pg, struct pg_batch *batch, const struct err *err)
{
    if (batch->done == NULL) {
        pg_batch_free(batch);
        return;
    }
    if (batch->has_failed) {
        finish(pg, batch, PG_FAILED);
        return;
    }
    batch->err = *err;
    batch->err.class = ERR_UNKNOWN;
    finish(pg, batch, PG_UNKNOWN);
}

static void end_unsent(
    struct pg *pg, struct pg_queue *queue, const struct err *err)
{
    struct pg_batch *batch = pg_queue_pop(queue);
    while (batch != NULL) {
        batch->err = *err;
        batch->err.class = ERR_TRANSIENT;
        finish(pg, batch, PG_FAILED);
        batch = pg_queue_pop(queue);
    }
}

void pg_batch_end_all(struct pg *pg, const struct err *err)
{
    struct pg_batch *batch = pg_queue_pop(&pg->sent);
    while (batch != NULL) {
        end_sent(pg, batch, err);
        batch = pg_queue_pop(&pg->sent);
    }
    end_unsent(pg, &pg->again, err);
    end_unsent(pg, &pg->unsent, err);
    pg->is_rolling_back = false;
}

static void run_callback(struct pg *pg, struct pg_batch *batch)
{
    struct pg_outcome outcome = {.end = batch->end};
    if (batch->end == PG_DONE) {
        outcome.result_count = batch->result_count;
        outcome.results = batch->results;
    } else {
        outcome.err = &batch->err;
        memcpy(outcome.sqlstate, batch->sqlstate, sizeof(outcome.sqlstate));
    }
    pg->queued--;
    batch->done(batch->arg, &outcome);
    pg_batch_free(batch);
}

void pg_batch_deliver(struct pg *pg)
{
    /* What ends while callbacks run is for the next turn of the loop. */
    struct pg_batch *last =
        pg->finished.head == NULL ? NULL : pg->finished.tail;
    bool is_more = last != NULL;
    while (is_more) {
        struct pg_batch *batch = pg_queue_pop(&pg->finished);
        if (batch == NULL) {
            return; /* a callback closed us, which delivered the rest */
        }
        is_more = batch != last;
        run_callback(pg, batch);
    }
}
