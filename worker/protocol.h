/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol: what the worker concludes from what it reads back. Pure functions
 * over rows, so that a test (and a model of the fleet) can enumerate them.
 * The reasons are in worker/README.md, "In doubt".
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/record.h"

/* A row of live as read back; has_row false: there is none. */
struct live_row {
    bool has_row;
    bool is_mine; /* owner is this boot */
    int attempt_no;
    enum live_state state;
    bool is_cancelled;
};

/* -- an id the claim did not insert ---------------------------------------- */

struct claim_row {
    bool has_row;      /* an action row with this id, in any window */
    bool is_same;      /* ... with the same fingerprint */
    bool is_live_mine; /* ... and a live row owned by this boot */
    bool is_in_memory; /* the id is in the table of jobs */
    bool is_source_id; /* the id was made of the record's position */
};

enum claim_word {
    CLAIM_REPEAT,    /* nothing there: the claim was not applied, do it again */
    CLAIM_DUPLICATE, /* the same request again: only its offset counts */
    CLAIM_CONFLICT,  /* same key, other content: reject it under another id */
    CLAIM_ADOPT      /* our own row that we do not know: load and run it */
};
enum claim_word protocol_claim(const struct claim_row *row);

/* -- an id that begun did not return, or whose begun is in doubt ------------ */

enum begin_word {
    BEGIN_GO,     /* begun, mine, my fence: this process opened no gate for it,
                     so it may open it now. It is never set back to ready */
    BEGIN_REPEAT, /* still ready and mine: say begun again */
    BEGIN_CANCEL, /* ready, mine, cancelled: settle it */
    BEGIN_DROP    /* not mine any more: forget it */
};
enum begin_word protocol_begin(const struct live_row *row, int attempt_no);

/* -- an id that a settle did not return ------------------------------------ */

struct settle_facts {
    struct live_row live;
    int attempt_no;   /* of the job */
    bool is_terminal; /* what was to be written */
    enum status status;
    bool was_in_doubt; /* an earlier try of the same statement was */
    bool has_outcome;  /* an outcome with this id and attempt number */
    enum status outcome_status;
    bool has_waited; /* a waiting row or a ledger note of this attempt */
};

enum settle_word {
    SETTLE_APPLIED, /* the try in doubt had been applied */
    SETTLE_REPEAT,  /* the row is still there as it was: again */
    SETTLE_CANCEL,  /* it was to wait, but was cancelled meanwhile */
    SETTLE_LATE     /* the fence has moved: a ledger note, never an outcome */
};
enum settle_word protocol_settle(const struct settle_facts *facts);

#endif
