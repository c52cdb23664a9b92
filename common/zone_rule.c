/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/time.h"
#include "common/zone_internal.h"

enum { DAY_S = 86400, HOUR_S = 3600, MAX_RULE_HOURS = 167, MAX_OFFSET_H = 24 };

/* -- reading --------------------------------------------------------------- */

static bool take_char(struct span *text, char c)
{
    if (text->len == 0 || text->ptr[0] != c) {
        return false;
    }
    text->ptr++;
    text->len--;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* One to three digits. */
static bool take_number(struct span *text, int min, int max, int *value)
{
    int number = 0;
    size_t digits = 0;
    while (digits < text->len && digits < 4 && is_digit(text->ptr[digits])) {
        number = number * 10 + (text->ptr[digits] - '0');
        digits++;
    }
    if (digits == 0 || digits > 3 || number < min || number > max) {
        return false;
    }
    text->ptr += digits;
    text->len -= digits;
    *value = number;
    return true;
}

/* [+-]h[:m[:s]] */
static bool take_time(struct span *text, int max_hours, int32_t *seconds)
{
    int hours = 0;
    int minutes = 0;
    int rest = 0;
    const bool is_negative = take_char(text, '-');
    if (!is_negative) {
        (void)take_char(text, '+'); /* may be there */
    }
    if (!take_number(text, 0, max_hours, &hours) ||
        (take_char(text, ':') && !take_number(text, 0, 59, &minutes)) ||
        (take_char(text, ':') && !take_number(text, 0, 59, &rest))) {
        return false;
    }
    const int32_t sum = hours * HOUR_S + minutes * 60 + rest;
    *seconds = is_negative ? -sum : sum;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* "CET" or "<+03>", at least three characters. */
static bool take_name(struct span *text)
{
    size_t len = 0;
    const bool is_quoted = take_char(text, '<');
    while (len < text->len && (is_letter(text->ptr[len]) ||
                                  (is_quoted && (is_digit(text->ptr[len]) ||
                                                    text->ptr[len] == '+' ||
                                                    text->ptr[len] == '-')))) {
        len++;
    }
    text->ptr += len;
    text->len -= len;
    return len >= 3 && (!is_quoted || take_char(text, '>'));
}

/* Offsets of POSIX are what is added to local time to get UTC. */
static bool take_offset(struct span *text, int32_t *offset_s)
{
    if (!take_time(text, MAX_OFFSET_H, offset_s)) {
        return false;
    }
    *offset_s = -*offset_s;
    return true;
}

static bool take_day(struct span *text, struct zone_change *change)
{
    if (take_char(text, 'M')) {
        change->kind = ZONE_DAY_OF_MONTH;
        return take_number(text, 1, 12, &change->month) &&
               take_char(text, '.') && take_number(text, 1, 5, &change->week) &&
               take_char(text, '.') && take_number(text, 0, 6, &change->day);
    }
    if (take_char(text, 'J')) {
        change->kind = ZONE_DAY_WITHOUT_29;
        return take_number(text, 1, 365, &change->day);
    }
    change->kind = ZONE_DAY_OF_YEAR;
    return take_number(text, 0, 365, &change->day);
}

static bool take_change(struct span *text, struct zone_change *change)
{
    change->time_s = 2 * HOUR_S;
    return take_char(text, ',') && take_day(text, change) &&
           (!take_char(text, '/') ||
               take_time(text, MAX_RULE_HOURS, &change->time_s));
}

bool zone_rule_parse(struct span text, struct zone_rule *rule)
{
    *rule = (struct zone_rule){.has_dst = false};
    if (!take_name(&text) || !take_offset(&text, &rule->std_offset_s)) {
        return false;
    }
    if (text.len == 0) {
        return true;
    }
    rule->has_dst = true;
    rule->dst_offset_s = rule->std_offset_s + HOUR_S;
    if (!take_name(&text) || (text.len > 0 && text.ptr[0] != ',' &&
                                 !take_offset(&text, &rule->dst_offset_s))) {
        return false;
    }
    return take_change(&text, &rule->to_dst) &&
           take_change(&text, &rule->to_std) && text.len == 0;
}

/* -- using ----------------------------------------------------------------- */

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1970 of the day on which the clock changes in a year. */
static int64_t change_day(const struct zone_change *change, int64_t year)
{
    const int64_t new_year = time_days_from_civil(year, 1, 1);
    if (change->kind == ZONE_DAY_OF_YEAR) {
        return new_year + change->day;
    }
    if (change->kind == ZONE_DAY_WITHOUT_29) {
        const bool is_after = is_leap(year) && change->day >= 60;
        return new_year + change->day - (is_after ? 0 : 1);
    }
    const unsigned month = (unsigned)change->month;
    const int64_t first = time_days_from_civil(year, month, 1);
    const int64_t next = month == 12 ? time_days_from_civil(year + 1, 1, 1)
                                     : time_days_from_civil(year, month + 1, 1);
    const int64_t weekday = ((first + 4) % 7 + 7) % 7; /* day 0: Thursday */
    int64_t day = first + (change->day - weekday + 7) % 7;
    day += 7 * ((int64_t)change->week - 1);
    return day < next ? day : day - 7;
}

struct zone_span zone_rule_find(const struct zone_rule *rule, int64_t at_s)
{
    struct zone_span span = {-ZONE_NEVER_S, ZONE_NEVER_S, rule->std_offset_s};
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;
    if (!rule->has_dst) {
        return span;
    }
    time_civil_from_days(at_s / DAY_S, &year, &month, &day);
    for (int64_t y = year - 2; y <= year + 2; y++) {
        const struct {
            int64_t at_s;
            int32_t offset_s;
        } changes[] = {
            {change_day(&rule->to_std, y) * DAY_S + rule->to_std.time_s -
                    rule->dst_offset_s,
                rule->std_offset_s},
            {change_day(&rule->to_dst, y) * DAY_S + rule->to_dst.time_s -
                    rule->std_offset_s,
                rule->dst_offset_s},
        };
        /* Where both fall on one instant, it is summer all the year. */
        for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
            if (changes[i].at_s <= at_s && changes[i].at_s >= span.start_s) {
                span.start_s = changes[i].at_s;
                span.offset_s = changes[i].offset_s;
            } else if (changes[i].at_s > at_s && changes[i].at_s < span.end_s) {
                span.end_s = changes[i].at_s;
            }
        }
    }
    return span;
}
