/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pulse: one look at the database every 170 ms, in one statement: what is due
 * next, what no worker has taken, and which workers live. On a connection of
 * its own, so that no long statement makes it miss a beat; the session is the
 * one whose sightings of presence locks count.
 */
#ifndef PULSE_H
#define PULSE_H

#include <stdbool.h>

struct pulse;
struct scheduler;

struct pulse *pulse_open(struct scheduler *scheduler);
void pulse_close(struct pulse *pulse); /* NULL ok */
bool pulse_is_up(const struct pulse *pulse);

#endif
