/* SPDX-License-Identifier: Apache-2.0 */
/* The three date forms of RFC 9110 5.6.7. */
#include <string.h>

#include "common/time.h"
#include "schema/retry_after.h"

enum { FUTURE_YEARS = 50 };

struct date {
    int64_t year;
    unsigned month; /* 1..12 */
    unsigned day;
    unsigned hour;
    unsigned minute;
    unsigned second; /* 60: a leap second */
};

/* What is left of the text; every take_ moves on or says false. */
static bool take_text(struct span *rest, const char *text)
{
    const size_t len = strlen(text);
    if (rest->len < len || memcmp(rest->ptr, text, len) != 0) {
        return false;
    }
    rest->ptr += len;
    rest->len -= len;
    return true;
}

static bool take_digits(struct span *rest, size_t count, unsigned *number)
{
    if (rest->len < count) {
        return false;
    }
    *number = 0;
    for (size_t i = 0; i < count; i++) {
        const char c = rest->ptr[i];
        if (c < '0' || c > '9') {
            return false;
        }
        *number = *number * 10 + (unsigned)(c - '0');
    }
    rest->ptr += count;
    rest->len -= count;
    return true;
}

static bool take_day_name(struct span *rest, bool is_long)
{
    static const char *const names[] = {"Monday", "Tuesday", "Wednesday",
        "Thursday", "Friday", "Saturday", "Sunday"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char name[16] = {0};
        memcpy(name, names[i], is_long ? strlen(names[i]) : 3);
        if (take_text(rest, name)) {
            return true;
        }
    }
    return false;
}

static bool take_month(struct span *rest, unsigned *month)
{
    static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May",
        "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        if (take_text(rest, names[i])) {
            *month = i + 1;
            return true;
        }
    }
    return false;
}

static bool take_time(struct span *rest, struct date *date)
{
    return take_digits(rest, 2, &date->hour) && take_text(rest, ":") &&
           take_digits(rest, 2, &date->minute) && take_text(rest, ":") &&
           take_digits(rest, 2, &date->second);
}

static bool take_year(struct span *rest, struct date *date)
{
    unsigned year = 0;
    if (!take_digits(rest, 4, &year)) {
        return false;
    }
    date->year = year;
    return true;
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool parse_imf(struct span text, struct date *date)
{
    return take_day_name(&text, false) && take_text(&text, ", ") &&
           take_digits(&text, 2, &date->day) && take_text(&text, " ") &&
           take_month(&text, &date->month) && take_text(&text, " ") &&
           take_year(&text, date) && take_text(&text, " ") &&
           take_time(&text, date) && take_text(&text, " GMT") && text.len == 0;
}

/* Sun Nov  6 08:49:37 1994 */
static bool parse_asctime(struct span text, struct date *date)
{
    if (!take_day_name(&text, false) || !take_text(&text, " ") ||
        !take_month(&text, &date->month) || !take_text(&text, " ")) {
        return false;
    }
    const bool is_padded = take_text(&text, " ");
    return take_digits(&text, is_padded ? 1 : 2, &date->day) &&
           take_text(&text, " ") && take_time(&text, date) &&
           take_text(&text, " ") && take_year(&text, date) && text.len == 0;
}

static bool date_to_wall(const struct date *date, int64_t *wall_us)
{
    static const unsigned lengths[] = {
        31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool is_leap =
        (date->year % 4 == 0 && date->year % 100 != 0) || date->year % 400 == 0;
    if (date->month < 1 || date->month > 12 || date->day < 1) {
        return false;
    }
    const unsigned extra = date->month == 2 && is_leap ? 1 : 0;
    if (date->day > lengths[date->month - 1] + extra || date->hour > 23 ||
        date->minute > 59 || date->second > 60) {
        return false;
    }
    const int64_t days =
        time_days_from_civil(date->year, date->month, date->day);
    const int64_t seconds = days * 86400 + (int64_t)date->hour * 3600 +
                            (int64_t)date->minute * 60 + date->second;
    *wall_us = seconds * US_PER_S;
    return true;
}

/* The date of now, read from its text: no calendar of our own. */
static struct date date_of(int64_t now_wall_us)
{
    char text[TIME_TEXT_SIZE];
    time_format_rfc3339(now_wall_us, text);
    struct span rest = span_of(text);
    struct date date = {0};
    (void)(take_year(&rest, &date) && take_text(&rest, "-") &&
           take_digits(&rest, 2, &date.month) && take_text(&rest, "-") &&
           take_digits(&rest, 2, &date.day)); /* our own format */
    return date;
}

/* Two digits: the year of this century, but the one of the last century when
 * the date would lie more than 50 years ahead. */
static bool resolve_year(
    struct date *date, unsigned digits, int64_t now_wall_us)
{
    const struct date now = date_of(now_wall_us);
    const int64_t limit_year = now.year + FUTURE_YEARS;
    date->year = now.year - now.year % 100 + digits;
    int64_t wall_us = 0;
    if (date->year > limit_year) {
        date->year -= 100;
    } else if (date->year == limit_year && date_to_wall(date, &wall_us)) {
        const int64_t days =
            time_days_from_civil(limit_year, now.month, now.day) -
            time_days_from_civil(now.year, now.month, now.day);
        if (wall_us - now_wall_us > days * 86400 * US_PER_S) {
            date->year -= 100;
        }
    }
    return date_to_wall(date, &wall_us);
}

/* Sunday, 06-Nov-94 08:49:37 GMT */
static bool parse_rfc850(
    struct span text, int64_t now_wall_us, struct date *date)
{
    unsigned digits = 0;
    return take_day_name(&text, true) && take_text(&text, ", ") &&
           take_digits(&text, 2, &date->day) && take_text(&text, "-") &&
           take_month(&text, &date->month) && take_text(&text, "-") &&
           take_digits(&text, 2, &digits) && take_text(&text, " ") &&
           take_time(&text, date) && take_text(&text, " GMT") &&
           text.len == 0 && resolve_year(date, digits, now_wall_us);
}

bool http_date_parse(struct span text, int64_t now_wall_us, int64_t *wall_us)
{
    struct date date = {0};
    if (!parse_imf(text, &date) && !parse_rfc850(text, now_wall_us, &date) &&
        !parse_asctime(text, &date)) {
        return false;
    }
    return date_to_wall(&date, wall_us);
}
