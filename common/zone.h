/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone: what the clocks of an IANA time zone show, for any instant, without
 * the process-wide state of tzset().
 *
 * Reads the TZif files (RFC 8536) of the system's tzdata, and follows the rule
 * in their footer beyond the last transition they list. Nothing is cached: a
 * file has 3 KB, and an update of tzdata counts at once. Leap seconds are not
 * counted, as nowhere in Unix time. Immutable once opened; any thread.
 */
#ifndef ZONE_H
#define ZONE_H

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

#define ZONE_MAX_NAME 63
#define ZONE_MAX_BYTES ((size_t)64 << 10)
/* Earlier and later than everything: far enough from overflow to calculate. */
#define ZONE_NEVER_S (INT64_C(1) << 40)

struct zone;

/* A range of instants in which the offset stays: start <= t < end. */
struct zone_span {
    int64_t start_s;  /* Unix time; -ZONE_NEVER_S: always was */
    int64_t end_s;    /* ZONE_NEVER_S: for ever */
    int32_t offset_s; /* local = UTC + offset */
};

/* "Europe/Berlin": one to three words, nothing that leaves the folder, none
 * of the zones that count leap seconds. Says nothing of whether it exists. */
bool zone_name_is_valid(struct span name);
/*
 * Reads $TZDIR/<name>, by default below /usr/share/zoneinfo. Reads a file, so
 * it may block as long as the disk does. NULL, PERMANENT: no such zone
 * (UNKNOWN_ZONE), or a file that is none; FATAL: no time zone data at all.
 */
struct zone *zone_open(const char *name, struct err *err) MUST_CHECK;
/* The bytes of a TZif file; copied. */
struct zone *zone_parse(struct span bytes, struct err *err) MUST_CHECK;
void zone_free(struct zone *zone); /* NULL ok */

/* The range that holds an instant. */
struct zone_span zone_find(const struct zone *zone, int64_t at_s);

#endif
