/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolution: the event that tells what a person found out about an
 * indeterminate action. It goes the way of outcomes, under an id of its own,
 * and leaves the outcome as it was. No I/O.
 */
#ifndef RESOLUTION_H
#define RESOLUTION_H

#include "common/buf.h"
#include "common/crypt.h"
#include "schema/codes.h"

#define RESOLUTION_MAX_NOTE ((size_t)2000)
#define RESOLUTION_MAX_BYTES ((size_t)32 << 10)

struct resolution {
    uint8_t event[UUID_SIZE];
    uint8_t action_id[UUID_SIZE];
    struct span tenant;
    struct span outcome; /* the document it speaks of */
    enum status status;  /* succeeded or failed */
    struct span note;    /* UTF-8 */
    struct span actor;
    int64_t at_us;
};

/* The document; connector, action and key are those of the outcome. */
void resolution_put(struct buf *out, const struct resolution *resolution);

#endif
