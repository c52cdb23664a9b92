/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/settle_late.h"

#include "common/json.h"
#include "common/log.h"
#include "schema/sql_worker.h"
#include "worker/worker.h"

enum { MAX_DETAIL = 4096 };

static void on_noted(void *arg, const struct pg_outcome *outcome)
{
    const struct worker *worker = arg;
    if (outcome->end != PG_DONE && !worker->is_closing) {
        LOG(WARN, "late_note_lost", (&(struct log_fields){.err = outcome->err}),
            "the ledger does not tell of a late result");
    }
}

static void put_detail(
    struct buf *detail, const struct worker *worker, const struct job *job)
{
    const bool is_terminal = job->settlement.is_terminal;
    buf_put_char(detail, '{');
    json_put_name(detail, "would_be");
    json_put_cstring(
        detail, is_terminal ? status_name(job->settlement.status) : "waiting");
    json_put_name(detail, "code");
    if (job->settlement.code == CODE_NONE) {
        buf_put_str(detail, "null");
    } else {
        json_put_cstring(detail, code_name(job->settlement.code));
    }
    json_put_name(detail, "calls");
    buf_put_int(detail, job->calls);
    json_put_name(detail, "worker");
    json_put_cstring(detail, worker->boot_text);
    json_put_name(detail, "seen_at");
    json_put_time(detail, worker_now_us(worker));
    buf_put_char(detail, '}');
}

void settle_late_note(struct worker *worker, const struct job *job)
{
    char id[UUID_TEXT_SIZE];
    uuid_format(job->record.id, id);
    LOG(WARN, "result_late",
        (&(struct log_fields){.action_id = id, .tenant = job->record.tenant}),
        "the action was taken over; this result is not published");
    if (job->started_at_us == 0) {
        return;
    }
    struct buf detail;
    struct pg_params params;
    buf_init(&detail, MAX_DETAIL);
    put_detail(&detail, worker, job);
    pg_params_init(&params);
    pg_array_begin(&params, PG_UUID);
    pg_array_bytes(
        &params, (struct span){(const char *)job->record.id, UUID_SIZE});
    pg_array_end(&params);
    pg_array_begin(&params, PG_TEXT);
    pg_array_bytes(&params, span_of(job->record.tenant));
    pg_array_end(&params);
    pg_array_begin(&params, PG_INT4);
    pg_array_int4(&params, job->attempt_no);
    pg_array_end(&params);
    pg_array_begin(&params, PG_BYTEA);
    pg_array_bytes(&params, buf_span(&detail));
    pg_array_end(&params);
    pg_array_begin(&params, PG_TEXT);
    if (job->settlement.code == CODE_NONE) {
        pg_array_null(&params);
    } else {
        pg_array_bytes(&params, span_of(code_name(job->settlement.code)));
    }
    pg_array_end(&params);
    pg_param_uuid(&params, worker->boot_id);
    pg_run(worker->settle_db, SQL_WORKER_NOTE_LATE, &params, on_noted, worker);
    pg_params_fini(&params);
    buf_fini(&detail);
}
