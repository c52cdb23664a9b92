/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runner: the loop of an HTTP runner: frames of jobs in, calls out, frames of
 * results back. It serves one tenant, and ends when the worker's end of the
 * socket closes or a frame does not add up.
 */
#ifndef RUNNER_H
#define RUNNER_H

/* The descriptors a runner is born with, besides 0 to 2. */
enum {
    RUNNER_FD_SOCKET = 3, /* stream to the worker */
    RUNNER_FD_MEMORY = 4, /* peak of its cgroup, readable */
    RUNNER_FD_PROGRAM = 5 /* closed by exec */
};

/* The process's whole life: limits, uid and cgroup are set already, the system
 * call filter is loaded here. Returns the exit code, for _exit(): threads of
 * the resolver may still be at work. */
int runner_main(void);

#endif
