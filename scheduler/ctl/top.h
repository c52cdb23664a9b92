/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top: one look at the fleet, and how it is shown. The owner of a look calls
 * top_look_fini().
 */
#ifndef TOP_H
#define TOP_H

#include "scheduler/ctl/ctl.h"
#include "schema/codes.h"

enum { TOP_TENANTS = 20, TOP_STATUSES = STATUS_INDETERMINATE + 1 };

struct top_look {
    int64_t at_us;
    int64_t seq; /* of the newest outcome */
    int64_t running, untaken, waiting, overdue;
    int64_t oldest_us, latest_us;
    double per_s[TOP_STATUSES]; /* ended since the look before, by status */
    PGresult *workers;          /* enum ctl_worker_column */
    PGresult *tenants;          /* enum ctl_top_tenant_column */
};

void top_look_fini(struct top_look *look);

/* One document on standard output. */
void top_show_json(const struct top_look *look);
/* Tables on standard output. */
void top_show_tables(const struct ctl *ctl, const struct top_look *look);

#endif
