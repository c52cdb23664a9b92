/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/moment.h"

#include <string.h>

#include "common/buf.h"
#include "common/time.h"

#define MAX_AGE INT64_C(10000000)

static int64_t unit_s(char unit)
{
    switch (unit) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return 86400;
    default:
        return 0;
    }
}

bool moment_parse(const char *text, int64_t now_us, int64_t *at_us)
{
    const size_t len = strlen(text);
    int64_t count = 0;
    if (time_parse_rfc3339(span_of(text), at_us))
        return true;
    if (len < 2 || unit_s(text[len - 1]) == 0 ||
        !span_to_int((struct span){text, len - 1}, &count) || count < 0 ||
        count > MAX_AGE)
        return false;
    *at_us = now_us - count * unit_s(text[len - 1]) * US_PER_S;
    return true;
}
