/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the provider did: one entry for each (path, key) with how often it was
 * called and how often the effect was applied, and the answer that a repeated
 * key gets. A call without a key counts under the key "". In memory, capped.
 */
#ifndef DOUBLE_LEDGER_H
#define DOUBLE_LEDGER_H

#include "answer.h"
#include "http.h"
#include "map.h"

#include <stddef.h>
#include <stdint.h>

#define LEDGER_MAX_ENTRIES ((size_t)1000 * 1000)
#define LEDGER_MAX_KEPT_BYTES ((size_t)256 * 1024)

struct effect {
    char *path; /* owned */
    char *key;  /* owned */
    char *kept; /* owned; the answer repeated to this key, NULL = none yet */
    size_t kept_bytes;
    size_t kept_head_bytes;
    int kept_status;
    uint64_t calls;
    uint64_t applied;
    uint64_t replays;    /* calls that got the kept answer */
    uint64_t mismatches; /* calls whose body differs from the first one's */
    uint64_t body_hash;
    int64_t first_us; /* wall clock */
    int64_t last_us;
    int64_t applied_us; /* the first time; 0 = never */
};

struct ledger {
    struct effect **items; /* owned, in order of the first call */
    size_t count;
    size_t cap;
    struct map by_name;
};

/* An all-zero ledger is empty and ready. */
void ledger_fini(struct ledger *ledger);
/* Counts a call. NULL when the ledger is full. Borrowed until fini. */
struct effect *ledger_call(struct ledger *ledger, struct http_span path,
    struct http_span key, struct http_span body, int64_t now_us);
/* Borrowed; NULL when there was no such call. */
struct effect *ledger_find(
    const struct ledger *ledger, struct http_span path, struct http_span key);
/* Keeps a copy of a whole answer, unless it is too large. */
void ledger_keep(struct effect *effect, const struct answer *answer);
void ledger_format(struct buf *out, const struct effect *effect);

#endif
