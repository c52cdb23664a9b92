/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deliveries: captured webhooks from the topic to Postgres. Each becomes a row
 * for look-up; if its source is mapped and it is verified, also a job that the
 * claim takes like any other, under the delivery's own id.
 *
 * Order that matters: an offset is done only after the row (and the claim, in
 * one commit) was read as committed. If we die before, the record is read
 * again and meets its own rows. A delivery that becomes no action says so in
 * its row and blocks nothing.
 */
#ifndef DELIVERIES_H
#define DELIVERIES_H

#include "common/kafka.h"
#include "worker/delivery.h"

struct worker;
struct deliveries;

struct deliveries *deliveries_open(struct worker *worker);
void deliveries_close(struct deliveries *deliveries); /* NULL ok */

/* Takes the entry over; the record is copied. topic: static. */
void deliveries_add(struct deliveries *deliveries, const char *topic,
    const struct kafka_record *record, struct offset_entry *entry);
size_t deliveries_waiting(const struct deliveries *deliveries);
bool deliveries_is_busy(const struct deliveries *deliveries);
/* A source changed. */
void deliveries_refresh(struct deliveries *deliveries);
/* Forgets what is not under way; their offsets stay uncommitted. */
void deliveries_drain(struct deliveries *deliveries);

#endif
