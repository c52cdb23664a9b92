/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/metrics.h"

static void assert_text_has(const char *part)
{
    struct buf out;
    buf_init(&out, SIZE_MAX);
    metrics_format(&out);
    if (strstr(buf_str(&out), part) == NULL) {
        fail_msg("%s\nis not in\n%s", part, buf_str(&out));
    }
    buf_fini(&out);
}

static size_t count_of(const char *part)
{
    struct buf out;
    size_t count = 0;
    buf_init(&out, SIZE_MAX);
    metrics_format(&out);
    for (const char *at = buf_str(&out); (at = strstr(at, part)) != NULL;
         at += strlen(part)) {
        count++;
    }
    buf_fini(&out);
    return count;
}

static void counters_begin_at_zero_and_add_up(void **state)
{
    (void)state;
    struct metric *metric =
        metric_counter("t_records_total", "Records\\seen.\n", NULL);
    assert_text_has("# HELP t_records_total Records\\\\seen.\\n\n"
                    "# TYPE t_records_total counter\nt_records_total 0\n");
    metric_add(metric, NULL, 2);
    metric_add(metric, NULL, 1);
    assert_text_has("\nt_records_total 3\n");
    assert_true(metric_get(metric, NULL) > 2.5);
    assert_ptr_equal(
        metric, metric_counter("t_records_total", "Records\\seen.\n", NULL));
}

static void gauges_are_set(void **state)
{
    (void)state;
    struct metric *metric = metric_gauge("t_queue_bytes", "Queue.", "queue");
    metric_set(metric, "a", 12345678901.0);
    metric_set(metric, "a", 0.25);
    metric_add(metric, "b", -2);
    assert_text_has("# TYPE t_queue_bytes gauge\n"
                    "t_queue_bytes{queue=\"a\"} 0.25\n"
                    "t_queue_bytes{queue=\"b\"} -2\n");
}

static void label_values_are_escaped(void **state)
{
    (void)state;
    struct metric *metric = metric_counter("t_escape_total", "E.", "l");
    metric_add(metric, "a\"b\\c\nx", 1);
    assert_text_has("\nt_escape_total{l=\"a\\\"b\\\\c\\nx\"} 1\n");
}

static void buckets_are_cumulative(void **state)
{
    (void)state;
    static const double bounds[] = {0.1, 1, 10};
    struct metric *metric = metric_histogram(
        "t_wait_seconds", "Wait.", "kind", bounds, ARRAY_LEN(bounds));
    metric_observe(metric, "x", 0.1);
    metric_observe(metric, "x", 0.5);
    metric_observe(metric, "x", 5);
    metric_observe(metric, "x", 50);
    assert_text_has("# TYPE t_wait_seconds histogram\n"
                    "t_wait_seconds_bucket{kind=\"x\",le=\"0.1\"} 1\n"
                    "t_wait_seconds_bucket{kind=\"x\",le=\"1\"} 2\n"
                    "t_wait_seconds_bucket{kind=\"x\",le=\"10\"} 3\n"
                    "t_wait_seconds_bucket{kind=\"x\",le=\"+Inf\"} 4\n"
                    "t_wait_seconds_sum{kind=\"x\"} 55.6\n"
                    "t_wait_seconds_count{kind=\"x\"} 4\n");
    assert_true(metric_get(metric, "x") > 3.5);
    assert_true(metric_get(metric, "never") < 0.5);
    struct metric *plain = metric_histogram(
        "t_size_bytes", "Size.", NULL, bounds, ARRAY_LEN(bounds));
    metric_observe(plain, NULL, 2);
    assert_text_has("\nt_size_bytes_bucket{le=\"10\"} 1\n");
    assert_text_has("\nt_size_bytes_sum 2\nt_size_bytes_count 1\n");
}

static void label_values_are_capped(void **state)
{
    (void)state;
    struct metric *metric = metric_counter("t_capped_total", "C.", "tenant");
    for (int i = 0; i < 10000; i++) {
        char value[32];
        (void)snprintf(value, sizeof(value), "tenant-%d", i);
        metric_add(metric, value, 1);
    }
    assert_int_equal(count_of("\nt_capped_total{"), 201);
    assert_text_has("\nt_capped_total{tenant=\"other\"} 9800\n");
    /* Those that have a place keep it. */
    metric_add(metric, "tenant-199", 1);
    assert_text_has("\nt_capped_total{tenant=\"tenant-199\"} 2\n");
}

static void long_label_values_count_as_other(void **state)
{
    (void)state;
    struct metric *metric = metric_counter("t_long_total", "L.", "l");
    char value[200];
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    metric_add(metric, value, 1);
    value[128] = '\0';
    metric_add(metric, value, 1);
    assert_text_has("\nt_long_total{l=\"other\"} 1\n");
    assert_int_equal(count_of("\nt_long_total{"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_begin_at_zero_and_add_up),
        cmocka_unit_test(gauges_are_set),
        cmocka_unit_test(label_values_are_escaped),
        cmocka_unit_test(buckets_are_cumulative),
        cmocka_unit_test(label_values_are_capped),
        cmocka_unit_test(long_label_values_count_as_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
