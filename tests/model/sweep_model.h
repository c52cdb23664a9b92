/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep_model: some workers and one scheduler that looks at them every half a
 * second: workers are killed, frozen and thawed, lose their sessions alone or
 * most of them at once, Postgres restarts on a server with another clock, its
 * clock steps. Whom to believe dead is the program's own code
 * (scheduler/sweep_watch.h); workers follow worker/lease.c and presence.c: they
 * renew every 2 s, give up 8 s after the last renewal, and what gave up never
 * comes back under the same boot id.
 *
 * Promised: no worker that lives is declared dead, all that died are, and soon
 * if their locks were seen and most of the others live.
 */
#ifndef SWEEP_MODEL_H
#define SWEEP_MODEL_H

#include <stdbool.h>
#include <stddef.h>

enum { SWEEP_MAX_WORKERS = 4 };

/* A rule left out. */
enum sweep_fault {
    SWEEP_NO_FAULT,
    SWEEP_KEEPS_MEMORY, /* a new session knows what the one before has seen */
    SWEEP_HELD_UNSEEN,  /* a lock need not have been seen held */
    SWEEP_ONE_LOOK,     /* a lock seen free once is free */
    SWEEP_BELIEVES_MANY,
    SWEEP_NO_QUIET,       /* leases count at once after a restart */
    SWEEP_LAPSED_AT_ONCE, /* a lease seen run out once has run out */
    SWEEP_LEASES_ALONE,   /* a lock that vanished says nothing */
    SWEEP_FAULT_COUNT
};

struct sweep_config {
    int workers;
    int deaths;   /* how often at most each of these happens */
    int freezes;  /* a worker, longer or shorter than its lease */
    int blips;    /* one worker's session is lost and back at once */
    int cuts;     /* the sessions of half of the workers or more are lost */
    int restarts; /* of Postgres */
    int steps;    /* of its clock, far forward */
    enum sweep_fault fault;
};

/* The promise that some schedule breaks, or NULL. states: how many were seen.
 * is_verbose: the schedule is printed. */
const char *sweep_model_run(
    const struct sweep_config *config, bool is_verbose, size_t *states);

#endif
