/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot: one place for an HTTP runner, seen from the worker: the tenant it
 * serves, its socket, its queue of frames, the calls it has.
 *
 *   EMPTY --assign--> DOWN --start--> STARTING --READY--> UP
 *     ^                ^                 |                 |
 *     +----- idle -----+---- ENDING <----+-- end of file --+
 *
 * ENDING lasts until the socket is at its end and the keeper has said that the
 * process is gone: only then may cgroup and uid be used again. Calls of a
 * runner that died are reported then, so that the report can say why.
 */
#ifndef SLOT_H
#define SLOT_H

#include <sys/types.h>

#include "worker/run/frame.h"
#include "worker/run/keeper.h"
#include "worker/run/run.h"

#define SLOT_TENANT_SIZE 64

enum slot_state { SLOT_EMPTY, SLOT_DOWN, SLOT_STARTING, SLOT_UP, SLOT_ENDING };

struct slot_job {
    uint64_t id;
    uint64_t frame_end; /* position in the stream after its frame */
    int64_t timeout_ms;
    int64_t due_us; /* for the safety net; 0: its clock stands still */
    bool is_used;
    bool is_overdue;
    uint32_t next_free;
};

/* The jobs of one life of a runner. */
struct slot_jobs {
    struct slot_job *table; /* NULL until the first job; max_calls entries */
    uint32_t first_free;
    size_t active;
    uint64_t written; /* bytes that went into the socket */
};

/* What is the same for all slots; borrowed from struct run. */
struct slot_common {
    struct loop *loop;
    int keeper_socket;
    uint32_t max_calls;
    struct buf setup; /* the SETUP frame */
    run_done_fn done;
    void *owner;
    /* Something has to be written or started: slot_work() soon. */
    void (*on_work)(void *owner);
    void *work_owner;
};

struct slot {
    struct slot_common *common;
    uint32_t number;
    enum slot_state state;
    char tenant[SLOT_TENANT_SIZE];
    int socket;
    struct loop_fd *watch;
    struct buf in;
    struct buf out;
    size_t out_at;   /* bytes of out that are written already */
    bool is_blocked; /* the socket takes no more for now */
    struct slot_jobs jobs;
    struct slot_jobs dead; /* of the life that is ending */
    bool has_exited;       /* the keeper said so */
    bool is_expected;      /* we ended it */
    unsigned failures;     /* ends in a row that were not expected */
    int64_t not_before_us; /* of the next start */
    int64_t since_us;      /* of the start, or of the last call's end */
    char why[256];         /* it ended, for people */
};

void slot_init(struct slot *slot, struct slot_common *common, uint32_t number);
/* Frees everything; jobs are not reported. */
void slot_fini(struct slot *slot);

/* Gives an idle slot to a tenant; a runner of another one is ended. */
void slot_assign(struct slot *slot, const char *tenant);
/* May it be given to another tenant? */
bool slot_is_idle(const struct slot *slot);

/* Queues a job. TRANSIENT when it has too many; PERMANENT when the job does
 * not fit into a frame. */
int slot_add(
    struct slot *slot, const struct run_job *job, struct err *err) MUST_CHECK;

/* Starts the runner if it is time, writes what is queued. */
void slot_work(struct slot *slot);
/* What is due by the clock: start, idle end, overdue calls. */
void slot_tick(struct slot *slot, int64_t idle_us);

/* The keeper's word about this slot. */
void slot_on_exit(struct slot *slot, const struct keeper_message *message);
/* The keeper died, and the runner with it: reports all jobs. */
void slot_on_keeper_death(struct slot *slot);
/* Ends the runner, idle or not. */
void slot_kill(struct slot *slot, bool is_expected);

#endif
