/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/dbclock.h"

#define PPM INT64_C(1000000)

/* What one look alone says of the offset. */
struct bounds {
    int64_t low_us;
    int64_t high_us;
};

static bool fits(
    const struct dbclock *dbclock, const struct bounds *seen, int64_t moved_us)
{
    return seen->low_us <= dbclock->high_us + moved_us &&
           seen->high_us >= dbclock->low_us + moved_us;
}

static bool is_quick(const struct dbclock_look *look)
{
    return look->after_us - look->before_us < DBCLOCK_STEP_US / 2;
}

/* Only then does a look prove that the clock was not stepped before it. */
static void note_before(
    struct dbclock *dbclock, const struct dbclock_look *look)
{
    if (is_quick(look)) {
        dbclock->before_us = look->before_us;
    }
}

static void remember(struct dbclock *dbclock, const struct dbclock_look *look,
    const struct bounds *bounds)
{
    dbclock->is_known = true;
    dbclock->low_us = bounds->low_us;
    dbclock->high_us = bounds->high_us;
    dbclock->after_us = look->after_us;
    dbclock->ahead_since_us = 0;
    dbclock->shown_us = bounds->high_us;
    note_before(dbclock, look);
}

static void narrow(struct dbclock *dbclock, const struct dbclock_look *look,
    const struct bounds *seen)
{
    const struct bounds both = {
        .low_us =
            seen->low_us > dbclock->low_us ? seen->low_us : dbclock->low_us,
        .high_us =
            seen->high_us < dbclock->high_us ? seen->high_us : dbclock->high_us,
    };
    remember(dbclock, look, &both);
}

static void drift(struct dbclock *dbclock, int64_t now_us)
{
    const int64_t by_us =
        (now_us - dbclock->after_us) * DBCLOCK_DRIFT_PPM / PPM + 1;
    dbclock->low_us -= by_us;
    dbclock->high_us += by_us;
    dbclock->shown_us += by_us;
    dbclock->after_us = now_us;
}

/* A move that does not fit here was made by a scheduler whose own clock had
 * stood still: nothing has happened to the database's. */
static void take_moves(
    struct dbclock *dbclock, const struct bounds *seen, int64_t moved_us)
{
    const int64_t by_us = moved_us - dbclock->moved_us;
    dbclock->moved_us = moved_us;
    if (by_us == 0) {
        return;
    }
    if (fits(dbclock, seen, by_us)) {
        dbclock->low_us = seen->low_us;
        dbclock->high_us = seen->high_us;
        dbclock->shown_us = seen->high_us;
    } else if (!fits(dbclock, seen, 0)) {
        /* Rows were moved by so much; the clock, by a little less. */
        dbclock->low_us += by_us - DBCLOCK_STEP_US;
        dbclock->high_us += by_us;
        dbclock->shown_us += by_us;
    }
}

/* A new row has a time that the new clock has shown since the look before; all
 * below are of before. Of a step shorter than that time, some may be new. */
static bool take_ahead(struct dbclock *dbclock, const struct dbclock_look *look,
    const struct bounds *seen, struct dbclock_step *step)
{
    if (dbclock->ahead_since_us == 0) {
        dbclock->ahead_since_us = look->after_us;
    }
    if (seen->low_us - dbclock->high_us < DBCLOCK_STEP_US &&
        look->after_us - dbclock->ahead_since_us < DBCLOCK_PATIENCE_US) {
        note_before(dbclock, look);
        if (seen->high_us > dbclock->shown_us) {
            dbclock->shown_us = seen->high_us;
        }
        return false;
    }
    const int64_t shown_us = dbclock->shown_us + look->after_us;
    const int64_t new_from_us = seen->low_us + dbclock->before_us;
    *step = (struct dbclock_step){
        .moved_us = dbclock->moved_us,
        .by_us = seen->high_us - dbclock->low_us,
        .old_until_us = shown_us < new_from_us ? new_from_us - 1 : shown_us,
        .new_until_us = DBCLOCK_NEVER_US,
    };
    return true;
}

/* A new row has a time that the new clock has shown since the last look that
 * fitted; all below and above are of before. Those between are left alone. */
static bool take_back(struct dbclock *dbclock, const struct dbclock_look *look,
    const struct bounds *seen, struct dbclock_step *step)
{
    if (dbclock->low_us - seen->high_us < DBCLOCK_STEP_US) {
        remember(dbclock, look, seen);
        return false;
    }
    *step = (struct dbclock_step){
        .moved_us = dbclock->moved_us,
        .by_us = seen->high_us - dbclock->low_us,
        .old_until_us = seen->low_us + dbclock->before_us - 1,
        .new_until_us = seen->high_us + look->after_us,
    };
    return true;
}

bool dbclock_take(struct dbclock *dbclock, const struct dbclock_look *look,
    struct dbclock_step *step)
{
    const struct bounds seen = {
        .low_us = look->wall_us - look->after_us,
        .high_us = look->wall_us - look->before_us,
    };
    if (!dbclock->is_known) {
        dbclock->moved_us = look->moved_us;
        dbclock->before_us = look->before_us;
        remember(dbclock, look, &seen);
        return false;
    }
    if (!is_quick(look) &&
        look->after_us - dbclock->after_us < DBCLOCK_PATIENCE_US) {
        return false; /* it says too little, a better one follows */
    }
    drift(dbclock, look->after_us);
    take_moves(dbclock, &seen, look->moved_us);
    if (fits(dbclock, &seen, 0)) {
        narrow(dbclock, look, &seen);
        return false;
    }
    return seen.low_us > dbclock->high_us
               ? take_ahead(dbclock, look, &seen, step)
               : take_back(dbclock, look, &seen, step);
}

int64_t dbclock_trusted_us(const struct dbclock *dbclock, int64_t now_us)
{
    return dbclock->is_known ? dbclock->low_us + now_us : 0;
}
