/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retries that fall due a thousand times a second: how long after that moment
 * each call begins, and that none begins before it. Their rows are written by
 * SQL; the outcome of each says when its first call began.
 */
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/bench_again.h"
#include "scheduler/ctl/dev_process.h"

enum { APART_US = 1000, LEAD_S = 5, POLL_MS = 100, STALL_S = 60 };
enum { ROWS_A_LEAD_S = 2000 };
#define MARK "due"

struct due {
    struct bench *bench;
    int64_t base_us; /* wall: when the row before the first is due */
    int64_t *late_us;
    bool *is_seen;
    int64_t done;
};

static int write_rows(struct due *due, struct err *err)
{
    const int64_t count = due->bench->plan.due;
    const int64_t lead_us =
        (LEAD_S + count / ROWS_A_LEAD_S) * US_PER_S + now_wall_us();
    char moment[96];
    due->base_us = lead_us;
    snprintf(moment, sizeof moment, "to_timestamp(%lld) + g * interval '%d us'",
        (long long)(lead_us / US_PER_S), APART_US);
    due->base_us -= due->base_us % US_PER_S;
    if (bench_fill_waiting(due->bench, MARK, count, moment, err) != 0)
        return -1;
    return now_wall_us() < due->base_us
               ? 0
               : err_set(err, ERR_TRANSIENT, "TOO_SLOW",
                     "the retries were due before all were written");
}

/* The text behind a name, up to the quote that ends it. */
static struct span text_behind(struct span value, const char *name)
{
    const char *at = memmem(value.ptr, value.len, name, strlen(name));
    if (at == NULL)
        return (struct span){0};
    at += strlen(name);
    const char *end = memchr(at, '"', value.len - (size_t)(at - value.ptr));
    return (struct span){at, end != NULL ? (size_t)(end - at) : 0};
}

static int take(struct due *due, struct span value, struct err *err)
{
    char mark[64];
    int64_t number = 0;
    int64_t began_us = 0;
    const int len = snprintf(mark, sizeof mark, "\"idempotency_key\":\"%s-%s-",
        due->bench->run, MARK);
    const struct span key = text_behind(value, mark);
    (void)len;
    if (!span_to_int(key, &number) || number < 1 ||
        number > due->bench->plan.due)
        return 0; /* of another phase */
    if (due->is_seen[number - 1])
        return err_set(err, ERR_PERMANENT, "DOUBLED",
            "retry %lld has a second outcome", (long long)number);
    if (!time_parse_rfc3339(text_behind(value, "\"started_at\":\""), &began_us))
        return err_set(err, ERR_PERMANENT, "NOT_SUCCEEDED",
            "retry %lld was not called", (long long)number);
    due->is_seen[number - 1] = true;
    due->late_us[due->done++] = began_us - due->base_us - number * APART_US;
    return 0;
}

static int read_all(struct due *due, struct err *err)
{
    int64_t last_us = now_mono_us();
    int rc = 0;
    while (rc == 0 && due->done < due->bench->plan.due) {
        rd_kafka_message_t *message =
            rd_kafka_consumer_poll(due->bench->reader, POLL_MS);
        if (message != NULL && message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            rc = take(due, (struct span){message->payload, message->len}, err);
            last_us = now_mono_us();
        }
        if (message != NULL)
            rd_kafka_message_destroy(message);
        if (rc == 0 && dev_is_interrupted())
            rc = err_set(err, ERR_PERMANENT, "INTERRUPTED", "interrupted");
        if (rc == 0 && now_mono_us() - last_us > STALL_S * US_PER_S)
            rc = err_set(err, ERR_TRANSIENT, "STALLED",
                "%lld of %lld retries have an outcome", (long long)due->done,
                (long long)due->bench->plan.due);
    }
    return rc;
}

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static double quantile_ms(const int64_t *sorted, int64_t count, int64_t percent)
{
    const int64_t rank = count * percent / 100;
    return (double)sorted[rank] / (double)US_PER_MS;
}

static void fill(struct due *due)
{
    const int64_t count = due->done;
    struct bench_retries *retries = &due->bench->retries;
    qsort(due->late_us, (size_t)count, sizeof *due->late_us, compare);
    retries->p50_ms = quantile_ms(due->late_us, count, 50);
    retries->p99_ms = quantile_ms(due->late_us, count, 99);
    retries->early = 0;
    while (retries->early < count && due->late_us[retries->early] < 0)
        retries->early++;
}

int bench_due(struct bench *bench, struct err *err)
{
    struct due due = {.bench = bench};
    due.late_us = mem_zalloc((size_t)bench->plan.due, sizeof *due.late_us);
    due.is_seen = mem_zalloc((size_t)bench->plan.due, sizeof *due.is_seen);
    int rc = write_rows(&due, err);
    if (rc == 0)
        rc = read_all(&due, err);
    if (rc == 0)
        fill(&due);
    free(due.late_us);
    free(due.is_seen);
    return rc;
}
