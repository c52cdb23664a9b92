/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass: one pass of the conservation audit over Postgres and the outcomes
 * topic. Shared by `actionist verify` and the scheduler's audit. Every call
 * blocks: the daemon makes it on a thread of its own.
 *
 * A pass with a name goes on where the last one of that name ended, and
 * remembers what was unfinished and what it found; one without a name begins
 * at `from` and remembers nothing.
 */
#ifndef PASS_H
#define PASS_H

#include <stdatomic.h>

#include "common/conf.h"
#include "common/pg.h"
#include "schema/record.h"
#include "schema/verify.h"

struct pass_options {
    const struct conf *conf;
    const char *name;   /* "command" or "scheduler"; NULL: see above */
    const char *tenant; /* only with name NULL; NULL: all */
    int64_t from_us;    /* wall, only with name NULL; 0: from the start */
    /* How much of the newest history the next pass judges again. At least 30:
     * a claim's commit may come that much later than its time. */
    int64_t lag_s;
    bool is_full; /* forgets the mark and what was found */
    bool has_kafka;
    const atomic_bool *is_cancelled;
    /* After each step, with how many were judged; may be NULL. */
    void (*on_progress)(void *arg, const char *what, int64_t count);
    void *arg;
};

struct pass_oldest {
    char tenant[RECORD_MAX_NAME + 1];
    int64_t count; /* unfinished actions */
    int64_t age_s; /* of the oldest, since it was accepted */
};

struct pass_result {
    struct verify_tally tallies[VERIFY_KIND_COUNT]; /* [0] is not used */
    int64_t actions;                                /* judged by this pass */
    int64_t outcomes;
    int64_t records;
    int64_t late; /* late results noted since the mark: no violation */
    bool is_from_scratch;
    bool is_topic_anew; /* the topic ends before the mark: it was made anew */
    int64_t unpublished_from; /* lower ones left the topic by age or size */
    struct pass_oldest oldest[VERIFY_SAMPLES];
    size_t oldest_count;
};

/* conn is the caller's, in no transaction. -1: nothing is known (TRANSIENT: a
 * store is away, another pass of that name runs, or it was cancelled). */
int pass_run(PGconn *conn, const struct pass_options *options,
    struct pass_result *result, struct err *err) MUST_CHECK;

int64_t pass_violations(const struct pass_result *result);

#endif
