/* SPDX-License-Identifier: Apache-2.0 */
/* form: bodies of application/x-www-form-urlencoded, taken apart. Pure. */
#ifndef FORM_H
#define FORM_H

#include <stdbool.h>

#include "common/buf.h"

struct form_field {
    struct span name; /* decoded */
    struct span value;
};

/*
 * The fields in their order; they borrow text, which is decoded in place. What
 * is no escape stays as it is. False: there are more than max.
 */
bool form_split(char *text, size_t len, struct form_field *fields, size_t max,
    size_t *count);

#endif
