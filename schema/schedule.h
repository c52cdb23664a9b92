/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule: the document of a schedule (json/schedule.schema.json), which
 * ticks it has, which of them fire after an outage, and the action request
 * that a tick becomes. No I/O; the caller opens the zone.
 *
 * A tick is an instant. Its action's idempotency key is made of the schedule's
 * id and the tick, so however often a firing is published, it acts once.
 */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include "common/zone.h"
#include "schema/cron.h"
#include "schema/record.h"

#define SCHEDULE_MAX_BYTES ((size_t)64 << 10)
#define SCHEDULE_MAX_EVERY_S INT64_C(31622400)
#define SCHEDULE_MAX_CAP 1000
#define SCHEDULE_DEFAULT_CAP 100
/* A tick that is looked at later than this has been missed. */
#define SCHEDULE_LATE_US (INT64_C(60) * 1000000)
/* Firings of one schedule in one turn. */
#define SCHEDULE_TURN 100
/* Missed ticks are counted so far. */
#define SCHEDULE_COUNT_MAX 10000

enum schedule_kind { SCHEDULE_CRON, SCHEDULE_EVERY, SCHEDULE_ONCE };

/* schedule.state */
enum schedule_state {
    SCHEDULE_ACTIVE = 1,
    SCHEDULE_PAUSED = 2,
    SCHEDULE_DONE = 3 /* a one-off, or nothing before the year 10000 */
};

/* What becomes of ticks that were missed. */
enum schedule_misfire {
    SCHEDULE_MISFIRE_ONCE, /* the newest fires, the others do not */
    SCHEDULE_MISFIRE_SKIP, /* none fires */
    SCHEDULE_MISFIRE_ALL   /* the newest `misfire_cap` fire */
};

struct schedule {
    char name[RECORD_MAX_NAME + 1];
    enum schedule_kind kind;
    char cron_text[CRON_MAX_BYTES + 1];
    struct cron cron;
    char zone[ZONE_MAX_NAME + 1]; /* "UTC" if not given */
    int64_t every_us;
    /* EVERY: a tick, from which the others are counted, the caller's if the
     * document has no `start`. ONCE: the tick. */
    int64_t start_us;
    bool has_start;
    enum schedule_misfire misfire;
    int misfire_cap;
    int64_t deadline_s; /* after the tick; 0: none */
    char connector[RECORD_MAX_NAME + 1];
    struct json_value request; /* borrows from the text parsed */
};

const char *schedule_state_name(enum schedule_state state);
const char *schedule_misfire_name(enum schedule_misfire misfire);

/*
 * Reads and judges a document, save whether zone, connector and action exist.
 * 0, or -1 and a fault that names the member. text must outlive schedule.
 */
int schedule_parse(struct span text, const char *tenant,
    struct schedule *schedule, struct fault *fault) MUST_CHECK;
/* The zone of a cron; *zone stays NULL for other kinds. -1: the fault of
 * `zone` (INVALID_MEMBER), or UNAVAILABLE without any time zone data. */
int schedule_open_zone(const struct schedule *schedule, struct zone **zone,
    struct fault *fault) MUST_CHECK;

/* The first tick after an instant; false: there is none. zone may be NULL
 * unless it is a cron. */
bool schedule_next(const struct schedule *schedule, const struct zone *zone,
    int64_t after_us, int64_t *tick_us);

struct schedule_plan {
    int64_t ticks_us[SCHEDULE_TURN]; /* fire now, ascending */
    size_t count;
    int64_t missed; /* that will not fire, up to SCHEDULE_COUNT_MAX */
    int64_t next_us;
    bool has_next; /* false: the schedule is done */
};
/* What is to be done with a schedule whose next tick, due_us, is not after
 * now_us. More than a turn's: next_us is not after now_us either. */
void schedule_make_plan(const struct schedule *schedule,
    const struct zone *zone, int64_t due_us, int64_t now_us,
    struct schedule_plan *plan);

/* The action request of a tick, as it goes onto `actions`. */
void schedule_put_record(struct buf *out, const struct schedule *schedule,
    const char *tenant, const uint8_t id[UUID_SIZE], int64_t tick_us);
/* The id that its action has. */
void schedule_action_id(const struct schedule *schedule, const char *tenant,
    const uint8_t id[UUID_SIZE], int64_t tick_us, uint8_t action_id[UUID_SIZE]);

#endif
