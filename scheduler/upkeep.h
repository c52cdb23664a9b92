/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upkeep: what has to be done once a minute: partitions ahead of need, old
 * reservations, and a look at the oldest transaction, which holds up gaps of
 * the relay and the cleaning of tables. Harmless when several do it.
 */
#ifndef UPKEEP_H
#define UPKEEP_H

struct upkeep;
struct scheduler;

struct upkeep *upkeep_open(struct scheduler *scheduler);
void upkeep_close(struct upkeep *upkeep); /* NULL ok */

#endif
