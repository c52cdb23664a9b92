/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake: Kafka to memory. Reads actions, webhooks and dispatch, sorts out what nobody
 * can read, and keeps track of which offsets may be committed. Memory is
 * bounded: above worker.max_jobs or worker.max_bytes it pauses the consumer,
 * below three quarters it resumes.
 */
#ifndef INTAKE_H
#define INTAKE_H

#include <stdbool.h>

#include "common/err.h"

struct worker;
struct intake;

struct intake *intake_open(struct worker *worker);
void intake_close(struct intake *intake); /* NULL ok; leaves the group */

/* Joins the group; once. A failure stops the worker. */
void intake_start(struct intake *intake);
/* To be called when memory was taken or given back. */
void intake_balance(struct intake *intake);
/* No more records from now on; offsets are still committed. */
void intake_drain(struct intake *intake);
bool intake_is_up(const struct intake *intake);

#endif
