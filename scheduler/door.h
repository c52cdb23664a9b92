/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door: /healthz (the process runs), /readyz (every part does its work; else
 * 503 and why) and /metrics, on http.listen.
 */
#ifndef SCHEDULER_DOOR_H
#define SCHEDULER_DOOR_H

#include "common/err.h"

struct door;
struct scheduler;

struct door *scheduler_door_open(
    struct scheduler *scheduler, struct err *err) MUST_CHECK;
void scheduler_door_close(struct door *door); /* NULL ok */

#endif
