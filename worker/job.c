/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/job.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/delivery.h"

/* -- lists ----------------------------------------------------------------- */

void job_list_push(struct job_list *list, struct job *job)
{
    job->next = NULL;
    job->prev = list->tail;
    if (list->tail != NULL) {
        list->tail->next = job;
    } else {
        list->head = job;
    }
    list->tail = job;
    list->count++;
}

void job_list_push_front(struct job_list *list, struct job *job)
{
    job->prev = NULL;
    job->next = list->head;
    if (list->head != NULL) {
        list->head->prev = job;
    } else {
        list->tail = job;
    }
    list->head = job;
    list->count++;
}

struct job *job_list_pop(struct job_list *list)
{
    struct job *job = list->head;
    if (job == NULL) {
        return NULL;
    }
    list->head = job->next;
    if (list->head != NULL) {
        list->head->prev = NULL;
    } else {
        list->tail = NULL;
    }
    list->count--;
    job->next = NULL;
    return job;
}

bool job_list_remove(struct job_list *list, struct job *job)
{
    const struct job *at = list->head;
    while (at != NULL && at != job) {
        at = at->next;
    }
    if (at == NULL) {
        return false;
    }
    *(job->prev == NULL ? &list->head : &job->prev->next) = job->next;
    *(job->next == NULL ? &list->tail : &job->next->prev) = job->prev;
    job->next = NULL;
    job->prev = NULL;
    list->count--;
    return true;
}

void job_list_free(struct jobs *jobs, struct job_list *list)
{
    struct job *job = NULL;
    while ((job = job_list_pop(list)) != NULL) {
        job_free(jobs, job);
    }
}

/* -- the table ------------------------------------------------------------- */

/* Ids come out of a hash, so any two of their bytes are one. */
static size_t id_bucket(const uint8_t *id)
{
    return (((size_t)id[0] << 8) | id[1]) % JOB_BUCKETS;
}

static bool has_id(const struct job *job, const uint8_t *id)
{
    return memcmp(job->record.id, id, UUID_SIZE) == 0;
}

void jobs_insert(struct jobs *jobs, struct job *job)
{
    assert(jobs_find(jobs, job->record.id) == NULL);
    struct job **bucket = &jobs->by_id[id_bucket(job->record.id)];
    job->next_by_id = *bucket;
    *bucket = job;
}

struct job *jobs_find(const struct jobs *jobs, const uint8_t *id)
{
    struct job *job = jobs->by_id[id_bucket(id)];
    while (job != NULL && !has_id(job, id)) {
        job = job->next_by_id;
    }
    return job;
}

static void remove_id(struct jobs *jobs, struct job *job)
{
    struct job **link = &jobs->by_id[id_bucket(job->record.id)];
    for (; *link != NULL; link = &(*link)->next_by_id) {
        if (*link == job) {
            *link = job->next_by_id;
            return;
        }
    }
}

void jobs_insert_run(struct jobs *jobs, struct job *job)
{
    job->run_id = ++jobs->last_run_id;
    struct job **bucket = &jobs->by_run[job->run_id % JOB_BUCKETS];
    job->next_by_run = *bucket;
    *bucket = job;
}

struct job *jobs_find_run(const struct jobs *jobs, uint64_t run_id)
{
    struct job *job = jobs->by_run[run_id % JOB_BUCKETS];
    while (job != NULL && job->run_id != run_id) {
        job = job->next_by_run;
    }
    return job;
}

void jobs_remove_run(struct jobs *jobs, struct job *job)
{
    struct job **link = &jobs->by_run[job->run_id % JOB_BUCKETS];
    for (; *link != NULL; link = &(*link)->next_by_run) {
        if (*link == job) {
            *link = job->next_by_run;
            break;
        }
    }
    job->run_id = 0;
}

/* -- memory ---------------------------------------------------------------- */

struct job *job_new(struct jobs *jobs, struct span text)
{
    struct job *job = mem_zalloc(1, sizeof(*job));
    job->text = span_dup(text);
    job->text_len = text.len;
    job->effect = EFFECT_NATURAL;
    job->live_state = LIVE_READY;
    job->number = ++jobs->last_number;
    job->next_of_all = jobs->all;
    if (jobs->all != NULL) {
        jobs->all->prev_of_all = job;
    }
    jobs->all = job;
    jobs->count++;
    jobs->bytes += text.len;
    return job;
}

void job_free(struct jobs *jobs, struct job *job)
{
    remove_id(jobs, job);
    if (job->run_id != 0) {
        jobs_remove_run(jobs, job);
    }
    if (job->next_of_all != NULL) {
        job->next_of_all->prev_of_all = job->prev_of_all;
    }
    if (job->prev_of_all != NULL) {
        job->prev_of_all->next_of_all = job->next_of_all;
    } else {
        jobs->all = job->next_of_all;
    }
    jobs->count--;
    jobs->bytes -= job->text_len + job->settlement.body_len;
    delivery_free(jobs, job->delivery);
    free(job->settlement.body);
    free(job->settlement.note);
    free(job->fault);
    free(job->text);
    free(job);
}

void jobs_free_all(struct jobs *jobs)
{
    struct job *job = jobs->all;
    while (job != NULL) {
        struct job *next = job->next_of_all;
        job_free(jobs, job);
        job = next;
    }
}

void job_set_fault(struct job *job, const struct fault *fault)
{
    if (job->fault == NULL) {
        job->fault = mem_alloc(sizeof(*job->fault));
    }
    *job->fault = *fault;
}

void job_set_body(struct jobs *jobs, struct job *job, char *body, size_t len)
{
    jobs->bytes -= job->settlement.body_len;
    jobs->bytes += len;
    free(job->settlement.body);
    job->settlement.body = body;
    job->settlement.body_len = len;
}

/* -- batches --------------------------------------------------------------- */

static int compare_jobs(const void *left, const void *right)
{
    const struct job *a = *(struct job *const *)left;
    const struct job *b = *(struct job *const *)right;
    const int order = memcmp(a->record.id, b->record.id, UUID_SIZE);
    if (order != 0) {
        return order;
    }
    return (a->number > b->number) - (a->number < b->number);
}

void job_sort(struct job **batch, size_t count)
{
    if (count > 1) {
        qsort(batch, count, sizeof(*batch), compare_jobs);
    }
}

size_t job_search(struct job *const *batch, size_t count, const uint8_t *id)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (memcmp(batch[middle]->record.id, id, UUID_SIZE) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && has_id(batch[low], id) ? low : count;
}
