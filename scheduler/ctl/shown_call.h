/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shown_call: the HTTP call that an action stands for, as people may see it:
 * only headers that are known to hold no secret keep their values.
 */
#ifndef SHOWN_CALL_H
#define SHOWN_CALL_H

#include "schema/manifest.h"

struct shown_call {
    struct manifest *manifest; /* owned */
    struct buf storage;        /* of call */
    struct call call;
    bool is_there; /* false: the manifest is gone, or it cannot be rendered */
};

/* Borrows request until fini. */
void shown_call_init(struct shown_call *shown, struct span manifest,
    struct span request, struct span tenant, const uint8_t *id);
void shown_call_fini(struct shown_call *shown);

/* The value of a header, or "***". */
struct span shown_call_value(const struct call_header *header);
/* One JSON object; "null" if it is not there. */
void shown_call_put(const struct shown_call *shown, struct buf *out);

#endif
