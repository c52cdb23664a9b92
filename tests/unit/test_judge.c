/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "common/time.h"
#include "worker/judge.h"

#define NOW_US INT64_C(1796000000000000)

static const char MANIFEST[] =
    "{\"manifest\":1,\"name\":\"billing\",\"version\":\"1.0.0\","
    "\"base_url\":\"https://api.example.com\","
    "\"retry\":{\"max_attempts\":3,\"base_ms\":1000,\"max_ms\":60000,"
    "\"reset_headers\":[{\"name\":\"x-reset\",\"unit\":\"delta_s\"}]},"
    "\"actions\":{\"pay\":{\"idempotency\":\"keyed\","
    "\"request\":{\"method\":\"POST\",\"path\":\"/pay\"}},"
    "\"send\":{\"idempotency\":\"unsafe\","
    "\"request\":{\"method\":\"POST\",\"path\":\"/send\"}}}}";

static const char REQUEST[] =
    "{\"spec\":\"actionist/1\",\"tenant\":\"acme\",\"connector\":\"billing\","
    "\"action\":\"pay\",\"idempotency_key\":\"k1\",\"payload\":{}}";

static struct manifest *manifest;
static struct jobs *jobs;

static int set_up(void **state)
{
    (void)state;
    struct fault fault = FAULT_INIT;
    jobs = mem_zalloc(1, sizeof(*jobs));
    manifest = manifest_load(span_of(MANIFEST), &fault);
    return manifest == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    jobs_free_all(jobs);
    manifest_free(manifest);
    free(jobs);
    return 0;
}

static struct job *make(const char *action)
{
    struct fault fault = FAULT_INIT;
    struct job *job = job_new(jobs, span_of(REQUEST));
    const struct record_source source = {.door = RECORD_DOOR_KAFKA,
        .tenant = SPAN_LIT("acme"),
        .has_tenant = true,
        .topic = "actions"};
    assert_int_equal(record_parse((struct span){job->text, job->text_len},
                         &source, &job->record, &fault),
        RECORD_OK);
    job->manifest = manifest;
    job->action = manifest_find(manifest, action);
    assert_non_null(job->action);
    job->effect = action_effect(job->action);
    job->attempt_no = 1;
    return job;
}

static struct run_result answer(int status, const char *headers)
{
    return (struct run_result){.end = CALL_ANSWERED,
        .http_status = status,
        .headers = span_of(headers),
        .body = SPAN_LIT("{\"id\":\"ch_1\"}"),
        .body_bytes = 13,
        .wall_ms = 20};
}

/* The text of a member of the settlement's document; freed by the caller. */
static char *member(const struct job *job, const char *pointer)
{
    struct json_value root;
    struct json_value value;
    struct err err = ERR_INIT;
    const struct span body = {job->settlement.body, job->settlement.body_len};
    assert_int_equal(json_parse(body, 100, &root, &err), 0);
    assert_true(json_pointer(root, span_of(pointer), &value));
    return span_dup(value.raw);
}

static void assert_member(
    const struct job *job, const char *pointer, const char *wanted)
{
    char *text = member(job, pointer);
    assert_string_equal(text, wanted);
    free(text);
}

static void success_is_an_outcome_with_the_answer(void **state)
{
    (void)state;
    struct job *job = make("pay");
    const struct run_result result = answer(200, "");
    judge_call(jobs, job, &result, NOW_US, 0);
    assert_true(job->settlement.is_terminal);
    assert_int_equal(job->settlement.status, STATUS_SUCCEEDED);
    assert_int_equal(job->settlement.code, CODE_NONE);
    assert_int_equal(job->calls, 1);
    assert_int_equal(job->started_at_us, NOW_US - 20 * US_PER_MS);
    assert_member(job, "/result", "{\"id\":\"ch_1\"}");
    assert_member(job, "/attempts", "1");
    assert_member(job, "/error", "null");
    assert_null(job->settlement.note);
}

static void a_retry_waits_and_leaves_a_note(void **state)
{
    (void)state;
    struct job *job = make("pay");
    const struct run_result result = answer(429, "server: x\nretry-after: 7\n");
    judge_call(jobs, job, &result, NOW_US, 0);
    assert_false(job->settlement.is_terminal);
    assert_int_equal(job->settlement.reason, WAIT_RETRY);
    assert_int_equal(job->settlement.wait_ms, 7000);
    assert_member(job, "/code", "\"HTTP_STATUS\"");
    assert_member(job, "/retry_after_s", "7");
    assert_non_null(job->settlement.note);
    assert_false(job->is_effect_unknown);
}

static void the_budget_counts_calls(void **state)
{
    (void)state;
    struct job *job = make("pay");
    const struct run_result result = {.end = CALL_NOT_SENT,
        .code = CODE_CONNECTION_FAILED,
        .message = "connection refused"};
    job->calls = 2;
    judge_call(jobs, job, &result, NOW_US, 0);
    assert_true(job->settlement.is_terminal);
    assert_int_equal(job->settlement.status, STATUS_EXHAUSTED);
    assert_member(job, "/error/code", "\"CONNECTION_FAILED\"");
    assert_member(job, "/error/message", "\"connection refused\"");
    assert_member(job, "/attempts", "3");
}

static void unsafe_with_an_unknown_end_is_indeterminate(void **state)
{
    (void)state;
    struct job *job = make("send");
    const struct run_result result = {
        .end = CALL_TIMED_OUT, .code = CODE_EXECUTION_TIMEOUT};
    judge_call(jobs, job, &result, NOW_US, 0);
    assert_true(job->settlement.is_terminal);
    assert_int_equal(job->settlement.status, STATUS_INDETERMINATE);
    assert_member(job, "/error/class", "\"unknown\"");
}

static void rejected_tells_code_and_pointer(void **state)
{
    (void)state;
    struct fault fault = FAULT_INIT;
    struct job *job = make("pay");
    (void)fault_set(&fault, CODE_PAYLOAD_INVALID, "/payload/amount", NULL);
    job_set_fault(job, &fault);
    judge_rejected(jobs, job, NOW_US);
    assert_int_equal(job->settlement.status, STATUS_REJECTED);
    assert_member(job, "/error/pointer", "\"/payload/amount\"");
    assert_member(job, "/started_at", "null");
}

static void an_end_after_a_doubt_is_indeterminate(void **state)
{
    (void)state;
    struct job *job = make("pay");
    job->is_effect_unknown = true;
    job->calls = 1;
    judge_ended(jobs, job, STATUS_EXPIRED, CODE_DEADLINE_PASSED, NOW_US);
    assert_int_equal(job->settlement.status, STATUS_INDETERMINATE);
    assert_member(job, "/error/code", "\"DEADLINE_PASSED\"");
}

static void the_largest_wait_of_all_headers_counts(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        bool is_found;
        int64_t seconds;
    } cases[] = {
        {"", false, 0},
        {"retry-after:5\n", true, 5},
        {"retry-after: 5\nretry-after: 9\nretry-after: 2\n", true, 9},
        {"retry-after: soon\n", false, 0},
        {"x-reset: 30\nretry-after: 5\n", true, 30},
        {"no colon\nretry-after: 4", true, 4},
    };
    const struct manifest_action *action = manifest_find(manifest, "pay");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t seconds = -1;
        assert_int_equal(judge_retry_after(action, span_of(cases[i].headers),
                             NOW_US, &seconds),
            cases[i].is_found);
        assert_int_equal(seconds, cases[i].seconds);
    }
}

#define JUDGE_TEST(name)                                                       \
    cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        JUDGE_TEST(success_is_an_outcome_with_the_answer),
        JUDGE_TEST(a_retry_waits_and_leaves_a_note),
        JUDGE_TEST(the_budget_counts_calls),
        JUDGE_TEST(unsafe_with_an_unknown_end_is_indeterminate),
        JUDGE_TEST(rejected_tells_code_and_pointer),
        JUDGE_TEST(an_end_after_a_doubt_is_indeterminate),
        JUDGE_TEST(the_largest_wait_of_all_headers_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
