/* SPDX-License-Identifier: Apache-2.0 */
/*
 * windows: opens the next idempotency window when the newest is old enough, and
 * drops those that nobody needs any more. Done by the scheduler that leads the
 * relay; harmless when another one does it too.
 *
 * While a window exists, a repeat of one of its keys is a duplicate. After
 * that the same key acts again; the outcome of before stays readable.
 */
#ifndef WINDOWS_H
#define WINDOWS_H

struct scheduler;
struct windows;

struct windows *windows_open(struct scheduler *scheduler);
void windows_close(struct windows *windows); /* NULL ok */

#endif
