/* SPDX-License-Identifier: Apache-2.0 */
/* Which ticks a schedule has, and which of them fire: schedule.h. */
#include "schema/schedule.h"

#include "common/time.h"

#define END_OF_TIME_US (INT64_C(2932897) * 86400 * US_PER_S)

int schedule_open_zone(
    const struct schedule *schedule, struct zone **zone, struct fault *fault)
{
    struct err err = ERR_INIT;
    *zone = NULL;
    if (schedule->kind != SCHEDULE_CRON) {
        return 0;
    }
    *zone = zone_open(schedule->zone, &err);
    if (*zone != NULL) {
        return 0;
    }
    return fault_set(fault,
        err.class == ERR_PERMANENT ? CODE_INVALID_MEMBER : CODE_UNAVAILABLE,
        "/zone", "%s", err.msg);
}

/* -- ticks ----------------------------------------------------------------- */

static bool next_interval(
    const struct schedule *schedule, int64_t after_us, int64_t *tick_us)
{
    const int64_t start_us = schedule->start_us;
    *tick_us = start_us;
    if (after_us >= start_us) {
        const int64_t passed = (after_us - start_us) / schedule->every_us;
        *tick_us = start_us + (passed + 1) * schedule->every_us;
    }
    return *tick_us < END_OF_TIME_US;
}

bool schedule_next(const struct schedule *schedule, const struct zone *zone,
    int64_t after_us, int64_t *tick_us)
{
    int64_t at_s = 0;
    switch (schedule->kind) {
    case SCHEDULE_EVERY:
        return next_interval(schedule, after_us, tick_us);
    case SCHEDULE_ONCE:
        *tick_us = schedule->start_us;
        return after_us < schedule->start_us;
    case SCHEDULE_CRON:
    default:
        if (!cron_next(&schedule->cron, zone, after_us / US_PER_S, &at_s)) {
            return false;
        }
        *tick_us = at_s * US_PER_S;
        return true;
    }
}

/* The newest tick that is not after an instant; due_us is one of them. A
 * binary search, since ticks are only ever found forwards. */
static int64_t last_tick(const struct schedule *schedule,
    const struct zone *zone, int64_t due_us, int64_t until_us)
{
    int64_t before_us = due_us - 1; /* its next tick is not after until_us */
    int64_t after_us = until_us;    /* its next tick is */
    int64_t tick_us = due_us;
    while (after_us - before_us > 1) {
        const int64_t middle_us = before_us + (after_us - before_us) / 2;
        int64_t found_us = 0;
        if (schedule_next(schedule, zone, middle_us, &found_us) &&
            found_us <= until_us) {
            tick_us = found_us;
            before_us = middle_us;
        } else {
            after_us = middle_us;
        }
    }
    return tick_us;
}

/* Ticks from due_us on that are before an instant, at most max. */
static int64_t count_ticks(const struct schedule *schedule,
    const struct zone *zone, int64_t due_us, int64_t before_us, int64_t max)
{
    int64_t count = 0;
    int64_t tick_us = due_us;
    bool is_tick = true;
    while (is_tick && count < max && tick_us < before_us) {
        count++;
        is_tick = schedule_next(schedule, zone, tick_us, &tick_us);
    }
    return count;
}

/* -- after an outage ------------------------------------------------------- */

/* The oldest of the newest ticks up to now_us, as many as may be made up. */
static int64_t first_of_newest(const struct schedule *schedule,
    const struct zone *zone, int64_t due_us, int64_t now_us)
{
    const int64_t cap = schedule->misfire_cap;
    if (count_ticks(schedule, zone, due_us, now_us + 1, cap + 1) <= cap) {
        return due_us;
    }
    int64_t tick_us = last_tick(schedule, zone, due_us, now_us);
    for (int64_t i = 1; i < cap; i++) {
        tick_us = last_tick(schedule, zone, due_us, tick_us - 1);
    }
    return tick_us;
}

/* The first tick to fire; false: there is none any more. */
static bool first_to_fire(const struct schedule *schedule,
    const struct zone *zone, int64_t due_us, int64_t now_us, int64_t *first_us)
{
    const int64_t late_us = now_us - SCHEDULE_LATE_US;
    *first_us = due_us;
    if (due_us >= late_us) {
        return true;
    }
    switch (schedule->misfire) {
    case SCHEDULE_MISFIRE_SKIP:
        return schedule_next(schedule, zone, late_us - 1, first_us);
    case SCHEDULE_MISFIRE_ALL:
        *first_us = first_of_newest(schedule, zone, due_us, now_us);
        return true;
    case SCHEDULE_MISFIRE_ONCE:
    default:
        *first_us = last_tick(schedule, zone, due_us, now_us);
        return true;
    }
}

void schedule_make_plan(const struct schedule *schedule,
    const struct zone *zone, int64_t due_us, int64_t now_us,
    struct schedule_plan *plan)
{
    int64_t tick_us = due_us;
    plan->count = 0;
    plan->has_next = first_to_fire(schedule, zone, due_us, now_us, &tick_us);
    plan->missed = count_ticks(schedule, zone, due_us,
        plan->has_next ? tick_us : due_us + 1, SCHEDULE_COUNT_MAX);
    while (plan->has_next && tick_us <= now_us && plan->count < SCHEDULE_TURN) {
        plan->ticks_us[plan->count++] = tick_us;
        plan->has_next = schedule_next(schedule, zone, tick_us, &tick_us);
    }
    plan->next_us = tick_us;
}
