/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now); /* cannot fail for these clocks */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

void clock_date(struct buf *out, int64_t wall_us, enum date_format format)
{
    const time_t second = (time_t)(wall_us / 1000000);
    struct tm utc;
    char text[64] = "";
    if (gmtime_r(&second, &utc) == NULL) {
        out->is_over = true;
        return;
    }
    switch (format) {
    case DATE_FORMAT_IMF:
        (void)strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
        break;
    case DATE_FORMAT_RFC850:
        (void)strftime(text, sizeof text, "%A, %d-%b-", &utc);
        buf_printf(out, "%s%02d", text, utc.tm_year % 100);
        (void)strftime(text, sizeof text, " %H:%M:%S GMT", &utc);
        break;
    case DATE_FORMAT_ASCTIME:
        (void)strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &utc);
        break;
    }
    buf_text(out, text);
}
