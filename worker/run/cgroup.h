/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup: the control groups of the children, version 1, made with libcgroup.
 *
 *   <parent>/<boot>              the keeper itself; that it has a process is
 *                                the sign that this boot is alive
 *   <parent>/<boot>/http/<slot>  one HTTP runner each
 *
 * in each of the hierarchies memory, cpu, pids. Tenant names never appear.
 * Single-threaded: libcgroup is not safe otherwise. All of it belongs to the
 * keeper; calls take milliseconds and may block.
 */
#ifndef CGROUP_H
#define CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

enum { CGROUP_CONTROLLERS = 3 };
#define CGROUP_NAME_SIZE 256

struct cgroup_limits {
    int64_t memory_bytes;
    int64_t cpu_percent; /* of one core; 0: no limit */
    int64_t pids;
};

/* The hierarchies of this machine, and the place of this boot in them. */
struct cgroup_tree {
    char mounts[CGROUP_CONTROLLERS][CGROUP_NAME_SIZE];
    char parent[CGROUP_NAME_SIZE / 2];
    char boot[CGROUP_NAME_SIZE];
};

/* One group with its files kept open; -1: not made yet. */
struct cgroup_slot {
    int tasks[CGROUP_CONTROLLERS];
    int peak;          /* memory.max_usage_in_bytes, readable */
    int oom;           /* memory.oom_control */
    int64_t oom_kills; /* as seen last */
    char name[CGROUP_NAME_SIZE + 32];
};

/* Finds the hierarchies. FATAL with what to do when one is missing or is
 * version 2. */
int cgroup_tree_open(struct cgroup_tree *tree, const char *parent,
    const char *boot, struct err *err) MUST_CHECK;

/* Makes the group of this boot, puts the calling process into it, and removes
 * what dead boots of the same parent left. FATAL when it cannot. */
int cgroup_tree_enter(struct cgroup_tree *tree, struct err *err) MUST_CHECK;

/* Leaves it, kills what still runs below, removes all of it. Waits for at most
 * two seconds. */
void cgroup_tree_remove(const struct cgroup_tree *tree);

void cgroup_slot_init(struct cgroup_slot *slot);
/* Makes the slot's group with its limits, or makes it ready for the next
 * process. TRANSIENT when it cannot. */
int cgroup_slot_open(struct cgroup_slot *slot, const struct cgroup_tree *tree,
    unsigned number, const struct cgroup_limits *limits,
    struct err *err) MUST_CHECK;
/* Whether the kernel killed for memory since it was asked last. */
bool cgroup_slot_take_oom(struct cgroup_slot *slot);
void cgroup_slot_close(struct cgroup_slot *slot);

/* Moves the calling, single-threaded process into the slot. Between fork and
 * exec: no allocation. 0, or -1 with errno. */
int cgroup_slot_join(const struct cgroup_slot *slot) MUST_CHECK;

#endif
