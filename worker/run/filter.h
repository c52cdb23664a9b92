/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter: the system calls a runner may still make once it is set up (seccomp,
 * threads that start later inherit it). Refused, with EPERM: new programs and
 * processes, opening a file to write, sockets other than IP and netlink,
 * mounts, namespaces, keys, tracing, and the kernel's large attack surfaces.
 */
#ifndef FILTER_H
#define FILTER_H

#include "common/err.h"

/* Needs no_new_privs. FATAL when the kernel refuses. Cannot be undone. */
int filter_load(struct err *err) MUST_CHECK;

#endif
