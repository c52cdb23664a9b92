/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reserve: ties (id, fingerprint) together in Postgres before anything is
 * produced, so that of several requests with one key and different content,
 * at this producer or another, exactly one wins. All that come while a commit
 * is under way share the next one. A reservation is not a claim: a repeat
 * after a crash between the two produces again, and the claim takes one.
 */
#ifndef RESERVE_H
#define RESERVE_H

#include "producer/exchange.h"

enum reserve_verdict {
    RESERVE_NEW,      /* reserved now: produce */
    RESERVE_AGAIN,    /* reserved before, not claimed yet: produce again */
    RESERVE_CLAIMED,  /* a worker has it: nothing is to be done */
    RESERVE_CONFLICT, /* the key belongs to other content */
    RESERVE_FAILED,   /* Postgres did not say */
    RESERVE_VERDICT_COUNT
};

struct reserve;
typedef void (*reserve_fn)(
    struct exchange *exchange, enum reserve_verdict verdict);

/* done gets each exchange back. */
struct reserve *reserve_open(struct producer *producer, reserve_fn done);
void reserve_close(struct reserve *reserve); /* NULL allowed */

/* Takes the exchange; its record has id and fingerprint. */
void reserve_add(struct reserve *reserve, struct exchange *exchange);

/* What is known about an id; empty spans where there is no row. */
struct reserve_facts {
    struct span mine; /* the request's fingerprint */
    struct span reserved;
    struct span claimed;
    bool was_inserted; /* by this commit, and nobody of it had it before */
};
enum reserve_verdict reserve_judge(const struct reserve_facts *facts);

#endif
