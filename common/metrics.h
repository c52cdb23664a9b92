/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics: counters, gauges and histograms in the Prometheus text format
 * 0.0.4. One registry a process. Names carry a unit suffix. A label's values
 * are capped (200 a metric, 128 bytes each); what comes after counts as
 * "other". Belongs to the loop's thread.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stdint.h>

#include "common/buf.h"

struct metric; /* lives as long as the process */

/* All strings are static. label may be NULL (no label). Asking again for a
 * name gives the same metric. */
struct metric *metric_counter(
    const char *name, const char *help, const char *label);
struct metric *metric_gauge(
    const char *name, const char *help, const char *label);
/* bounds ascending, in the unit of the name; borrowed. */
struct metric *metric_histogram(const char *name, const char *help,
    const char *label, const double *bounds, size_t bound_count);

/* value is the label's value, NULL without a label. */
void metric_add(struct metric *metric, const char *value, double amount);
void metric_set(struct metric *metric, const char *value, double amount);
void metric_observe(struct metric *metric, const char *value, double amount);
/* The value of a counter or gauge, the number of observations of a histogram;
 * 0 if there is none of that label. */
double metric_get(struct metric *metric, const char *value);

void metrics_format(struct buf *out);

#endif
