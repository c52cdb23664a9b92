/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks, in microseconds, and dates as HTTP writes them. */
#ifndef DOUBLE_CLOCK_H
#define DOUBLE_CLOCK_H

#include "script.h"

#include <stdint.h>

int64_t clock_wall_us(void);
int64_t clock_mono_us(void);
/* Appends the second that holds `wall_us` (RFC 9110 section 5.6.7). */
void clock_date(struct buf *out, int64_t wall_us, enum date_format format);

#endif
