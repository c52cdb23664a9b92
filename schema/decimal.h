/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decimal: compares JSON numbers by their text, exactly, whatever their size:
 * never through a double. Exponents beyond 10^17 count as 10^17.
 */
#ifndef DECIMAL_H
#define DECIMAL_H

#include "common/buf.h"

/* Both are texts of JSON numbers. Negative, 0 or positive as a <=> b. */
int decimal_compare(struct span a, struct span b);

/* True if the number has no fraction: 1, 1.0, 1e3, 12.5e1. */
bool decimal_is_integer(struct span number);

#endif
