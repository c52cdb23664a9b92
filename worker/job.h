/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job: one action in the worker's memory, from the record (or row) it came
 * from to the statement that settles it. Owns the jobs' memory, the table of
 * those whose live row is ours, and the lists they stand in.
 *
 * A job stands in at most one list. Postgres is the truth: losing a job from
 * memory loses nothing, reconcile finds its row again.
 */
#ifndef JOB_H
#define JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/manifest.h"
#include "schema/record.h"
#include "schema/state.h"
#include "worker/offsets.h"

struct delivery; /* delivery.h */
struct tenant;   /* fair.h */

#define TRACEPARENT_SIZE 56 /* of version 00, and the end */

/* How a job leaves: one outcome, or a wait. */
struct settlement {
    bool is_terminal;
    enum status status; /* terminal */
    enum code code;
    char *body; /* owned: the outcome document; waiting: the error or NULL */
    size_t body_len;
    enum wait_reason reason; /* waiting */
    int64_t due_us;          /* waiting: not before; 0: wait_ms alone */
    int64_t wait_ms;
    int64_t pause_no; /* waiting, paused: which pause holds it */
    char *note; /* owned: the attempt's ledger note, NULL without a call */
    size_t note_len;
};

struct job {
    struct job *next; /* in a list */
    struct job *prev;
    struct job *next_of_all;
    struct job *prev_of_all;
    struct job *next_by_id; /* in the table */
    struct job *next_by_run;

    char *text; /* owned: the request */
    size_t text_len;
    struct record record;      /* borrows text; record.id is the action's id */
    struct fault *fault;       /* owned; NULL: fine. Set: will be rejected */
    struct manifest *manifest; /* borrowed from connectors, NULL: rejected */
    const struct manifest_action *action;
    enum effect effect;

    /* where it came from; topic NULL for rows taken over */
    const char *topic; /* static for the process */
    int32_t partition;
    int64_t offset;
    struct offset_entry *entry; /* NULL once it is done */
    char traceparent[TRACEPARENT_SIZE];
    int64_t asked_us; /* mono: when its connector was first looked for */
    uint64_t number;  /* order of arrival */
    bool is_conflict; /* stands in for a refused repeat of another key */
    bool is_in_doubt; /* its last statement ended unknown */
    void (*resume)(void *owner, struct job *job); /* after a refresh */
    void *resume_owner;

    /* the row in live */
    int attempt_no;
    enum live_state live_state;
    int calls; /* started before this attempt */
    bool is_effect_unknown;
    bool is_cancelled;
    int64_t deadline_us;
    int64_t started_at_us;
    int64_t accepted_us; /* when it was claimed first; wall */
    int64_t queued_us;   /* mono: since when it waits for its turn */
    bool was_row_taken;  /* another worker or attempt had it before */

    /* in the run */
    uint64_t run_id; /* 0: not running */
    struct tenant *tenant;
    int64_t charged_ms;
    struct settlement settlement;

    struct delivery *delivery; /* owned; what it was made of, until its row is
                                  written. NULL: no webhook */
};

struct job_list {
    struct job *head;
    struct job *tail;
    size_t count;
};

void job_list_push(struct job_list *list, struct job *job);
void job_list_push_front(struct job_list *list, struct job *job);
struct job *job_list_pop(struct job_list *list); /* NULL if empty */
/* Takes the job out; false: it does not stand in this list. */
bool job_list_remove(struct job_list *list, struct job *job);

/* -- memory and the table -------------------------------------------------- */

#define JOB_BUCKETS 16384

struct jobs {
    struct job *by_id[JOB_BUCKETS];
    struct job *by_run[JOB_BUCKETS];
    struct job *all; /* in the table or not */
    size_t count;
    size_t bytes; /* of their texts and bodies */
    uint64_t last_number;
    uint64_t last_run_id; /* goes on over restarts: old answers match nothing */
};

/* A job with a copy of text. */
struct job *job_new(struct jobs *jobs, struct span text);
/* Frees it; it must stand in no list. Leaves the table. entry is not touched. */
void job_free(struct jobs *jobs, struct job *job);
void job_list_free(struct jobs *jobs, struct job_list *list);
/* Frees every job, whatever list it stands in; those lists are void then. */
void jobs_free_all(struct jobs *jobs);

void jobs_insert(struct jobs *jobs, struct job *job); /* by its id */
struct job *jobs_find(const struct jobs *jobs, const uint8_t *id);
/* Gives the job a run id, by which jobs_find_run() finds it. */
void jobs_insert_run(struct jobs *jobs, struct job *job);
struct job *jobs_find_run(const struct jobs *jobs, uint64_t run_id);
void jobs_remove_run(struct jobs *jobs, struct job *job);

/* The fault of a rejected job; copied. */
void job_set_fault(struct job *job, const struct fault *fault);
/* Takes over body (heap, may be NULL), the settlement's. */
void job_set_body(struct jobs *jobs, struct job *job, char *body, size_t len);

/* Sorts by id, then arrival. */
void job_sort(struct job **batch, size_t count);
/* The first job of a sorted batch with this id; count if there is none. */
size_t job_search(struct job *const *batch, size_t count, const uint8_t *id);

#endif
