/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/schedules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "producer/actions.h"
#include "producer/manifests.h"
#include "producer/producer.h"
#include "schema/schedule_rows.h"
#include "schema/sql_producer.h"

#define PATH "/v1/schedules/"
enum { TRIES = 3, LIST_ROWS = 50, LIST_MAX_ROWS = 100 };
#define LIST_MAX_BYTES (LIST_MAX_ROWS * SCHEDULE_VIEW_MAX_BYTES)

/* -- answers --------------------------------------------------------------- */

static void refuse(struct exchange *exchange, enum code code, const char *why)
{
    struct fault fault = FAULT_INIT;
    (void)fault_set(&fault, code, "", why == NULL ? NULL : "%s", why);
    exchange_fault(exchange, &fault);
    exchange_free(exchange);
}

static void answer_row(
    struct exchange *exchange, unsigned status, const PGresult *rows)
{
    struct buf body;
    buf_init(&body, SCHEDULE_VIEW_MAX_BYTES + 1);
    schedule_put_row(&body, rows, 0);
    buf_put_char(&body, '\n');
    exchange_json(exchange, status, buf_span(&body));
    buf_fini(&body);
    exchange_free(exchange);
}

/* False: it was answered, or nobody waits any more, and the exchange is gone.
 * In doubt as well: a repeat finds out. */
static bool takes(struct exchange *exchange, const struct pg_outcome *outcome)
{
    if (exchange->request != NULL && outcome->end == PG_DONE) {
        return true;
    }
    if (exchange->request != NULL) {
        exchange_unavailable(exchange);
    }
    exchange_free(exchange);
    return false;
}

/* Somebody else was faster; after some tries it is left to the caller. */
static bool may_try_again(struct exchange *exchange)
{
    if (++exchange->tries < TRIES && !exchange->producer->is_closing) {
        return true;
    }
    exchange_unavailable(exchange);
    exchange_free(exchange);
    return false;
}

/* -- POST ------------------------------------------------------------------ */

static void prepare(struct exchange *exchange);

static void on_added(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    char location[sizeof(PATH) + UUID_TEXT_SIZE];
    char id[UUID_TEXT_SIZE];
    if (!takes(exchange, outcome)) {
        return;
    }
    const PGresult *rows = outcome->results[0];
    if (pg_rows(rows) == 0) {
        if (may_try_again(exchange)) {
            prepare(exchange);
        }
        return;
    }
    uuid_format(pg_get_uuid(rows, 0, SCHEDULE_ID), id);
    (void)snprintf(location, sizeof(location), PATH "%s", id);
    http_reply_header(exchange->request, "Location", location);
    answer_row(exchange, 201, rows);
}

static void add(struct exchange *exchange, const struct schedule *schedule,
    int64_t next_us, int64_t now_us)
{
    struct pg_params params;
    uint8_t id[UUID_SIZE];
    uuid_v7(id);
    pg_params_init(&params);
    pg_param_uuid(&params, id);
    pg_param_text(&params, span_of(exchange->tenant));
    pg_param_text(&params, span_of(schedule->name));
    pg_param_bytea(&params, http_body(exchange->request));
    pg_param_time(&params, next_us);
    pg_param_time(&params, now_us);
    pg_param_text(&params, SPAN_LIT("api"));
    pg_run(exchange->producer->reserve_db, SQL_RESERVE_SCHEDULE_ADD, &params,
        on_added, exchange);
    pg_params_fini(&params);
}

/* When it fires first. False: it was refused. */
static bool find_first(struct exchange *exchange, struct schedule *schedule,
    int64_t now_us, int64_t *next_us)
{
    struct fault fault = FAULT_INIT;
    struct zone *zone = NULL;
    if (schedule->kind == SCHEDULE_EVERY && !schedule->has_start) {
        schedule->start_us = now_us;
    }
    if (schedule_open_zone(schedule, &zone, &fault) == 0 &&
        !schedule_next(schedule, zone, now_us, next_us)) {
        (void)fault_set(&fault, CODE_INVALID_TIME,
            schedule->kind == SCHEDULE_ONCE ? "/at" : "",
            "that time has passed"); /* always -1 */
    }
    zone_free(zone);
    if (fault.code == CODE_NONE) {
        return true;
    }
    exchange_fault(exchange, &fault);
    exchange_free(exchange);
    return false;
}

static void on_prepared(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    struct schedule schedule;
    struct fault fault = FAULT_INIT;
    int64_t next_us = 0;
    if (!takes(exchange, outcome)) {
        return;
    }
    const PGresult *rows = outcome->results[0];
    const int64_t now_us = pg_get_time(rows, 0, SCHEDULE_NOW);
    const struct span body = http_body(exchange->request);
    if (!pg_is_null(rows, 0, SCHEDULE_ID)) {
        if (schedule_row_is(rows, 0, body)) {
            answer_row(exchange, 200, rows);
        } else {
            refuse(exchange, CODE_CONFLICT,
                "there is another schedule of that name; remove it first");
        }
    } else if (pg_get_int(rows, 0, SCHEDULE_COUNT) >= SCHEDULE_MAX_COUNT) {
        refuse(exchange, CODE_CONFLICT,
            "this tenant has as many schedules as it may have");
    } else if (schedule_parse(body, exchange->tenant, &schedule, &fault) != 0) {
        exchange_fault(exchange, &fault);
        exchange_free(exchange);
    } else if (find_first(exchange, &schedule, now_us, &next_us)) {
        add(exchange, &schedule, next_us, now_us);
    }
}

static void prepare(struct exchange *exchange)
{
    struct pg_params params;
    struct json_value root;
    struct json_value name;
    struct buf text;
    struct err err = ERR_INIT;
    buf_init(&text, RECORD_MAX_NAME + 1);
    /* It was parsed before. */
    if (json_parse(http_body(exchange->request), RECORD_PAYLOAD_DEPTH + 2,
            &root, &err) == 0 &&
        json_find(root, "name", &name)) {
        json_decode(name, &text);
    }
    pg_params_init(&params);
    pg_param_text(&params, span_of(exchange->tenant));
    pg_param_text(&params, buf_span(&text));
    pg_run(exchange->producer->look_db, SQL_LOOK_SCHEDULE_PREPARE, &params,
        on_prepared, exchange);
    pg_params_fini(&params);
    buf_fini(&text);
}

/* The request of a tick, to be judged like any other. */
static int put_record(struct exchange *exchange,
    const struct schedule *schedule, struct fault *fault)
{
    static const uint8_t id[UUID_SIZE] = {0};
    const struct record_source source = {.door = RECORD_DOOR_HTTP,
        .tenant = span_of(exchange->tenant),
        .has_tenant = true};
    struct buf text;
    size_t len = 0;
    buf_init(&text, RECORD_MAX_BYTES);
    schedule_put_record(&text, schedule, exchange->tenant, id, US_PER_S);
    exchange->text = buf_take(&text, &len);
    exchange->pointer_base = "/request";
    return record_parse((struct span){exchange->text, len}, &source,
               &exchange->record, fault) == RECORD_OK
               ? 0
               : -1;
}

static int judge(struct exchange *exchange, struct fault *fault)
{
    struct schedule schedule;
    struct zone *zone = NULL;
    if (!actions_type_is_json(http_header(exchange->request, "Content-Type"))) {
        return fault_set(fault, CODE_UNSUPPORTED_MEDIA_TYPE, "", NULL);
    }
    if (schedule_parse(http_body(exchange->request), exchange->tenant,
            &schedule, fault) != 0 ||
        schedule_open_zone(&schedule, &zone, fault) != 0) {
        return -1;
    }
    zone_free(zone);
    return put_record(exchange, &schedule, fault);
}

static void on_judged(struct exchange *exchange)
{
    exchange->pointer_base = NULL;
    prepare(exchange);
}

void schedules_post(struct exchange *exchange)
{
    struct fault fault = FAULT_INIT;
    if (judge(exchange, &fault) != 0) {
        exchange_fault(exchange, &fault);
        exchange_free(exchange);
        return;
    }
    manifests_judge(exchange, on_judged);
}

/* -- GET of all ------------------------------------------------------------ */

static void on_listed(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    struct buf body;
    if (!takes(exchange, outcome)) {
        return;
    }
    const PGresult *rows = outcome->results[0];
    const int count = pg_rows(rows);
    buf_init(&body, LIST_MAX_BYTES);
    buf_put_str(&body, "{\"schedules\":[");
    for (int row = 0; row < count; row++) {
        buf_put_str(&body, row > 0 ? "," : "");
        schedule_put_row(&body, rows, row);
    }
    buf_put_str(&body, "],\"after\":");
    if (count < exchange->limit) {
        buf_put_str(&body, "null");
    } else {
        json_put_string(&body, pg_get_bytes(rows, count - 1, SCHEDULE_NAME));
    }
    buf_put_str(&body, "}\n");
    exchange_json(exchange, 200, buf_span(&body));
    buf_fini(&body);
    exchange_free(exchange);
}

void schedules_list(struct exchange *exchange)
{
    const char *limit = http_query(exchange->request, "limit");
    const char *after = http_query(exchange->request, "after");
    int64_t rows = LIST_ROWS;
    struct pg_params params;
    if (limit != NULL && (!span_to_int(span_of(limit), &rows) || rows < 1 ||
                             rows > LIST_MAX_ROWS)) {
        refuse(exchange, CODE_INVALID_MEMBER,
            "limit must be a number from 1 to 100");
        return;
    }
    exchange->limit = (int)rows;
    pg_params_init(&params);
    pg_param_text(&params, span_of(exchange->tenant));
    pg_param_text(&params, span_of(exchange->tenant));
    pg_param_text(&params, span_of(after == NULL ? "" : after));
    pg_param_int4(&params, (int32_t)rows);
    pg_run(exchange->producer->look_db, SQL_LOOK_SCHEDULE_LIST, &params,
        on_listed, exchange);
    pg_params_fini(&params);
}

/* -- one of them ----------------------------------------------------------- */

/* Reads it; what follows is for the callback. */
static void look(struct exchange *exchange, pg_done_fn done)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, exchange->id);
    pg_param_text(&params, span_of(exchange->tenant));
    pg_param_null(&params);
    pg_run(exchange->producer->look_db, SQL_LOOK_SCHEDULE_GET, &params, done,
        exchange);
    pg_params_fini(&params);
}

/* False: it was answered with 404. */
static bool take_id(struct exchange *exchange)
{
    const char *id = http_path(exchange->request) + strlen(PATH);
    if (!uuid_parse((struct span){id, strcspn(id, "/")}, exchange->id)) {
        refuse(exchange, CODE_NOT_FOUND, NULL);
        return false;
    }
    return true;
}

static void on_got(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    if (!takes(exchange, outcome)) {
        return;
    }
    if (pg_rows(outcome->results[0]) == 0) {
        refuse(exchange, CODE_NOT_FOUND, NULL);
    } else {
        answer_row(exchange, 200, outcome->results[0]);
    }
}

void schedules_get(struct exchange *exchange)
{
    if (take_id(exchange)) {
        look(exchange, on_got);
    }
}

static void on_deleted(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    if (!takes(exchange, outcome)) {
        return;
    }
    if (pg_rows(outcome->results[0]) == 0) {
        refuse(exchange, CODE_NOT_FOUND, NULL);
        return;
    }
    exchange_answer(exchange, 204, "application/json", SPAN_LIT(""));
    exchange_free(exchange);
}

void schedules_delete(struct exchange *exchange)
{
    struct pg_params params;
    if (!take_id(exchange)) {
        return;
    }
    pg_params_init(&params);
    pg_param_uuid(&params, exchange->id);
    pg_param_text(&params, span_of(exchange->tenant));
    pg_param_text(&params, SPAN_LIT("api"));
    pg_run(exchange->producer->reserve_db, SQL_RESERVE_SCHEDULE_REMOVE, &params,
        on_deleted, exchange);
    pg_params_fini(&params);
}

/* -- pause, resume --------------------------------------------------------- */

static void on_looked(void *arg, const struct pg_outcome *outcome);

static void on_switched(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    if (!takes(exchange, outcome)) {
        return;
    }
    if (pg_rows(outcome->results[0]) > 0) {
        answer_row(exchange, 200, outcome->results[0]);
    } else if (may_try_again(exchange)) {
        look(exchange, on_looked);
    }
}

static void switch_to(struct exchange *exchange, enum schedule_state from,
    enum schedule_state to, int64_t next_us)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, exchange->id);
    pg_param_text(&params, span_of(exchange->tenant));
    pg_param_int2(&params, (int16_t)from);
    pg_param_int2(&params, (int16_t)to);
    if (to == SCHEDULE_ACTIVE) {
        pg_param_time(&params, next_us);
    } else {
        pg_param_null(&params);
    }
    pg_param_text(&params, SPAN_LIT("api"));
    pg_param_text(&params, to == SCHEDULE_ACTIVE ? SPAN_LIT("schedule.resume")
                                                 : SPAN_LIT("schedule.pause"));
    pg_run(exchange->producer->reserve_db, SQL_RESERVE_SCHEDULE_SWITCH, &params,
        on_switched, exchange);
    pg_params_fini(&params);
}

static void on_looked(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    struct fault fault = FAULT_INIT;
    int64_t next_us = 0;
    if (!takes(exchange, outcome)) {
        return;
    }
    const PGresult *rows = outcome->results[0];
    if (pg_rows(rows) == 0) {
        refuse(exchange, CODE_NOT_FOUND, NULL);
        return;
    }
    const enum schedule_state state =
        (enum schedule_state)pg_get_int(rows, 0, SCHEDULE_STATE);
    if (state == exchange->wanted) {
        answer_row(exchange, 200, rows);
    } else if (state == SCHEDULE_DONE) {
        refuse(exchange, CODE_CONFLICT, "it is done: no tick is left");
    } else if (exchange->wanted == SCHEDULE_ACTIVE &&
               schedule_row_resume(rows, 0, &next_us, &fault) != 0) {
        exchange_fault(exchange, &fault);
        exchange_free(exchange);
    } else {
        switch_to(exchange, state, exchange->wanted, next_us);
    }
}

void schedules_pause(struct exchange *exchange)
{
    exchange->wanted = SCHEDULE_PAUSED;
    if (take_id(exchange)) {
        look(exchange, on_looked);
    }
}

void schedules_resume(struct exchange *exchange)
{
    exchange->wanted = SCHEDULE_ACTIVE;
    if (take_id(exchange)) {
        look(exchange, on_looked);
    }
}
