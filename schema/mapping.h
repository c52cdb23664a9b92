/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping: how a delivery of a webhook source becomes an action request
 * (json/mapping.schema.json). Loaded once, applied to each delivery; pure.
 *
 * The action's id is the delivery's id, so it depends on (tenant, source,
 * sender's id) alone: repeats are one action whatever the mapping became in
 * between. Its key is for people: "webhook:<source>:<sender's id>".
 */
#ifndef MAPPING_H
#define MAPPING_H

#include "schema/record.h"
#include "schema/webhook.h"

#define MAPPING_MAX_BYTES ((size_t)64 << 10)
#define MAPPING_MAX_TYPES 100

struct mapping; /* immutable once loaded */

/* text is copied. NULL and a fault that names the pointer on failure. */
struct mapping *mapping_load(struct span text, struct fault *fault);
void mapping_free(struct mapping *mapping); /* NULL ok */
const char *mapping_connector(const struct mapping *mapping);
const char *mapping_action(const struct mapping *mapping);

/*
 * Applies it. Appends the type of the delivery to type (255 bytes), "" if it
 * has none. MAPPED: appends the request to request (RECORD_MAX_KAFKA_BYTES).
 * FILTERED: its type is not asked for. FAILED: fault says which member of the
 * delivery is missing or does not fit.
 */
enum webhook_decision mapping_apply(const struct mapping *mapping,
    const struct webhook_capture *capture, struct buf *type,
    struct buf *request, struct fault *fault);

/* What repeats of the delivery are compared by: its body. */
void mapping_fingerprint(const struct webhook_capture *capture,
    uint8_t fingerprint[FINGERPRINT_SIZE]);

#endif
