/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control: hears the signals of the control topic. Every worker hears all of
 * them, so it reads without a group, from the end. A signal only says that
 * something changed; what, is read from Postgres. Missing one costs the time
 * to the next regular look, no more.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "common/err.h"

struct worker;
struct control;

struct control *control_open(struct worker *worker, struct err *err) MUST_CHECK;
void control_close(struct control *control); /* NULL ok */

#endif
