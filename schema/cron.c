/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/cron.h"

#include <string.h>

#include "common/time.h"

enum {
    DAY_S = 86400,
    HOUR_S = 3600,
    MINUTE_S = 60,
    LAST_YEAR = 9999,
    FIELD_COUNT = 5
};
/* 10000-01-01 */
#define END_OF_TIME_S (INT64_C(2932897) * DAY_S)

enum field_name { MINUTE, HOUR, DAY, MONTH, WEEKDAY };

struct field {
    const char *name;
    int min;
    int max;
    const char *names; /* of three letters each, from min on; "" for none */
};

static const struct field FIELDS[FIELD_COUNT] = {
    [MINUTE] = {"minute", 0, 59, ""},
    [HOUR] = {"hour", 0, 23, ""},
    [DAY] = {"day of month", 1, 31, ""},
    [MONTH] = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    [WEEKDAY] = {"day of week", 0, 7, "sunmontuewedthufrisat"},
};

static const struct {
    const char *name;
    const char *text;
} SHORTHANDS[] = {
    {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
    {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},
    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
};

/* -- reading --------------------------------------------------------------- */

static int refuse(struct fault *fault, const char *field, const char *why)
{
    return fault_set(fault, CODE_INVALID_MEMBER, "/cron", "%s: %s", field, why);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Three letters: which of the field's names. */
static bool find_name(const struct field *field, const char *word, int *value)
{
    for (size_t i = 0; field->names[i] != '\0'; i += 3) {
        const char *name = field->names + i;
        if (lower(word[0]) == name[0] && lower(word[1]) == name[1] &&
            lower(word[2]) == name[2]) {
            *value = field->min + (int)(i / 3);
            return true;
        }
    }
    return false;
}

static int take_value(const struct field *field, struct span *text, int *value,
    struct fault *fault)
{
    size_t len = 0;
    int number = 0;
    while (len < text->len && is_letter(text->ptr[len])) {
        len++;
    }
    if (len > 0) {
        const bool is_known = len == 3 && find_name(field, text->ptr, value);
        text->ptr += len;
        text->len -= len;
        return is_known
                   ? 0
                   : refuse(fault, field->name,
                         field->names[0] != '\0'
                             ? "names have three letters, as jan or mon; "
                               "L, W and # are not of cron"
                             : "takes numbers; L, W and # are not of cron");
    }
    while (len < text->len && len < 4 && text->ptr[len] >= '0' &&
           text->ptr[len] <= '9') {
        number = number * 10 + (text->ptr[len] - '0');
        len++;
    }
    text->ptr += len;
    text->len -= len;
    *value = number;
    if (len == 0) {
        return refuse(fault, field->name,
            "takes *, a value, a range a-b, a step */n or a-b/n, or a list "
            "of them");
    }
    return number >= field->min && number <= field->max
               ? 0
               : fault_set(fault, CODE_INVALID_MEMBER, "/cron",
                     "%s: %d is not from %d to %d", field->name, number,
                     field->min, field->max);
}

static bool take_char(struct span *text, char c)
{
    if (text->len == 0 || text->ptr[0] != c) {
        return false;
    }
    text->ptr++;
    text->len--;
    return true;
}

/* "/n" after a range; 1 without. */
static int take_step(const struct field *field, struct span *text,
    bool is_range, int *step, struct fault *fault)
{
    int64_t number = 0;
    size_t len = 0;
    *step = 1;
    if (!take_char(text, '/')) {
        return 0;
    }
    if (!is_range) {
        return refuse(
            fault, field->name, "a step goes with * or a range, as 10-50/5");
    }
    while (len < text->len && text->ptr[len] >= '0' && text->ptr[len] <= '9') {
        len++;
    }
    if (len == 0 || len > 4 ||
        !span_to_int((struct span){text->ptr, len}, &number) || number < 1 ||
        number > field->max) {
        return fault_set(fault, CODE_INVALID_MEMBER, "/cron",
            "%s: a step is a number from 1 to %d", field->name, field->max);
    }
    text->ptr += len;
    text->len -= len;
    *step = (int)number;
    return 0;
}

/* One element of a list: `*`, a, a-b, with a step or not. */
static int take_element(const struct field *field, struct span *text,
    uint64_t *bits, struct fault *fault)
{
    int first = field->min;
    int last = field == &FIELDS[WEEKDAY] ? 6 : field->max;
    int step = 1;
    bool is_range = true;
    if (!take_char(text, '*')) {
        if (take_value(field, text, &first, fault) != 0) {
            return -1;
        }
        last = first;
        is_range = take_char(text, '-');
        if (is_range && take_value(field, text, &last, fault) != 0) {
            return -1;
        }
        if (last < first) {
            return refuse(fault, field->name,
                "a range goes upwards; write fri-sun as 5-7, or a list");
        }
    }
    if (take_step(field, text, is_range, &step, fault) != 0) {
        return -1;
    }
    for (int value = first; value <= last; value += step) {
        *bits |= UINT64_C(1) << (unsigned)value;
    }
    return 0;
}

static int take_field(const struct field *field, struct span text,
    uint64_t *bits, struct fault *fault)
{
    *bits = 0;
    do {
        if (take_element(field, &text, bits, fault) != 0) {
            return -1;
        }
    } while (take_char(&text, ','));
    if (text.len > 0) {
        return refuse(fault, field->name,
            "takes *, a value, a range a-b, a step */n or a-b/n, or a list "
            "of them; L, W, # and ? are not of cron");
    }
    return 0;
}

/* Cuts text at blanks; the number of words, at most max + 1. */
static size_t split(struct span text, struct span *words, size_t max)
{
    size_t count = 0;
    size_t at = 0;
    while (at < text.len) {
        const size_t start = at;
        while (at < text.len && text.ptr[at] != ' ' && text.ptr[at] != '\t') {
            at++;
        }
        if (at > start && count == max) {
            return max + 1;
        }
        if (at > start) {
            words[count++] = (struct span){text.ptr + start, at - start};
        }
        while (at < text.len && (text.ptr[at] == ' ' || text.ptr[at] == '\t')) {
            at++;
        }
    }
    return count;
}

static int open_shorthand(struct span *text, struct fault *fault)
{
    if (text->len == 0 || text->ptr[0] != '@') {
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(SHORTHANDS); i++) {
        if (span_is_nocase(*text, SHORTHANDS[i].name)) {
            *text = span_of(SHORTHANDS[i].text);
            return 0;
        }
    }
    return fault_set(fault, CODE_INVALID_MEMBER, "/cron",
        "the shorthands are @yearly, @annually, @monthly, @weekly, @daily, "
        "@midnight and @hourly");
}

static bool ever_comes(const struct cron *cron);

int cron_parse(struct span text, struct cron *cron, struct fault *fault)
{
    struct span words[FIELD_COUNT];
    uint64_t bits[FIELD_COUNT];
    if (text.len > CRON_MAX_BYTES) {
        return fault_set(fault, CODE_INVALID_MEMBER, "/cron",
            "longer than %d bytes", CRON_MAX_BYTES);
    }
    if (open_shorthand(&text, fault) != 0) {
        return -1;
    }
    if (split(text, words, FIELD_COUNT) != FIELD_COUNT) {
        return fault_set(fault, CODE_INVALID_MEMBER, "/cron",
            "cron has five fields: minute, hour, day of month, month, day of "
            "week; no seconds, no year");
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (take_field(&FIELDS[i], words[i], &bits[i], fault) != 0) {
            return -1;
        }
    }
    *cron = (struct cron){.minutes = bits[MINUTE],
        .hours = (uint32_t)bits[HOUR],
        .days = (uint32_t)bits[DAY],
        .months = (uint32_t)bits[MONTH],
        .weekdays = (uint32_t)((bits[WEEKDAY] | bits[WEEKDAY] >> 7U) & 0x7FU),
        .is_wildcard = words[MINUTE].ptr[0] == '*' || words[HOUR].ptr[0] == '*',
        .is_any_day = words[DAY].ptr[0] == '*' || words[WEEKDAY].ptr[0] == '*'};
    return ever_comes(cron) ? 0
                            : fault_set(fault, CODE_INVALID_MEMBER, "/cron",
                                  "no day is ever like that");
}

/* -- the calendar ---------------------------------------------------------- */

static bool has_bit(uint64_t bits, int64_t bit)
{
    return ((bits >> (uint64_t)bit) & 1U) != 0;
}

/* days: since 1970. */
static bool day_matches(const struct cron *cron, int64_t days)
{
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;
    time_civil_from_days(days, &year, &month, &day);
    const bool is_day = has_bit(cron->days, day);
    const bool is_weekday =
        has_bit(cron->weekdays, ((days + 4) % 7 + 7) % 7); /* 1970: Thursday */
    return has_bit(cron->months, month) &&
           (cron->is_any_day ? is_day && is_weekday : is_day || is_weekday);
}

/* The calendar repeats itself after 400 years; every pair of day and weekday
 * that is possible comes within 40. */
static bool ever_comes(const struct cron *cron)
{
    const int64_t first = time_days_from_civil(2080, 1, 1);
    for (int64_t days = first; days < first + 41 * INT64_C(366); days++) {
        if (day_matches(cron, days)) {
            return true;
        }
    }
    return false;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0 ? 1 : 0);
}

/* The first minute of a day at or after a second of it; -1: none is left. */
static int64_t match_in_day(const struct cron *cron, int64_t from_s)
{
    int64_t minute = (from_s + MINUTE_S - 1) / MINUTE_S;
    for (int64_t hour = minute / 60; hour < 24; hour++) {
        if (!has_bit(cron->hours, hour)) {
            continue;
        }
        const int64_t first = hour == minute / 60 ? minute % 60 : 0;
        const uint64_t left = cron->minutes >> (uint64_t)first;
        if (left != 0) {
            minute = hour * 60 + first + __builtin_ctzll(left);
            return minute * MINUTE_S;
        }
    }
    return -1;
}

/*
 * The first match at or after a local time and before another one, in seconds
 * of a clock that never changes. False: none.
 */
static bool match_local(
    const struct cron *cron, int64_t from_s, int64_t before_s, int64_t *match_s)
{
    int64_t days = floor_div(from_s, DAY_S);
    int64_t rest = from_s - days * DAY_S;
    for (; days * DAY_S < before_s; days++) {
        const int64_t found =
            day_matches(cron, days) ? match_in_day(cron, rest) : -1;
        rest = 0;
        if (found >= 0) {
            *match_s = days * DAY_S + found;
            return *match_s < before_s;
        }
    }
    return false;
}

/* -- the clock ------------------------------------------------------------- */

/* What the clock of a span may still show: from the local time of at_s on, but
 * for fixed times nothing that the span before has shown already. */
static int64_t first_shown(const struct cron *cron, const struct zone *zone,
    const struct zone_span *span, int64_t at_s)
{
    const int64_t local_s = at_s + span->offset_s;
    if (cron->is_wildcard || span->start_s == -ZONE_NEVER_S) {
        return local_s;
    }
    const struct zone_span before = zone_find(zone, span->start_s - 1);
    const int64_t shown_s = span->start_s + before.offset_s;
    return shown_s > local_s ? shown_s : local_s;
}

/* One span: a tick in it, or at its end for times that the clock skips. */
static bool match_span(const struct cron *cron, const struct zone *zone,
    const struct zone_span *span, int64_t at_s, int64_t *match_s)
{
    const bool is_last = span->end_s >= END_OF_TIME_S;
    const int64_t end_s = is_last ? END_OF_TIME_S : span->end_s;
    const int64_t shown_until_s = end_s + span->offset_s;
    int64_t until_s = shown_until_s;
    int64_t local_s = 0;
    if (!cron->is_wildcard && !is_last) {
        const int64_t next_s = end_s + zone_find(zone, end_s).offset_s;
        until_s = next_s > until_s ? next_s : until_s;
    }
    if (!match_local(
            cron, first_shown(cron, zone, span, at_s), until_s, &local_s)) {
        return false;
    }
    *match_s = local_s < shown_until_s ? local_s - span->offset_s : end_s;
    return true;
}

bool cron_next(const struct cron *cron, const struct zone *zone,
    int64_t after_s, int64_t *at_s)
{
    int64_t from_s = after_s + 1;
    while (from_s < END_OF_TIME_S) {
        const struct zone_span span = zone_find(zone, from_s);
        if (match_span(cron, zone, &span, from_s, at_s)) {
            return *at_s < END_OF_TIME_S;
        }
        from_s = span.end_s;
    }
    return false;
}
