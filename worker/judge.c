/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "schema/outcome.h"
#include "schema/retry_after.h"

enum { MAX_NOTE = 16 << 10 };

/* -- headers --------------------------------------------------------------- */

struct header {
    struct span name;
    struct span value;
};

static bool next_header(struct span *rest, struct header *header)
{
    while (rest->len > 0) {
        const char *end = memchr(rest->ptr, '\n', rest->len);
        const size_t len = end == NULL ? rest->len : (size_t)(end - rest->ptr);
        const struct span line = {rest->ptr, len};
        const size_t used = end == NULL ? len : len + 1;
        rest->ptr += used;
        rest->len -= used;
        const char *colon =
            line.len == 0 ? NULL : memchr(line.ptr, ':', line.len);
        if (colon == NULL) {
            continue;
        }
        header->name = (struct span){line.ptr, (size_t)(colon - line.ptr)};
        header->value =
            (struct span){colon + 1, line.len - header->name.len - 1};
        while (header->value.len > 0 && header->value.ptr[0] == ' ') {
            header->value.ptr++;
            header->value.len--;
        }
        return true;
    }
    return false;
}

static struct span find_date(struct span headers)
{
    struct header header;
    while (next_header(&headers, &header)) {
        if (span_is(header.name, "date")) {
            return header.value;
        }
    }
    return (struct span){0};
}

static bool parse_reset(const struct manifest_action *action,
    const struct header *header, int64_t now_wall_us, int64_t *seconds)
{
    size_t count = 0;
    const struct reset_header *resets = action_reset_headers(action, &count);
    for (size_t i = 0; i < count; i++) {
        if (span_is(header->name, resets[i].name)) {
            return reset_header_parse(
                header->value, resets[i].unit, now_wall_us, seconds);
        }
    }
    return false;
}

bool judge_retry_after(const struct manifest_action *action,
    struct span headers, int64_t now_wall_us, int64_t *seconds)
{
    const struct span date = find_date(headers);
    struct header header;
    bool is_found = false;
    *seconds = 0;
    while (next_header(&headers, &header)) {
        int64_t value = 0;
        const bool is_usable =
            span_is(header.name, "retry-after")
                ? retry_after_parse(header.value, date, now_wall_us, &value)
                : parse_reset(action, &header, now_wall_us, &value);
        if (is_usable) {
            is_found = true;
            *seconds = value > *seconds ? value : *seconds;
        }
    }
    return is_found;
}

/* -- papers ---------------------------------------------------------------- */

static struct outcome draft_outcome(const struct job *job, int64_t now_us)
{
    return (struct outcome){
        .id = job->record.id,
        .tenant = job->record.tenant,
        .connector = job->record.connector,
        .action = job->record.action,
        .key = job->record.key,
        .attempts = job->calls,
        .error = {.retry_after_s = -1},
        .started_at_us = job->started_at_us,
        .finished_at_us = now_us,
        .manifest =
            job->manifest == NULL ? NULL : manifest_digest(job->manifest),
        .replay_of = job->record.is_replay ? job->record.replay_of : NULL,
    };
}

static void settle_terminal(
    struct jobs *jobs, struct job *job, struct outcome *outcome)
{
    struct buf body;
    size_t len = 0;
    buf_init(&body, OUTCOME_MAX_BYTES);
    outcome_put(&body, outcome);
    if (body.is_overflowed) {
        outcome->result = (struct span){0};
        outcome->is_result_cut = true;
        buf_clear(&body);
        outcome_put(&body, outcome);
    }
    job->settlement.is_terminal = true;
    job->settlement.status = outcome->status;
    job->settlement.code = outcome->error.code;
    char *bytes = buf_take(&body, &len);
    job_set_body(jobs, job, bytes, len);
    buf_fini(&body);
}

static void put_note(struct buf *note, const struct outcome_error *error,
    const struct job *job, int64_t call_us, int64_t now_us, int64_t wait_ms)
{
    buf_put_char(note, '{');
    json_put_name(note, "call");
    buf_put_int(note, job->calls);
    json_put_name(note, "started_at");
    json_put_time(note, call_us);
    json_put_name(note, "finished_at");
    json_put_time(note, now_us);
    json_put_name(note, "wait_ms");
    buf_put_int(note, wait_ms);
    json_put_name(note, "error");
    outcome_put_error(note, error);
    buf_put_char(note, '}');
}

static void settle_retry(struct jobs *jobs, struct job *job,
    const struct outcome_error *error, int64_t call_us, int64_t now_us,
    int64_t wait_ms)
{
    struct buf text;
    size_t len = 0;
    job->settlement.is_terminal = false;
    job->settlement.reason = WAIT_RETRY;
    job->settlement.code = error->code;
    job->settlement.wait_ms = wait_ms;
    buf_init(&text, MAX_NOTE);
    outcome_put_error(&text, error);
    char *bytes = buf_take(&text, &len);
    job_set_body(jobs, job, bytes, len);
    buf_fini(&text);

    buf_init(&text, MAX_NOTE);
    put_note(&text, error, job, call_us, now_us, wait_ms);
    free(job->settlement.note);
    job->settlement.note = buf_take(&text, &job->settlement.note_len);
    buf_fini(&text);
}

/* -- without a call -------------------------------------------------------- */

void judge_rejected(struct jobs *jobs, struct job *job, int64_t now_us)
{
    struct outcome outcome = draft_outcome(job, now_us);
    outcome.status = state_end(STATUS_REJECTED, job->is_effect_unknown);
    outcome.error.code = CODE_UNKNOWN_ACTION;
    outcome.error.class = FAULT_PERMANENT;
    if (job->fault != NULL) {
        outcome.error.code = job->fault->code;
        outcome.error.message = job->fault->detail;
        outcome.error.pointer = job->fault->pointer;
    }
    settle_terminal(jobs, job, &outcome);
}

void judge_ended(struct jobs *jobs, struct job *job, enum status status,
    enum code code, int64_t now_us)
{
    struct outcome outcome = draft_outcome(job, now_us);
    outcome.status = state_end(status, job->is_effect_unknown);
    outcome.error.code = code;
    outcome.error.class =
        job->is_effect_unknown ? FAULT_UNKNOWN : FAULT_PERMANENT;
    settle_terminal(jobs, job, &outcome);
}

/* -- after a call ---------------------------------------------------------- */

static struct budget make_budget(const struct job *job, int64_t now_us)
{
    return (struct budget){
        .calls = job->calls,
        .max_attempts = job->record.max_attempts > 0
                            ? job->record.max_attempts
                            : action_max_attempts(job->action),
        .is_effect_unknown = job->is_effect_unknown,
        .now_us = now_us,
        .deadline_us = job->deadline_us,
        .first_call_us = job->started_at_us,
        .key_retention_s = job->effect == EFFECT_KEYED
                               ? action_key_retention_s(job->action)
                               : 0,
        .base_ms = action_base_ms(job->action),
        .max_ms = action_max_ms(job->action),
        .is_cancelled = job->is_cancelled,
    };
}

static struct call_facts make_facts(
    const struct job *job, const struct run_result *result, int64_t now_us)
{
    struct call_facts facts = {
        .end = result->end,
        .effect = job->effect,
        .was_taken_over = job->was_row_taken || job->is_effect_unknown,
    };
    if (result->end == CALL_ANSWERED) {
        facts.http_status = result->http_status;
        facts.move = action_status_move(job->action, result->http_status);
        facts.has_retry_after = judge_retry_after(
            job->action, result->headers, now_us, &facts.retry_after_s);
    }
    return facts;
}

static void describe(struct outcome_error *error,
    const struct run_result *result, const struct call_facts *facts,
    const struct decision *decision, char *message, size_t size)
{
    error->code = decision->code;
    error->class = decision->class;
    error->http_status = facts->http_status;
    error->retry_after_s = facts->has_retry_after ? facts->retry_after_s : -1;
    if (decision->code == CODE_HTTP_STATUS) {
        (void)snprintf(
            message, size, "the provider answered %d", facts->http_status);
        error->message = message;
    } else if (decision->code == result->code && result->message[0] != '\0') {
        error->message = result->message;
    }
}

static void put_usage(struct outcome *outcome, const struct run_result *result)
{
    if (result->end == CALL_ANSWERED && result->body.len > 0) {
        outcome->result = result->body;
        outcome->is_result_cut = result->is_body_cut;
        outcome->result_bytes = result->body_bytes;
    }
    outcome->wall_ms = result->wall_ms;
    outcome->cpu_ms = result->cpu_ms;
    outcome->memory_peak_bytes = result->memory_peak_bytes;
    outcome->egress_bytes = result->egress_bytes;
}

void judge_call(struct jobs *jobs, struct job *job,
    const struct run_result *result, int64_t now_us, uint32_t jitter_ppm)
{
    char message[64];
    const int64_t call_us = now_us - result->wall_ms * 1000;
    const enum code code_if_failed =
        result->code != CODE_NONE ? result->code : CODE_HTTP_STATUS;
    if (job->started_at_us == 0) {
        job->started_at_us = call_us;
    }
    job->calls++;
    const struct call_facts facts = make_facts(job, result, now_us);
    const struct budget budget = make_budget(job, now_us);
    const struct decision decision =
        state_settle(&facts, &budget, code_if_failed, jitter_ppm);
    job->is_effect_unknown = decision.is_effect_unknown;

    struct outcome outcome = draft_outcome(job, now_us);
    if (decision.code != CODE_NONE) {
        describe(&outcome.error, result, &facts, &decision, message,
            sizeof(message));
    }
    if (decision.is_terminal) {
        outcome.status = decision.status;
        put_usage(&outcome, result);
        settle_terminal(jobs, job, &outcome);
    } else {
        settle_retry(
            jobs, job, &outcome.error, call_us, now_us, decision.wait_ms);
    }
}
