/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#include "worker/fair.h"

static const struct fair_limits WIDE = {
    .tenant_queue = 1000, .tenant_running = 1000};

static struct jobs *jobs;

static int set_up(void **state)
{
    (void)state;
    jobs = mem_zalloc(1, sizeof(*jobs));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    jobs_free_all(jobs);
    free(jobs);
    return 0;
}

static struct job *make(const char *tenant, int priority)
{
    struct job *job = job_new(jobs, SPAN_LIT("{}"));
    (void)snprintf(
        job->record.tenant, sizeof(job->record.tenant), "%s", tenant);
    job->record.priority = priority;
    return job;
}

static void push(struct fair *fair, const char *tenant, int count)
{
    for (int i = 0; i < count; i++) {
        assert_true(fair_push(fair, make(tenant, 5)));
    }
}

/* Runs count jobs one after the other; the time each takes depends on its
 * tenant. How many of them were tenant a's. */
static int run(struct fair *fair, int count, int64_t a_ms, int64_t other_ms)
{
    int of_a = 0;
    for (int i = 0; i < count; i++) {
        struct job *job = fair_take(fair, 0);
        assert_non_null(job);
        const bool is_a = strcmp(job->record.tenant, "a") == 0;
        of_a += is_a;
        fair_done(fair, job, is_a ? a_ms : other_ms);
    }
    return of_a;
}

static void equal_tenants_share_equally_however_much_one_queues(void **state)
{
    (void)state;
    struct fair *fair = fair_new(&WIDE);
    push(fair, "a", 900);
    push(fair, "b", 100);
    assert_in_range(run(fair, 100, 10, 10), 40, 60);
    fair_free(fair);
}

static void slow_calls_get_fewer_turns_not_more_time(void **state)
{
    (void)state;
    struct fair *fair = fair_new(&WIDE);
    push(fair, "a", 900);
    push(fair, "b", 900);
    (void)run(fair, 100, 400, 10); /* learns what they cost */
    assert_in_range(run(fair, 410, 400, 10), 5, 20);
    fair_free(fair);
}

static void a_tenant_alone_gets_everything(void **state)
{
    (void)state;
    struct fair *fair = fair_new(&WIDE);
    push(fair, "a", 50);
    assert_int_equal(run(fair, 50, 60000, 1), 50);
    assert_null(fair_take(fair, 0));
    assert_int_equal(fair_tenants(fair), 0);
    fair_free(fair);
}

static void caps_hold(void **state)
{
    (void)state;
    const struct fair_limits limits = {.tenant_queue = 3, .tenant_running = 2};
    struct fair *fair = fair_new(&limits);
    push(fair, "a", 3);
    assert_false(fair_push(fair, make("a", 5)));
    assert_true(fair_push(fair, make("b", 5)));
    struct job *taken[3];
    for (int i = 0; i < 3; i++) {
        taken[i] = fair_take(fair, 0);
        assert_non_null(taken[i]);
    }
    assert_null(fair_take(fair, 0)); /* a runs two, b has no more */
    assert_int_equal(fair_running(fair), 3);
    assert_int_equal(fair_waiting(fair), 1);
    for (int i = 0; i < 3; i++) {
        fair_done(fair, taken[i], 1);
    }
    assert_non_null(fair_take(fair, 0));
    fair_free(fair);
}

static void a_queue_that_moves_fast_may_be_longer(void **state)
{
    (void)state;
    const struct fair_limits limits = {
        .tenant_queue = 3, .tenant_running = 2, .patience_ms = 1000};
    struct fair *fair = fair_new(&limits);
    /* 50 ms each is the guess before anything is known: 40 of them take two
     * slots a second. */
    push(fair, "a", 40);
    assert_false(fair_push(fair, make("a", 5)));
    /* What was learned counts: 1 ms each now. */
    assert_int_equal(run(fair, 39, 1, 1), 39);
    push(fair, "a", 40);
    fair_free(fair);
}

static void higher_priority_goes_first_then_arrival(void **state)
{
    (void)state;
    struct fair *fair = fair_new(&WIDE);
    struct job *low = make("a", 1);
    struct job *first = make("a", 9);
    struct job *second = make("a", 9);
    assert_true(fair_push(fair, low));
    assert_true(fair_push(fair, first));
    assert_true(fair_push(fair, second));
    assert_ptr_equal(fair_take(fair, 0), first);
    assert_ptr_equal(fair_take(fair, 0), second);
    assert_ptr_equal(fair_take(fair, 0), low);
    fair_free(fair);
}

static void what_could_not_start_is_next_after_its_time(void **state)
{
    (void)state;
    struct fair *fair = fair_new(&WIDE);
    push(fair, "a", 2);
    push(fair, "b", 1);
    struct job *job = fair_take(fair, 100);
    assert_string_equal(job->record.tenant, "a");
    fair_put_back(fair, job, 500);
    assert_string_equal(fair_take(fair, 200)->record.tenant, "b");
    assert_null(fair_take(fair, 499));
    assert_ptr_equal(fair_take(fair, 500), job);
    fair_free(fair);
}

static void draining_gives_all_waiting_ones(void **state)
{
    (void)state;
    struct fair *fair = fair_new(&WIDE);
    push(fair, "a", 4);
    push(fair, "b", 2);
    struct job *running = fair_take(fair, 0);
    int drained = 0;
    while (fair_drain(fair) != NULL) {
        drained++;
    }
    assert_int_equal(drained, 5);
    fair_done(fair, running, 1);
    assert_int_equal(fair_tenants(fair), 0);
    fair_free(fair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            equal_tenants_share_equally_however_much_one_queues, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            slow_calls_get_fewer_turns_not_more_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_tenant_alone_gets_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(caps_hold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_queue_that_moves_fast_may_be_longer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            higher_priority_goes_first_then_arrival, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_could_not_start_is_next_after_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            draining_gives_all_waiting_ones, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
