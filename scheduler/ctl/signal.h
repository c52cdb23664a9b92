/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signal: tells the fleet over the control topic that something changed. Only
 * a hint: the truth is a row in Postgres, which every program reads again
 * after 30 s at most. So a failure is a warning, never an error.
 */
#ifndef SIGNAL_H
#define SIGNAL_H

#include "scheduler/ctl/ctl.h"

/* Key "kind:name". Blocks at most 3 s. Does nothing without Kafka settings. */
void ctl_signal(const struct ctl *ctl, const char *kind, const char *name);
/* Several names of one kind. */
void ctl_signal_all(const struct ctl *ctl, const char *kind,
    const char *const *names, size_t count);

#endif
