/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench: what the files of `actionist bench pipeline` share: one run on one
 * fleet, its phases and its figures. `bench webhooks` has its own, and shares
 * the fleet (bench_hooks.h).
 *
 *   bench.c         the command: options, fleet, verify
 *   bench_phases.c  what is measured, in which order
 *   bench_again.c   saturation under conditions that must not slow it
 *   bench_due.c     how punctual retries are
 *   bench_profile.c where the processor time goes, as folded stacks
 *   bench_kafka.c   producer, reader, topics
 *   bench_floor.c   the loop that keeps nothing, to compare with
 *   bench_load.c    requests in, outcomes out, latencies
 *   bench_usage.c   processor time and memory by process, from /proc
 *   bench_compare.c a saved report beside this one
 *   bench_report.c  figures for people and machines
 *
 * Everything here may block; an interrupt (dev_catch_interrupts) ends each
 * wait within a second.
 */
#ifndef BENCH_H
#define BENCH_H

#include <librdkafka/rdkafka.h>
#include <sys/types.h>

#include "scheduler/ctl/ctl.h"
#include "scheduler/ctl/dev_fleet.h"

#define BENCH_RECORD_BYTES 300
#define BENCH_TENANTS 4
#define BENCH_RUN_SIZE 9 /* eight hex digits and the end */

enum bench_kind { BENCH_ECHO, BENCH_HTTP, BENCH_UNSAFE, BENCH_KIND_COUNT };
const char *bench_kind_name(enum bench_kind kind); /* static */

/* -- who uses what ---------------------------------------------------------- */

enum bench_process {
    BENCH_WORKER,
    BENCH_KEEPER,
    BENCH_RUNNER,
    BENCH_SCHEDULER,
    BENCH_POSTGRES,
    BENCH_KAFKA,
    BENCH_DOUBLE,
    BENCH_LOAD, /* this process */
    BENCH_PROCESS_COUNT
};
const char *bench_process_name(enum bench_process process); /* static */

struct bench_usage {
    int64_t cpu_us[BENCH_PROCESS_COUNT]; /* since each began */
};

/* Processor time of every process of the fleet, with what ended children of
 * them used. */
void bench_usage_read(const struct dev_fleet *fleet, struct bench_usage *usage);
/* Sets the worker's peak of resident memory back; without the right to do so
 * the peak is that of its life. */
void bench_peak_reset(const struct dev_fleet *fleet);
double bench_peak_mib(const struct dev_fleet *fleet); /* 0: not known */

/* The owner of each process at one moment. */
struct bench_owners;
struct bench_owners *bench_owners_read(const struct dev_fleet *fleet);
/* BENCH_PROCESS_COUNT: none of the fleet's. */
enum bench_process bench_owners_find(
    const struct bench_owners *owners, pid_t pid);
void bench_owners_free(struct bench_owners *owners); /* NULL ok */

/* -- figures ------------------------------------------------------------------- */

struct bench_latency {
    double p50_ms;
    double p99_ms;
    double p999_ms;
};

/* What is not measured is not told. */
enum bench_phase {
    BENCH_FLOOR,
    BENCH_SATURATION,
    BENCH_HALF, /* of saturation, or the rate of --rate */
    BENCH_LOW,
    BENCH_IDLE,
    BENCH_PHASE_COUNT
};

/* Saturation again, with something beside it. */
enum bench_condition {
    BENCH_TWO_WORKERS,
    BENCH_FOUR_WORKERS,
    BENCH_EIGHT_WORKERS,
    BENCH_HELD,    /* a REPEATABLE READ transaction is open */
    BENCH_WAITING, /* many retries wait */
    BENCH_CONDITION_COUNT
};
#define BENCH_GROWTH 3 /* conditions of more workers: 2, 4, 8 */
#define BENCH_MAX_WORKERS 8

struct bench_figures {
    bool has[BENCH_PHASE_COUNT];
    double rate; /* actions a second at saturation */
    struct bench_latency half;
    struct bench_latency low;
    double cpu_us[BENCH_PROCESS_COUNT]; /* an action, at saturation */
    double rss_mib;
    double wal_bytes;                    /* an action */
    double again[BENCH_CONDITION_COUNT]; /* actions a second; 0: not run */
};

struct bench_plan {
    int64_t records;       /* of a kind at saturation */
    int64_t floor_records; /* of the floor */
    int64_t half_s;        /* how long at half of saturation */
    int64_t low_s;         /* how long at BENCH_LOW_RATE */
    int64_t settle_ms;     /* before that */
    int64_t idle_s;        /* how long without work */
    int64_t rate;          /* a second, in place of half; 0: half */
    bool has_kind[BENCH_KIND_COUNT];
    bool has_phase[BENCH_PHASE_COUNT];
    int64_t processes;   /* workers at most, 1, 2, 4, 8 */
    int64_t held_s;      /* how long a snapshot is held; 0: none */
    int64_t waiting;     /* retries; 0: none */
    int64_t due;         /* retries that fall due, 1,000 a second; 0: none */
    const char *profile; /* file of folded stacks; NULL: none */
    int64_t hooks_rate;  /* webhooks: deliveries a second */
    int64_t hooks_s;     /* for how long, twice */
    int64_t hooks_slow;  /* slow connections, the second time */
};
#define BENCH_LOW_RATE 50

/* From the moment a retry is due to the begin of its call. */
struct bench_retries {
    double p50_ms;
    double p99_ms;
    int64_t early; /* that began before they were due: none may */
};

struct bench {
    struct ctl ctl; /* the settings of the fleet, not of the caller */
    struct dev_fleet fleet;
    char run[BENCH_RUN_SIZE]; /* in every key and topic name of this run */
    struct bench_plan plan;
    int partitions; /* of the actions topic */
    int64_t phase;  /* of the load; counts up */
    PGconn *conn;   /* as owner */
    rd_kafka_t *producer;
    rd_kafka_t *reader; /* of outcomes, read_committed */
    double floor_rate;
    struct bench_figures kinds[BENCH_KIND_COUNT];
    double idle_cpu_percent; /* of one core: producer excepted, all ours */
    double idle_transactions;
    int64_t repeats;              /* outcomes seen again in a later phase */
    struct bench_retries retries; /* if plan.due > 0 */
    struct buf saved;             /* the report to compare with; empty: none */
    FILE *profile;                /* of plan.profile; NULL: none */
};

/* Runs this command; its exit code, or -1 (said so). 15 words at most. */
int bench_run_self(const char *const *words, size_t count);
/* Measures webhooks on the fleet that is up, and reports. The exit code; an
 * error was printed. */
int bench_webhooks(struct ctl *ctl, struct bench *bench, const char *config);

/* One JSON object, or tables. */
void bench_report(const struct bench *bench, bool is_json);
/* The object; the caller ends the buffer. */
void bench_report_put(struct buf *report, const struct bench *bench);

/* Reads what --json printed once; the caller ends saved, also on failure. */
int bench_saved_read(
    const char *path, struct buf *saved, struct err *err) MUST_CHECK;
/* Prints each number that both have. */
void bench_compare(const struct bench *bench, const struct buf *saved);

/* -- Kafka ----------------------------------------------------------------------- */

/* An idempotent producer; its delivery reports count failures in *failed.
 * linger_ms 0 for latencies, 5 for bulk. */
rd_kafka_t *bench_producer_open(const struct conf *conf, int linger_ms,
    int64_t *failed, struct err *err) MUST_CHECK;
/* Waits for what is in flight, 30 s at most, and closes. NULL ok. */
void bench_producer_close(rd_kafka_t *producer);

/* A read_committed consumer of all partitions of a topic (full name), from
 * offset RD_KAFKA_OFFSET_BEGINNING or RD_KAFKA_OFFSET_END, which is looked up
 * at once. NULL ok for close. */
rd_kafka_t *bench_reader_open(const struct conf *conf, const char *topic,
    int partitions, int64_t offset, struct err *err) MUST_CHECK;
void bench_reader_close(rd_kafka_t *reader);

int bench_topics_create(const struct conf *conf, const char *const *topics,
    size_t count, int partitions, struct err *err) MUST_CHECK;
/* Failures leave them behind, without a word. */
void bench_topics_delete(
    const struct conf *conf, const char *const *topics, size_t count);

/*
 * Puts one record; waits while the queue is full, calling delivery reports.
 * partition RD_KAFKA_PARTITION_UA: by key.
 */
int bench_put(rd_kafka_t *producer, const char *topic, int32_t partition,
    struct span key, struct span value, struct err *err) MUST_CHECK;

/* -- profile --------------------------------------------------------------------- */

/* Whether perf runs here at all; says why not. */
int bench_profile_check(const struct bench *bench, struct err *err) MUST_CHECK;
/* Samples every process from now on. */
int bench_profile_begin(const struct bench *bench, struct err *err) MUST_CHECK;
/* Ends that and appends to bench->profile: kind;process;thread;frames count. */
int bench_profile_end(const struct bench *bench, enum bench_kind kind,
    struct err *err) MUST_CHECK;

/* -- phases ---------------------------------------------------------------------- */

/* Measures what the plan says; say() tells people how far it is. */
int bench_measure(struct bench *bench, void (*say)(void *arg, const char *what),
    void *arg, struct err *err) MUST_CHECK;

/* The request number of a phase, padded to BENCH_RECORD_BYTES. */
void bench_put_request(struct buf *out, const struct bench *bench,
    enum bench_kind kind, int64_t number);

/* Fills bench->floor_rate. */
int bench_floor(struct bench *bench, struct err *err) MUST_CHECK;

struct bench_load {
    enum bench_kind kind;
    int64_t count;
    double rate; /* a second; 0: all at once */
};
struct bench_timing {
    double rate; /* of outcomes, the first tenth not counted */
    struct bench_latency latency;
};
/* Sends, and waits until each request has its one outcome, `succeeded`. Fails
 * when another comes, or when none comes for 60 s. */
int bench_load_run(struct bench *bench, const struct bench_load *load,
    struct bench_timing *timing, struct err *err) MUST_CHECK;

int bench_read_number(PGconn *conn, const struct pg_statement *statement,
    int64_t *value, struct err *err) MUST_CHECK;
void bench_pause(int wait_ms);

#endif
