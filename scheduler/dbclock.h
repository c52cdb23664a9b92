/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dbclock: how far the database's clock is from ours, and whether somebody has
 * stepped it. Pure: what was seen comes in as arguments.
 *
 * Rows carry times of the database's clock, and a wait has to last as long as
 * the provider said whatever that clock does. Ours counts elapsed time and no
 * step moves it (CLOCK_BOOTTIME). Each look at the database says what its clock
 * showed at some moment between two of ours, so the offset (theirs minus ours)
 * lies between two bounds; looks that fit together narrow them, and the clocks
 * may drift apart by DBCLOCK_DRIFT_PPM. A look that does not fit is a step.
 *
 * After a step the rows of before are moved with it, once in the whole fleet:
 * the database keeps the sum of all moves, and whoever sees it changed takes
 * the change as made. Until then only what is due by the bounds of before may
 * be taken, so nothing comes early; rows written since then come late.
 *
 * What is not noticed: a step smaller than the round trip of a look (1 ms, or
 * what the quickest one of late took), and one that no scheduler lived through.
 */
#ifndef DBCLOCK_H
#define DBCLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/time.h"

#define DBCLOCK_DRIFT_PPM INT64_C(1000)
/* A smaller step is followed back at once, and forward after a while. */
#define DBCLOCK_STEP_US (100 * US_PER_MS)
#define DBCLOCK_PATIENCE_US (5 * US_PER_S)
/* No row is written later than this: year 9999. */
#define DBCLOCK_NEVER_US INT64_C(253402300799000000)

struct dbclock_look {
    int64_t before_us; /* our clock around the look */
    int64_t after_us;
    int64_t wall_us;  /* the database's clock */
    int64_t moved_us; /* the sum of all moves, as the same look saw it */
};

struct dbclock {
    bool is_known;
    int64_t low_us; /* bounds of the offset */
    int64_t high_us;
    int64_t before_us; /* of the last quick look that asked for no move */
    int64_t after_us;
    int64_t moved_us;
    int64_t
        shown_us; /* the highest offset that a row may have been written by */
    int64_t ahead_since_us; /* of looks a little ahead; 0: the last fitted */
};

/* Waits that were written at or before old_until_us, or after new_until_us and
 * the time of the move, are of before the step: they have to move by by_us, if
 * the sum of all moves still is moved_us. Times are the database's. */
struct dbclock_step {
    int64_t moved_us;
    int64_t by_us;
    int64_t old_until_us;
    int64_t new_until_us;
};

/* Takes a look in. True: it does not fit, and step says what to do about it.
 * It is said again with every look until the moves have changed. */
bool dbclock_take(struct dbclock *dbclock, const struct dbclock_look *look,
    struct dbclock_step *step);

/* The latest time that the database's clock surely shows at our now_us, as the
 * rows that wait understand it; 0 before the first look. */
int64_t dbclock_trusted_us(const struct dbclock *dbclock, int64_t now_us);

#endif
