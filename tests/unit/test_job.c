/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/job.h"

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
    assert_int_equal(jobs->count, 0);
    assert_int_equal(jobs->bytes, 0);
    free(jobs);
    return 0;
}

static struct job *make(uint8_t first, uint8_t last)
{
    struct job *job = job_new(jobs, SPAN_LIT("{}"));
    job->record.id[0] = first;
    job->record.id[UUID_SIZE - 1] = last;
    return job;
}

static void lists_keep_their_order(void **state)
{
    (void)state;
    struct job_list list = {0};
    struct job *a = make(1, 0);
    struct job *b = make(2, 0);
    struct job *c = make(3, 0);
    struct job *d = make(4, 0);
    job_list_push(&list, c);
    job_list_push_front(&list, b);
    job_list_push(&list, d);
    job_list_push_front(&list, a);
    assert_int_equal(list.count, 4);
    assert_ptr_equal(job_list_pop(&list), a);
    assert_ptr_equal(job_list_pop(&list), b);
    assert_ptr_equal(job_list_pop(&list), c);
    assert_ptr_equal(job_list_pop(&list), d);
    assert_null(job_list_pop(&list));
    assert_null(list.tail);
}

static void jobs_are_found_by_id_also_in_one_bucket(void **state)
{
    (void)state;
    struct job *a = make(7, 1);
    struct job *b = make(7, 2);
    jobs_insert(jobs, a);
    jobs_insert(jobs, b);
    assert_ptr_equal(jobs_find(jobs, a->record.id), a);
    assert_ptr_equal(jobs_find(jobs, b->record.id), b);
    uint8_t id[UUID_SIZE] = {7};
    assert_null(jobs_find(jobs, id));
    memcpy(id, a->record.id, UUID_SIZE);
    job_free(jobs, a);
    assert_null(jobs_find(jobs, id));
    assert_ptr_equal(jobs_find(jobs, b->record.id), b);
}

static void freeing_a_stranger_leaves_its_namesake(void **state)
{
    (void)state;
    struct job *known = make(9, 9);
    jobs_insert(jobs, known);
    job_free(jobs, make(9, 9)); /* a repeat that never got in */
    assert_ptr_equal(jobs_find(jobs, known->record.id), known);
}

static void run_ids_are_never_used_twice(void **state)
{
    (void)state;
    struct job *job = make(1, 1);
    jobs_insert_run(jobs, job);
    const uint64_t first = job->run_id;
    assert_ptr_equal(jobs_find_run(jobs, first), job);
    jobs_remove_run(jobs, job);
    assert_null(jobs_find_run(jobs, first));
    jobs_insert_run(jobs, job);
    assert_true(job->run_id > first);
    assert_null(jobs_find_run(jobs, first));
}

static void batches_are_sorted_by_id_then_arrival(void **state)
{
    (void)state;
    struct job *late = make(5, 0);
    struct job *early = make(2, 0);
    struct job *again = make(5, 0);
    struct job *batch[] = {again, late, early};
    job_sort(batch, ARRAY_LEN(batch));
    assert_ptr_equal(batch[0], early);
    assert_ptr_equal(batch[1], late);
    assert_ptr_equal(batch[2], again);
    assert_int_equal(job_search(batch, 3, late->record.id), 1);
    assert_int_equal(job_search(batch, 3, early->record.id), 0);
    const uint8_t other[UUID_SIZE] = {3};
    assert_int_equal(job_search(batch, 3, other), 3);
    const uint8_t above[UUID_SIZE] = {9};
    assert_int_equal(job_search(batch, 3, above), 3);
}

static void bytes_are_counted(void **state)
{
    (void)state;
    struct job *job = make(1, 0);
    assert_int_equal(jobs->bytes, 2);
    job_set_body(jobs, job, mem_strdup("12345"), 5);
    assert_int_equal(jobs->bytes, 7);
    job_set_body(jobs, job, NULL, 0);
    assert_int_equal(jobs->bytes, 2);
}

#define JOB_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST(lists_keep_their_order),
        JOB_TEST(jobs_are_found_by_id_also_in_one_bucket),
        JOB_TEST(freeing_a_stranger_leaves_its_namesake),
        JOB_TEST(run_ids_are_never_used_twice),
        JOB_TEST(batches_are_sorted_by_id_then_arrival),
        JOB_TEST(bytes_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
