/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/begin.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "schema/sql_worker.h"
#include "worker/admit.h"
#include "worker/judge.h"
#include "worker/protocol.h"
#include "worker/settle.h"
#include "worker/worker.h"

enum { RETRY_MS = 100 };

struct begin {
    struct worker *worker;
    struct loop_timer *soon;
    struct job_list queue;
    struct job *batch[WORKER_BATCH]; /* under way, sorted by id */
    size_t count;
    bool is_reading; /* the batch's rows have to be read before all else */
    bool is_sent;
};

static void send_batch(struct begin *begin);
static void read_rows(struct begin *begin);

static void on_soon(void *owner)
{
    struct begin *begin = owner;
    if (begin->is_sent) {
        return;
    }
    if (begin->is_reading) {
        read_rows(begin);
    } else {
        send_batch(begin);
    }
}

static void kick(struct begin *begin, int64_t wait_ms)
{
    if (!begin->is_sent && !loop_timer_is_active(begin->soon)) {
        loop_timer_start(begin->soon, wait_ms, 0);
    }
}

struct begin *begin_open(struct worker *worker)
{
    struct begin *begin = mem_zalloc(1, sizeof(*begin));
    begin->worker = worker;
    begin->soon = loop_timer_new(worker->loop, on_soon, begin);
    return begin;
}

void begin_close(struct begin *begin)
{
    if (begin != NULL) {
        loop_timer_free(begin->soon);
        free(begin);
    }
}

void begin_add(struct begin *begin, struct job *job)
{
    job_list_push(&begin->queue, job);
    kick(begin, 0);
}

bool begin_is_busy(const struct begin *begin)
{
    return begin->count > 0;
}

struct job *begin_give_up(struct begin *begin)
{
    struct job *job = begin->queue.head;
    if (job == NULL || job->is_in_doubt) {
        return NULL;
    }
    return job_list_pop(&begin->queue);
}

/* -- ends ------------------------------------------------------------------ */

static void open_gate(struct begin *begin, struct job *job)
{
    job->is_in_doubt = false;
    admit_begun(begin->worker->admit, job);
}

static void drop(struct begin *begin, struct job *job)
{
    struct worker *worker = begin->worker;
    metric_add(worker->stats.fenced, NULL, 1);
    admit_done(worker->admit, job, 0);
    job_free(&worker->jobs, job);
}

static void cancel(struct begin *begin, struct job *job)
{
    struct worker *worker = begin->worker;
    job->is_cancelled = true;
    judge_ended(&worker->jobs, job, STATUS_CANCELLED, CODE_CANCELLED,
        worker_now_us(worker));
    settle_add(worker->settle, job);
    admit_done(worker->admit, job, 0);
}

/* What is left of the batch goes back to the front of the queue. */
static void end_batch(struct begin *begin, int64_t wait_ms)
{
    for (size_t i = begin->count; i > 0; i--) {
        if (begin->batch[i - 1] != NULL) {
            job_list_push_front(&begin->queue, begin->batch[i - 1]);
        }
    }
    begin->count = 0;
    if (begin->queue.count > 0) {
        kick(begin, wait_ms);
    }
}

/* -- reading back ---------------------------------------------------------- */

static struct live_row find_row(
    const struct begin *begin, const PGresult *rows, const uint8_t *id)
{
    for (int i = 0; i < pg_rows(rows); i++) {
        if (memcmp(pg_get_uuid(rows, i, 0), id, UUID_SIZE) != 0) {
            continue;
        }
        return (struct live_row){
            .has_row = true,
            .attempt_no = (int)pg_get_int(rows, i, 1),
            .state =
                pg_get_int(rows, i, 2) == LIVE_BEGUN ? LIVE_BEGUN : LIVE_READY,
            .is_mine = !pg_is_null(rows, i, 3) &&
                       memcmp(pg_get_uuid(rows, i, 3), begin->worker->boot_id,
                           UUID_SIZE) == 0,
            .is_cancelled = pg_get_bool(rows, i, 4),
        };
    }
    return (struct live_row){.has_row = false};
}

/* True if the job is dealt with; false: begun has to be said again. */
static bool end_read(
    struct begin *begin, struct job *job, const struct live_row *row)
{
    struct stats *stats = &begin->worker->stats;
    switch (protocol_begin(row, job->attempt_no)) {
    case BEGIN_GO:
        metric_add(stats->found_committed, NULL, 1);
        open_gate(begin, job);
        return true;
    case BEGIN_REPEAT:
        if (job->is_in_doubt) {
            metric_add(stats->found_aborted, NULL, 1);
        }
        return false;
    case BEGIN_CANCEL:
        cancel(begin, job);
        return true;
    case BEGIN_DROP:
    default:
        drop(begin, job);
        return true;
    }
}

static void on_read(void *arg, const struct pg_outcome *outcome)
{
    struct begin *begin = arg;
    if (begin->worker->is_closing) {
        return;
    }
    begin->is_sent = false;
    if (outcome->end != PG_DONE) {
        kick(begin, RETRY_MS);
        return;
    }
    begin->is_reading = false;
    for (size_t i = 0; i < begin->count; i++) {
        struct job *job = begin->batch[i];
        if (job == NULL) {
            continue;
        }
        const struct live_row row =
            find_row(begin, outcome->results[0], job->record.id);
        if (end_read(begin, job, &row)) {
            begin->batch[i] = NULL;
        }
    }
    /* Ready, mine, and still not begun: the worker's own row may be the
     * reason, so not at once. */
    end_batch(begin, RETRY_MS);
}

static void put_ids(struct pg_params *params, const struct begin *begin)
{
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < begin->count; i++) {
        if (begin->batch[i] != NULL) {
            pg_array_bytes(
                params, (struct span){(const char *)begin->batch[i]->record.id,
                            UUID_SIZE});
        }
    }
    pg_array_end(params);
}

/* A commit whose answer was lost can be seen before a synchronous standby has
 * it, and a fail-over would take it back: the gate may open only behind a
 * commit of ours that waits for the standby. */
static void read_rows(struct begin *begin)
{
    struct pg *db = begin->worker->claim_db;
    struct pg_params params;
    pg_params_init(&params);
    put_ids(&params, begin);
    begin->is_sent = true;
    pg_begin(db);
    pg_step(db, SQL_WORKER_BEGIN_READ, &params);
    pg_step(db, SQL_WORKER_FLUSH, NULL);
    pg_commit(db, on_read, begin);
    pg_params_fini(&params);
}

/* -- the commit ------------------------------------------------------------ */

static void take_begun(struct begin *begin, const PGresult *rows)
{
    bool is_begun[WORKER_BATCH] = {false};
    for (int i = 0; i < pg_rows(rows); i++) {
        const size_t at =
            job_search(begin->batch, begin->count, pg_get_uuid(rows, i, 0));
        if (at < begin->count) {
            is_begun[at] = true;
        }
    }
    for (size_t i = 0; i < begin->count; i++) {
        if (is_begun[i]) {
            struct job *job = begin->batch[i];
            begin->batch[i] = NULL;
            open_gate(begin, job);
        }
    }
}

static bool has_left(const struct begin *begin)
{
    for (size_t i = 0; i < begin->count; i++) {
        if (begin->batch[i] != NULL) {
            return true;
        }
    }
    return false;
}

static void on_doubt(struct begin *begin)
{
    metric_add(begin->worker->stats.doubts, "begin", 1);
    for (size_t i = 0; i < begin->count; i++) {
        begin->batch[i]->is_in_doubt = true;
    }
    begin->is_reading = true;
    kick(begin, RETRY_MS);
}

static void on_begun(void *arg, const struct pg_outcome *outcome)
{
    struct begin *begin = arg;
    if (begin->worker->is_closing) {
        return;
    }
    begin->is_sent = false;
    if (outcome->end == PG_UNKNOWN) {
        on_doubt(begin);
        return;
    }
    if (outcome->end == PG_FAILED) {
        LOG(WARN, "begin_failed", (&(struct log_fields){.err = outcome->err}),
            "it is tried again");
        end_batch(begin, RETRY_MS);
        return;
    }
    take_begun(begin, outcome->results[0]);
    if (has_left(begin)) {
        begin->is_reading = true;
        kick(begin, 0);
    } else {
        end_batch(begin, 0);
    }
}

static void send_batch(struct begin *begin)
{
    struct pg_params params;
    while (begin->count < WORKER_BATCH && begin->queue.head != NULL) {
        begin->batch[begin->count] = job_list_pop(&begin->queue);
        begin->count++;
    }
    if (begin->count == 0) {
        return;
    }
    job_sort(begin->batch, begin->count);
    pg_params_init(&params);
    put_ids(&params, begin);
    pg_array_begin(&params, PG_INT4);
    for (size_t i = 0; i < begin->count; i++) {
        pg_array_int4(&params, begin->batch[i]->attempt_no);
    }
    pg_array_end(&params);
    pg_param_uuid(&params, begin->worker->boot_id);
    begin->is_sent = true;
    pg_run(begin->worker->claim_db, SQL_WORKER_BEGIN, &params, on_begun, begin);
    pg_params_fini(&params);
}
