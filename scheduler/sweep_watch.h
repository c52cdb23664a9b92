/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep_watch: which workers may be declared dead. Pure: the clock and what was
 * seen come in as arguments.
 *
 * A worker holds a session lock for as long as its process lives, but a lost
 * lock alone proves nothing: every restart of Postgres frees all of them. So:
 * - gone: this same session of ours saw the lock held, and then free in looks
 *   500 ms apart, and that of fewer than half of the workers. One of one or of
 *   two may also be gone, or else small fleets would always wait for leases.
 * - lapsed: the lease has run out, in looks 3 s apart (so that a step of the
 *   database's clock, which a living worker repairs with its next renewal,
 *   kills nobody).
 * After our own reconnect or a change of the server nothing was seen, and no
 * lease counts as run out for the lease's length and 5 s.
 */
#ifndef SWEEP_WATCH_H
#define SWEEP_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/crypt.h"
#include "common/time.h"

#define WATCH_GONE_US (500 * US_PER_MS)
#define WATCH_LAPSED_US (3 * US_PER_S)
#define WATCH_LEASE_US (10 * US_PER_S)
#define WATCH_QUIET_US (WATCH_LEASE_US + 5 * US_PER_S)
#define WATCH_MAX_WORKERS ((size_t)10000)

enum watch_verdict { WATCH_LEAVE, WATCH_GONE, WATCH_LAPSED };

/* One worker in one look. */
struct watch_sight {
    uint8_t boot_id[UUID_SIZE];
    bool is_held;
    bool is_expired;
    enum watch_verdict verdict; /* set by watch_look() */
};

/* What is remembered of a worker; a model looks into it. */
#define WATCH_NOT_YET ((int64_t)-1)
struct watch_worker {
    uint8_t boot_id[UUID_SIZE];
    bool was_held;
    int64_t free_since_us;    /* of the looks that saw it free; WATCH_NOT_YET */
    int64_t expired_since_us; /* likewise */
};

struct watch {
    struct watch_worker *workers; /* owned; sorted by boot id */
    size_t count;
    int64_t quiet_until_us;
};

void watch_init(struct watch *watch);
void watch_fini(struct watch *watch); /* may be called twice */

/* A new session of ours, or another server behind it. */
void watch_restart(struct watch *watch, int64_t now_us);
/* Judges every living worker; sorts sights. */
void watch_look(struct watch *watch, int64_t now_us, struct watch_sight *sights,
    size_t count);

#endif
