/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/replay_door.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "producer/actions.h"
#include "producer/producer.h"
#include "schema/replay_sql.h"
#include "schema/sql_producer.h"

enum { LIST_DEFAULT = 50, LIST_MAX = 200 };

#define DOCUMENT_BYTES ((size_t)16 << 10)
#define DOMAIN_KEY SPAN_LIT("actionist id of replay key 1")

/* A POST on its way. */
struct asking {
    struct exchange *exchange;
    struct replay_request request;
};

static void free_asking(struct asking *asking)
{
    free(asking->request.ids);
    exchange_free(asking->exchange);
    free(asking);
}

/* -- answers ----------------------------------------------------------------------- */

static void refuse(struct exchange *exchange, enum code code, const char *why)
{
    struct fault fault = FAULT_INIT;
    (void)fault_set(&fault, code, "", why == NULL ? NULL : "%s", why);
    exchange_fault(exchange, &fault);
}

static void answer(
    struct exchange *exchange, unsigned status, const PGresult *rows)
{
    struct replay replay;
    struct buf body;
    replay_read(rows, 0, 0, &replay);
    buf_init(&body, DOCUMENT_BYTES);
    replay_put(&body, &replay);
    buf_put_char(&body, '\n');
    exchange_json(exchange, status, buf_span(&body));
    buf_fini(&body);
}

static void put_tenant(
    struct pg_params *params, const struct exchange *exchange)
{
    pg_param_text(params, span_of(exchange->tenant));
}

/* -- asking for one -------------------------------------------------------------------- */

static void on_created(void *arg, const struct pg_outcome *outcome)
{
    struct asking *asking = arg;
    struct exchange *exchange = asking->exchange;
    if (exchange->request != NULL && outcome->end != PG_DONE) {
        exchange_unavailable(exchange); /* in doubt as well */
    } else if (exchange->request != NULL) {
        const PGresult *made = outcome->results[outcome->result_count - 1];
        char location[sizeof(REPLAY_DOOR_PATH) + UUID_TEXT_SIZE];
        char id[UUID_TEXT_SIZE];
        if (pg_rows(made) == 0) {
            refuse(exchange, CODE_REPLAY_RUNS, NULL);
        } else {
            uuid_format(asking->request.wish.id, id);
            (void)snprintf(
                location, sizeof(location), "%s/%s", REPLAY_DOOR_PATH, id);
            http_reply_header(exchange->request, "Location", location);
            answer(exchange, 202, made);
        }
    }
    free_asking(asking);
}

static void put_ids(struct pg_params *params,
    const struct replay_request *request, int64_t from, int64_t count)
{
    pg_array_begin(params, PG_UUID);
    for (int64_t i = 0; i < count; i++) {
        pg_array_bytes(params,
            (struct span){(const char *)request->ids[from + i], UUID_SIZE});
    }
    pg_array_end(params);
}

static void step_ids(struct pg *pg, const struct replay_request *request,
    struct pg_params *params)
{
    for (int64_t from = 0; from < request->wish.id_count;
         from += REPLAY_PART_IDS) {
        const int64_t left = request->wish.id_count - from;
        pg_params_clear(params);
        pg_param_uuid(params, request->wish.id);
        pg_param_int4(params, (int32_t)(from / REPLAY_PART_IDS));
        put_ids(params, request, from,
            left < REPLAY_PART_IDS ? left : REPLAY_PART_IDS);
        pg_step(pg, SQL_RESERVE_REPLAY_IDS, params);
    }
}

/* One transaction: of two that name the same action one is refused. */
static void create(struct asking *asking)
{
    const struct replay_request *request = &asking->request;
    struct pg *pg = asking->exchange->producer->reserve_db;
    struct pg_params params;
    pg_params_init(&params);
    pg_begin(pg);
    put_tenant(&params, asking->exchange);
    pg_step(pg, SQL_RESERVE_REPLAY_LOCK, &params);
    pg_params_clear(&params);
    replay_put_wish(&params, &request->wish);
    put_ids(&params, request, 0,
        request->wish.is_dry_run ? 0 : request->wish.id_count);
    pg_step(pg, SQL_RESERVE_REPLAY_CREATE, &params);
    step_ids(pg, request, &params);
    pg_params_clear(&params);
    pg_param_uuid(&params, request->wish.id);
    put_tenant(&params, asking->exchange);
    pg_step(pg, SQL_RESERVE_REPLAY_GET, &params);
    pg_commit(pg, on_created, asking);
    pg_params_fini(&params);
}

/* -- whether what is named can run -------------------------------------------------------- */

static void refuse_named(struct exchange *exchange, const PGresult *rows)
{
    char why[128];
    if (pg_get_int(rows, 0, REPLAYABLE_KNOWN) == 0) {
        refuse(exchange, CODE_NOT_FOUND, NULL);
        return;
    }
    (void)snprintf(why, sizeof(why),
        "%lld are still under way, %lld have succeeded",
        (long long)pg_get_int(rows, 0, REPLAYABLE_OPEN),
        (long long)pg_get_int(rows, 0, REPLAYABLE_SUCCEEDED));
    refuse(exchange, CODE_REPLAY_REFUSED, why);
}

static void on_looked(void *arg, const struct pg_outcome *outcome)
{
    struct asking *asking = arg;
    struct exchange *exchange = asking->exchange;
    if (exchange->request != NULL && outcome->end == PG_DONE &&
        pg_get_int(outcome->results[0], 0, REPLAYABLE_COUNT) > 0) {
        create(asking);
        return;
    }
    if (exchange->request != NULL && outcome->end == PG_DONE) {
        refuse_named(exchange, outcome->results[0]);
    } else if (exchange->request != NULL) {
        exchange_unavailable(exchange);
    }
    free_asking(asking);
}

static void look_at_named(struct asking *asking)
{
    struct pg_params params;
    pg_params_init(&params);
    put_ids(&params, &asking->request, 0, asking->request.wish.id_count);
    put_tenant(&params, asking->exchange);
    pg_param_bool(&params, asking->request.wish.is_forced);
    pg_param_uuid(&params, asking->request.wish.id);
    pg_run(asking->exchange->producer->look_db, SQL_LOOK_REPLAYABLE, &params,
        on_looked, asking);
    pg_params_fini(&params);
}

/* -- the request ------------------------------------------------------------------------- */

/* A client that repeats its request by the same key gets the same replay. */
static int name_it(const struct exchange *exchange, struct replay_wish *wish,
    struct fault *fault)
{
    const char *key = http_header(exchange->request, "Idempotency-Key");
    uint8_t digest[SHA256_SIZE];
    if (key == NULL) {
        uuid_v7(wish->id);
        return 0;
    }
    if (!key_is_valid(span_of(key)) ||
        http_header_count(exchange->request, "Idempotency-Key") > 1) {
        return fault_set(fault, CODE_INVALID_KEY, "", NULL);
    }
    const struct span parts[] = {
        DOMAIN_KEY, span_of(exchange->tenant), span_of(key)};
    sha256_parts(parts, ARRAY_LEN(parts), digest);
    uuid_from_digest(digest, wish->id);
    return 0;
}

static int read_request(const struct exchange *exchange,
    struct replay_request *request, struct fault *fault)
{
    struct replay_wish *wish = &request->wish;
    wish->kind = REPLAY_ACTIONS;
    memcpy(wish->tenant, exchange->tenant, sizeof(wish->tenant));
    memcpy(wish->actor, "api", sizeof("api"));
    if (!actions_type_is_json(http_header(exchange->request, "Content-Type"))) {
        return fault_set(fault, CODE_UNSUPPORTED_MEDIA_TYPE, "", NULL);
    }
    if (name_it(exchange, wish, fault) != 0) {
        return -1;
    }
    return replay_door_parse(http_body(exchange->request), request, fault);
}

void replay_door_post(struct exchange *exchange)
{
    struct asking *asking = mem_zalloc(1, sizeof(*asking));
    struct fault fault = FAULT_INIT;
    asking->exchange = exchange;
    if (read_request(exchange, &asking->request, &fault) != 0) {
        exchange_fault(exchange, &fault);
        free_asking(asking);
    } else if (asking->request.wish.id_count > 0) {
        look_at_named(asking);
    } else {
        create(asking);
    }
}

/* -- one of them -------------------------------------------------------------------------- */

static bool take_id(struct exchange *exchange)
{
    const char *id = http_path(exchange->request) + sizeof(REPLAY_DOOR_PATH);
    const struct span text = {id, strcspn(id, "/")};
    if (uuid_parse(text, exchange->id)) {
        return true;
    }
    refuse(exchange, CODE_NOT_FOUND, NULL);
    exchange_free(exchange);
    return false;
}

static void on_got(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    if (exchange->request != NULL && outcome->end != PG_DONE) {
        exchange_unavailable(exchange);
    } else if (exchange->request != NULL) {
        const PGresult *rows = outcome->results[outcome->result_count - 1];
        if (pg_rows(rows) == 0) {
            refuse(exchange, CODE_NOT_FOUND, NULL);
        } else if (outcome->result_count == 2 &&
                   pg_rows(outcome->results[0]) == 0) {
            refuse(exchange, CODE_REPLAY_OVER, NULL);
        } else {
            answer(exchange, 200, rows);
        }
    }
    exchange_free(exchange);
}

void replay_door_get(struct exchange *exchange)
{
    struct pg_params params;
    if (!take_id(exchange)) {
        return;
    }
    pg_params_init(&params);
    pg_param_uuid(&params, exchange->id);
    put_tenant(&params, exchange);
    pg_run(exchange->producer->look_db, SQL_LOOK_REPLAY, &params, on_got,
        exchange);
    pg_params_fini(&params);
}

static void act(struct exchange *exchange, enum replay_act act)
{
    struct pg *pg = exchange->producer->reserve_db;
    struct pg_params params;
    if (!take_id(exchange)) {
        return;
    }
    pg_params_init(&params);
    pg_param_uuid(&params, exchange->id);
    put_tenant(&params, exchange);
    pg_begin(pg);
    pg_param_int4(&params, (int32_t)act);
    pg_param_text(&params, SPAN_LIT("api"));
    pg_step(pg, SQL_RESERVE_REPLAY_ACT, &params);
    pg_params_clear(&params);
    pg_param_uuid(&params, exchange->id);
    put_tenant(&params, exchange);
    pg_step(pg, SQL_RESERVE_REPLAY_GET, &params);
    pg_commit(pg, on_got, exchange);
    pg_params_fini(&params);
}

void replay_door_pause(struct exchange *exchange)
{
    act(exchange, REPLAY_PAUSE);
}

void replay_door_resume(struct exchange *exchange)
{
    act(exchange, REPLAY_RESUME);
}

void replay_door_cancel(struct exchange *exchange)
{
    act(exchange, REPLAY_CANCEL);
}

/* -- all of them -------------------------------------------------------------------------- */

static void answer_list(struct exchange *exchange, const PGresult *rows)
{
    struct replay replay;
    struct buf body;
    buf_init(&body, DOCUMENT_BYTES * LIST_MAX);
    buf_put_char(&body, '{');
    json_put_name(&body, "replays");
    buf_put_char(&body, '[');
    for (int row = 0; row < pg_rows(rows); row++) {
        buf_put_str(&body, row == 0 ? "" : ",");
        replay_read(rows, row, 0, &replay);
        replay_put(&body, &replay);
    }
    buf_put_str(&body, "]}\n");
    exchange_json(exchange, 200, buf_span(&body));
    buf_fini(&body);
}

static void on_listed(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    if (exchange->request != NULL && outcome->end == PG_DONE) {
        answer_list(exchange, outcome->results[0]);
    } else if (exchange->request != NULL) {
        exchange_unavailable(exchange);
    }
    exchange_free(exchange);
}

void replay_door_list(struct exchange *exchange)
{
    const char *limit = http_query(exchange->request, "limit");
    const char *after = http_query(exchange->request, "after");
    int64_t rows = LIST_DEFAULT;
    struct pg_params params;
    if ((limit != NULL && (!span_to_int(span_of(limit), &rows) || rows < 1 ||
                              rows > LIST_MAX)) ||
        (after != NULL && !uuid_parse(span_of(after), exchange->id))) {
        refuse(exchange, CODE_INVALID_MEMBER,
            "limit is a number from 1 to 200, after the id of a replay");
        exchange_free(exchange);
        return;
    }
    pg_params_init(&params);
    put_tenant(&params, exchange);
    if (after == NULL) {
        pg_param_null(&params);
    } else {
        pg_param_uuid(&params, exchange->id);
    }
    pg_param_int4(&params, (int32_t)rows);
    pg_run(exchange->producer->look_db, SQL_LOOK_REPLAYS, &params, on_listed,
        exchange);
    pg_params_fini(&params);
}
