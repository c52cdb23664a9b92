/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/claims_worker.h"

#include "schema/state.h"
#include "worker/protocol.h"

enum { MAX_ATTEMPTS = 2, CALLS_MAX = 3 };

/* The step under construction: from where, and whose. */
struct mover {
    struct search *search;
    const struct claims_config *config;
    const struct claims_state *from;
    int boot;
};

/* What becomes of the worker's memory once a statement returned rows; -1: its
 * answer got lost. */
typedef void (*answer_fn)(struct claims_state *state,
    const struct claims_config *config, struct claims_boot *boot, int rows);

static const char *const names[CLAIMS_SQL_COUNT][3] = {
    [SQL_CLAIM] = {"claim", "claim, answer lost", "claim, still under way"},
    [SQL_COLLECT] = {"collect", "collect, answer lost",
        "collect, still under way"},
    [SQL_BEGIN] = {"begin", "begin, answer lost", "begin, still under way"},
    [SQL_SETTLE] = {"settle", "settle, answer lost", "settle, still under way"},
    [SQL_POSTPONE] = {"postpone", "postpone, answer lost",
        "postpone, still under way"},
    [SQL_HAND_BACK] = {"hand back", "hand back, answer lost",
        "hand back, still under way"},
    [SQL_SET_BACK] = {"set back", "set back, answer lost",
        "set back, still under way"},
};

/* -- statements ------------------------------------------------------------------ */

bool claims_delay(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement)
{
    for (int i = 0; i < config->delayed; i++) {
        if (state->delayed[i].sql == SQL_NONE) {
            state->delayed[i] = *statement;
            return true;
        }
    }
    return false;
}

static void send(const struct mover *mover,
    const struct claims_statement *statement, answer_fn answer)
{
    const struct claims_config *config = mover->config;
    const char *const *name = names[statement->sql];
    struct claims_state state = *mover->from;
    const int rows = claims_execute(&state, config, statement);
    struct claims_state lost = state;
    answer(&state, config, &state.boots[mover->boot], rows);
    search_add(mover->search, &state, true, name[0]);
    answer(&lost, config, &lost.boots[mover->boot], -1);
    search_add(mover->search, &lost, false, name[1]);
    struct claims_state late = *mover->from;
    if (claims_delay(&late, config, statement)) {
        answer(&late, config, &late.boots[mover->boot], -1);
        search_add(mover->search, &late, false, name[2]);
    }
}

static struct claims_statement by_job(const struct mover *mover, int sql)
{
    const struct claims_boot *boot = &mover->from->boots[mover->boot];
    return (struct claims_statement){.sql = (uint8_t)sql,
        .boot = (uint8_t)mover->boot,
        .attempt_no = boot->attempt_no};
}

/* -- memory ------------------------------------------------------------------------ */

void claims_end_process(struct claims_state *state, int boot)
{
    const uint8_t row = state->boots[boot].row;
    state->boots[boot] = (struct claims_boot){.row = row};
}

static void forget(struct claims_boot *boot)
{
    boot->job = JOB_NONE;
    boot->attempt_no = 0;
    boot->calls = 0;
    boot->is_unknown = 0;
    boot->is_cancelled = 0;
    boot->is_in_doubt = 0;
    boot->wanted = 0;
}

static void end_with(struct claims_boot *boot, enum status status)
{
    boot->job = JOB_SETTLE;
    boot->is_in_doubt = 0;
    boot->wanted = (uint8_t)state_end(status, boot->is_unknown != 0);
}

static struct live_row row_of(
    const struct claims_state *state, const struct mover *mover)
{
    const struct claims_live *live = &state->live;
    return (struct live_row){.has_row = live->attempt_no != 0,
        .is_mine = live->owner == mover->boot + 1,
        .attempt_no = live->attempt_no,
        .state = (enum live_state)live->state,
        .is_cancelled = live->is_cancelled != 0};
}

/* -- claim ------------------------------------------------------------------------- */

static void on_claimed(struct claims_state *state,
    const struct claims_config *config, struct claims_boot *boot, int rows)
{
    boot->claim = CLAIM_READY;
    boot->window = 0;
    boot->is_older = 0;
    if (rows < 0) {
        return; /* said again */
    }
    if (rows == 0) {
        boot->claim = CLAIM_UNREAD;
        if (config->fault == CLAIMS_CONFLICT_UNREAD) {
            boot->claim = CLAIM_IDLE;
            state->is_offset_done = 1;
        }
        return;
    }
    boot->claim = CLAIM_IDLE;
    state->is_offset_done = 1;
    if (boot->job == JOB_NONE) {
        boot->job = JOB_READY;
        boot->attempt_no = 1;
    }
}

static void read_conflict(const struct mover *mover)
{
    struct claims_state state = *mover->from;
    struct claims_boot *boot = &state.boots[mover->boot];
    const struct claim_row row = {.has_row = state.actions != 0,
        .is_same = true,
        .is_live_mine =
            state.live.attempt_no != 0 && state.live.owner == mover->boot + 1,
        .is_in_memory = boot->job != JOB_NONE};
    boot->claim = CLAIM_IDLE;
    switch (protocol_claim(&row)) {
    case CLAIM_REPEAT:
        boot->claim = CLAIM_READY;
        break;
    case CLAIM_ADOPT:
        boot->is_wanted = 1;
        state.is_offset_done = 1;
        break;
    case CLAIM_DUPLICATE:
    case CLAIM_CONFLICT:
        state.is_offset_done = 1;
        break;
    }
    search_add(mover->search, &state, true, "read what was not inserted");
}

static void lock_window(const struct mover *mover)
{
    struct claims_state state = *mover->from;
    struct claims_boot *boot = &state.boots[mover->boot];
    boot->claim = CLAIM_LOCKED;
    boot->window = state.window;
    boot->is_older = (state.actions & ~(1U << state.window)) != 0;
    search_add(mover->search, &state, true, "lock and read the window");
}

static void expand_claim(const struct mover *mover)
{
    const struct claims_boot *boot = &mover->from->boots[mover->boot];
    const struct claims_statement statement = {
        .sql = SQL_CLAIM, .boot = (uint8_t)mover->boot};
    struct claims_state state = *mover->from;
    switch ((enum claims_claim)boot->claim) {
    case CLAIM_IDLE:
        if (state.is_offset_done == 0 && boot->is_draining == 0) {
            state.boots[mover->boot].claim = CLAIM_READY;
            if (mover->config->fault == CLAIMS_OFFSET_FIRST) {
                state.is_offset_done = 1;
            }
            search_add(mover->search, &state, true, "the record is read");
        }
        break;
    case CLAIM_READY:
        if (boot->is_draining != 0) { /* what is not claimed is forgotten */
            state.boots[mover->boot].claim = CLAIM_IDLE;
            search_add(mover->search, &state, true, "forget the record");
        } else if (mover->config->can_rotate) {
            lock_window(mover);
        } else {
            send(mover, &statement, on_claimed);
        }
        break;
    case CLAIM_LOCKED:
        send(mover, &statement, on_claimed);
        break;
    case CLAIM_UNREAD:
        read_conflict(mover);
        break;
    }
}

/* -- rows that become or are mine --------------------------------------------------- */

static void end_call(const struct mover *mover, struct claims_state *state,
    enum call_end end, int http_status);

static void load(const struct mover *mover)
{
    struct claims_state state = *mover->from;
    struct claims_boot *boot = &state.boots[mover->boot];
    const struct claims_live *live = &state.live;
    boot->is_wanted = 0;
    if (live->attempt_no != 0 && live->owner == mover->boot + 1 &&
        boot->job == JOB_NONE) {
        boot->job = JOB_READY;
        boot->attempt_no = live->attempt_no;
        boot->calls = live->calls;
        boot->is_unknown = live->is_unknown;
        boot->is_cancelled = live->is_cancelled;
        if (live->state == LIVE_BEGUN) {
            end_call(mover, &state, CALL_LOST, 0);
        }
    }
    search_add(mover->search, &state, true, "load the row that is mine");
}

static void on_collected(struct claims_state *state,
    const struct claims_config *config, struct claims_boot *boot, int rows)
{
    const struct claims_live *live = &state->live;
    (void)config;
    if (rows <= 0 || boot->job != JOB_NONE) {
        return; /* what became mine without my knowing, reconcile finds */
    }
    boot->job = JOB_READY;
    boot->attempt_no = live->attempt_no;
    boot->calls = live->calls;
    boot->is_unknown = live->is_unknown;
    boot->is_cancelled = live->is_cancelled;
}

static void expand_rows(const struct mover *mover)
{
    const struct claims_state *state = mover->from;
    const struct claims_boot *boot = &state->boots[mover->boot];
    const bool is_live = state->live.attempt_no != 0;
    const bool is_unknown = is_live && boot->job == JOB_NONE &&
                            state->live.owner == mover->boot + 1 &&
                            boot->claim <= CLAIM_READY &&
                            boot->is_draining == 0;
    if (boot->is_wanted != 0 ||
        (is_unknown && mover->config->fault != CLAIMS_NO_RECONCILE)) {
        load(mover);
    }
    if (is_live && state->live.owner == 0 && boot->is_draining == 0) {
        const struct claims_statement statement = {
            .sql = SQL_COLLECT, .boot = (uint8_t)mover->boot};
        send(mover, &statement, on_collected);
    }
}

/* -- begin and the gate --------------------------------------------------------------- */

static void on_begun(struct claims_state *state,
    const struct claims_config *config, struct claims_boot *boot, int rows)
{
    (void)state;
    boot->job = rows > 0 ? JOB_BEGUN : JOB_BEGIN_READ;
    if (rows <= 0 && config->fault == CLAIMS_BEGIN_UNREAD) {
        forget(boot);
    }
}

static void on_handed_back(struct claims_state *state,
    const struct claims_config *config, struct claims_boot *boot, int rows)
{
    (void)state;
    (void)config;
    if (rows >= 0) {
        forget(boot);
    }
}

static void on_set_back(struct claims_state *state,
    const struct claims_config *config, struct claims_boot *boot, int rows)
{
    boot->job = JOB_BEGIN_READ;
    if (rows > 0 && config->fault == CLAIMS_SET_BACK_FENCED) {
        boot->attempt_no = state->live.attempt_no;
    }
}

static void read_begun(const struct mover *mover)
{
    struct claims_state state = *mover->from;
    struct claims_boot *boot = &state.boots[mover->boot];
    const struct live_row row = row_of(&state, mover);
    switch (protocol_begin(&row, boot->attempt_no)) {
    case BEGIN_GO:
        boot->job = JOB_BEGUN;
        break;
    case BEGIN_REPEAT:
        boot->job = JOB_READY;
        break;
    case BEGIN_CANCEL:
        boot->is_cancelled = 1;
        end_with(boot, STATUS_CANCELLED);
        break;
    case BEGIN_DROP:
        forget(boot);
        break;
    }
    search_add(mover->search, &state, true, "read the row to begin");
}

static void open_gate(const struct mover *mover)
{
    struct claims_state state = *mover->from;
    state.boots[mover->boot].job = JOB_RUNNING;
    state.effects++;
    search_add(mover->search, &state, true, "open the gate: EFFECT");
}

static void expand_ready(const struct mover *mover)
{
    const struct claims_config *config = mover->config;
    const struct claims_boot *boot = &mover->from->boots[mover->boot];
    struct claims_state state = *mover->from;
    if (boot->is_cancelled != 0) {
        end_with(&state.boots[mover->boot], STATUS_CANCELLED);
        search_add(mover->search, &state, true, "end what is cancelled");
        return;
    }
    if (config->can_expire) {
        end_with(&state.boots[mover->boot], STATUS_EXPIRED);
        search_add(mover->search, &state, false, "the deadline has passed");
    }
    if (boot->is_draining != 0) {
        const struct claims_statement statement = by_job(mover, SQL_HAND_BACK);
        send(mover, &statement, on_handed_back);
    } else if (config->effect != EFFECT_UNSAFE ||
               config->fault == CLAIMS_GATE_FIRST) {
        open_gate(mover);
    } else {
        const struct claims_statement statement = by_job(mover, SQL_BEGIN);
        send(mover, &statement, on_begun);
    }
}

static void expand_begun(const struct mover *mover)
{
    const enum claims_fault fault = mover->config->fault;
    const struct claims_boot *boot = &mover->from->boots[mover->boot];
    if (boot->is_draining != 0) {
        struct claims_state state = *mover->from;
        end_call(mover, &state, CALL_NOT_SENT, 0);
        search_add(mover->search, &state, true, "forgo the call");
        return;
    }
    open_gate(mover);
    if (fault == CLAIMS_SET_BACK || fault == CLAIMS_SET_BACK_FENCED) {
        const struct claims_statement statement = by_job(mover, SQL_SET_BACK);
        send(mover, &statement, on_set_back);
    }
}

/* -- the end of a call ------------------------------------------------------------------ */

static void end_call(const struct mover *mover, struct claims_state *state,
    enum call_end end, int http_status)
{
    const struct claims_config *config = mover->config;
    struct claims_boot *boot = &state->boots[mover->boot];
    const bool is_blind = config->fault == CLAIMS_UNSAFE_RETRIED;
    const struct call_facts facts = {.end = end,
        .http_status = http_status,
        .has_retry_after = http_status == 429,
        .retry_after_s = 1,
        .effect = is_blind ? EFFECT_KEYED : config->effect,
        .was_taken_over = boot->is_unknown != 0};
    boot->calls =
        (uint8_t)(boot->calls < CALLS_MAX ? boot->calls + 1 : CALLS_MAX);
    const struct budget budget = {.calls = boot->calls,
        .max_attempts = MAX_ATTEMPTS,
        .is_effect_unknown = boot->is_unknown != 0,
        .base_ms = 1,
        .max_ms = 1,
        .is_cancelled = boot->is_cancelled != 0};
    const struct decision decision =
        state_settle(&facts, &budget, CODE_HTTP_STATUS, 0);
    boot->job = JOB_SETTLE;
    boot->is_in_doubt = 0;
    boot->is_unknown = decision.is_effect_unknown ? 1 : 0;
    boot->wanted =
        decision.is_terminal ? (uint8_t)decision.status : WANTED_WAIT;
    if (config->fault == CLAIMS_UNKNOWN_IS_FAILED && end == CALL_TIMED_OUT) {
        boot->wanted = STATUS_FAILED;
    }
}

static void expand_running(const struct mover *mover)
{
    struct claims_state state = *mover->from;
    end_call(mover, &state, CALL_ANSWERED, 200);
    search_add(mover->search, &state, true, "the call succeeds");
    state = *mover->from;
    end_call(mover, &state, CALL_TIMED_OUT, 0);
    search_add(mover->search, &state, false, "the call times out");
    if (!mover->config->can_refuse) {
        return;
    }
    state = *mover->from;
    state.effects--;
    end_call(mover, &state, CALL_ANSWERED, 429);
    search_add(mover->search, &state, false, "the provider says later");
    state = *mover->from;
    state.effects--;
    end_call(mover, &state, CALL_ANSWERED, 400);
    search_add(mover->search, &state, false, "the provider refuses");
}

/* -- settle ------------------------------------------------------------------------------ */

static void on_settled(struct claims_state *state,
    const struct claims_config *config, struct claims_boot *boot, int rows)
{
    (void)state;
    (void)config;
    if (rows > 0) {
        forget(boot);
    } else if (rows == 0) {
        boot->job = JOB_SETTLE_READ;
    } else {
        boot->is_in_doubt = 1;
    }
}

static void send_settle(const struct mover *mover)
{
    const struct claims_boot *boot = &mover->from->boots[mover->boot];
    struct claims_statement statement =
        by_job(mover, boot->wanted == WANTED_WAIT ? SQL_POSTPONE : SQL_SETTLE);
    if (boot->wanted == WANTED_WAIT) {
        statement.calls = boot->calls;
        statement.is_unknown = boot->is_unknown;
    } else {
        statement.status = boot->wanted;
    }
    send(mover, &statement, on_settled);
}

static struct settle_facts settle_facts_of(
    const struct claims_state *state, const struct mover *mover)
{
    const struct claims_boot *boot = &state->boots[mover->boot];
    const unsigned attempt_bit = 1U << boot->attempt_no;
    return (struct settle_facts){.live = row_of(state, mover),
        .attempt_no = boot->attempt_no,
        .is_terminal = boot->wanted != WANTED_WAIT,
        .status = (enum status)boot->wanted,
        .was_in_doubt = boot->is_in_doubt != 0,
        .has_outcome =
            state->outcomes > 0 && state->outcome_no == boot->attempt_no,
        .outcome_status = (enum status)state->outcome_status,
        .has_waited = (state->noted & attempt_bit) != 0};
}

static void read_settled(const struct mover *mover)
{
    struct claims_state state = *mover->from;
    struct claims_boot *boot = &state.boots[mover->boot];
    const struct settle_facts facts = settle_facts_of(&state, mover);
    switch (protocol_settle(&facts)) {
    case SETTLE_REPEAT:
        boot->job = JOB_SETTLE;
        break;
    case SETTLE_CANCEL:
        boot->is_cancelled = 1;
        end_with(boot, STATUS_CANCELLED);
        break;
    case SETTLE_LATE:
        if (mover->config->fault == CLAIMS_LATE_PUBLISHED &&
            facts.is_terminal) {
            state.outcomes++;
        }
        forget(boot);
        break;
    case SETTLE_APPLIED:
        forget(boot);
        break;
    }
    search_add(mover->search, &state, true, "read what became of the result");
}

/* -- all of it ---------------------------------------------------------------------------- */

static void expand_job(const struct mover *mover)
{
    switch ((enum claims_job)mover->from->boots[mover->boot].job) {
    case JOB_NONE:
        break;
    case JOB_READY:
        expand_ready(mover);
        break;
    case JOB_BEGIN_READ:
        read_begun(mover);
        break;
    case JOB_BEGUN:
        expand_begun(mover);
        break;
    case JOB_RUNNING:
        expand_running(mover);
        break;
    case JOB_SETTLE:
        send_settle(mover);
        break;
    case JOB_SETTLE_READ:
        read_settled(mover);
        break;
    }
}

/* A cancel is also told to the worker, sooner or later or never. */
static void hear_of_cancel(const struct mover *mover)
{
    struct claims_state state = *mover->from;
    struct claims_boot *boot = &state.boots[mover->boot];
    if (boot->job != JOB_NONE && boot->is_cancelled == 0 &&
        state.live.is_cancelled != 0) {
        boot->is_cancelled = 1;
        search_add(mover->search, &state, false, "hear of the cancel");
    }
}

void claims_worker_expand(struct search *search,
    const struct claims_config *config, const struct claims_state *state,
    int boot)
{
    const struct mover mover = {
        .search = search, .config = config, .from = state, .boot = boot};
    expand_claim(&mover);
    expand_rows(&mover);
    expand_job(&mover);
    hear_of_cancel(&mover);
}
