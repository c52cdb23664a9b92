/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticks: makes due ticks of schedules into action requests on `actions`.
 *
 * Each scheduler does it, on its own. A tick's firing is written in the
 * statement that moves the schedule's cursor, which one of them wins; whoever
 * wrote it publishes it at once and deletes it when Kafka has it. One that is
 * still there after a while was left by somebody who died: anybody publishes
 * it again. A repeat is harmless: the key of its action is made of schedule
 * and tick, so a claim takes one.
 */
#ifndef TICKS_H
#define TICKS_H

#include <stdint.h>

struct scheduler;
struct ticks;

struct ticks *ticks_open(struct scheduler *scheduler);
/* After the connection and the producer, which end what is under way. */
void ticks_close(struct ticks *ticks); /* NULL ok */

/* next_us: when the next tick is due, from now; firing_us: the age of the
 * oldest firing, -1 without one. */
void ticks_look(struct ticks *ticks, int64_t next_us, int64_t firing_us);

#endif
