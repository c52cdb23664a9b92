/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/settle.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "schema/sql_worker.h"
#include "worker/admit.h"
#include "worker/intake.h"
#include "worker/judge.h"
#include "worker/protocol.h"
#include "worker/settle_late.h"
#include "worker/worker.h"

enum { RETRY_MS = 100, RETRY_MAX_MS = 2000 };

struct settle {
    struct worker *worker;
    struct loop_timer *soon;
    struct job_list queue;
    struct job *batch[WORKER_BATCH]; /* under way, sorted by id */
    size_t count;
    size_t bytes; /* of queue and batch */
    int64_t backoff_ms;
    bool is_sent;
    bool is_reading; /* the batch's rows have to be read before all else */
};

static void send_batch(struct settle *settle);
static void read_rows(struct settle *settle);

static void on_soon(void *owner)
{
    struct settle *settle = owner;
    if (settle->is_sent) {
        return;
    }
    if (settle->is_reading) {
        read_rows(settle);
    } else {
        send_batch(settle);
    }
}

static void kick(struct settle *settle, int64_t wait_ms)
{
    if (!settle->is_sent && !loop_timer_is_active(settle->soon)) {
        loop_timer_start(settle->soon, wait_ms, 0);
    }
}

static void back_off(struct settle *settle)
{
    const int64_t next_ms = settle->backoff_ms * 2;
    settle->backoff_ms = next_ms < RETRY_MS       ? RETRY_MS
                         : next_ms > RETRY_MAX_MS ? RETRY_MAX_MS
                                                  : next_ms;
    kick(settle, settle->backoff_ms);
}

struct settle *settle_open(struct worker *worker)
{
    struct settle *settle = mem_zalloc(1, sizeof(*settle));
    settle->worker = worker;
    settle->soon = loop_timer_new(worker->loop, on_soon, settle);
    return settle;
}

void settle_close(struct settle *settle)
{
    if (settle != NULL) {
        loop_timer_free(settle->soon);
        free(settle);
    }
}

void settle_add(struct settle *settle, struct job *job)
{
    settle->bytes += job->settlement.body_len;
    job_list_push(&settle->queue, job);
    kick(settle, 0);
}

size_t settle_bytes(const struct settle *settle)
{
    return settle->bytes;
}

/* -- ends ------------------------------------------------------------------ */

static void count(const struct settle *settle, const struct job *job)
{
    const struct stats *stats = &settle->worker->stats;
    if (job->settlement.is_terminal) {
        const int64_t age_us = worker_now_us(settle->worker) - job->accepted_us;
        metric_add(stats->outcomes, status_name(job->settlement.status), 1);
        metric_observe(
            stats->whole_seconds, NULL, (double)age_us / (double)US_PER_S);
    } else {
        metric_add(
            stats->postponed, wait_reason_name(job->settlement.reason), 1);
    }
}

static void forget(struct settle *settle, struct job *job)
{
    settle->bytes -= job->settlement.body_len;
    job_free(&settle->worker->jobs, job);
}

/* What is left of the batch is settled again. */
static void end_batch(struct settle *settle)
{
    for (size_t i = settle->count; i > 0; i--) {
        if (settle->batch[i - 1] != NULL) {
            job_list_push_front(&settle->queue, settle->batch[i - 1]);
        }
    }
    settle->count = 0;
    if (settle->queue.count > 0) {
        kick(settle, 0);
    }
    admit_kick(settle->worker->admit);
    if (settle->worker->intake != NULL) {
        intake_balance(settle->worker->intake);
    }
}

/* -- reading back ---------------------------------------------------------- */

static struct settle_facts facts_of(
    const struct settle *settle, const struct job *job, const PGresult *rows)
{
    struct settle_facts facts = {
        .attempt_no = job->attempt_no,
        .is_terminal = job->settlement.is_terminal,
        .status = job->settlement.status,
        .was_in_doubt = job->is_in_doubt,
    };
    for (int i = 0; i < pg_rows(rows); i++) {
        if (memcmp(pg_get_uuid(rows, i, 0), job->record.id, UUID_SIZE) != 0) {
            continue;
        }
        facts.live.has_row = !pg_is_null(rows, i, 1);
        if (facts.live.has_row) {
            facts.live.attempt_no = (int)pg_get_int(rows, i, 1);
            facts.live.is_mine = !pg_is_null(rows, i, 2) &&
                                 memcmp(pg_get_uuid(rows, i, 2),
                                     settle->worker->boot_id, UUID_SIZE) == 0;
            facts.live.is_cancelled = pg_get_bool(rows, i, 3);
        }
        facts.has_outcome = !pg_is_null(rows, i, 4);
        facts.outcome_status = facts.has_outcome
                                   ? (enum status)pg_get_int(rows, i, 4)
                                   : STATUS_FAILED;
        facts.has_waited = pg_get_bool(rows, i, 5);
        break;
    }
    return facts;
}

static void turn_into_cancel(struct settle *settle, struct job *job)
{
    struct worker *worker = settle->worker;
    settle->bytes -= job->settlement.body_len;
    job->is_cancelled = true;
    judge_ended(&worker->jobs, job, STATUS_CANCELLED, CODE_CANCELLED,
        worker_now_us(worker));
    settle->bytes += job->settlement.body_len;
}

/* True if the job is dealt with; false: it is settled again. */
static bool end_read(
    struct settle *settle, struct job *job, const PGresult *rows)
{
    struct stats *stats = &settle->worker->stats;
    const struct settle_facts facts = facts_of(settle, job, rows);
    switch (protocol_settle(&facts)) {
    case SETTLE_APPLIED:
        metric_add(stats->found_committed, NULL, 1);
        count(settle, job);
        forget(settle, job);
        return true;
    case SETTLE_REPEAT:
        if (job->is_in_doubt) {
            metric_add(stats->found_aborted, NULL, 1);
        }
        return false;
    case SETTLE_CANCEL:
        turn_into_cancel(settle, job);
        return false;
    case SETTLE_LATE:
    default:
        metric_add(stats->late, NULL, 1);
        settle_late_note(settle->worker, job);
        forget(settle, job);
        return true;
    }
}

static void on_read(void *arg, const struct pg_outcome *outcome)
{
    struct settle *settle = arg;
    if (settle->worker->is_closing) {
        return;
    }
    settle->is_sent = false;
    if (outcome->end != PG_DONE) {
        back_off(settle);
        return;
    }
    settle->is_reading = false;
    for (size_t i = 0; i < settle->count; i++) {
        struct job *job = settle->batch[i];
        if (job != NULL && end_read(settle, job, outcome->results[0])) {
            settle->batch[i] = NULL;
        }
    }
    end_batch(settle);
}

/* -- parameters ------------------------------------------------------------ */

enum part { PART_OUTCOMES, PART_WAITS, PART_ALL };

static bool is_in(const struct job *job, enum part part)
{
    return job != NULL && (part == PART_ALL || job->settlement.is_terminal ==
                                                   (part == PART_OUTCOMES));
}

typedef void (*put_fn)(struct pg_params *params, const struct job *job);

static void put_column(struct pg_params *params, const struct settle *settle,
    enum part part, enum pg_type element, put_fn put)
{
    pg_array_begin(params, element);
    for (size_t i = 0; i < settle->count; i++) {
        if (is_in(settle->batch[i], part)) {
            put(params, settle->batch[i]);
        }
    }
    pg_array_end(params);
}

static void put_bytes(struct pg_params *params, const void *bytes, size_t len)
{
    if (bytes == NULL) {
        pg_array_null(params);
    } else {
        pg_array_bytes(params, (struct span){.ptr = bytes, .len = len});
    }
}

static void put_id(struct pg_params *params, const struct job *job)
{
    put_bytes(params, job->record.id, UUID_SIZE);
}

static void put_attempt(struct pg_params *params, const struct job *job)
{
    pg_array_int4(params, job->attempt_no);
}

static void put_status(struct pg_params *params, const struct job *job)
{
    pg_array_int2(params, (int16_t)job->settlement.status);
}

static void put_calls(struct pg_params *params, const struct job *job)
{
    pg_array_int4(params, job->calls);
}

static void put_code(struct pg_params *params, const struct job *job)
{
    if (job->settlement.code == CODE_NONE) {
        pg_array_null(params);
    } else {
        pg_array_bytes(params, span_of(code_name(job->settlement.code)));
    }
}

static void put_body(struct pg_params *params, const struct job *job)
{
    put_bytes(params, job->settlement.body, job->settlement.body_len);
}

static void put_reason(struct pg_params *params, const struct job *job)
{
    pg_array_int2(params, (int16_t)job->settlement.reason);
}

static void put_time(struct pg_params *params, int64_t time_us)
{
    if (time_us == 0) {
        pg_array_null(params);
    } else {
        pg_array_time(params, time_us);
    }
}

static void put_due(struct pg_params *params, const struct job *job)
{
    put_time(params, job->settlement.due_us);
}

static void put_wait(struct pg_params *params, const struct job *job)
{
    pg_array_int8(params, job->settlement.wait_ms);
}

static void put_pause(struct pg_params *params, const struct job *job)
{
    if (job->settlement.pause_no == 0) {
        pg_array_null(params);
    } else {
        pg_array_int8(params, job->settlement.pause_no);
    }
}

static void put_unknown(struct pg_params *params, const struct job *job)
{
    pg_array_bool(params, job->is_effect_unknown);
}

static void put_started(struct pg_params *params, const struct job *job)
{
    put_time(params, job->started_at_us);
}

static void put_note(struct pg_params *params, const struct job *job)
{
    put_bytes(params, job->settlement.note, job->settlement.note_len);
}

static void put_outcomes(struct pg_params *params, const struct settle *settle)
{
    const enum part part = PART_OUTCOMES;
    put_column(params, settle, part, PG_UUID, put_id);
    put_column(params, settle, part, PG_INT4, put_attempt);
    put_column(params, settle, part, PG_INT2, put_status);
    put_column(params, settle, part, PG_INT4, put_calls);
    put_column(params, settle, part, PG_TEXT, put_code);
    put_column(params, settle, part, PG_BYTEA, put_body);
    pg_param_uuid(params, settle->worker->boot_id);
}

static void put_waits(struct pg_params *params, const struct settle *settle)
{
    const enum part part = PART_WAITS;
    put_column(params, settle, part, PG_UUID, put_id);
    put_column(params, settle, part, PG_INT4, put_attempt);
    put_column(params, settle, part, PG_INT2, put_reason);
    put_column(params, settle, part, PG_TIMESTAMPTZ, put_due);
    put_column(params, settle, part, PG_INT8, put_wait);
    put_column(params, settle, part, PG_INT4, put_calls);
    put_column(params, settle, part, PG_BOOL, put_unknown);
    put_column(params, settle, part, PG_TIMESTAMPTZ, put_started);
    put_column(params, settle, part, PG_BYTEA, put_body);
    put_column(params, settle, part, PG_BYTEA, put_note);
    pg_param_uuid(params, settle->worker->boot_id);
    put_column(params, settle, part, PG_TEXT, put_code);
    put_column(params, settle, part, PG_INT8, put_pause);
}

static void read_rows(struct settle *settle)
{
    struct pg_params params;
    pg_params_init(&params);
    put_column(&params, settle, PART_ALL, PG_UUID, put_id);
    put_column(&params, settle, PART_ALL, PG_INT4, put_attempt);
    settle->is_sent = true;
    pg_run(settle->worker->settle_db, SQL_WORKER_SETTLE_READ, &params, on_read,
        settle);
    pg_params_fini(&params);
}

/* -- the commit ------------------------------------------------------------ */

static void take_settled(struct settle *settle, const PGresult *rows)
{
    for (int i = 0; i < pg_rows(rows); i++) {
        const uint8_t *id = pg_get_uuid(rows, i, 0);
        /* An id stands in one job of the table, hence once in the batch. */
        struct job *job = jobs_find(&settle->worker->jobs, id);
        for (size_t at = 0; job != NULL && at < settle->count; at++) {
            if (settle->batch[at] == job) {
                settle->batch[at] = NULL;
                count(settle, job);
                forget(settle, job);
                break;
            }
        }
    }
}

static bool has_left(const struct settle *settle)
{
    for (size_t i = 0; i < settle->count; i++) {
        if (settle->batch[i] != NULL) {
            return true;
        }
    }
    return false;
}

static void on_failed(struct settle *settle, const struct pg_outcome *outcome)
{
    LOG(WARN, "settle_failed",
        (&(struct log_fields){.err = outcome->err,
            .number_name = "results",
            .number = (long long)settle->count}),
        "it is tried again");
    if (outcome->end == PG_UNKNOWN) {
        metric_add(settle->worker->stats.doubts, "settle", 1);
        for (size_t i = 0; i < settle->count; i++) {
            settle->batch[i]->is_in_doubt = true;
        }
        /* The statement may still be running. Saying it again waits for its
         * row locks first, so what is read after that is final. */
    }
    for (size_t i = settle->count; i > 0; i--) {
        job_list_push_front(&settle->queue, settle->batch[i - 1]);
    }
    settle->count = 0;
    back_off(settle);
}

static void on_settled(void *arg, const struct pg_outcome *outcome)
{
    struct settle *settle = arg;
    if (settle->worker->is_closing) {
        return;
    }
    settle->is_sent = false;
    if (outcome->end != PG_DONE) {
        on_failed(settle, outcome);
        return;
    }
    settle->backoff_ms = 0;
    for (int i = 0; i < outcome->result_count; i++) {
        take_settled(settle, outcome->results[i]);
    }
    if (has_left(settle)) {
        settle->is_reading = true;
        kick(settle, 0);
    } else {
        end_batch(settle);
    }
}

static void fill_batch(struct settle *settle)
{
    size_t bytes = 0;
    while (settle->count < WORKER_BATCH && settle->queue.head != NULL) {
        const size_t size = settle->queue.head->settlement.body_len;
        if (settle->count > 0 && bytes + size > WORKER_BATCH_BYTES) {
            break;
        }
        bytes += size;
        settle->batch[settle->count] = job_list_pop(&settle->queue);
        settle->count++;
    }
    job_sort(settle->batch, settle->count);
}

static bool has_part(const struct settle *settle, enum part part)
{
    for (size_t i = 0; i < settle->count; i++) {
        if (is_in(settle->batch[i], part)) {
            return true;
        }
    }
    return false;
}

static void add_step(struct settle *settle, int statement,
    void (*put)(struct pg_params *params, const struct settle *settle))
{
    struct pg_params params;
    pg_params_init(&params);
    put(&params, settle);
    pg_step(settle->worker->settle_db, statement, &params);
    pg_params_fini(&params);
}

static void send_batch(struct settle *settle)
{
    fill_batch(settle);
    if (settle->count == 0) {
        return;
    }
    settle->is_sent = true;
    pg_begin(settle->worker->settle_db);
    if (has_part(settle, PART_OUTCOMES)) {
        add_step(settle, SQL_WORKER_SETTLE, put_outcomes);
    }
    if (has_part(settle, PART_WAITS)) {
        add_step(settle, SQL_WORKER_POSTPONE, put_waits);
    }
    pg_commit(settle->worker->settle_db, on_settled, settle);
}
