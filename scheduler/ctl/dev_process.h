/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dev_process: starting, finding and ending the programs of a local fleet.
 *
 * A program is remembered by a pid file that also holds the kernel's start
 * time of that pid, so that a number given to another process since is never
 * signalled. Everything here may block.
 */
#ifndef DEV_PROCESS_H
#define DEV_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/buf.h"

/* Catches SIGINT and SIGTERM from now on: waits end early, so that the caller
 * can undo what it began. */
void dev_catch_interrupts(void);
bool dev_is_interrupted(void);

/*
 * Runs argv to its end with our standard error; its standard output is
 * appended to out. Returns its exit code, 128 + signal, or -1 with err when it
 * could not be started. SIGTERM to us is passed on to it.
 */
int dev_run(char *const argv[], struct buf *out, struct err *err);

/*
 * Starts argv in a session of its own: working directory dir, output appended
 * to log, pid written to pid_file. It sees none of our ACTIONIST_* variables:
 * its settings are its file.
 */
int dev_spawn(char *const argv[], const char *dir, const char *log,
    const char *pid_file, struct err *err) MUST_CHECK;

/* The pid of a pid file while that very process lives, else 0. */
pid_t dev_pid(const char *pid_file);

/* SIGTERM, then SIGKILL after wait_ms; removes the pid file. */
void dev_stop(const char *pid_file, int wait_ms);

/* Waits until url answers 200. Fails when the process of pid_file ends, when
 * the time is over, or when we are interrupted; the message ends with the last
 * line of log. */
int dev_wait_ready(const char *url, const char *pid_file, const char *log,
    int wait_ms, struct err *err) MUST_CHECK;

#endif
