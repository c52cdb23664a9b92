/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in, outcomes out. One thread: it sends what is due, then reads what
 * is there. A request's time runs from the call that produces it to the moment
 * a read_committed consumer hands its outcome out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/bench.h"
#include "scheduler/ctl/dev_process.h"

enum {
    SEND_TURN = 1000, /* requests sent before outcomes are read again */
    READ_TURN = 1000,
    TICK_MS = 1,
    IDLE_MS = 100,
    STALL_S = 60,
    KEY_SIZE = 64
};

struct load {
    struct bench *bench;
    const struct bench_load *plan;
    char topic[256];
    char mark[KEY_SIZE]; /* what stands in front of a number in our keys */
    size_t mark_len;
    int64_t *sent_us; /* by number; 0: not sent */
    int64_t *took_us; /* by number; 0: no outcome yet */
    int64_t sent;
    int64_t done;
    int64_t began_us;
    int64_t last_us; /* when an outcome came last */
    int64_t counted_from;
    int64_t counted_from_us;
};

void bench_put_request(struct buf *out, const struct bench *bench,
    enum bench_kind kind, int64_t number)
{
    const size_t start = out->len;
    buf_printf(out,
        "{\"spec\":\"actionist/1\",\"tenant\":\"bench-%d\","
        "\"connector\":\"bench\",\"action\":\"%s\","
        "\"idempotency_key\":\"%s-%lld-%lld\","
        "\"payload\":{\"n\":%lld,\"fill\":\"",
        (int)(number % BENCH_TENANTS), bench_kind_name(kind), bench->run,
        (long long)bench->phase, (long long)number, (long long)number);
    while (out->len - start < BENCH_RECORD_BYTES - 3)
        buf_put_char(out, 'x');
    buf_put_str(out, "\"}}");
}

/* -- sending ---------------------------------------------------------------------- */

static int64_t due_us(const struct load *load, int64_t number)
{
    if (load->plan->rate <= 0)
        return load->began_us;
    return load->began_us +
           (int64_t)((double)number * (double)US_PER_S / load->plan->rate);
}

static int send_due(struct load *load, struct buf *value, struct err *err)
{
    char tenant[32];
    for (int i = 0; i < SEND_TURN && load->sent < load->plan->count; i++) {
        const int64_t now_us = now_mono_us();
        if (due_us(load, load->sent) > now_us)
            break;
        buf_clear(value);
        bench_put_request(value, load->bench, load->plan->kind, load->sent);
        snprintf(tenant, sizeof tenant, "bench-%d",
            (int)(load->sent % BENCH_TENANTS));
        load->sent_us[load->sent] = now_us;
        if (bench_put(load->bench->producer, load->topic, RD_KAFKA_PARTITION_UA,
                span_of(tenant), buf_span(value), err) != 0)
            return -1;
        load->sent++;
    }
    (void)rd_kafka_poll(load->bench->producer, 0);
    return 0;
}

/* -- reading ---------------------------------------------------------------------- */

static const char *find(struct span text, const char *words)
{
    return memmem(text.ptr, text.len, words, strlen(words));
}

/* The request's number; -1: of another phase; -2: not ours at all. */
static int64_t number_of(const struct load *load, struct span value)
{
    static const char name[] = "\"idempotency_key\":\"";
    const char *at = find(value, name);
    const char *end = value.ptr + value.len;
    if (at == NULL)
        return -2;
    at += sizeof name - 1;
    if (end - at < (ptrdiff_t)load->mark_len ||
        memcmp(at, load->bench->run, BENCH_RUN_SIZE - 1) != 0)
        return -2;
    if (memcmp(at, load->mark, load->mark_len) != 0)
        return -1;
    int64_t number = 0;
    for (at += load->mark_len; at < end && *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (*at - '0');
    return number;
}

static int take_outcome(
    struct load *load, struct span value, int64_t now_us, struct err *err)
{
    const int64_t number = number_of(load, value);
    if (number == -1)
        load->bench->repeats++;
    if (number < 0)
        return 0;
    if (number >= load->sent || load->took_us[number] != 0)
        return err_set(err, ERR_PERMANENT, "DOUBLED",
            "%s: request %lld has a second outcome",
            bench_kind_name(load->plan->kind), (long long)number);
    if (find(value, "\"status\":\"succeeded\"") == NULL)
        return err_set(err, ERR_PERMANENT, "NOT_SUCCEEDED",
            "%s: request %lld did not succeed: %.*s",
            bench_kind_name(load->plan->kind), (long long)number,
            (int)(value.len > 160 ? 160 : value.len), value.ptr);
    load->took_us[number] = now_us - load->sent_us[number];
    if (load->took_us[number] <= 0)
        load->took_us[number] = 1;
    load->done++;
    load->last_us = now_us;
    if (load->counted_from == 0 && load->done >= load->plan->count / 10) {
        load->counted_from = load->done;
        load->counted_from_us = now_us;
    }
    return 0;
}

/* Waits for the first outcome, then takes what is there. */
static int read_outcomes(struct load *load, int wait_ms, struct err *err)
{
    int rc = 0;
    for (int i = 0; i < READ_TURN && rc == 0; i++) {
        rd_kafka_message_t *message =
            rd_kafka_consumer_poll(load->bench->reader, i == 0 ? wait_ms : 0);
        if (message == NULL)
            break;
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            rc = take_outcome(load,
                (struct span){message->payload, message->len}, now_mono_us(),
                err);
        rd_kafka_message_destroy(message);
    }
    return rc;
}

static int wait_ms(const struct load *load)
{
    if (load->sent == load->plan->count)
        return IDLE_MS;
    const int64_t left_us = due_us(load, load->sent) - now_mono_us();
    if (left_us <= 0 && load->plan->rate <= 0)
        return 0;
    const int64_t left_ms = left_us / US_PER_MS;
    return left_ms < TICK_MS ? TICK_MS : (int)left_ms;
}

static int run_load(struct load *load, struct err *err)
{
    struct buf value;
    int rc = 0;
    buf_init(&value, 2 * (size_t)BENCH_RECORD_BYTES);
    load->began_us = now_mono_us();
    load->last_us = load->began_us;
    while (rc == 0 && load->done < load->plan->count) {
        rc = send_due(load, &value, err);
        if (rc == 0)
            rc = read_outcomes(load, wait_ms(load), err);
        if (rc == 0 && dev_is_interrupted())
            rc = err_set(err, ERR_PERMANENT, "INTERRUPTED", "interrupted");
        if (rc == 0 && now_mono_us() - load->last_us > STALL_S * US_PER_S)
            rc = err_set(err, ERR_TRANSIENT, "STALLED",
                "%s: no outcome for %d s; %lld of %lld are there",
                bench_kind_name(load->plan->kind), (int)STALL_S,
                (long long)load->done, (long long)load->plan->count);
    }
    buf_fini(&value);
    return rc;
}

/* -- figures ------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* The smallest value that permille of 1000 do not exceed. */
static double quantile_ms(const int64_t *sorted, int64_t count, int permille)
{
    const int64_t rank = (count * permille + 999) / 1000;
    return (double)sorted[rank > 0 ? rank - 1 : 0] / (double)US_PER_MS;
}

static void fill_timing(struct load *load, struct bench_timing *timing)
{
    const int64_t count = load->plan->count;
    const int64_t spent_us = load->last_us - load->counted_from_us;
    timing->rate = (double)(load->done - load->counted_from) *
                   (double)US_PER_S / (double)(spent_us > 0 ? spent_us : 1);
    qsort(load->took_us, (size_t)count, sizeof *load->took_us, compare);
    timing->latency = (struct bench_latency){
        .p50_ms = quantile_ms(load->took_us, count, 500),
        .p99_ms = quantile_ms(load->took_us, count, 990),
        .p999_ms = quantile_ms(load->took_us, count, 999),
    };
}

int bench_load_run(struct bench *bench, const struct bench_load *plan,
    struct bench_timing *timing, struct err *err)
{
    struct load load = {.bench = bench, .plan = plan};
    bench->phase++;
    snprintf(load.topic, sizeof load.topic, "%sactions",
        conf_text(bench->ctl.conf, "topics.prefix"));
    snprintf(load.mark, sizeof load.mark, "%s-%lld-", bench->run,
        (long long)bench->phase);
    load.mark_len = strlen(load.mark);
    load.sent_us = mem_zalloc((size_t)plan->count, sizeof *load.sent_us);
    load.took_us = mem_zalloc((size_t)plan->count, sizeof *load.took_us);
    const int rc = run_load(&load, err);
    if (rc == 0)
        fill_timing(&load, timing);
    free(load.sent_us);
    free(load.took_us);
    return rc;
}
