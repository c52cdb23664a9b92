/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper: the only process with privileges. It makes cgroups, starts and kills
 * runners, and tells the worker when one ended. It sees no request, no answer
 * and no secret.
 *
 * Worker and keeper exchange struct keeper_message, one a packet. The end of
 * the worker's socket is the end of the keeper: it kills all children, removes
 * the cgroups and exits.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/run/cgroup.h"

#define KEEPER_MAX_SLOTS 64
/* Without word of a renewed lease for so long, every child is killed. */
#define KEEPER_LEASE_US INT64_C(8000000)

enum keeper_kind {
    /* worker to keeper */
    KEEPER_START = 1, /* slot, with the runner's end of its socket */
    KEEPER_KILL,      /* slot */
    KEEPER_KILL_ALL,
    KEEPER_RENEWED,
    /* keeper to worker */
    KEEPER_READY,  /* once, at the start */
    KEEPER_FATAL,  /* text; the keeper ends */
    KEEPER_FAILED, /* slot, text: it was not started */
    KEEPER_EXITED, /* slot, exit_code or signal, is_oom */
    KEEPER_KIND_COUNT
};

struct keeper_message {
    uint32_t kind;
    uint32_t slot;
    int32_t exit_code; /* -1: ended by a signal */
    int32_t signal;
    uint8_t is_oom; /* the memory limit was hit */
    char text[256];
};

/* What the keeper needs to know; everything is copied before the fork. */
struct keeper_options {
    int socket;
    int program; /* O_PATH of actionist-runner */
    char parent[128];
    char boot[64];
    struct cgroup_limits limits;
    unsigned uid_base;
    unsigned max_files;
};

/* The keeper's whole life, in the forked child. */
_Noreturn void keeper_main(const struct keeper_options *options);

/* Keeps these capabilities of the process and drops all others for good, from
 * the bounding set too. -1 with errno. */
int keeper_keep_capabilities(const int *capabilities, size_t count) MUST_CHECK;

#endif
