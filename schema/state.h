/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state: the pure decisions. What a call's end means (the table of CONTRACTS),
 * whether and when to try again, and which terminal status work gets when it
 * ends by budget, deadline, cancel, or the deaths of its workers. No clock, no
 * I/O: everything comes in as arguments, so that tests can enumerate it.
 */
#ifndef STATE_H
#define STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/codes.h"
#include "schema/manifest.h"

#define RETRY_AFTER_CAP_S INT64_C(86400)
#define STATE_MAX_DEATHS 3

/* How a call ended, as the runner saw it. */
enum call_end {
    CALL_ANSWERED,  /* a whole HTTP answer: see http_status */
    CALL_NOT_SENT,  /* DNS, refused, TLS, runner not started */
    CALL_DENIED,    /* egress refusal, bad parameter: permanent, not sent */
    CALL_TIMED_OUT, /* after the first byte was sent */
    CALL_TIMED_OUT_EARLY, /* before the first byte was sent */
    CALL_BROKEN, /* reset, cut or malformed answer after the first byte */
    CALL_LOST,   /* the runner died after the gate */
    CALL_END_COUNT
};

/* What it means. */
enum verdict_class {
    VERDICT_SUCCESS,
    VERDICT_NOT_APPLIED, /* transient, certainly without effect */
    VERDICT_MAYBE,       /* transient or unknown: may have had its effect */
    VERDICT_PERMANENT    /* provider refused: no effect, no retry */
};

struct call_facts {
    enum call_end end;
    int http_status;      /* CALL_ANSWERED */
    bool has_retry_after; /* a usable Retry-After or reset header */
    int64_t retry_after_s;
    enum effect effect;
    bool was_taken_over;   /* or an earlier attempt's effect is unknown */
    enum status_move move; /* of the manifest, for http_status */
};

enum verdict_class state_judge(const struct call_facts *facts);

/* The budget of one action. */
struct budget {
    int calls; /* started so far, this one included */
    int max_attempts;
    bool is_effect_unknown; /* of any attempt so far, this one not included */
    int64_t now_us;         /* database or wall clock: the same as the others */
    int64_t deadline_us;    /* 0: none */
    int64_t first_call_us;  /* for key retention; 0: none */
    int64_t key_retention_s; /* 0: does not apply */
    int64_t base_ms;
    int64_t max_ms;
    bool is_cancelled; /* a cancel was asked for while it ran */
};

struct decision {
    bool is_terminal;
    enum status status; /* terminal */
    enum code code;     /* CODE_NONE for success */
    enum fault_class class;
    bool is_effect_unknown; /* to be kept with the waiting row */
    int64_t wait_ms;        /* not terminal: at least this long */
};

/*
 * Settles one call. code_if_failed is the code that describes the call's own
 * end (EXECUTION_TIMEOUT, HTTP_STATUS, ...). jitter is 0..1 million, added as
 * up to 20 % of the wait.
 */
struct decision state_settle(const struct call_facts *facts,
    const struct budget *budget, enum code code_if_failed, uint32_t jitter_ppm);

/* The wait before attempt calls + 1 without Retry-After: P7. */
int64_t state_backoff_ms(int calls, int64_t base_ms, int64_t max_ms);

/* What a sweeper does with a row of a dead worker. */
enum sweep_act { SWEEP_RUN_AGAIN, SWEEP_INDETERMINATE, SWEEP_CRASHED };
struct sweep_facts {
    enum live_state state;
    enum effect effect;
    int deaths; /* before this one */
};
enum sweep_act state_sweep(const struct sweep_facts *facts);
/* Whether, after the death, the effect of the action may have happened. */
bool state_sweep_is_unknown(const struct sweep_facts *facts, bool was_unknown);

/* Terminal status of work that ends without a call of its own: deadline
 * (EXPIRED), cancel (CANCELLED), deaths (EXHAUSTED): indeterminate if any
 * attempt's effect is unknown. */
enum status state_end(enum status wanted, bool is_effect_unknown);

#endif
