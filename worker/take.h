/* SPDX-License-Identifier: Apache-2.0 */
/*
 * take: dispatched rows become ours. The row waits in live without an owner;
 * whoever sets its owner first has it. Dispatch records say which; a repeated
 * one finds nothing. Rows that nobody took for 100 ms (the partition of their
 * record has lost its reader) are collected without a record.
 */
#ifndef TAKE_H
#define TAKE_H

#include "worker/job.h"

struct worker;
struct take;

struct take *take_open(struct worker *worker);
void take_close(struct take *take); /* NULL ok */

/* The entry is done once the take was tried; the scheduler sends an untaken
 * row again. */
void take_add(struct take *take, const uint8_t *id, int attempt_no,
    struct offset_entry *entry);
size_t take_waiting(const struct take *take);
bool take_is_busy(const struct take *take);
int64_t take_since_us(const struct take *take); /* as claim_since_us() */
void take_drain(struct take *take);

#endif
