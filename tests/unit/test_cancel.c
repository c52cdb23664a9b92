/* SPDX-License-Identifier: Apache-2.0 */
/* cancel: what the answer of the statement means, and leaving the queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "schema/cancel.h"
#include "worker/fair.h"

static void answers_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct cancel_row row;
        enum cancel_word word;
    } cases[] = {
        {"no such action, or another tenant's", {.is_known = false},
            CANCEL_UNKNOWN},
        {"another tenant's is no less unknown when it is live",
            {.is_known = false, .is_open = true, .is_marked = true},
            CANCEL_UNKNOWN},
        {"marked now", {.is_known = true, .is_taken = true, .is_open = true},
            CANCEL_UNDER_WAY},
        {"marked before",
            {.is_known = true, .is_marked = true, .is_open = true},
            CANCEL_UNDER_WAY},
        {"it moved from under the statement",
            {.is_known = true, .is_open = true}, CANCEL_AGAIN},
        {"ended as cancelled", {.is_known = true, .status = STATUS_CANCELLED},
            CANCEL_DONE},
        {"ended otherwise", {.is_known = true, .status = STATUS_SUCCEEDED},
            CANCEL_TOO_LATE},
        {"ended in doubt", {.is_known = true, .status = STATUS_INDETERMINATE},
            CANCEL_TOO_LATE},
        {"accepted and not claimed", {.is_known = true}, CANCEL_NOT_YET},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        print_message("%s\n", cases[i].name);
        assert_int_equal(cancel_judge(&cases[i].row), cases[i].word);
    }
}

static struct job *new_job(struct jobs *jobs, const char *tenant)
{
    struct job *job = job_new(jobs, SPAN_LIT("{}"));
    memcpy(job->record.tenant, tenant, strlen(tenant) + 1);
    job->record.priority = 5;
    return job;
}

static void job_leaves_the_queue(void **state)
{
    (void)state;
    static struct jobs jobs;
    const struct fair_limits limits = {
        .tenant_queue = 10, .tenant_running = 10};
    struct fair *fair = fair_new(&limits);
    struct job *list[4];
    for (size_t i = 0; i < 4; i++) {
        list[i] = new_job(&jobs, i < 3 ? "acme" : "other");
    }
    for (size_t i = 0; i < 3; i++) {
        assert_true(fair_push(fair, list[i]));
    }
    assert_false(fair_remove(fair, list[3])); /* of an unknown tenant */
    assert_true(fair_remove(fair, list[1]));
    assert_false(fair_remove(fair, list[1]));
    assert_int_equal(fair_waiting(fair), 2);
    assert_ptr_equal(fair_take(fair, 1), list[0]);
    assert_false(fair_remove(fair, list[0])); /* it runs */
    assert_true(fair_remove(fair, list[2]));  /* the last one in the queue */
    assert_int_equal(fair_waiting(fair), 0);
    fair_done(fair, list[0], 1);
    assert_int_equal(fair_tenants(fair), 0);
    fair_free(fair);
    jobs_free_all(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_judged),
        cmocka_unit_test(job_leaves_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
