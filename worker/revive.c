/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/revive.h"

#include <stdio.h>
#include <string.h>

#include "common/time.h"
#include "schema/replay.h"
#include "schema/sql_worker.h"
#include "worker/admit.h"
#include "worker/call.h"
#include "worker/resolve.h"
#include "worker/worker.h"

/* While the job waits for its manifest, the digest is kept in the record's
 * fingerprint, which nobody needs once an action is claimed. */
static const uint8_t *digest_of(const struct job *job)
{
    return job->record.fingerprint[0] == 0 ? NULL : job->record.fingerprint + 1;
}

static void keep_digest(struct job *job, const PGresult *rows, int row)
{
    memset(job->record.fingerprint, 0, FINGERPRINT_SIZE);
    const struct span digest = pg_get_bytes(rows, row, LIVE_MANIFEST);
    if (!pg_is_null(rows, row, LIVE_MANIFEST) && digest.len == SHA256_SIZE) {
        job->record.fingerprint[0] = 1;
        memcpy(job->record.fingerprint + 1, digest.ptr, SHA256_SIZE);
    }
}

static void proceed(void *owner, struct job *job)
{
    struct worker *worker = owner;
    if (!resolve_claimed(worker->connectors, job, digest_of(job))) {
        job->resume = proceed;
        job->resume_owner = worker;
        connectors_wait(worker->connectors, job);
        return;
    }
    if (job->live_state == LIVE_READY) {
        admit_add(worker->admit, job);
    } else if (job->action != NULL) {
        call_lose(worker, job);
    } else {
        job->is_effect_unknown = true;
        admit_add(worker->admit, job);
    }
}

/* It could be read when it was claimed; the row's word on who it is wins over
 * what the request says. A refused one under an id that its key does not give
 * was refused for the key. */
static void read_request(
    struct job *job, const char *tenant, const uint8_t *id, bool is_refused)
{
    struct fault fault = FAULT_INIT;
    const struct record_source source = {
        .door = RECORD_DOOR_KAFKA,
        .tenant = span_of(tenant),
        .has_tenant = true,
        .topic = "",
    };
    const struct span text = {job->text, job->text_len};
    if (record_parse(text, &source, &job->record, &fault) != RECORD_OK) {
        job_set_fault(job, &fault);
    } else if (is_refused && job->record.key[0] != '\0' &&
               memcmp(job->record.id, id, UUID_SIZE) != 0) {
        (void)fault_set(
            &fault, CODE_IDEMPOTENCY_CONFLICT, "/idempotency_key", NULL);
        job_set_fault(job, &fault);
    }
    memcpy(job->record.id, id, UUID_SIZE);
    (void)snprintf(
        job->record.tenant, sizeof(job->record.tenant), "%s", tenant);
}

static void keep_replay(struct job *job, const PGresult *rows, int row)
{
    const int column = LIVE_REPLAY_OF;
    if (!pg_is_null(rows, row, column + REPLAY_OF_ID)) {
        record_make_replay(&job->record,
            pg_get_uuid(rows, row, column + REPLAY_OF_ID),
            pg_get_uuid(rows, row, column + REPLAY_OF_EFFECT_ID),
            pg_get_bool(rows, row, column + REPLAY_OF_HAS_OWN_KEY));
    }
}

static int64_t get_time(const PGresult *rows, int row, int column)
{
    return pg_is_null(rows, row, column) ? 0 : pg_get_time(rows, row, column);
}

void revive_row(struct worker *worker, const PGresult *rows, int row)
{
    const uint8_t *id = pg_get_uuid(rows, row, LIVE_ID);
    if (jobs_find(&worker->jobs, id) != NULL) {
        return;
    }
    struct job *job =
        job_new(&worker->jobs, pg_get_bytes(rows, row, LIVE_REQUEST));
    char tenant[RECORD_MAX_NAME + 1] = "";
    const struct span name = pg_get_bytes(rows, row, LIVE_TENANT);
    if (name.len <= RECORD_MAX_NAME) {
        memcpy(tenant, name.ptr, name.len);
    }
    read_request(job, tenant, id, pg_is_null(rows, row, LIVE_MANIFEST));
    keep_replay(job, rows, row);
    keep_digest(job, rows, row);
    job->asked_us = now_mono_us();
    job->attempt_no = (int)pg_get_int(rows, row, LIVE_ATTEMPT_NO);
    job->live_state = pg_get_int(rows, row, LIVE_STATE) == LIVE_BEGUN
                          ? LIVE_BEGUN
                          : LIVE_READY;
    job->effect = (enum effect)pg_get_int(rows, row, LIVE_EFFECT);
    job->calls = (int)pg_get_int(rows, row, LIVE_CALLS);
    job->is_effect_unknown = pg_get_bool(rows, row, LIVE_IS_EFFECT_UNKNOWN);
    job->is_cancelled = pg_get_bool(rows, row, LIVE_IS_CANCELLED);
    job->deadline_us = get_time(rows, row, LIVE_DEADLINE);
    job->started_at_us = get_time(rows, row, LIVE_STARTED_AT);
    job->accepted_us = get_time(rows, row, LIVE_ACCEPTED_AT);
    job->was_row_taken = job->is_effect_unknown;
    jobs_insert(&worker->jobs, job);
    proceed(worker, job);
}
