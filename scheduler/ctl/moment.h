/* SPDX-License-Identifier: Apache-2.0 */
/* moment: points in time as people give them. */
#ifndef MOMENT_H
#define MOMENT_H

#include <stdbool.h>
#include <stdint.h>

/* "90s", "15m", "2h", "7d" before now, or a time of RFC 3339. */
bool moment_parse(const char *text, int64_t now_us, int64_t *at_us);

#endif
