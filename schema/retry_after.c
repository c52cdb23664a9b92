/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/retry_after.h"

#include "common/time.h"

/* A Date header further off than this is not trusted as the base. */
#define DATE_MAX_SKEW_US (INT64_C(86400) * US_PER_S)

static struct span trim(struct span text)
{
    while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t')) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 &&
           (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t')) {
        text.len--;
    }
    return text;
}

/* 1*DIGIT; saturates at INT64_MAX. */
static bool parse_digits(struct span text, int64_t *number)
{
    if (text.len == 0) {
        return false;
    }
    int64_t sum = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        if (c < '0' || c > '9') {
            return false;
        }
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, c - '0', &sum)) {
            sum = INT64_MAX;
        }
    }
    *number = sum;
    return true;
}

/* From now to then in whole seconds, rounded up; the past is 0. */
static int64_t seconds_until(int64_t then_us, int64_t now_us)
{
    if (then_us <= now_us) {
        return 0;
    }
    const int64_t span_us = then_us - now_us;
    return span_us / US_PER_S + (span_us % US_PER_S != 0 ? 1 : 0);
}

static int64_t base_of(struct span date, int64_t now_wall_us)
{
    int64_t base_us = 0;
    if (!http_date_parse(trim(date), now_wall_us, &base_us)) {
        return now_wall_us;
    }
    const int64_t skew_us = base_us - now_wall_us;
    const bool is_near =
        skew_us <= DATE_MAX_SKEW_US && skew_us >= -DATE_MAX_SKEW_US;
    return is_near ? base_us : now_wall_us;
}

bool retry_after_parse(
    struct span value, struct span date, int64_t now_wall_us, int64_t *seconds)
{
    const struct span text = trim(value);
    if (parse_digits(text, seconds)) {
        return true;
    }
    int64_t then_us = 0;
    if (!http_date_parse(text, now_wall_us, &then_us)) {
        return false;
    }
    *seconds = seconds_until(then_us, base_of(date, now_wall_us));
    return true;
}

bool reset_header_parse(struct span value, enum reset_unit unit,
    int64_t now_wall_us, int64_t *seconds)
{
    int64_t number = 0;
    if (!parse_digits(trim(value), &number)) {
        return false;
    }
    const int64_t scale = unit == RESET_EPOCH_MS ? US_PER_MS : US_PER_S;
    int64_t then_us = 0;
    if (unit == RESET_DELTA_S) {
        *seconds = number;
    } else if (__builtin_mul_overflow(number, scale, &then_us)) {
        *seconds = INT64_MAX;
    } else {
        *seconds = seconds_until(then_us, now_wall_us);
    }
    return true;
}
