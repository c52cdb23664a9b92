/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each request byte for byte, with its arrival time: the newest ones in
 * memory (capped by number and bytes, the oldest go first), and all of them
 * in a file when one is named. No thread safety; file writes are buffered
 * until reqlog_flush.
 */
#ifndef DOUBLE_REQLOG_H
#define DOUBLE_REQLOG_H

#include "answer.h"
#include "http.h"
#include "problem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define REQLOG_MAX_ENTRIES ((uint64_t)200 * 1000)
#define REQLOG_MAX_BYTES ((size_t)256 * 1024 * 1024)

struct reqlog_entry {
    char *bytes; /* owned: method, path, key, head, body, back to back */
    size_t method_len;
    size_t path_len;
    size_t key_len;
    size_t head_len;
    size_t body_len;
    uint64_t seq;
    int64_t arrival_us;  /* wall clock, when the head or its end was read */
    int64_t answered_us; /* the last byte was handed to TCP; 0 = not yet */
    int64_t retry_at_us; /* a retry before it is too early; 0 = none asked */
    int status;          /* 0 = no status line was sent */
    bool is_complete;    /* the whole body came */
};

struct reqlog {
    struct reqlog_entry *ring; /* owned */
    uint64_t first_seq;        /* oldest one kept; > last_seq = empty */
    uint64_t last_seq;         /* 0 before the first; survives a clear */
    size_t bytes;
    uint64_t write_errors;
    FILE *file; /* owned; NULL = none */
};

/* Opens `path` for appending unless it is NULL. */
int reqlog_init(struct reqlog *log, const char *path, struct problem *problem);
void reqlog_fini(struct reqlog *log);
void reqlog_flush(struct reqlog *log);
/* Forgets the entries in memory; numbers go on. */
void reqlog_clear(struct reqlog *log);

/* Returns the number of the new entry. */
uint64_t reqlog_add(struct reqlog *log, const struct http_request *request,
    struct http_span key, int64_t now_us, bool is_complete);
/* Notes that the answer numbered `answer->seq` was sent now. */
void reqlog_answered(
    struct reqlog *log, const struct answer *answer, int64_t now_us);
/* Borrowed until the next add; NULL when it is no longer kept. */
struct reqlog_entry *reqlog_get(const struct reqlog *log, uint64_t seq);
struct http_span reqlog_path(const struct reqlog_entry *entry);
struct http_span reqlog_key(const struct reqlog_entry *entry);
void reqlog_format(struct buf *out, const struct reqlog_entry *entry);

#endif
