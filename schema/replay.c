/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/replay.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DOMAIN_REPLAY SPAN_LIT("actionist id of replay 1")

/* -- names --------------------------------------------------------------------- */

static const char *const skip_names[REPLAY_SKIP_COUNT] = {
#define X(symbol, number, name, text) [number] = (name),
    REPLAY_SKIP_LIST(X)
#undef X
};
static const char *const skip_texts[REPLAY_SKIP_COUNT] = {
#define X(symbol, number, name, text) [number] = (text),
    REPLAY_SKIP_LIST(X)
#undef X
};
static const char *const phase_names[] = {
#define X(symbol, number, name) [number] = (name),
    REPLAY_PHASE_LIST(X)
#undef X
};

const char *replay_skip_name(enum replay_skip skip)
{
    return skip_names[skip];
}

const char *replay_skip_text(enum replay_skip skip)
{
    return skip_texts[skip];
}

/* -- the decision -------------------------------------------------------------- */

/* An effect that may have happened, and that would happen once more. */
static bool may_act_twice(const struct replay_facts *facts)
{
    if (facts->status != STATUS_INDETERMINATE) {
        return false;
    }
    if (facts->before == EFFECT_UNSAFE || facts->now == EFFECT_UNSAFE) {
        return true;
    }
    /* With a new key it would, too; but that is what a new key is asked for,
     * and it had to be confirmed. */
    return facts->now == EFFECT_KEYED && facts->is_key_expired &&
           !facts->has_new_key;
}

enum replay_skip replay_judge(const struct replay_facts *facts)
{
    if (!facts->is_known) {
        return REPLAY_SKIP_UNKNOWN;
    }
    if (facts->is_open) {
        return REPLAY_SKIP_RUNNING;
    }
    if (facts->is_repeated) {
        return REPLAY_SKIP_REPEATED;
    }
    if (facts->has_succeeded && !facts->is_forced) {
        return REPLAY_SKIP_SUCCEEDED;
    }
    if (!facts->has_request) {
        return REPLAY_SKIP_GONE;
    }
    if (facts->is_conflict) {
        return REPLAY_SKIP_CONFLICT;
    }
    if (facts->now == 0) {
        return REPLAY_SKIP_UNDECLARED;
    }
    if (facts->is_paused) {
        return REPLAY_SKIP_PAUSED;
    }
    if (!facts->is_named && may_act_twice(facts)) {
        return REPLAY_SKIP_MAY_HAVE_ACTED;
    }
    return REPLAY_SKIP_NONE;
}

void replay_action_id(const uint8_t replay[UUID_SIZE],
    const uint8_t root[UUID_SIZE], uint8_t id[UUID_SIZE])
{
    const struct span parts[] = {DOMAIN_REPLAY,
        {.ptr = (const char *)replay, .len = UUID_SIZE},
        {.ptr = (const char *)root, .len = UUID_SIZE}};
    uint8_t digest[SHA256_SIZE];
    sha256_parts(parts, ARRAY_LEN(parts), digest);
    uuid_from_digest(digest, id);
}

/* -- the row ---------------------------------------------------------------------- */

/* Reads one column after the other. */
struct reader {
    const PGresult *rows;
    int row;
    int column;
};

static int64_t next_int(struct reader *reader) /* 0 for null */
{
    const int column = reader->column++;
    return pg_is_null(reader->rows, reader->row, column)
               ? 0
               : pg_get_int(reader->rows, reader->row, column);
}

static bool next_bool(struct reader *reader)
{
    return pg_get_bool(reader->rows, reader->row, reader->column++);
}

static int64_t next_time(struct reader *reader) /* 0 for null */
{
    const int column = reader->column++;
    return pg_is_null(reader->rows, reader->row, column)
               ? 0
               : pg_get_time(reader->rows, reader->row, column);
}

/* "" for null; cut to what fits. */
static void next_text(struct reader *reader, char *text, size_t size)
{
    const int column = reader->column++;
    struct span from = {0};
    if (!pg_is_null(reader->rows, reader->row, column)) {
        from = pg_get_bytes(reader->rows, reader->row, column);
    }
    const size_t len = from.len < size ? from.len : size - 1;
    if (len > 0) {
        memcpy(text, from.ptr, len);
    }
    text[len] = '\0';
}

static void read_wish(struct reader *reader, struct replay_wish *wish)
{
    memcpy(wish->id, pg_get_uuid(reader->rows, reader->row, reader->column++),
        UUID_SIZE);
    wish->kind = (enum replay_kind)next_int(reader);
    next_text(reader, wish->tenant, sizeof(wish->tenant));
    wish->id_count = next_int(reader);
    next_text(reader, wish->connector, sizeof(wish->connector));
    next_text(reader, wish->action, sizeof(wish->action));
    wish->statuses = (int)next_int(reader);
    next_text(reader, wish->error_code, sizeof(wish->error_code));
    wish->since_us = next_time(reader);
    wish->until_us = next_time(reader);
    next_text(reader, wish->source, sizeof(wish->source));
    wish->is_dry_run = next_bool(reader);
    wish->is_held = next_bool(reader);
    wish->has_new_key = next_bool(reader);
    wish->is_forced = next_bool(reader);
    wish->rate = next_int(reader);
    wish->max_rows = next_int(reader);
    next_text(reader, wish->to_topic, sizeof(wish->to_topic));
    next_text(reader, wish->actor, sizeof(wish->actor));
    next_text(reader, wish->reason, sizeof(wish->reason));
}

/* Numbers with a space between; the first is [1]. */
static void next_counts(struct reader *reader, int64_t *counts, size_t count)
{
    char text[REPLAY_STATUS_COUNT * 24];
    next_text(reader, text, sizeof(text));
    char *rest = text;
    for (size_t i = 1; i < count; i++) {
        const char *one = strsep(&rest, " ");
        if (one == NULL || !span_to_int(span_of(one), &counts[i])) {
            return;
        }
    }
}

static void next_sample(struct reader *reader, struct replay *replay)
{
    char text[REPLAY_SAMPLE * UUID_TEXT_SIZE];
    next_text(reader, text, sizeof(text));
    char *rest = text;
    replay->sample_count = 0;
    while (replay->sample_count < REPLAY_SAMPLE) {
        const char *one = strsep(&rest, " ");
        if (one == NULL ||
            !uuid_parse(span_of(one), replay->sample[replay->sample_count])) {
            return;
        }
        replay->sample_count++;
    }
}

void replay_read(
    const PGresult *rows, int row, int column, struct replay *replay)
{
    struct reader reader = {rows, row, column};
    *replay = (struct replay){.phase = REPLAY_COUNTING};
    read_wish(&reader, &replay->wish);
    replay->phase = (enum replay_phase)next_int(&reader);
    replay->is_paused = next_bool(&reader);
    replay->is_settled = next_bool(&reader);
    replay->from_seq = next_int(&reader);
    replay->to_seq = next_int(&reader);
    replay->bound = next_int(&reader);
    replay->created_at_us = next_time(&reader);
    replay->ended_at_us = next_time(&reader);
    replay->position = next_int(&reader);
    replay->matched = next_int(&reader);
    replay->planned = next_int(&reader);
    replay->published = next_int(&reader);
    replay->tallied_seq = next_int(&reader);
    next_text(&reader, replay->trouble, sizeof(replay->trouble));
    next_sample(&reader, replay);
    next_counts(&reader, replay->skips, REPLAY_SKIP_COUNT);
    next_counts(&reader, replay->ends, REPLAY_STATUS_COUNT);
}

const char *replay_state(const struct replay *replay)
{
    const bool may_pause =
        replay->phase == REPLAY_COUNTING || replay->phase == REPLAY_RUNNING;
    return replay->is_paused && may_pause ? "paused"
                                          : phase_names[replay->phase];
}

int64_t replay_ended(const struct replay *replay)
{
    int64_t sum = 0;
    for (size_t i = 1; i < REPLAY_STATUS_COUNT; i++) {
        sum += replay->ends[i];
    }
    return sum;
}

int64_t replay_skipped(const struct replay *replay)
{
    int64_t sum = 0;
    for (size_t i = 1; i < REPLAY_SKIP_COUNT; i++) {
        sum += replay->skips[i];
    }
    return sum;
}

/* -- asking for one ------------------------------------------------------------- */

static void put_text(struct pg_params *params, const char *text)
{
    if (text[0] == '\0') {
        pg_param_null(params);
    } else {
        pg_param_text(params, span_of(text));
    }
}

static void put_time(struct pg_params *params, int64_t wall_us)
{
    if (wall_us == 0) {
        pg_param_null(params);
    } else {
        pg_param_time(params, wall_us);
    }
}

static void put_limits(struct pg_params *params, const struct replay_wish *wish)
{
    if (wish->rate == 0) {
        pg_param_null(params);
    } else {
        pg_param_int4(params, (int32_t)wish->rate);
    }
    if (wish->max_rows == 0) {
        pg_param_null(params);
    } else {
        pg_param_int8(params, wish->max_rows);
    }
}

void replay_put_wish(struct pg_params *params, const struct replay_wish *wish)
{
    assert(wish->id_count >= 0 && wish->id_count <= REPLAY_MAX_IDS);
    pg_param_uuid(params, wish->id);
    pg_param_int2(params, (int16_t)wish->kind);
    pg_param_text(params, span_of(wish->tenant));
    pg_param_int4(params, (int32_t)wish->id_count);
    put_text(params, wish->connector);
    put_text(params, wish->action);
    pg_param_int4(params, wish->statuses);
    put_text(params, wish->error_code);
    put_time(params, wish->since_us);
    put_time(params, wish->until_us);
    put_text(params, wish->source);
    pg_param_bool(params, wish->is_dry_run);
    pg_param_bool(params, wish->is_held);
    pg_param_bool(params, wish->has_new_key);
    pg_param_bool(params, wish->is_forced);
    put_limits(params, wish);
    put_text(params, wish->to_topic);
    pg_param_text(params, span_of(wish->actor));
    put_text(params, wish->reason);
}
