/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mappings: which sources of webhooks are mapped, and how. The truth is in
 * Postgres; it is read at start, on a control signal, every 30 s, and when a
 * source is asked for that has none: a "no" is said only from a reading that
 * began after the delivery was received, so no mapping that was there then is
 * missed. A "yes" may be as old as the last signal.
 */
#ifndef MAPPINGS_H
#define MAPPINGS_H

#include <stdint.h>

#include "schema/mapping.h"

struct worker;
struct mappings;

enum mapped {
    MAPPED_YES,  /* mapping, valid until the loop goes on; NULL: this version
                    cannot read it */
    MAPPED_NO,   /* surely none at asked_us */
    MAPPED_WAIT, /* unknown before the next reading: on_read is called then */
};

/* on_read: a reading has ended; owner's waiting deliveries ask again. */
struct mappings *mappings_open(
    struct worker *worker, void (*on_read)(void *owner), void *owner);
void mappings_close(struct mappings *mappings); /* NULL ok */

/* asked_us: monotonic, when the delivery was received. */
enum mapped mappings_find(struct mappings *mappings, const char *tenant,
    const char *source, int64_t asked_us, const struct mapping **mapping);
/* Something changed: read again soon. */
void mappings_refresh(struct mappings *mappings);

#endif
