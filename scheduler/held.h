/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held: waiting work that no clock brings back. What a pause held goes on, in
 * the order it was held in, once the pause is gone; what is past its deadline
 * ends, paused or waiting for a person.
 */
#ifndef HELD_H
#define HELD_H

struct scheduler;
struct held;

struct held *held_open(struct scheduler *scheduler);
void held_close(struct held *held); /* NULL ok */

/* The pulse saw some of it. */
void held_look(struct held *held);

#endif
