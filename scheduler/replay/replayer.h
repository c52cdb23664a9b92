/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replayer: the engine of replays (README.md). Every call blocks: for the
 * thread of its own only (replays.h).
 *
 * It keeps nothing that matters in memory: a step reads how far a replay is,
 * and moves it on in one transaction that holds its row.
 *
 * replayer.c           the thread's round; connectors, pace
 * replayer_page.c      a page of what was asked for, judged
 * replayer_step.c      counting, and putting actions on their way
 * replayer_tally.c     counting how they ended
 * replayer_outcomes.c  outcomes sent again
 */
#ifndef REPLAYER_H
#define REPLAYER_H

#include <stdatomic.h>

#include "common/conf.h"
#include "scheduler/replay/replay_pace.h"
#include "schema/connector_cache.h"
#include "schema/replay.h"
#include "schema/sql_replay.h"

#define REPLAYER_ACTIVE 64 /* replays that go on at once */
#define REPLAYER_PAGE 500  /* rows of one step */

/* One that may run, or why not. */
struct replayer_one {
    enum replay_skip skip;
    int64_t at; /* the position behind it */
    uint8_t id[UUID_SIZE];
    uint8_t root[UUID_SIZE];
    uint8_t action_id[UUID_SIZE]; /* the new one */
    uint8_t effect_id[UUID_SIZE];
    int32_t window;
    const uint8_t *manifest; /* digest, borrowed from the cache */
    enum effect effect;
    bool is_unknown;
    int64_t key_until_us; /* 0: no matter */
};

struct replayer_page {
    struct replayer_one ones[REPLAYER_PAGE];
    size_t count;  /* that match, in order of their position */
    int64_t last;  /* the position behind the page */
    bool is_final; /* nothing is behind it */
};

struct replay_sender; /* replayer_outcomes.c */

/* What the loop reads while the thread runs. */
struct replayer_meters {
    atomic_llong published;
    atomic_llong skipped;
    atomic_llong ended;
    atomic_llong sent; /* outcomes */
    atomic_llong failed;
    atomic_llong active;
};

struct replayer {
    const struct conf *conf;
    const char *conninfo;
    int64_t most_in_flight;
    const atomic_bool *is_cancelled;
    struct replayer_meters *meters;

    PGconn *conn;
    struct pg_params params;
    struct connector_cache *connectors;
    struct replay_sender *sender; /* of one replay, NULL: none is open */
    struct replay replays[REPLAYER_ACTIVE]; /* of this round */
    struct replayer_page page;              /* of this step */
    struct {
        uint8_t id[UUID_SIZE];
        struct replay_pace pace;
        bool is_seen;
        int64_t again_us; /* after a failure: not before; mono */
    } places[REPLAYER_ACTIVE];
};

/* Runs until it is cancelled. */
void replayer_run(struct replayer *replayer);

/* -- for its files ------------------------------------------------------------ */

/* What a step came to. */
enum replayer_word { REPLAYER_ERROR = -1, REPLAYER_IDLE, REPLAYER_BUSY };

/* Runs a statement with replayer->params, which it clears after. NULL: err. */
PGresult *replayer_query(struct replayer *replayer, enum sql_replay statement,
    struct err *err) MUST_CHECK;
/* The same, for the number of rows; -1: err. */
int replayer_do(struct replayer *replayer, enum sql_replay statement,
    struct err *err) MUST_CHECK;
/* Begins a transaction that holds the replay where it was read. 1: it does; 0:
 * it was moved, paused or ended meanwhile, and nothing is open; -1: err. */
int replayer_grab(struct replayer *replayer, const struct replay *replay,
    struct err *err) MUST_CHECK;
/* Ends it. A failure leaves in doubt what the next reading shows. */
int replayer_commit(struct replayer *replayer, struct err *err) MUST_CHECK;
/* After an error inside of a transaction; keeps err. */
void replayer_rollback(struct replayer *replayer);
/* Writes where the replay is now, inside of the transaction. */
int replayer_move(struct replayer *replayer, const struct replay *replay,
    struct err *err) MUST_CHECK;
/* Whether all that the replay may have to see is there to be seen. */
int replayer_is_bound(struct replayer *replayer, struct replay *replay,
    struct err *err) MUST_CHECK;

/* Reads the page behind the replay's position, and judges it. */
int replayer_read_page(struct replayer *replayer, const struct replay *replay,
    struct replayer_page *page, struct err *err) MUST_CHECK;

/* The parameters of a page of outcomes; for SCAN and BODIES. */
void replayer_put_page(
    struct pg_params *params, const struct replay *replay, int32_t rows);

enum replayer_word replayer_step(struct replayer *replayer,
    struct replay *replay, struct replay_pace *pace, struct err *err);
enum replayer_word replayer_tally(
    struct replayer *replayer, struct replay *replay, struct err *err);
enum replayer_word replayer_send(struct replayer *replayer,
    struct replay *replay, struct replay_pace *pace, struct err *err);
void replayer_close_sender(struct replayer *replayer);

#endif
