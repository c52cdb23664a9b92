/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends outcomes once more, to another topic, in the order of their numbers,
 * exactly once for a read_committed reader: up to which number they were sent
 * is committed in the transaction of the records (as the relay's watermark,
 * lane.h). Who goes on after a death fences the one before, reads that number
 * first, and only counts what lies below it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/kafka.h"
#include "common/time.h"
#include "scheduler/lane.h"
#include "scheduler/readback.h"
#include "scheduler/replay/replayer.h"
#include "schema/outcome.h"

enum { PAGE_ROWS = 200, NAME_SIZE = 256 + UUID_TEXT_SIZE };

/* Around a document: key, headers, frame. */
#define RECORD_BYTES (OUTCOME_MAX_BYTES + ((size_t)64 << 10))
#define BATCH_BYTES ((size_t)8 << 20)

struct replay_sender {
    uint8_t id[UUID_SIZE];
    char topic[REPLAY_MAX_TOPIC + 1];
    char name[NAME_SIZE]; /* of the group and of the transactions */
    struct lane_target target;
    struct lane *lane;
    struct lane_batch batch;
    int64_t watermark; /* sent up to here */
};

void replayer_close_sender(struct replayer *replayer)
{
    struct replay_sender *sender = replayer->sender;
    replayer->sender = NULL;
    if (sender != NULL) {
        lane_close(sender->lane);
        lane_batch_fini(&sender->batch);
        free(sender);
    }
}

/* -- opening ----------------------------------------------------------------------- */

static int read_watermark(const struct replayer *replayer,
    struct replay_sender *sender, struct err *err)
{
    struct readback *readback = readback_open(replayer->conf, sender->topic,
        sender->name, replayer->is_cancelled, err);
    if (readback == NULL) {
        return -1;
    }
    const int code = readback_read_watermark(readback, &sender->watermark, err);
    readback_close(readback);
    return code;
}

/* Fences first: what another one has under way is then over, either way. */
static int open_lane(const struct replayer *replayer,
    struct replay_sender *sender, struct err *err)
{
    const char *const topics[] = {sender->topic};
    if (kafka_check_topics(replayer->conf, topics, 1, NULL, err) != 0) {
        return -1;
    }
    sender->target = (struct lane_target){.conf = replayer->conf,
        .topic = sender->topic,
        .group = sender->name,
        .max_record_bytes = RECORD_BYTES,
        .is_cancelled = replayer->is_cancelled};
    sender->lane = lane_open(&sender->target, sender->name, err);
    return sender->lane == NULL ? -1 : read_watermark(replayer, sender, err);
}

static int open_sender(
    struct replayer *replayer, const struct replay_wish *wish, struct err *err)
{
    if (replayer->sender != NULL &&
        memcmp(replayer->sender->id, wish->id, UUID_SIZE) == 0) {
        return 0;
    }
    replayer_close_sender(replayer);
    struct replay_sender *sender = mem_zalloc(1, sizeof(*sender));
    char id[UUID_TEXT_SIZE];
    char prefix[256];
    uuid_format(wish->id, id);
    kafka_topic_name(replayer->conf, "replay.", prefix);
    memcpy(sender->id, wish->id, UUID_SIZE);
    memcpy(sender->topic, wish->to_topic, sizeof(sender->topic));
    (void)snprintf(sender->name, sizeof(sender->name), "%s%s", prefix, id);
    lane_batch_init(&sender->batch, BATCH_BYTES);
    replayer->sender = sender;
    if (open_lane(replayer, sender, err) != 0) {
        replayer_close_sender(replayer);
        return -1;
    }
    return 0;
}

/* -- one page ------------------------------------------------------------------------ */

struct taken {
    int64_t count; /* that match, sent now or before */
    int64_t last;  /* the position behind them */
    bool is_final;
};

static struct span get_text(const PGresult *rows, int row, int column)
{
    return pg_is_null(rows, row, column) ? (struct span){"", 0}
                                         : pg_get_bytes(rows, row, column);
}

/* Ends before the row that came without its body: the page has enough. */
static void take_rows(struct replay_sender *sender, const PGresult *rows,
    int64_t room, struct taken *taken)
{
    const int count = pg_is_null(rows, 0, BODY_SEQ) ? 0 : pg_rows(rows);
    const bool has_page = !pg_is_null(rows, 0, BODY_LAST);
    int row = 0;
    lane_batch_clear(&sender->batch);
    for (; row < count && row < room; row++) {
        const int64_t seq = pg_get_int(rows, row, BODY_SEQ);
        if (pg_is_null(rows, row, BODY_DOCUMENT)) {
            break;
        }
        if (seq > sender->watermark) {
            lane_batch_add(&sender->batch, seq, pg_get_uuid(rows, row, BODY_ID),
                pg_get_bytes(rows, row, BODY_TENANT),
                get_text(rows, row, BODY_TRACEPARENT),
                pg_get_bytes(rows, row, BODY_DOCUMENT));
        }
        taken->last = seq;
    }
    taken->count = row;
    if (row == count) {
        taken->last = has_page ? pg_get_int(rows, 0, BODY_LAST) : taken->last;
        taken->is_final =
            !has_page || pg_get_int(rows, 0, BODY_COUNT) < PAGE_ROWS;
    }
}

static int read_rows(struct replayer *replayer, const struct replay *replay,
    int64_t room, struct taken *taken, struct err *err)
{
    *taken = (struct taken){.last = replay->position};
    replayer_put_page(&replayer->params, replay, PAGE_ROWS);
    pg_param_int8(&replayer->params, (int64_t)(BATCH_BYTES - RECORD_BYTES));
    PGresult *rows = replayer_query(replayer, SQL_REPLAY_BODIES, err);
    if (rows == NULL) {
        return -1;
    }
    take_rows(replayer->sender, rows, room, taken);
    PQclear(rows);
    return 0;
}

static int publish(struct replay_sender *sender, int64_t last, struct err *err)
{
    if (sender->batch.count == 0) {
        return 0;
    }
    sender->batch.low = last;
    if (lane_publish(sender->lane, &sender->batch, err) != 0) {
        return -1;
    }
    sender->watermark = last;
    return 0;
}

/* The row is held while Kafka commits: after a pause nothing more is sent. */
static int send_and_move(struct replayer *replayer, const struct replay *replay,
    const struct taken *taken, struct err *err)
{
    const int held = replayer_grab(replayer, replay, err);
    if (held <= 0) {
        return held;
    }
    struct replay after = *replay;
    after.position = taken->last;
    after.published += taken->count;
    const bool is_full =
        replay->wish.max_rows != 0 && after.published >= replay->wish.max_rows;
    if (taken->is_final || is_full) {
        after.phase = REPLAY_ENDING;
    }
    if (publish(replayer->sender, taken->last, err) != 0 ||
        replayer_move(replayer, &after, err) != 0 ||
        replayer_commit(replayer, err) != 0) {
        return -1;
    }
    atomic_fetch_add(&replayer->meters->sent, taken->count);
    return 1;
}

enum replayer_word replayer_send(struct replayer *replayer,
    struct replay *replay, struct replay_pace *pace, struct err *err)
{
    struct taken taken;
    int64_t most = PAGE_ROWS;
    if (replay->wish.max_rows != 0 &&
        replay->wish.max_rows - replay->published < most) {
        most = replay->wish.max_rows - replay->published;
    }
    const int64_t room = replay_pace_room(pace, most, now_mono_us());
    if (room == 0) {
        return REPLAYER_IDLE;
    }
    if (open_sender(replayer, &replay->wish, err) != 0 ||
        read_rows(replayer, replay, room, &taken, err) != 0) {
        return REPLAYER_ERROR;
    }
    const int moved = send_and_move(replayer, replay, &taken, err);
    if (moved < 0) {
        /* In doubt: the next one fences this one and reads how far it was. */
        replayer_close_sender(replayer);
        return REPLAYER_ERROR;
    }
    replay_pace_take(pace, moved == 1 ? taken.count : 0);
    return moved == 1 ? REPLAYER_BUSY : REPLAYER_IDLE;
}
