/* SPDX-License-Identifier: Apache-2.0 */
/*
 * time: the clocks by name, and RFC 3339.
 *
 * All times are int64_t microseconds. now_mono_us() never jumps and counts
 * suspend (CLOCK_BOOTTIME): use it for deadlines and waits. now_wall_us() is
 * UTC since 1970: only for showing. What is due is decided by the database.
 */
#ifndef COMMON_TIME_H
#define COMMON_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

#define US_PER_S INT64_C(1000000)
#define US_PER_MS INT64_C(1000)
#define TIME_TEXT_SIZE 32 /* "2026-12-01T08:00:00.123456Z" and the end */

int64_t now_mono_us(void);
int64_t now_wall_us(void);

/* RFC 3339 section 5.6 with a zone; years 1970 to 9999, leap second 60 is
 * taken as 59.999999. False on anything else. */
bool time_parse_rfc3339(struct span text, int64_t *wall_us);

/* Always UTC with six digits and Z. text has TIME_TEXT_SIZE bytes. */
void time_format_rfc3339(int64_t wall_us, char *text);

/* Postgres binary timestamptz counts from 2000-01-01. */
int64_t time_to_pg(int64_t wall_us);
int64_t time_from_pg(int64_t pg_us);

/* Days since 1970-01-01 of a civil date (proleptic Gregorian). */
int64_t time_days_from_civil(int64_t year, unsigned month, unsigned day);
/* The other way round. */
void time_civil_from_days(
    int64_t days, int64_t *year, int64_t *month, int64_t *day);

#endif
