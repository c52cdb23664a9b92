/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconcile: every 3 s compares the live rows that are ours with memory. A row
 * we do not know of (a claim that committed after we gave it up) is brought
 * back: a ready one runs, a begun one is a lost attempt.
 */
#ifndef RECONCILE_H
#define RECONCILE_H

#include <stdint.h>

struct worker;
struct reconcile;

struct reconcile *reconcile_open(struct worker *worker);
void reconcile_close(struct reconcile *reconcile); /* NULL ok */

/* Loads the row of this id soon, if it is ours and not in memory. */
void reconcile_adopt(struct reconcile *reconcile, const uint8_t *id);

#endif
