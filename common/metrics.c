/* SPDX-License-Identifier: Apache-2.0 */
#include "common/metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    VALUES_MAX = 200,
    VALUE_MAX_BYTES = 128,
    /* Twice the values and "other", so that a free slot is always near. */
    SLOT_COUNT = 512
};

#define OTHER "other"

enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM, KIND_COUNT };

static const char *const kind_names[] = {
    [KIND_COUNTER] = "counter",
    [KIND_GAUGE] = "gauge",
    [KIND_HISTOGRAM] = "histogram",
};
_Static_assert(ARRAY_LEN(kind_names) == KIND_COUNT, "a name a kind");

/* The numbers of one value of the label. */
struct series {
    char *value;         /* NULL without a label */
    double number;       /* counter, gauge: the value; histogram: the sum */
    uint64_t count;      /* of a histogram */
    uint64_t *buckets;   /* a histogram's, not added up, one a bound */
    struct series *next; /* in order of appearance */
};

struct metric {
    enum kind kind;
    const char *name;
    const char *help;
    const char *label;
    const double *bounds;
    size_t bound_count;
    size_t series_count;
    struct series *first;
    struct series *last;
    struct series **slots; /* hash table of the label's values */
    struct metric *next;
};

/* One a process, like the logger; it lives as long as the process. */
static struct metric *first_metric;
static struct metric **last_link = &first_metric;

static struct series *add_series(struct metric *metric, const char *value)
{
    struct series *series = mem_zalloc(1, sizeof(*series));
    series->value = value == NULL ? NULL : mem_strdup(value);
    if (metric->kind == KIND_HISTOGRAM) {
        series->buckets =
            mem_zalloc(metric->bound_count, sizeof(*series->buckets));
    }
    if (metric->last == NULL) {
        metric->first = series;
    } else {
        metric->last->next = series;
    }
    metric->last = series;
    metric->series_count++;
    return series;
}

static struct metric *find_metric(const char *name)
{
    struct metric *metric = first_metric;
    while (metric != NULL && strcmp(metric->name, name) != 0) {
        metric = metric->next;
    }
    return metric;
}

static struct metric *add_metric(const struct metric *wanted)
{
    struct metric *metric = find_metric(wanted->name);
    if (metric != NULL) {
        assert(metric->kind == wanted->kind);
        return metric;
    }
    metric = mem_zalloc(1, sizeof(*metric));
    *metric = *wanted;
    if (metric->label == NULL) {
        /* Shown as 0 from the start, so that rates have a beginning. */
        (void)add_series(metric, NULL);
    } else {
        metric->slots = mem_zalloc(SLOT_COUNT, sizeof(struct series *));
    }
    *last_link = metric;
    last_link = &metric->next;
    return metric;
}

struct metric *metric_counter(
    const char *name, const char *help, const char *label)
{
    return add_metric(&(struct metric){
        .kind = KIND_COUNTER, .name = name, .help = help, .label = label});
}

struct metric *metric_gauge(
    const char *name, const char *help, const char *label)
{
    return add_metric(&(struct metric){
        .kind = KIND_GAUGE, .name = name, .help = help, .label = label});
}

struct metric *metric_histogram(const char *name, const char *help,
    const char *label, const double *bounds, size_t bound_count)
{
    return add_metric(&(struct metric){.kind = KIND_HISTOGRAM,
        .name = name,
        .help = help,
        .label = label,
        .bounds = bounds,
        .bound_count = bound_count});
}

/* The slot of the value, or the free one where it belongs. */
static struct series **find_slot(const struct metric *metric, const char *value)
{
    uint32_t hash = UINT32_C(2166136261); /* FNV-1a */
    for (const char *at = value; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT32_C(16777619);
    }
    size_t slot = hash % SLOT_COUNT;
    while (metric->slots[slot] != NULL &&
           strcmp(metric->slots[slot]->value, value) != 0) {
        slot = (slot + 1) % SLOT_COUNT;
    }
    return &metric->slots[slot];
}

static struct series *get_series(struct metric *metric, const char *value)
{
    if (metric->label == NULL) {
        return metric->first;
    }
    if (value == NULL ||
        strnlen(value, VALUE_MAX_BYTES + 1) > VALUE_MAX_BYTES) {
        value = OTHER;
    }
    struct series **slot = find_slot(metric, value);
    if (*slot == NULL && metric->series_count >= VALUES_MAX) {
        value = OTHER;
        slot = find_slot(metric, value);
    }
    if (*slot == NULL) {
        *slot = add_series(metric, value);
    }
    return *slot;
}

void metric_add(struct metric *metric, const char *value, double amount)
{
    assert(metric->kind != KIND_HISTOGRAM);
    get_series(metric, value)->number += amount;
}

void metric_set(struct metric *metric, const char *value, double amount)
{
    assert(metric->kind == KIND_GAUGE);
    get_series(metric, value)->number = amount;
}

void metric_observe(struct metric *metric, const char *value, double amount)
{
    assert(metric->kind == KIND_HISTOGRAM);
    struct series *series = get_series(metric, value);
    series->number += amount;
    series->count++;
    for (size_t i = 0; i < metric->bound_count; i++) {
        if (amount <= metric->bounds[i]) {
            series->buckets[i]++;
            break;
        }
    }
}

double metric_get(struct metric *metric, const char *value)
{
    const struct series *series = metric->first;
    if (metric->label != NULL) {
        series = value == NULL ? NULL : *find_slot(metric, value);
    }
    if (series == NULL) {
        return 0;
    }
    return metric->kind == KIND_HISTOGRAM ? (double)series->count
                                          : series->number;
}

/* -- the text format ------------------------------------------------------- */

static void put_escaped(struct buf *out, const char *text, bool is_label)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            buf_put_str(out, "\\n");
            continue;
        }
        if (*text == '\\' || (is_label && *text == '"')) {
            buf_put_char(out, '\\');
        }
        buf_put_char(out, *text);
    }
}

/* `{label="value",le="bound"}`, either part only if it is there. */
static void put_labels(struct buf *out, const struct metric *metric,
    const struct series *series, const char *bound)
{
    if (series->value == NULL && bound == NULL) {
        return;
    }
    buf_put_char(out, '{');
    if (series->value != NULL) {
        buf_put_str(out, metric->label);
        buf_put_str(out, "=\"");
        put_escaped(out, series->value, true);
        buf_put_char(out, '"');
    }
    if (bound != NULL) {
        buf_put_str(out, series->value != NULL ? ",le=\"" : "le=\"");
        buf_put_str(out, bound);
        buf_put_char(out, '"');
    }
    buf_put_char(out, '}');
}

static void put_count(struct buf *out, const struct metric *metric,
    const struct series *series, const char *bound, uint64_t count)
{
    buf_put_str(out, metric->name);
    buf_put_str(out, bound != NULL ? "_bucket" : "_count");
    put_labels(out, metric, series, bound);
    buf_printf(out, " %llu\n", (unsigned long long)count);
}

static void put_number(struct buf *out, const struct metric *metric,
    const struct series *series, const char *suffix)
{
    buf_put_str(out, metric->name);
    buf_put_str(out, suffix);
    put_labels(out, metric, series, NULL);
    buf_printf(out, " %.15g\n", series->number);
}

static void put_histogram(
    struct buf *out, const struct metric *metric, const struct series *series)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < metric->bound_count; i++) {
        char bound[32];
        (void)snprintf(bound, sizeof(bound), "%.15g", metric->bounds[i]);
        sum += series->buckets[i];
        put_count(out, metric, series, bound, sum);
    }
    put_count(out, metric, series, "+Inf", series->count);
    put_number(out, metric, series, "_sum");
    put_count(out, metric, series, NULL, series->count);
}

void metrics_format(struct buf *out)
{
    for (const struct metric *metric = first_metric; metric != NULL;
         metric = metric->next) {
        buf_printf(out, "# HELP %s ", metric->name);
        put_escaped(out, metric->help, false);
        buf_printf(
            out, "\n# TYPE %s %s\n", metric->name, kind_names[metric->kind]);
        for (const struct series *series = metric->first; series != NULL;
             series = series->next) {
            if (metric->kind == KIND_HISTOGRAM) {
                put_histogram(out, metric, series);
            } else {
                put_number(out, metric, series, "");
            }
        }
    }
}
