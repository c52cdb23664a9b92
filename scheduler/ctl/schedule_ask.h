/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_ask: the document of a schedule, out of options of the command. */
#ifndef SCHEDULE_ASK_H
#define SCHEDULE_ASK_H

#include "scheduler/ctl/ctl.h"
#include "schema/schedule.h"

struct schedule_ask {
    const char *name; /* not an option */
    const char *tenant;
    const char *connector;
    const char *action;
    const char *payload;
    const char *priority;
    const char *max_attempts;
    const char *cron;
    const char *zone;
    const char *every;
    const char *start;
    const char *at;
    const char *misfire;
    const char *misfire_cap;
    const char *deadline;
    const char *after; /* next */
    const char *count; /* next */
};

/*
 * Appends the document and reads it back; schedule borrows from out, zone is
 * the caller's to free. An exit code; what is wrong was said.
 */
int schedule_ask_document(const struct schedule_ask *ask, struct buf *out,
    struct schedule *schedule, struct zone **zone);
/* "90", "90s", "15m", "6h", "1d"; false on anything else. */
bool schedule_ask_duration(const char *text, int64_t *seconds);

#endif
