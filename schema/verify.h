/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify: what the audit of the fleet looks for, and how it judges the records
 * of the outcomes topic. Pure: no I/O, no clock; memory is one bit for each
 * number (seq) of an outcome between the last mark and now, and capped.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are stored in Postgres and must never change. X(symbol, number,
 * name, text) */
#define VERIFY_KIND_LIST(X)                                                    \
    X(MISSING, 1, "missing", "actions without outcome that nobody works on")   \
    X(DOUBLE, 2, "double", "actions in two places, or with two outcomes")      \
    X(ORPHANED, 3, "orphaned", "unfinished actions that nobody takes care of") \
    X(STRAY, 4, "stray", "outcomes or unfinished work without an action")      \
    X(TWICE, 5, "published_twice", "outcomes that the topic holds twice")      \
    X(UNKNOWN, 6, "published_unknown",                                         \
        "published outcomes that the database does not have")                  \
    X(UNPUBLISHED, 7, "unpublished",                                           \
        "outcomes that count as published but are not in the topic")           \
    X(FOREIGN, 8, "foreign", "records of the topic that are no outcome of ours")

enum verify_kind {
#define X(symbol, number, name, text) VERIFY_##symbol = number,
    VERIFY_KIND_LIST(X)
#undef X
        VERIFY_KIND_COUNT
};

const char *verify_kind_name(enum verify_kind kind); /* static */
const char *verify_kind_text(enum verify_kind kind); /* static */

/* -- what was found ------------------------------------------------------------ */

#define VERIFY_SAMPLES 20
#define VERIFY_SAMPLE_SIZE 48 /* an id, or partition:offset; and the end */

struct verify_tally {
    int64_t count;
    size_t sample_count;
    char samples[VERIFY_SAMPLES][VERIFY_SAMPLE_SIZE];
};

/* Counts amount more and keeps what as a sample if there is room. what may be
 * NULL; longer ones are cut. */
void verify_tally_add(
    struct verify_tally *tally, int64_t amount, const char *what);

/* What the scheduler exports: effects or outcomes that are lost or that nobody
 * can explain, and those that are there twice. */
int64_t verify_unaccounted(const struct verify_tally *tallies);
int64_t verify_duplicates(const struct verify_tally *tallies);

/* -- numbers seen in the topic ---------------------------------------------------- */

#define VERIFY_MAX_SEQS (INT64_C(1) << 29) /* 64 MiB of bits */

struct verify_seen {
    int64_t base;  /* the mark: everything up to it was judged before */
    uint8_t *bits; /* of base + 1, base + 2, ...; owned */
    size_t size;   /* bytes */
};

void verify_seen_init(struct verify_seen *seen, int64_t base);
void verify_seen_fini(struct verify_seen *seen); /* may be called twice */
bool verify_seen_has(const struct verify_seen *seen, int64_t seq);

enum verify_word {
    VERIFY_NEW,   /* first sight of this number: look for its row */
    VERIFY_AGAIN, /* the topic holds it twice */
    VERIFY_SKIP,  /* judged by an earlier pass, or not part of this one */
    VERIFY_BEYOND /* more than VERIFY_MAX_SEQS above the mark */
};

/*
 * Judges one record. was_read: it lies before the end of the last pass, which
 * is read again only where it may hold numbers above the mark. is_partial: the
 * pass begins in the middle of the history, so lower numbers say nothing.
 */
enum verify_word verify_record(
    struct verify_seen *seen, int64_t seq, bool was_read, bool is_partial);

#endif
