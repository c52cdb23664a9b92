/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cron: the five fields of crontab(5) and the instants they mean in a time
 * zone. Pure; a zone is read before (common/zone.h).
 *
 * The language is that of POSIX crontab with the extensions of Vixie cron
 * (crontab(5) of Debian and the BSDs): names, ranges, lists, steps, 7 for
 * Sunday, @daily and its like. A day matches if month, day of the month and
 * day of the week do; where neither of the last two begins with `*`, one of
 * them is enough. L, W, #, ? and seconds are of Quartz and refused.
 *
 * When the clock changes, the rules are those of cron(8) by Vixie, for changes
 * of any size:
 *  - fixed times (neither minute nor hour begins with `*`): a time that the
 *    clock skips comes once, at the first instant after the gap; one that it
 *    shows twice comes the first time only;
 *  - wildcards (minute or hour begins with `*`) follow what the clock shows:
 *    both times, or not at all; so a step of 15 in the minutes of every hour
 *    comes every quarter of an hour of elapsed time.
 */
#ifndef CRON_H
#define CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "common/zone.h"
#include "schema/record.h"

#define CRON_MAX_BYTES 255

struct cron {
    uint64_t minutes;  /* bit 0 to 59 */
    uint32_t hours;    /* bit 0 to 23 */
    uint32_t days;     /* bit 1 to 31 */
    uint32_t months;   /* bit 1 to 12 */
    uint32_t weekdays; /* bit 0 to 6, 0 is Sunday */
    bool is_wildcard;  /* minute or hour begins with `*` */
    bool is_any_day;   /* day of month or day of week begins with `*` */
};

/* 0, or -1 and a fault (INVALID_MEMBER) that names field and rule. Times that
 * never come (30 February) are refused as well. */
int cron_parse(struct span text, struct cron *cron, struct fault *fault);
/* The first tick after an instant; false: none before the year 10000. */
bool cron_next(const struct cron *cron, const struct zone *zone,
    int64_t after_s, int64_t *at_s);

#endif
