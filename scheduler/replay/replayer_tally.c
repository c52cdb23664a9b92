/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts how the actions of a replay ended, by the relay's `low`: no outcome
 * will ever be added at or below it, and all of them are published. So each is
 * counted once, and a replay is done when all of its outcomes can be read.
 */
#include "scheduler/replay/replayer.h"

enum { TALLY_ROWS = 5000 };

static int read_low(struct replayer *replayer, int64_t *low, struct err *err)
{
    PGresult *result = replayer_query(replayer, SQL_REPLAY_LOW, err);
    if (result == NULL) {
        return -1;
    }
    *low = pg_get_int(result, 0, 0);
    PQclear(result);
    return 0;
}

/* Returns how many were counted, and up to where. */
static int64_t take_counts(
    const PGresult *rows, struct replay *replay, int64_t *last)
{
    int64_t count = 0;
    for (int row = 0; row < pg_rows(rows); row++) {
        const int64_t status = pg_get_int(rows, row, TALLY_STATUS);
        const int64_t seq = pg_get_int(rows, row, TALLY_LAST);
        const int64_t these = pg_get_int(rows, row, TALLY_COUNT);
        replay->ends[status] += these;
        count += these;
        *last = seq > *last ? seq : *last;
    }
    return count;
}

static int write_counts(struct replayer *replayer, const struct replay *replay,
    int64_t up_to, struct err *err)
{
    struct pg_params *params = &replayer->params;
    pg_param_uuid(params, replay->wish.id);
    pg_param_int8(params, replay->tallied_seq);
    pg_param_int8(params, up_to);
    pg_array_begin(params, PG_INT8);
    for (size_t i = 1; i < REPLAY_STATUS_COUNT; i++) {
        pg_array_int8(params, replay->ends[i]);
    }
    pg_array_end(params);
    return replayer_do(replayer, SQL_REPLAY_TALLIED, err);
}

/* In a transaction. -1: err; else how many were counted. */
static int64_t count_to(struct replayer *replayer, struct replay *replay,
    int64_t low, struct err *err)
{
    struct pg_params *params = &replayer->params;
    int64_t last = 0;
    pg_param_uuid(params, replay->wish.id);
    pg_param_int8(params, replay->tallied_seq);
    pg_param_int8(params, low);
    pg_param_int4(params, TALLY_ROWS);
    PGresult *rows = replayer_query(replayer, SQL_REPLAY_TALLY, err);
    if (rows == NULL) {
        return -1;
    }
    const int64_t count = take_counts(rows, replay, &last);
    PQclear(rows);
    const int64_t up_to = count == TALLY_ROWS ? last : low;
    /* Of two who count the second one finds that it was done, and nothing. */
    if (write_counts(replayer, replay, up_to, err) < 0 ||
        replayer_commit(replayer, err) != 0) {
        return -1;
    }
    replay->tallied_seq = up_to;
    atomic_fetch_add(&replayer->meters->ended, count);
    return count;
}

static int settle(
    struct replayer *replayer, const struct replay *replay, struct err *err)
{
    const bool is_cancelled = replay->phase == REPLAY_CANCELLED;
    pg_param_uuid(&replayer->params, replay->wish.id);
    pg_param_int8(&replayer->params, replay->published);
    pg_param_int2(&replayer->params, (int16_t)replay->phase);
    pg_param_int2(&replayer->params,
        (int16_t)(is_cancelled ? REPLAY_CANCELLED : REPLAY_DONE));
    return replayer_do(replayer, SQL_REPLAY_SETTLE, err) < 0 ? -1 : 0;
}

enum replayer_word replayer_tally(
    struct replayer *replayer, struct replay *replay, struct err *err)
{
    int64_t low = 0;
    int64_t count = 0;
    const bool is_over =
        replay->phase == REPLAY_ENDING || replay->phase == REPLAY_CANCELLED;
    const int64_t expected =
        replay->wish.kind == REPLAY_ACTIONS ? replay->published : 0;
    if (replay_ended(replay) < expected) {
        if (read_low(replayer, &low, err) != 0) {
            return REPLAYER_ERROR;
        }
        if (low > replay->tallied_seq) {
            if (replayer_do(replayer, SQL_REPLAY_BEGIN, err) < 0) {
                return REPLAYER_ERROR;
            }
            count = count_to(replayer, replay, low, err);
        }
        if (count < 0) {
            return REPLAYER_ERROR;
        }
    }
    if (is_over && replay_ended(replay) == expected &&
        settle(replayer, replay, err) != 0) {
        return REPLAYER_ERROR;
    }
    return count > 0 ? REPLAYER_BUSY : REPLAYER_IDLE;
}
