/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook replay: puts captured deliveries on the topic again, with their exact
 * bytes, their verdict and their id, marked `replay_of`. So one that became no
 * action is mapped as its source is mapped now, and consumers that lost theirs
 * get it again. One that is an action already is that action: if it ended
 * without success, it runs again as `actionist replay` runs it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/kafka.h"
#include "scheduler/ctl/replay.h"
#include "scheduler/ctl/webhook_find.h"
#include "scheduler/ctl/webhook_verbs.h"
#include "schema/sql_ctl.h"

#define MAX_LIMIT INT64_C(1000000)
#define MAX_REASON 500
#define WAIT_MS 10000

/* What is to be done with one. */
enum choice {
    CHOICE_PUT,
    CHOICE_IS_ACTION, /* an action that has begun, waits or succeeded */
    CHOICE_HAS_ENDED, /* an action that ended otherwise */
    CHOICE_EVIDENCE,  /* its signature was wrong */
    CHOICE_CONFLICT,  /* of another one; runs only if named by id */
    CHOICE_DISABLED,  /* its source */
    CHOICE_REPLAY,    /* it was put there by a replay itself */
    CHOICE_COUNT
};

static const char *const CHOICES[] = {
    [CHOICE_PUT] = "put",
    [CHOICE_IS_ACTION] = "is_action",
    [CHOICE_HAS_ENDED] = "has_ended",
    [CHOICE_EVIDENCE] = "evidence",
    [CHOICE_CONFLICT] = "conflict",
    [CHOICE_DISABLED] = "disabled",
    [CHOICE_REPLAY] = "replay",
};

static const char *const WHY[] = {
    [CHOICE_PUT] = "",
    [CHOICE_IS_ACTION] = "its action has succeeded or is under way",
    [CHOICE_HAS_ENDED] = ("its action has ended; `actionist replay --source` "
                          "runs all of these again"),
    [CHOICE_EVIDENCE] =
        "its signature was wrong: it is evidence and never runs",
    [CHOICE_CONFLICT] =
        "it contradicts another delivery; name it by id if it should run",
    [CHOICE_DISABLED] = "its source is disabled",
    [CHOICE_REPLAY] = "it was put there by a replay",
};

struct replaying {
    struct ctl *ctl;
    PGconn *conn;
    const char *reason;
    bool is_dry_run;
    struct loop loop;
    struct kafka_producer *producer;
    char topic[256];
    struct buf text;
    bool is_delivered;
    struct err err;
    int64_t counts[CHOICE_COUNT];
};

/* -- one delivery ---------------------------------------------------------------------- */

static enum choice choose(const PGresult *rows, int row, bool is_named)
{
    int64_t verdict = pg_get_int(rows, row, CTL_SHOWN_VERDICT);
    if (verdict == WEBHOOK_REJECTED)
        return CHOICE_EVIDENCE;
    if (verdict == WEBHOOK_CONFLICT && !is_named)
        return CHOICE_CONFLICT;
    if (pg_get_bool(rows, row, CTL_SHOWN_IS_DISABLED))
        return CHOICE_DISABLED;
    if (pg_is_null(rows, row, CTL_SHOWN_STATUS))
        return CHOICE_PUT;
    int64_t status = pg_get_int(rows, row, CTL_SHOWN_STATUS);
    return status == 0 || status == STATUS_SUCCEEDED ? CHOICE_IS_ACTION
                                                     : CHOICE_HAS_ENDED;
}

static void put_document(struct buf *out, const PGresult *rows, int row)
{
    struct span headers = pg_get_bytes(rows, row, CTL_SHOWN_HEADERS);
    char *scheme = span_dup(pg_get_bytes(rows, row, CTL_SHOWN_SCHEME));
    char *method = span_dup(pg_get_bytes(rows, row, CTL_SHOWN_METHOD));
    struct webhook webhook = {
        .tenant = pg_get_bytes(rows, row, CTL_SHOWN_TENANT),
        .source = pg_get_bytes(rows, row, CTL_SHOWN_SOURCE),
        .received_us = pg_get_time(rows, row, CTL_SHOWN_AT),
        .verdict =
            (enum webhook_verdict)pg_get_int(rows, row, CTL_SHOWN_VERDICT),
        .reason = "",
        .scheme = scheme,
        .method = method,
        .headers = {headers.ptr + 1, headers.len - 2},
        .body = pg_get_bytes(rows, row, CTL_SHOWN_BODY),
        .replay_of = pg_get_uuid(rows, row, CTL_SHOWN_ID),
    };
    memcpy(webhook.id, webhook.replay_of, UUID_SIZE);
    if (!pg_is_null(rows, row, CTL_SHOWN_SENDER_ID))
        webhook.sender_id = pg_get_bytes(rows, row, CTL_SHOWN_SENDER_ID);
    if (!pg_is_null(rows, row, CTL_SHOWN_SECRET_NO))
        webhook.secret_no = (int)pg_get_int(rows, row, CTL_SHOWN_SECRET_NO);
    buf_clear(out);
    webhook_put(out, &webhook);
    free(scheme);
    free(method);
}

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    struct replaying *replaying = arg;
    (void)partition;
    (void)offset;
    replaying->is_delivered = delivery == KAFKA_DELIVERED;
    if (!replaying->is_delivered)
        replaying->err = *err;
    loop_end(&replaying->loop);
}

/* Noted before it is done: what is in the ledger and not on the topic was
 * broken off, and may be said again. */
static int note(struct replaying *replaying, const PGresult *rows, int row)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, pg_get_uuid(rows, row, CTL_SHOWN_ID));
    pg_param_text(&params, pg_get_bytes(rows, row, CTL_SHOWN_TENANT));
    ctl_put_actor(&params);
    if (replaying->reason != NULL)
        pg_param_text(&params, span_of(replaying->reason));
    else
        pg_param_null(&params);
    PGresult *result =
        ctl_query(replaying->conn, SQL_CTL_DELIVERY_NOTE, &params, &code);
    PQclear(result);
    pg_params_fini(&params);
    return code;
}

/* Waits for Kafka's word on it. */
static int put(struct replaying *replaying, const PGresult *rows, int row)
{
    int code = note(replaying, rows, row);
    if (code != CTL_DONE)
        return code;
    put_document(&replaying->text, rows, row);
    replaying->is_delivered = false;
    if (kafka_produce(replaying->producer, replaying->topic, -1,
            pg_get_bytes(rows, row, CTL_SHOWN_TENANT),
            buf_span(&replaying->text), NULL, 0, on_delivered, replaying,
            &replaying->err) != 0)
        return ctl_fail_err(&replaying->err);
    loop_run(&replaying->loop);
    return replaying->is_delivered ? CTL_DONE : ctl_fail_err(&replaying->err);
}

static int open_kafka(struct replaying *replaying)
{
    struct err err = ERR_INIT;
    kafka_topic_name(replaying->ctl->conf, "webhooks", replaying->topic);
    const char *topics[] = {replaying->topic};
    if (kafka_check_topics(replaying->ctl->conf, topics, 1, NULL, &err) == 0)
        replaying->producer = kafka_producer_open(
            &replaying->loop, replaying->ctl->conf, 0, &err);
    if (replaying->producer != NULL)
        return CTL_DONE;
    return ctl_fail(
        strcmp(err.code, "KAFKA_UNREACHABLE") == 0 ? CTL_TRY_LATER : CTL_FAILED,
        "%s", err.msg);
}

static int do_one(
    struct replaying *replaying, const PGresult *rows, int row, bool is_named)
{
    const enum choice choice = choose(rows, row, is_named);
    int code = CTL_DONE;
    if (choice == CHOICE_PUT && !replaying->is_dry_run) {
        if (replaying->producer == NULL)
            code = open_kafka(replaying);
        if (code == CTL_DONE)
            code = put(replaying, rows, row);
    }
    if (code == CTL_DONE)
        replaying->counts[choice]++;
    return code;
}

static void tell(const struct replaying *replaying)
{
    static const char *const columns[] = {"what", "deliveries_count", "why"};
    struct ctl_table *table =
        ctl_table_new(replaying->ctl, columns, ARRAY_LEN(columns));
    for (int i = 0; i < CHOICE_COUNT; i++) {
        char count[24];
        snprintf(count, sizeof count, "%" PRId64, replaying->counts[i]);
        if (replaying->counts[i] > 0 || i == CHOICE_PUT)
            ctl_table_add(
                table, (const char *[]){i == CHOICE_PUT && replaying->is_dry_run
                                            ? "would_put"
                                            : CHOICES[i],
                           count, WHY[i]});
    }
    ctl_table_end(table);
}

/* Of an ended action: a replay of its own, which tells by itself. */
static int run_action(const struct replaying *replaying, const PGresult *rows)
{
    char id[UUID_TEXT_SIZE];
    char *tenant = span_dup(pg_get_bytes(rows, 0, CTL_SHOWN_TENANT));
    uuid_format(pg_get_uuid(rows, 0, CTL_SHOWN_ID), id);
    const char *const ids[] = {id};
    const struct replay_words words = {.tenant = tenant,
        .reason = replaying->reason,
        .is_dry_run = replaying->is_dry_run,
        .ids = ids,
        .id_count = 1};
    int code = replay_start(replaying->ctl, &words);
    free(tenant);
    return code;
}

/* -- those that are meant -------------------------------------------------------------- */

static int do_named(struct replaying *replaying, const char *tenant,
    const uint8_t id[UUID_SIZE])
{
    int code = CTL_DONE;
    PGresult *rows = webhook_load(replaying->conn, tenant, id, &code);
    if (rows == NULL)
        return code;
    const enum choice choice = choose(rows, 0, true);
    if (choice == CHOICE_HAS_ENDED)
        code = run_action(replaying, rows);
    else if (choice == CHOICE_PUT || choice == CHOICE_IS_ACTION)
        code = do_one(replaying, rows, 0, true);
    else
        code = ctl_fail(CTL_CONFLICT, "%s", WHY[choice]);
    if (choice != CHOICE_HAS_ENDED && code == CTL_DONE)
        tell(replaying);
    PQclear(rows);
    return code;
}

static int do_listed(
    struct replaying *replaying, const PGresult *listed, int row)
{
    int code = CTL_DONE;
    if (pg_get_bool(listed, row, CTL_DELIVERY_IS_REPLAY)) {
        replaying->counts[CHOICE_REPLAY]++;
        return CTL_DONE;
    }
    PGresult *rows = webhook_load(replaying->conn, NULL,
        pg_get_uuid(listed, row, CTL_DELIVERY_ID), &code);
    int at = 0;
    while (rows != NULL && at < pg_rows(rows) - 1 &&
           (pg_get_int(rows, at, CTL_SHOWN_PARTITION) !=
                   pg_get_int(listed, row, CTL_DELIVERY_PARTITION) ||
               pg_get_int(rows, at, CTL_SHOWN_OFFSET) !=
                   pg_get_int(listed, row, CTL_DELIVERY_OFFSET)))
        at++;
    if (rows != NULL)
        code = do_one(replaying, rows, at, false);
    PQclear(rows);
    return code;
}

/* Page by page from the newest; what is put has the time of its first, so it
 * is told by its mark. */
static int do_all(struct replaying *replaying, struct webhook_filter *filter)
{
    int code = CTL_DONE;
    int64_t left = filter->limit;
    int count = WEBHOOK_PAGE;
    while (code == CTL_DONE && left > 0 && count == WEBHOOK_PAGE) {
        filter->limit = left;
        PGresult *rows = webhook_find(replaying->conn, filter, &code);
        count = rows == NULL ? 0 : pg_rows(rows);
        for (int row = 0; row < count && code == CTL_DONE; row++)
            code = do_listed(replaying, rows, row);
        if (count > 0)
            webhook_place_of(rows, count - 1, &filter->before);
        left -= count;
        PQclear(rows);
    }
    return code;
}

/* -- the command ----------------------------------------------------------------------- */

static int replay(struct replaying *replaying, const char *id_text,
    const struct webhook_words *words)
{
    struct webhook_filter filter = {.limit = MAX_LIMIT};
    uint8_t id[UUID_SIZE];
    int code = CTL_DONE;
    if (id_text != NULL && !uuid_parse(span_of(id_text), id))
        return ctl_fail(CTL_USAGE, "'%s' is not the id of a delivery", id_text);
    if (id_text == NULL)
        code = webhook_filter_read(words, MAX_LIMIT, &filter);
    if (code == CTL_DONE)
        replaying->conn = ctl_connect(replaying->ctl, &code);
    if (replaying->conn == NULL)
        return code;
    loop_init(&replaying->loop, NULL, NULL);
    buf_init(&replaying->text, WEBHOOK_MAX_RECORD);
    code = id_text != NULL ? do_named(replaying, words->tenant, id)
                           : do_all(replaying, &filter);
    kafka_producer_close(replaying->producer, WAIT_MS);
    loop_fini(&replaying->loop);
    buf_fini(&replaying->text);
    PQfinish(replaying->conn);
    if (id_text == NULL)
        tell(replaying);
    return code;
}

static const struct command COMMAND_WEBHOOK_REPLAY = {
    .name = "webhook replay",
    .arguments = "[ID]",
    .summary = "Put a captured delivery, or all that match, on the topic again",
    .details =
        "With its exact bytes, verdict and id, marked replay_of: if it became "
        "no action,\nits source's mapping of now is applied; consumers of the "
        "topic get it again.\nOne that is an action already is left out; if "
        "its "
        "id is given and it ended\nwithout success, it runs again as "
        "`actionist "
        "replay ID` would run it.\nBroken off, it may be said again.",
};

int webhook_replay_run(struct ctl *ctl, int argc, char **argv)
{
    struct webhook_words words = {.tenant = NULL};
    struct replaying replaying = {.ctl = ctl, .err = ERR_INIT};
    const struct ctl_option options[] = {
        WEBHOOK_FIND_OPTIONS(words),
        {"limit", "N", "so many at most", &words.limit, NULL},
        {"reason", "TEXT", "for the ledger", &replaying.reason, NULL},
        {"dry-run", NULL, "count alone", NULL, &replaying.is_dry_run},
    };
    const char *rest[2] = {NULL, NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_WEBHOOK_REPLAY, options, ARRAY_LEN(options),
            argc, argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    if (replaying.reason != NULL && strlen(replaying.reason) > MAX_REASON)
        return ctl_fail(CTL_USAGE, "--reason has at most %d bytes", MAX_REASON);
    return replay(&replaying, rest[1], &words);
}
