/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_model: two relays of one shard, neither of which believes in the lock
 * that elects one, from the checkpoint to the topic: starts, fences, reading
 * back, polls, transactions, checkpoints, crashes at each point, commits whose
 * answer is lost, outcomes that commit late or never, and a transaction of
 * somebody else that stays open. What is published next is the program's own
 * code (scheduler/relay_core.h); lanes, topic and statements are written again
 * here, after scheduler/lanes.c, readback.c, relay_tail.c.
 *
 * Promised: no outcome is published twice, none is given up, all are published.
 */
#ifndef RELAY_MODEL_H
#define RELAY_MODEL_H

#include <stdbool.h>
#include <stddef.h>

/* A rule left out. */
enum relay_fault {
    RELAY_NO_FAULT,
    RELAY_FIRST_ON_B,      /* the first transaction is on the second lane */
    RELAY_ONE_LANE_FENCED, /* B is fenced when it is used first */
    RELAY_OTHER_ORDER,     /* one relay fences B, then A */
    RELAY_READ_BETWEEN,    /* reads back before both lanes are fenced */
    RELAY_NO_READ_BACK,
    RELAY_READ_NO_WAIT,  /* reads to the last stable offset of now */
    RELAY_SAVE_EARLY,    /* saves between a poll and its commit */
    RELAY_SAVE_LOW,      /* saves low and the ends, not high and the gaps */
    RELAY_SAVE_UNMET,    /* moves positions past records not met in the tail */
    RELAY_GAPS_PRESUMED, /* a gap is dead at the next poll */
    RELAY_FAULT_COUNT
};

struct relay_config {
    int rows;              /* outcomes: at most 3 */
    bool has_foreign;      /* somebody opens a transaction once */
    bool are_commits_lost; /* answers of commits get lost */
    enum relay_fault fault;
};

/* The promise that some schedule breaks, or NULL. states: how many were seen.
 * is_verbose: the schedule is printed. */
const char *relay_model_run(
    const struct relay_config *config, bool is_verbose, size_t *states);

#endif
