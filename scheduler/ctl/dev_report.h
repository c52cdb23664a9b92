/* SPDX-License-Identifier: Apache-2.0 */
/* dev_report: what of a local fleet runs, where, and its API keys. Blocks. */
#ifndef DEV_REPORT_H
#define DEV_REPORT_H

#include "scheduler/ctl/ctl.h"
#include "scheduler/ctl/dev_fleet.h"

/* Prints tables, or one JSON object with --json, from fleet and the settings
 * in ctl. CTL_DONE if all of it runs, else CTL_NEGATIVE. */
int dev_report(
    const struct ctl *ctl, const struct dev_fleet *fleet, bool is_cluster_up);

#endif
