/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/fair.h"

#include <stdlib.h>
#include <string.h>

enum {
    PRIORITY_COUNT = 10,
    BUCKET_COUNT = 1024,
    QUANTUM_MS = 20,
    START_COST_MS = 50, /* before anything is known of a tenant */
    MAX_COST_MS = 60000
};

struct tenant {
    struct tenant *next_in_bucket;
    struct tenant *next; /* the ring, in order of turns */
    struct tenant *prev;
    char name[RECORD_MAX_NAME + 1];
    struct job_list queues[PRIORITY_COUNT];
    size_t waiting;
    size_t running;
    int64_t cost_ms; /* moving average of what a job held its slot */
    int64_t deficit_ms;
    int64_t blocked_until_us;
};

struct fair {
    struct fair_limits limits;
    struct tenant *buckets[BUCKET_COUNT];
    struct tenant *turn; /* of the ring; NULL when there are no tenants */
    size_t tenants;
    size_t waiting;
    size_t running;
};

struct fair *fair_new(const struct fair_limits *limits)
{
    struct fair *fair = mem_zalloc(1, sizeof(*fair));
    fair->limits = *limits;
    return fair;
}

void fair_free(struct fair *fair)
{
    if (fair == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKET_COUNT; i++) {
        while (fair->buckets[i] != NULL) {
            struct tenant *tenant = fair->buckets[i];
            fair->buckets[i] = tenant->next_in_bucket;
            free(tenant);
        }
    }
    free(fair);
}

/* FNV-1a; names are at most 63 bytes. */
static size_t bucket_of(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    }
    return hash % BUCKET_COUNT;
}

static void join_ring(struct fair *fair, struct tenant *tenant)
{
    if (fair->turn == NULL) {
        tenant->next = tenant;
        tenant->prev = tenant;
        fair->turn = tenant;
        return;
    }
    tenant->next = fair->turn;
    tenant->prev = fair->turn->prev;
    tenant->prev->next = tenant;
    fair->turn->prev = tenant;
}

static void leave_ring(struct fair *fair, struct tenant *tenant)
{
    if (tenant->next == tenant) {
        fair->turn = NULL;
        return;
    }
    tenant->prev->next = tenant->next;
    tenant->next->prev = tenant->prev;
    if (fair->turn == tenant) {
        fair->turn = tenant->next;
    }
}

static struct tenant *get_tenant(struct fair *fair, const char *name)
{
    struct tenant **bucket = &fair->buckets[bucket_of(name)];
    for (struct tenant *at = *bucket; at != NULL; at = at->next_in_bucket) {
        if (strcmp(at->name, name) == 0) {
            return at;
        }
    }
    struct tenant *tenant = mem_zalloc(1, sizeof(*tenant));
    memcpy(tenant->name, name, strlen(name) + 1);
    tenant->cost_ms = START_COST_MS;
    tenant->next_in_bucket = *bucket;
    *bucket = tenant;
    join_ring(fair, tenant);
    fair->tenants++;
    return tenant;
}

/* A tenant without work is forgotten: memory is bounded by the jobs. */
static void drop_if_idle(struct fair *fair, struct tenant *tenant)
{
    if (tenant->waiting > 0 || tenant->running > 0) {
        return;
    }
    struct tenant **link = &fair->buckets[bucket_of(tenant->name)];
    while (*link != tenant) {
        link = &(*link)->next_in_bucket;
    }
    *link = tenant->next_in_bucket;
    leave_ring(fair, tenant);
    fair->tenants--;
    free(tenant);
}

static struct job_list *queue_of(struct tenant *tenant, const struct job *job)
{
    const int priority = job->record.priority;
    return &tenant->queues[priority >= 0 && priority < PRIORITY_COUNT
                               ? priority
                               : PRIORITY_COUNT / 2];
}

/* What is worked off in a moment would cost more anywhere else: every action
 * that comes back later is written and read three times as often. */
static bool is_overflowing(const struct fair *fair, const struct tenant *tenant)
{
    const struct fair_limits *limits = &fair->limits;
    return tenant->waiting >= limits->tenant_queue &&
           (int64_t)tenant->waiting * tenant->cost_ms >=
               limits->patience_ms * (int64_t)limits->tenant_running;
}

bool fair_push(struct fair *fair, struct job *job)
{
    struct tenant *tenant = get_tenant(fair, job->record.tenant);
    if (is_overflowing(fair, tenant)) {
        return false;
    }
    job_list_push(queue_of(tenant, job), job);
    tenant->waiting++;
    fair->waiting++;
    return true;
}

static bool may_run(
    const struct fair *fair, const struct tenant *tenant, int64_t now_us)
{
    return tenant->waiting > 0 &&
           tenant->running < fair->limits.tenant_running &&
           tenant->blocked_until_us <= now_us;
}

/* Rounds of the ring until this tenant can pay for its next job. */
static int64_t rounds_needed(const struct tenant *tenant)
{
    const int64_t missing = tenant->cost_ms - tenant->deficit_ms;
    return missing <= 0 ? 0 : (missing + QUANTUM_MS - 1) / QUANTUM_MS;
}

/*
 * The tenant whose turn it is. Where nobody can pay, all the rounds that would
 * only add quanta are made in one step, so that one slow tenant alone does not
 * cost thousands of rounds.
 */
static struct tenant *find_turn(struct fair *fair, int64_t now_us)
{
    struct tenant *best = NULL;
    int64_t rounds = 0;
    struct tenant *tenant = fair->turn;

    for (size_t i = 0; i < fair->tenants; i++, tenant = tenant->next) {
        if (!may_run(fair, tenant, now_us)) {
            continue;
        }
        const int64_t needed = rounds_needed(tenant);
        if (needed == 0) {
            return tenant;
        }
        if (best == NULL || needed < rounds) {
            best = tenant;
            rounds = needed;
        }
    }
    tenant = fair->turn;
    for (size_t i = 0; best != NULL && i < fair->tenants; i++) {
        if (may_run(fair, tenant, now_us)) {
            tenant->deficit_ms += rounds * QUANTUM_MS;
        }
        tenant = tenant->next;
    }
    return best;
}

static struct job *pop_first(struct tenant *tenant)
{
    for (int i = PRIORITY_COUNT - 1; i > 0; i--) {
        if (tenant->queues[i].count > 0) {
            return job_list_pop(&tenant->queues[i]);
        }
    }
    return job_list_pop(&tenant->queues[0]);
}

struct job *fair_take(struct fair *fair, int64_t now_us)
{
    struct tenant *tenant = find_turn(fair, now_us);
    if (tenant == NULL) {
        return NULL;
    }
    struct job *job = pop_first(tenant);
    job->tenant = tenant;
    job->charged_ms = tenant->cost_ms;
    tenant->deficit_ms -= tenant->cost_ms;
    tenant->waiting--;
    tenant->running++;
    fair->waiting--;
    fair->running++;
    /* It keeps its turn while it can pay; a tenant that has nothing left does
     * not save up for later. */
    fair->turn = tenant;
    if (tenant->waiting == 0) {
        tenant->deficit_ms = tenant->deficit_ms < 0 ? tenant->deficit_ms : 0;
    }
    if (rounds_needed(tenant) > 0 || tenant->waiting == 0) {
        fair->turn = tenant->next;
    }
    return job;
}

static void stop_running(struct fair *fair, struct job *job)
{
    job->tenant->running--;
    fair->running--;
    job->tenant = NULL;
}

void fair_put_back(struct fair *fair, struct job *job, int64_t until_us)
{
    struct tenant *tenant = job->tenant;
    stop_running(fair, job);
    tenant->deficit_ms += job->charged_ms;
    tenant->blocked_until_us = until_us;
    job_list_push_front(queue_of(tenant, job), job);
    tenant->waiting++;
    fair->waiting++;
}

void fair_done(struct fair *fair, struct job *job, int64_t wall_ms)
{
    struct tenant *tenant = job->tenant;
    const int64_t cost = wall_ms < 1             ? 1
                         : wall_ms > MAX_COST_MS ? MAX_COST_MS
                                                 : wall_ms;
    tenant->deficit_ms += job->charged_ms - cost;
    tenant->cost_ms = (7 * tenant->cost_ms + cost) / 8;
    tenant->cost_ms = tenant->cost_ms < 1 ? 1 : tenant->cost_ms;
    tenant->blocked_until_us = 0;
    stop_running(fair, job);
    drop_if_idle(fair, tenant);
}

bool fair_remove(struct fair *fair, struct job *job)
{
    struct tenant *tenant = fair->buckets[bucket_of(job->record.tenant)];
    while (tenant != NULL && strcmp(tenant->name, job->record.tenant) != 0) {
        tenant = tenant->next_in_bucket;
    }
    if (tenant == NULL || !job_list_remove(queue_of(tenant, job), job)) {
        return false;
    }
    tenant->waiting--;
    fair->waiting--;
    drop_if_idle(fair, tenant);
    return true;
}

struct job *fair_drain(struct fair *fair)
{
    struct tenant *tenant = fair->turn;
    for (size_t i = 0; i < fair->tenants; i++, tenant = tenant->next) {
        if (tenant->waiting == 0) {
            continue;
        }
        struct job *job = pop_first(tenant);
        tenant->waiting--;
        fair->waiting--;
        drop_if_idle(fair, tenant);
        return job;
    }
    return NULL;
}

size_t fair_waiting(const struct fair *fair)
{
    return fair->waiting;
}

size_t fair_running(const struct fair *fair)
{
    return fair->running;
}

size_t fair_tenants(const struct fair *fair)
{
    return fair->tenants;
}
