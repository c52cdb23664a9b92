/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/replay/replayer.h"

#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/time.h"

enum { IDLE_MS = 500, PACED_MS = 20, RETRY_MS = 1000, SLICE_MS = 50 };

/* -- statements ------------------------------------------------------------------ */

PGresult *replayer_query(
    struct replayer *replayer, enum sql_replay statement, struct err *err)
{
    PGresult *result = pg_query_blocking(
        replayer->conn, &SQL_REPLAY[statement], &replayer->params, err);
    pg_params_clear(&replayer->params);
    return result;
}

int replayer_do(
    struct replayer *replayer, enum sql_replay statement, struct err *err)
{
    PGresult *result = replayer_query(replayer, statement, err);
    if (result == NULL) {
        return -1;
    }
    const int rows = PQresultStatus(result) == PGRES_TUPLES_OK
                         ? pg_rows(result)
                         : (int)pg_affected(result);
    PQclear(result);
    return rows;
}

void replayer_rollback(struct replayer *replayer)
{
    struct err ignored = ERR_INIT;
    /* If it fails, so does what comes next, and we connect anew. */
    (void)!replayer_do(replayer, SQL_REPLAY_ROLLBACK, &ignored);
}

int replayer_grab(
    struct replayer *replayer, const struct replay *replay, struct err *err)
{
    if (replayer_do(replayer, SQL_REPLAY_BEGIN, err) < 0) {
        return -1;
    }
    pg_param_uuid(&replayer->params, replay->wish.id);
    pg_param_int8(&replayer->params, replay->position);
    pg_param_int2(&replayer->params, (int16_t)replay->phase);
    const int rows = replayer_do(replayer, SQL_REPLAY_GRAB, err);
    if (rows != 1) {
        replayer_rollback(replayer);
    }
    return rows;
}

int replayer_commit(struct replayer *replayer, struct err *err)
{
    return replayer_do(replayer, SQL_REPLAY_COMMIT, err) < 0 ? -1 : 0;
}

int replayer_move(
    struct replayer *replayer, const struct replay *replay, struct err *err)
{
    struct pg_params *params = &replayer->params;
    pg_param_uuid(params, replay->wish.id);
    pg_param_int2(params, (int16_t)replay->phase);
    pg_param_int8(params, replay->position);
    pg_param_int8(params, replay->matched);
    pg_param_int8(params, replay->planned);
    pg_param_int8(params, replay->published);
    pg_array_begin(params, PG_INT8);
    for (size_t i = 1; i < REPLAY_SKIP_COUNT; i++) {
        pg_array_int8(params, replay->skips[i]);
    }
    pg_array_end(params);
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < replay->sample_count; i++) {
        pg_array_bytes(
            params, (struct span){(const char *)replay->sample[i], UUID_SIZE});
    }
    pg_array_end(params);
    pg_param_bool(params, replay->is_paused);
    pg_param_bool(params, replay->wish.is_held);
    pg_param_bool(params, replay->is_settled);
    return replayer_do(replayer, SQL_REPLAY_MOVE, err) < 0 ? -1 : 0;
}

int replayer_is_bound(
    struct replayer *replayer, struct replay *replay, struct err *err)
{
    if (replay->bound == 0) {
        pg_param_uuid(&replayer->params, replay->wish.id);
        return replayer_do(replayer, SQL_REPLAY_BOUND, err) < 0 ? -1 : 0;
    }
    pg_param_int8(&replayer->params, replay->to_seq);
    pg_param_int8(&replayer->params, replay->bound);
    PGresult *result = replayer_query(replayer, SQL_REPLAY_IS_SETTLED, err);
    if (result == NULL) {
        return -1;
    }
    const bool is_bound = pg_get_bool(result, 0, 0);
    PQclear(result);
    return is_bound ? 1 : 0;
}

/* -- connectors --------------------------------------------------------------------- */

/* A version that does not load here is never found. */
static void add_version(
    struct replayer *replayer, const PGresult *rows, int row)
{
    struct fault fault = FAULT_INIT;
    const struct span digest = pg_get_bytes(rows, row, CONNECTOR_CACHE_DIGEST);
    if (digest.len == SHA256_SIZE &&
        connector_cache_add(replayer->connectors,
            pg_get_int(rows, row, CONNECTOR_CACHE_NUMBER),
            (const uint8_t *)digest.ptr,
            pg_get_bytes(rows, row, CONNECTOR_CACHE_MANIFEST), &fault) != 0) {
        LOG(WARN, "manifest_refused",
            (&(struct log_fields){.name1 = "pointer", .value1 = fault.pointer}),
            "no replay uses this version: %s", fault.detail);
    }
}

static int read_connectors(struct replayer *replayer, struct err *err)
{
    int count = 0;
    do {
        connector_cache_put_known(replayer->connectors, &replayer->params);
        PGresult *rows = replayer_query(replayer, SQL_REPLAY_CONNECTORS, err);
        if (rows == NULL) {
            return -1;
        }
        count = pg_rows(rows);
        for (int row = 0; row < count; row++) {
            add_version(replayer, rows, row);
        }
        PQclear(rows);
    } while (count == CONNECTOR_CACHE_ROWS &&
             !connector_cache_is_full(replayer->connectors));
    return 0;
}

/* -- pace ------------------------------------------------------------------------- */

static size_t find_place(
    struct replayer *replayer, const struct replay_wish *wish)
{
    size_t spare = 0;
    for (size_t i = 0; i < REPLAYER_ACTIVE; i++) {
        if (memcmp(replayer->places[i].id, wish->id, UUID_SIZE) == 0) {
            return i;
        }
        if (!replayer->places[i].is_seen) {
            spare = i;
        }
    }
    memcpy(replayer->places[spare].id, wish->id, UUID_SIZE);
    replayer->places[spare].is_seen = true;
    replayer->places[spare].again_us = 0;
    replay_pace_start(&replayer->places[spare].pace, wish->rate, now_mono_us());
    return spare;
}

/* Places of replays that are over may be taken by others. */
static void mark_places(struct replayer *replayer, size_t count)
{
    for (size_t i = 0; i < REPLAYER_ACTIVE; i++) {
        bool is_seen = false;
        for (size_t k = 0; k < count; k++) {
            is_seen |= memcmp(replayer->places[i].id,
                           replayer->replays[k].wish.id, UUID_SIZE) == 0;
        }
        replayer->places[i].is_seen = is_seen;
    }
}

/* -- one round -------------------------------------------------------------------- */

static int read_active(struct replayer *replayer, struct err *err)
{
    PGresult *rows = replayer_query(replayer, SQL_REPLAY_ACTIVE, err);
    if (rows == NULL) {
        return -1;
    }
    const int count = pg_rows(rows);
    for (int row = 0; row < count; row++) {
        replay_read(rows, row, 0, &replayer->replays[row]);
    }
    PQclear(rows);
    return count;
}

static enum replayer_word step(struct replayer *replayer, struct replay *replay,
    struct replay_pace *pace, struct err *err)
{
    const bool is_open =
        replay->phase == REPLAY_COUNTING || replay->phase == REPLAY_RUNNING;
    if (replay->is_paused || !is_open) {
        return REPLAYER_IDLE;
    }
    return replay->wish.kind == REPLAY_OUTCOMES &&
                   replay->phase == REPLAY_RUNNING
               ? replayer_send(replayer, replay, pace, err)
               : replayer_step(replayer, replay, pace, err);
}

/* People see why it stands still; the log has it once a trouble. */
static void tell_trouble(struct replayer *replayer, const struct replay *replay,
    const struct err *err)
{
    struct err ignored = ERR_INIT;
    atomic_fetch_add(&replayer->meters->failed, 1);
    replayer_rollback(replayer);
    pg_param_uuid(&replayer->params, replay->wish.id);
    pg_param_text(&replayer->params, span_of(err->msg));
    if (replayer_do(replayer, SQL_REPLAY_TROUBLE, &ignored) == 1) {
        LOG(WARN, "replay_stands",
            (&(struct log_fields){.err = err, .tenant = replay->wish.tenant}),
            "it is tried again");
    }
}

static enum replayer_word go_on(
    struct replayer *replayer, struct replay *replay)
{
    const size_t place = find_place(replayer, &replay->wish);
    struct err err = ERR_INIT;
    if (now_mono_us() < replayer->places[place].again_us) {
        return REPLAYER_IDLE;
    }
    const enum replayer_word moved =
        step(replayer, replay, &replayer->places[place].pace, &err);
    const enum replayer_word ended =
        moved == REPLAYER_ERROR ? moved
                                : replayer_tally(replayer, replay, &err);
    if (ended == REPLAYER_ERROR) {
        replayer->places[place].again_us = now_mono_us() + RETRY_MS * US_PER_MS;
        tell_trouble(replayer, replay, &err);
        return REPLAYER_IDLE;
    }
    return ended == REPLAYER_IDLE ? moved : ended;
}

/* ERROR: the connection is of no use. */
static enum replayer_word go_round(struct replayer *replayer, struct err *err)
{
    enum replayer_word word = REPLAYER_IDLE;
    const int count = read_active(replayer, err);
    if (count < 0 || (count > 0 && read_connectors(replayer, err) != 0)) {
        return REPLAYER_ERROR;
    }
    atomic_store(&replayer->meters->active, count);
    mark_places(replayer, (size_t)count);
    for (int i = 0; i < count && !atomic_load(replayer->is_cancelled); i++) {
        if (go_on(replayer, &replayer->replays[i]) == REPLAYER_BUSY) {
            word = REPLAYER_BUSY;
        }
    }
    if (PQstatus(replayer->conn) != CONNECTION_OK) {
        (void)err_set(err, ERR_TRANSIENT, "PG_UNREACHABLE",
            "the connection of the replays was lost");
        return REPLAYER_ERROR;
    }
    return word;
}

/* -- the thread --------------------------------------------------------------------- */

static void pause_for(const struct replayer *replayer, int64_t ms)
{
    const int64_t until_us = now_mono_us() + ms * US_PER_MS;
    while (!atomic_load(replayer->is_cancelled)) {
        int64_t left_us = until_us - now_mono_us();
        if (left_us <= 0) {
            return;
        }
        if (left_us > SLICE_MS * US_PER_MS) {
            left_us = SLICE_MS * US_PER_MS;
        }
        const struct timespec slice = {.tv_nsec = left_us * 1000};
        (void)nanosleep(&slice, NULL);
    }
}

static int connect_to_store(struct replayer *replayer, struct err *err)
{
    replayer->conn = pg_connect_blocking(
        replayer->conninfo, "actionist-scheduler replay", err);
    if (replayer->conn == NULL) {
        return -1;
    }
    return replayer_do(replayer, SQL_REPLAY_SESSION, err) < 0 ? -1 : 0;
}

static void run_connected(struct replayer *replayer, struct err *err)
{
    while (!atomic_load(replayer->is_cancelled)) {
        const enum replayer_word word = go_round(replayer, err);
        if (word == REPLAYER_ERROR) {
            return;
        }
        if (word == REPLAYER_IDLE) {
            const bool is_any = atomic_load(&replayer->meters->active) > 0;
            pause_for(replayer, is_any ? PACED_MS : IDLE_MS);
        }
    }
}

void replayer_run(struct replayer *replayer)
{
    pg_params_init(&replayer->params);
    replayer->connectors = connector_cache_new();
    while (!atomic_load(replayer->is_cancelled)) {
        struct err err = ERR_INIT;
        if (connect_to_store(replayer, &err) == 0) {
            run_connected(replayer, &err);
        }
        replayer_close_sender(replayer);
        PQfinish(replayer->conn);
        replayer->conn = NULL;
        if (err.class != ERR_NONE && !atomic_load(replayer->is_cancelled)) {
            LOG(WARN, "replays_stand", (&(struct log_fields){.err = &err}),
                "tried again in a second");
            pause_for(replayer, RETRY_MS);
        }
    }
    connector_cache_free(replayer->connectors);
    replayer->connectors = NULL;
    pg_params_fini(&replayer->params);
}
