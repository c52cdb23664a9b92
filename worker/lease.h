/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease: the worker's row says until when others must believe that it lives:
 * 10 s, by the database's clock, renewed every 2 s. When a renewal finds the
 * row dead, or none was confirmed for 8 s of our own clock (which counts
 * suspend), the children are killed and the worker starts over.
 */
#ifndef LEASE_H
#define LEASE_H

#include <stdbool.h>

struct worker;
struct lease;

struct lease *lease_open(struct worker *worker);
void lease_close(struct lease *lease); /* NULL ok */

/* The row was written just now: renewals begin, and so does the worker. */
void lease_start(struct lease *lease);
void lease_renew_now(struct lease *lease);
/* Whether a gate may open: the last confirmed renewal is young enough. */
bool lease_is_safe(const struct lease *lease);

#endif
