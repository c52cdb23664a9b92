/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step is one transaction: either the replay has moved and its actions are
 * on their way, or neither. Dying anywhere, at any call, costs nothing: who
 * goes on reads where the replay is, and the ids of its actions are the same.
 */
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/replay/replayer.h"

/* -- counting ----------------------------------------------------------------------- */

static void add_sample(struct replay *replay, const uint8_t id[UUID_SIZE])
{
    if (replay->sample_count < REPLAY_SAMPLE) {
        memcpy(replay->sample[replay->sample_count], id, UUID_SIZE);
        replay->sample_count++;
    }
}

static bool is_full(const struct replay *replay, int64_t count)
{
    return replay->wish.max_rows != 0 && count >= replay->wish.max_rows;
}

/* Outcomes are sent as they are: there is nothing to judge. */
static void count_page(struct replay *replay, const struct replayer_page *page)
{
    const bool is_sent = replay->wish.kind == REPLAY_OUTCOMES;
    for (size_t i = 0; i < page->count && !is_full(replay, replay->planned);
         i++) {
        const struct replayer_one *one = &page->ones[i];
        replay->matched++;
        if (is_sent || one->skip == REPLAY_SKIP_NONE) {
            replay->planned++;
            add_sample(replay, one->id);
        } else {
            replay->skips[one->skip]++;
        }
    }
}

/* The count is over: from here on it acts, unless it shall not. */
static void end_count(struct replay *replay)
{
    if (replay->wish.is_dry_run) {
        replay->phase = REPLAY_DONE;
        replay->is_settled = true;
        return;
    }
    replay->phase = REPLAY_RUNNING;
    replay->position = replay->wish.id_count > 0 ? 0 : replay->from_seq;
    replay->is_paused = replay->wish.is_held;
    replay->wish.is_held = false;
    memset(replay->skips, 0, sizeof(replay->skips));
}

static int write_count(struct replayer *replayer, const struct replay *before,
    const struct replay *after, struct err *err)
{
    const int held = replayer_grab(replayer, before, err);
    if (held <= 0) {
        return held;
    }
    if (replayer_move(replayer, after, err) != 0) {
        return -1;
    }
    return replayer_commit(replayer, err);
}

static enum replayer_word count_step(
    struct replayer *replayer, const struct replay *replay, struct err *err)
{
    const struct replayer_page *page = &replayer->page;
    struct replay after = *replay;
    count_page(&after, page);
    after.position = page->last;
    if (page->is_final || is_full(&after, after.planned)) {
        end_count(&after);
    }
    return write_count(replayer, replay, &after, err) < 0 ? REPLAYER_ERROR
                                                          : REPLAYER_BUSY;
}

/* -- what may be put on its way now --------------------------------------------------- */

static int read_room(struct replayer *replayer, const struct replay *replay,
    struct replay_pace *pace, int64_t *room, struct err *err)
{
    int64_t most = REPLAYER_PAGE;
    if (replay->wish.max_rows != 0 &&
        replay->wish.max_rows - replay->published < most) {
        most = replay->wish.max_rows - replay->published;
    }
    *room = replay_pace_room(pace, most, now_mono_us());
    if (*room == 0) {
        return 0;
    }
    PGresult *result = replayer_query(replayer, SQL_REPLAY_IN_FLIGHT, err);
    if (result == NULL) {
        return -1;
    }
    const int64_t left = replayer->most_in_flight - pg_get_int(result, 0, 0);
    PQclear(result);
    *room = left < *room ? left : *room;
    *room = *room < 0 ? 0 : *room;
    return 0;
}

/* The part of a page that a step deals with. */
struct portion {
    const struct replayer_one *ones[REPLAYER_PAGE]; /* that run */
    size_t count;
    int64_t skips[REPLAY_SKIP_COUNT];
    int64_t last; /* the position behind it */
    bool is_whole;
};

static int compare_roots(const void *a, const void *b)
{
    const struct replayer_one *left = *(const struct replayer_one *const *)a;
    const struct replayer_one *right = *(const struct replayer_one *const *)b;
    return memcmp(left->root, right->root, UUID_SIZE);
}

static void take_portion(const struct replayer_page *page, int64_t room,
    int64_t position, struct portion *portion)
{
    size_t i = 0;
    memset(portion, 0, sizeof(*portion));
    portion->last = position;
    for (; i < page->count; i++) {
        const struct replayer_one *one = &page->ones[i];
        if (one->skip != REPLAY_SKIP_NONE) {
            portion->skips[one->skip]++;
        } else if ((int64_t)portion->count < room) {
            portion->ones[portion->count++] = one;
        } else {
            break;
        }
        portion->last = one->at;
    }
    portion->is_whole = i == page->count;
    if (portion->is_whole) {
        portion->last = page->last;
    }
    /* In one order, or two schedulers might wait for each other. */
    qsort(portion->ones, portion->count, sizeof(const struct replayer_one *),
        compare_roots);
}

/* -- the statements of a step ----------------------------------------------------------- */

static void put_ids(
    struct pg_params *params, const struct portion *portion, size_t member)
{
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < portion->count; i++) {
        pg_array_bytes(params,
            (struct span){(const char *)portion->ones[i] + member, UUID_SIZE});
    }
    pg_array_end(params);
}

static void put_rest(struct pg_params *params, const struct portion *portion)
{
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < portion->count; i++) {
        pg_array_bytes(
            params, (struct span){
                        (const char *)portion->ones[i]->manifest, SHA256_SIZE});
    }
    pg_array_end(params);
    pg_array_begin(params, PG_INT2);
    for (size_t i = 0; i < portion->count; i++) {
        pg_array_int2(params, (int16_t)portion->ones[i]->effect);
    }
    pg_array_end(params);
    pg_array_begin(params, PG_BOOL);
    for (size_t i = 0; i < portion->count; i++) {
        pg_array_bool(params, portion->ones[i]->is_unknown);
    }
    pg_array_end(params);
    pg_array_begin(params, PG_TIMESTAMPTZ);
    for (size_t i = 0; i < portion->count; i++) {
        if (portion->ones[i]->key_until_us == 0) {
            pg_array_null(params);
        } else {
            pg_array_time(params, portion->ones[i]->key_until_us);
        }
    }
    pg_array_end(params);
}

static int open_lines(struct replayer *replayer, const struct replay *replay,
    const struct portion *portion, struct err *err)
{
    struct pg_params *params = &replayer->params;
    pg_param_uuid(params, replay->wish.id);
    put_ids(params, portion, offsetof(struct replayer_one, root));
    put_ids(params, portion, offsetof(struct replayer_one, action_id));
    return replayer_do(replayer, SQL_REPLAY_OPEN, err);
}

static int publish(struct replayer *replayer, const struct replay *replay,
    const struct portion *portion, struct err *err)
{
    struct pg_params *params = &replayer->params;
    pg_param_uuid(params, replay->wish.id);
    pg_param_bool(params, replay->wish.is_forced);
    put_ids(params, portion, offsetof(struct replayer_one, action_id));
    put_ids(params, portion, offsetof(struct replayer_one, id));
    pg_array_begin(params, PG_INT4);
    for (size_t i = 0; i < portion->count; i++) {
        pg_array_int4(params, portion->ones[i]->window);
    }
    pg_array_end(params);
    put_ids(params, portion, offsetof(struct replayer_one, root));
    put_ids(params, portion, offsetof(struct replayer_one, effect_id));
    put_rest(params, portion);
    return replayer_do(replayer, SQL_REPLAY_PUBLISH, err);
}

static int close_lines(
    struct replayer *replayer, const struct portion *portion, struct err *err)
{
    put_ids(&replayer->params, portion, offsetof(struct replayer_one, root));
    put_ids(
        &replayer->params, portion, offsetof(struct replayer_one, action_id));
    return replayer_do(replayer, SQL_REPLAY_CLOSE, err);
}

/* How many are on their way; -1: err. What a line was not free for, or what
 * has ended well since the page was read, is counted by why. */
static int64_t publish_portion(struct replayer *replayer,
    const struct replay *replay, struct portion *portion, struct err *err)
{
    if (portion->count == 0) {
        return 0;
    }
    const int opened = open_lines(replayer, replay, portion, err);
    if (opened < 0) {
        return -1;
    }
    const int published = publish(replayer, replay, portion, err);
    if (published < 0 ||
        (published < opened && close_lines(replayer, portion, err) < 0)) {
        return -1;
    }
    portion->skips[REPLAY_SKIP_RUNNING] += (int64_t)portion->count - opened;
    portion->skips[REPLAY_SKIP_SUCCEEDED] += opened - published;
    return published;
}

/* In the order that claims keep: the lock of the windows comes first. */
static int64_t write_portion(struct replayer *replayer,
    const struct replay *replay, struct portion *portion, bool is_final,
    struct err *err)
{
    struct replay after = *replay;
    if (replayer_do(replayer, SQL_REPLAY_CLAIM_LOCK, err) < 0) {
        return -1;
    }
    const int64_t published = publish_portion(replayer, replay, portion, err);
    if (published < 0) {
        return -1;
    }
    after.position = portion->last;
    after.published += published;
    for (size_t i = 1; i < REPLAY_SKIP_COUNT; i++) {
        after.skips[i] += portion->skips[i];
    }
    if ((is_final && portion->is_whole) || is_full(&after, after.published)) {
        after.phase = REPLAY_ENDING;
    }
    if (replayer_move(replayer, &after, err) != 0 ||
        replayer_commit(replayer, err) != 0) {
        return -1;
    }
    return published;
}

static enum replayer_word run_step(struct replayer *replayer,
    const struct replay *replay, int64_t room, struct replay_pace *pace,
    struct err *err)
{
    const struct replayer_page *page = &replayer->page;
    struct portion portion;
    take_portion(page, room, replay->position, &portion);
    const int held = replayer_grab(replayer, replay, err);
    if (held <= 0) {
        return held == 0 ? REPLAYER_IDLE : REPLAYER_ERROR;
    }
    const int64_t published =
        write_portion(replayer, replay, &portion, page->is_final, err);
    if (published < 0) {
        return REPLAYER_ERROR;
    }
    replay_pace_take(pace, published);
    atomic_fetch_add(&replayer->meters->published, published);
    for (size_t i = 1; i < REPLAY_SKIP_COUNT; i++) {
        atomic_fetch_add(&replayer->meters->skipped, portion.skips[i]);
    }
    return REPLAYER_BUSY;
}

/* -- a step ------------------------------------------------------------------------- */

enum replayer_word replayer_step(struct replayer *replayer,
    struct replay *replay, struct replay_pace *pace, struct err *err)
{
    int64_t room = 0;
    const int bound = replayer_is_bound(replayer, replay, err);
    if (bound <= 0) {
        return bound == 0 ? REPLAYER_IDLE : REPLAYER_ERROR;
    }
    if (replay->phase == REPLAY_RUNNING) {
        if (read_room(replayer, replay, pace, &room, err) != 0) {
            return REPLAYER_ERROR;
        }
        if (room == 0) {
            return REPLAYER_IDLE;
        }
    }
    if (replayer_read_page(replayer, replay, &replayer->page, err) != 0) {
        return REPLAYER_ERROR;
    }
    return replay->phase == REPLAY_COUNTING
               ? count_step(replayer, replay, err)
               : run_step(replayer, replay, room, pace, err);
}
