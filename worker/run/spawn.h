/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn: fork, confine, exec: how a runner comes into being. One function a
 * step, in a fixed order; a step that fails ends the child before it runs
 * anything, with an exit code that names the step.
 */
#ifndef SPAWN_H
#define SPAWN_H

#include <sys/types.h>

#include "worker/run/cgroup.h"

struct spawn {
    const struct cgroup_slot *slot;
    int program; /* the runner's file, opened with O_PATH */
    int socket;  /* becomes RUNNER_FD_SOCKET */
    uid_t uid;   /* and gid */
    unsigned max_files;
};

/* Starts a child. Everything in spawn stays the caller's. TRANSIENT when fork
 * fails. *pidfd becomes readable when the child ends; closed by the caller. */
int spawn_runner(const struct spawn *spawn, pid_t *pid, int *pidfd,
    struct err *err) MUST_CHECK;

/* The step that an exit code names, NULL for a code that is not one. */
const char *spawn_step_name(int exit_code);

#endif
