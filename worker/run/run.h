/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run: the worker's side of the children. It hands calls to the HTTP runner
 * of their tenant (started by the keeper on first use, ended after 60 s of
 * idleness, at most 64) and reports how each ended. It never decides what an
 * end means.
 *
 * Process picture: worker --fork before anything else--> keeper (privileged,
 * small, poll loop, no secrets, no user data) --fork, cgroup, uid, exec-->
 * actionist-runner, one a tenant. Worker and runner share a stream socket
 * that the keeper passes on; frames are in frame.h.
 */
#ifndef RUN_H
#define RUN_H

#include <stdint.h>

#include "common/conf.h"
#include "common/loop.h"
#include "schema/manifest.h"
#include "schema/state.h"

/* -- the keeper ----------------------------------------------------------------- */

struct keeper {
    int socket; /* to the keeper, SOCK_SEQPACKET, close-on-exec */
    pid_t pid;
};

/*
 * Forks the keeper. Must come first in main(): no thread, no connection, no
 * secret may exist yet. boot_id_text names the cgroups (actionist/<boot>/...).
 * Then drops the worker's own privileges (setting worker.user) if root. FATAL
 * with one line when cgroups cannot be made or limits cannot be set.
 */
int keeper_start(const struct conf *conf, const char *boot_id_text,
    struct keeper *keeper, struct err *err) MUST_CHECK;

/* -- calls ------------------------------------------------------------------------ */

struct run_job {
    uint64_t id; /* chosen by the caller, comes back with the result */
    const char *tenant;
    const struct call *call; /* copied */
    int64_t timeout_ms;      /* whole call, from the moment it is sent */
    const struct egress_rule *egress; /* copied */
    size_t egress_count;
    size_t max_result_bytes;
};

struct run_result {
    uint64_t id;
    enum call_end end;
    enum code code;    /* CODE_NONE when answered */
    char message[256]; /* for people; "" when answered */
    int http_status;
    struct span headers; /* "lower-case-name: value\n" lines, at most 16 KiB */
    struct span body;    /* at most max_result_bytes */
    bool is_body_cut;
    int64_t body_bytes; /* whole size, as far as it was read */
    int64_t egress_bytes;
    int64_t wall_ms;
    int64_t cpu_ms;
    int64_t memory_peak_bytes; /* of the runner's cgroup */
};

/* Everything in result is borrowed until the callback returns. Runs once for
 * each accepted job, from the loop, never inside run_start(). */
typedef void (*run_done_fn)(void *owner, const struct run_result *result);
/* The keeper died: no child lives any more, every running job has been
 * reported as CALL_LOST, and no new one can start. The worker ends itself. */
typedef void (*run_dead_fn)(void *owner);

struct run;

struct run *run_open(struct loop *loop, const struct conf *conf,
    const struct keeper *keeper, run_done_fn done, run_dead_fn dead,
    void *owner, struct err *err) MUST_CHECK;
/* Accepts a job (0), or says TRANSIENT when the tenant's runner is at its
 * limit of running calls or all runners are busy with other tenants. */
int run_start(
    struct run *run, const struct run_job *job, struct err *err) MUST_CHECK;
size_t run_active(const struct run *run);
/* To be called after each lease renewal that was confirmed: when the keeper
 * hears none for 8 s it kills every child. */
void run_renewed(struct run *run);
/* Kills all children; running jobs are reported as CALL_LOST. */
void run_kill_all(struct run *run);
/* Ends the keeper too; it removes the cgroups. NULL ok. */
void run_close(struct run *run);

/* The settings of this folder, to be put into the worker's table. */
extern const struct conf_setting RUN_SETTINGS[];
extern const size_t RUN_SETTINGS_COUNT;

#endif
