/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/decimal.h"

#include <stdint.h>

#define EXPONENT_LIMIT INT64_C(100000000000000000)

/*
 * sign * 0.d1 d2 d3 ... * 10^scale with d1 and the last digit not 0. The
 * digits stay where they are in the text; a point among them is skipped.
 */
struct decimal {
    int sign; /* -1, 0, 1 */
    const char *first;
    const char *last; /* after the last digit that counts */
    int64_t scale;
};

static int64_t parse_exponent(const char *at, const char *end)
{
    int64_t value = 0;
    bool is_negative = false;
    if (at < end && (*at == '+' || *at == '-')) {
        is_negative = *at == '-';
        at++;
    }
    for (; at < end && value < EXPONENT_LIMIT; at++) {
        value = value * 10 + (*at - '0');
    }
    value = value < EXPONENT_LIMIT ? value : EXPONENT_LIMIT;
    return is_negative ? -value : value;
}

static struct decimal decimal_of(struct span text)
{
    struct decimal decimal = {.sign = 1};
    const char *at = text.ptr;
    const char *end = text.ptr + text.len;
    if (at < end && *at == '-') {
        decimal.sign = -1;
        at++;
    }
    bool is_past_point = false;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            is_past_point = true;
            continue;
        }
        if (*at != '0') {
            decimal.first = decimal.first == NULL ? at : decimal.first;
            decimal.last = at + 1;
        }
        /* Digits before the point raise it, zeros behind it lower it. */
        if (!is_past_point && decimal.first != NULL) {
            decimal.scale++;
        } else if (is_past_point && decimal.first == NULL) {
            decimal.scale--;
        }
    }
    if (decimal.first == NULL) {
        return (struct decimal){0};
    }
    if (at < end) {
        decimal.scale += parse_exponent(at + 1, end);
    }
    return decimal;
}

/* The digit at *at, 0 at the end; moves on over the point. */
static char next_digit(const char **at, const char *last)
{
    if (*at < last && **at == '.') {
        (*at)++;
    }
    if (*at >= last) {
        return '0';
    }
    const char digit = **at;
    (*at)++;
    return digit;
}

static int compare_digits(const struct decimal *a, const struct decimal *b)
{
    const char *left = a->first;
    const char *right = b->first;
    while (left < a->last || right < b->last) {
        const char x = next_digit(&left, a->last);
        const char y = next_digit(&right, b->last);
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return 0;
}

int decimal_compare(struct span a, struct span b)
{
    const struct decimal left = decimal_of(a);
    const struct decimal right = decimal_of(b);
    if (left.sign != right.sign) {
        return left.sign < right.sign ? -1 : 1;
    }
    if (left.sign == 0) {
        return 0;
    }
    int order = compare_digits(&left, &right);
    if (left.scale != right.scale) {
        order = left.scale < right.scale ? -1 : 1;
    }
    return order * left.sign;
}

bool decimal_is_integer(struct span number)
{
    const struct decimal decimal = decimal_of(number);
    if (decimal.sign == 0) {
        return true;
    }
    int64_t digits = 0;
    for (const char *at = decimal.first; at < decimal.last; at++) {
        digits += *at != '.' ? 1 : 0;
    }
    return decimal.scale >= digits;
}
