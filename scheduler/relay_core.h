/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_core: which outcomes have to be published next. Pure: no clock, no
 * I/O; relay_tail.c feeds it what Postgres and Kafka said.
 *
 * Numbers (seq) are drawn before their transaction commits, so a hole below
 * the highest number read may be filled later. Each hole is remembered as a
 * gap until its row is seen, or until it is proven dead: it gets as bound a
 * transaction id drawn after the hole was seen, hence above the id of whoever
 * drew the number; once the oldest running transaction (xmin) has reached the
 * bound, a read that begins after that and does not return the row proves that
 * there is none. The order matters: xmin first, then the rows.
 *
 * Published = everything in 1..high except the gaps, plus what the read-back
 * found in the topic.
 */
#ifndef RELAY_CORE_H
#define RELAY_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More open gaps than this mean that somebody moved the sequence. */
#define RELAY_MAX_GAPS ((size_t)1000000)

struct relay_gap {
    int64_t seq;
    int64_t bound;  /* transaction id; 0: not drawn yet */
    bool is_asked;  /* part of this poll */
    bool is_proven; /* bound <= xmin of this poll */
    bool is_seen;   /* its row exists */
    bool is_taken;  /* its row is published or to be published */
};

struct relay_core {
    int64_t low;            /* everything up to here is published or dead */
    int64_t high;           /* the highest number read */
    struct relay_gap *gaps; /* ascending; owned */
    size_t gap_count;
    size_t gap_cap;
    int64_t *found; /* read back from the topic: ascending; owned */
    size_t found_count;
    size_t found_left; /* not met in the tail yet */
    int64_t ask_after; /* where the next poll's choice of gaps begins */
    int64_t poll_high; /* high when the poll was sent */
    bool is_cut;       /* this poll left rows out for their size */
};

enum relay_verdict {
    RELAY_PUBLISH,
    RELAY_SKIP,  /* in the topic already */
    RELAY_LATER, /* came without its body */
    RELAY_TOO_MANY_GAPS
};

struct relay_poll {
    size_t waiting; /* gaps asked for that may still be filled */
    size_t dead;    /* proven empty by this poll */
};

void relay_core_init(struct relay_core *core);
void relay_core_fini(struct relay_core *core); /* may be called twice */

/* The state of a checkpoint. gaps ascending, copied; their bounds are unknown
 * and will be drawn anew. False: not a possible state. */
bool relay_core_load(struct relay_core *core, int64_t low, int64_t high,
    const int64_t *gaps, size_t gap_count);
/* What the read-back found; any order, copied. Returns how many of the numbers
 * occurred more than once. */
size_t relay_core_add_found(
    struct relay_core *core, const int64_t *seqs, size_t count);
/* Whether every record that was read back has been met in the tail: positions
 * may then be moved past them. */
bool relay_core_is_caught_up(const struct relay_core *core);

/* -- one poll, in this order --------------------------------------------------- */

/* Chooses at most max gaps to ask for: those with is_asked. Over several polls
 * every gap gets its turn. */
void relay_core_begin(struct relay_core *core, size_t max);
/* The xmin read before the rows. */
void relay_core_xmin(struct relay_core *core, int64_t xmin);
/* Each row returned, ascending. */
enum relay_verdict relay_core_row(
    struct relay_core *core, int64_t seq, bool has_body);
/* Forgets what is done or dead and moves low. */
void relay_core_end(struct relay_core *core, struct relay_poll *poll);

/* Whether gaps have no bound yet. Draw the id after the rows were returned, and
 * before the next poll is sent. */
bool relay_core_wants_bound(const struct relay_core *core);
void relay_core_bound(struct relay_core *core, int64_t xid);

#endif
