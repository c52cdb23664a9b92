/* SPDX-License-Identifier: Apache-2.0 */
#include "common/time.h"

#include <stdio.h>
#include <time.h>

/* From 1970-01-01 to 2000-01-01. */
#define PG_EPOCH_US (INT64_C(10957) * 86400 * US_PER_S)
/* 10000-01-01, the first time that RFC 3339 cannot say. */
#define END_OF_TIME_US (INT64_C(2932897) * 86400 * US_PER_S)

enum { SECONDS_PER_DAY = 86400, LAST_YEAR = 9999 };

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    /* Cannot fail for these clocks on Linux. */
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

int64_t now_mono_us(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

int64_t now_wall_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

/* The algorithm "days_from_civil" of Howard Hinnant's date papers: eras of
 * 400 years that begin on the first of March. */
int64_t time_days_from_civil(int64_t year, unsigned month, unsigned day)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t era = (y >= 0 ? y : y - 399) / 400;
    const int64_t year_of_era = y - era * 400;
    const int64_t shifted = month > 2 ? month - 3 : month + 9;
    const int64_t day_of_year = (153 * shifted + 2) / 5 + day - 1;
    const int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

void time_civil_from_days(
    int64_t days, int64_t *year, int64_t *month, int64_t *day)
{
    const int64_t z = days + 719468;
    const int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    const int64_t doe = z - era * 146097;
    const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    const int64_t shifted = (5 * doy + 2) / 153;
    *day = doy - (153 * shifted + 2) / 5 + 1;
    *month = shifted < 10 ? shifted + 3 : shifted - 9;
    *year = yoe + era * 400 + (*month <= 2 ? 1 : 0);
}

void time_format_rfc3339(int64_t wall_us, char *text)
{
    int64_t seconds = wall_us / US_PER_S;
    int64_t us = wall_us % US_PER_S;
    if (us < 0) {
        us += US_PER_S;
        seconds--;
    }
    int64_t days = seconds / SECONDS_PER_DAY;
    int64_t rest = seconds % SECONDS_PER_DAY;
    if (rest < 0) {
        rest += SECONDS_PER_DAY;
        days--;
    }
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;
    time_civil_from_days(days, &year, &month, &day);
    if (year < 0 || year > LAST_YEAR) {
        /* Out of what RFC 3339 can say: the nearest it can. */
        (void)snprintf(text, TIME_TEXT_SIZE, "%s",
            year < 0 ? "0000-01-01T00:00:00.000000Z"
                     : "9999-12-31T23:59:59.999999Z");
        return;
    }
    (void)snprintf(text, TIME_TEXT_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ",
        (unsigned)year % 10000U, (unsigned)month % 100U, (unsigned)day % 100U,
        (unsigned)(rest / 3600) % 100U, (unsigned)(rest / 60 % 60),
        (unsigned)(rest % 60), (unsigned)us % 1000000U);
}

/* Takes `count` digits off the front. */
static bool take_digits(struct span *text, size_t count, int64_t *value)
{
    if (text->len < count) {
        return false;
    }
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const char c = text->ptr[i];
        if (c < '0' || c > '9') {
            return false;
        }
        sum = sum * 10 + (c - '0');
    }
    text->ptr += count;
    text->len -= count;
    *value = sum;
    return true;
}

static bool take_char(struct span *text, const char *allowed)
{
    for (; text->len > 0 && *allowed != '\0'; allowed++) {
        if (text->ptr[0] == *allowed) {
            text->ptr++;
            text->len--;
            return true;
        }
    }
    return false;
}

static bool take_date(struct span *text, int64_t *days)
{
    static const int lengths[] = {
        31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;
    if (!take_digits(text, 4, &year) || !take_char(text, "-") ||
        !take_digits(text, 2, &month) || !take_char(text, "-") ||
        !take_digits(text, 2, &day)) {
        return false;
    }
    if (year < 1970 || month < 1 || month > 12) {
        return false;
    }
    const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    const int64_t last = lengths[month - 1] + (month == 2 && is_leap ? 1 : 0);
    if (day < 1 || day > last) {
        return false;
    }
    *days = time_days_from_civil(year, (unsigned)month, (unsigned)day);
    return true;
}

/* ".123456789"; digits past the sixth do not count. */
static bool take_fraction(struct span *text, int64_t *us)
{
    *us = 0;
    if (!take_char(text, ".")) {
        return true;
    }
    int64_t scale = US_PER_S;
    size_t digits = 0;
    int64_t digit = 0;
    while (take_digits(text, 1, &digit)) {
        scale /= 10;
        *us += digit * scale;
        digits++;
    }
    return digits > 0;
}

static bool take_time(struct span *text, int64_t *us_of_day)
{
    int64_t hour = 0;
    int64_t minute = 0;
    int64_t second = 0;
    int64_t us = 0;
    if (!take_digits(text, 2, &hour) || !take_char(text, ":") ||
        !take_digits(text, 2, &minute) || !take_char(text, ":") ||
        !take_digits(text, 2, &second) || !take_fraction(text, &us)) {
        return false;
    }
    if (hour > 23 || minute > 59 || second > 60) {
        return false;
    }
    if (second == 60) {
        second = 59;
        us = US_PER_S - 1;
    }
    *us_of_day = (hour * 3600 + minute * 60 + second) * US_PER_S + us;
    return true;
}

/* "Z" or "+01:00"; how far the text is ahead of UTC. */
static bool take_zone(struct span *text, int64_t *ahead_us)
{
    *ahead_us = 0;
    if (take_char(text, "Zz")) {
        return true;
    }
    const bool is_west = text->len > 0 && text->ptr[0] == '-';
    int64_t hour = 0;
    int64_t minute = 0;
    if (!take_char(text, "+-") || !take_digits(text, 2, &hour) ||
        !take_char(text, ":") || !take_digits(text, 2, &minute) || hour > 23 ||
        minute > 59) {
        return false;
    }
    *ahead_us = (hour * 3600 + minute * 60) * US_PER_S * (is_west ? -1 : 1);
    return true;
}

bool time_parse_rfc3339(struct span text, int64_t *wall_us)
{
    int64_t days = 0;
    int64_t us_of_day = 0;
    int64_t ahead_us = 0;
    if (!take_date(&text, &days) || !take_char(&text, "Tt") ||
        !take_time(&text, &us_of_day) || !take_zone(&text, &ahead_us) ||
        text.len != 0) {
        return false;
    }
    const int64_t us = days * SECONDS_PER_DAY * US_PER_S + us_of_day - ahead_us;
    /* The zone may lead out of the years allowed, at both ends. */
    if (us < 0 || us >= END_OF_TIME_US) {
        return false;
    }
    *wall_us = us;
    return true;
}

int64_t time_to_pg(int64_t wall_us)
{
    return wall_us - PG_EPOCH_US;
}

int64_t time_from_pg(int64_t pg_us)
{
    return pg_us + PG_EPOCH_US;
}
