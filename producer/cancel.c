/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/cancel.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "producer/producer.h"
#include "schema/cancel.h"
#include "schema/sql_producer.h"

#define PATH "/v1/actions/"

struct cancel {
    struct producer *producer;
    char topic[256];
    struct pg_params params;
};

struct cancel *cancel_open(struct producer *producer)
{
    struct cancel *cancel = mem_zalloc(1, sizeof(*cancel));
    cancel->producer = producer;
    kafka_topic_name(producer->conf, "control", cancel->topic);
    pg_params_init(&cancel->params);
    return cancel;
}

void cancel_close(struct cancel *cancel)
{
    if (cancel != NULL) {
        pg_params_fini(&cancel->params);
        free(cancel);
    }
}

/* -- the signal ------------------------------------------------------------------ */

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    (void)arg;
    (void)partition;
    (void)offset;
    if (delivery != KAFKA_DELIVERED) {
        LOG(WARN, "signal_lost", (&(struct log_fields){.err = err}),
            "the cancel stands; the worker sees it a little later");
    }
}

/* Only a hint: what is queued in a worker then ends at once. */
static void tell_workers(struct cancel *cancel, const char *id)
{
    struct err err = ERR_INIT;
    struct buf key;
    buf_init(&key, 64);
    buf_printf(&key, "cancel:%s", id);
    if (kafka_produce(cancel->producer->kafka, cancel->topic, -1,
            buf_span(&key), SPAN_LIT("{}"), NULL, 0, on_delivered, NULL,
            &err) != 0) {
        on_delivered(NULL, KAFKA_NOT_DELIVERED, -1, -1, &err);
    }
    buf_fini(&key);
}

/* -- the answer -------------------------------------------------------------------- */

static void answer(
    struct exchange *exchange, unsigned status, const char *state)
{
    struct buf body;
    buf_init(&body, 1024);
    buf_put_char(&body, '{');
    json_put_name(&body, "id");
    json_put_cstring(&body, exchange->id_text);
    json_put_name(&body, "tenant");
    json_put_cstring(&body, exchange->tenant);
    json_put_name(&body, "state");
    json_put_cstring(&body, state);
    buf_put_str(&body, "}\n");
    exchange_json(exchange, status, buf_span(&body));
    buf_fini(&body);
    exchange_free(exchange);
}

static void refuse(struct exchange *exchange, enum code code, const char *why)
{
    struct fault fault = FAULT_INIT;
    (void)fault_set(&fault, code, "", why == NULL ? NULL : "%s", why);
    exchange_fault(exchange, &fault);
    exchange_free(exchange);
}

static void refuse_ended(struct exchange *exchange, enum status status)
{
    struct fault fault = FAULT_INIT;
    (void)fault_set(&fault, CODE_ALREADY_FINISHED, "",
        "the action has ended already: %s", status_name(status));
    exchange_fault(exchange, &fault);
    exchange_free(exchange);
}

static struct cancel_row read_row(
    const struct exchange *exchange, const PGresult *rows)
{
    const struct span tenant = pg_is_null(rows, 0, CANCEL_TENANT)
                                   ? (struct span){NULL, 0}
                                   : pg_get_bytes(rows, 0, CANCEL_TENANT);
    return (struct cancel_row){
        .is_known = span_is(tenant, exchange->tenant),
        .is_taken = pg_get_bool(rows, 0, CANCEL_IS_TAKEN),
        .is_marked = pg_get_bool(rows, 0, CANCEL_IS_MARKED),
        .is_open = pg_get_bool(rows, 0, CANCEL_IS_OPEN),
        .status = pg_is_null(rows, 0, CANCEL_STATUS)
                      ? (enum status)0
                      : (enum status)pg_get_int(rows, 0, CANCEL_STATUS),
    };
}

static void ask(struct exchange *exchange);

static bool may_ask_again(struct exchange *exchange)
{
    return ++exchange->tries < CANCEL_TRIES && !exchange->producer->is_closing;
}

static void take_row(struct exchange *exchange, const PGresult *rows)
{
    const struct cancel_row row = read_row(exchange, rows);
    switch (cancel_judge(&row)) {
    case CANCEL_UNDER_WAY:
        if (row.is_taken) {
            tell_workers(exchange->producer->cancel, exchange->id_text);
        }
        answer(exchange, 202, "cancelling");
        return;
    case CANCEL_DONE:
        answer(exchange, 200, "cancelled");
        return;
    case CANCEL_TOO_LATE:
        refuse_ended(exchange, row.status);
        return;
    case CANCEL_AGAIN:
        if (may_ask_again(exchange)) {
            ask(exchange);
            return;
        }
        refuse(exchange, CODE_UNAVAILABLE, NULL);
        return;
    case CANCEL_NOT_YET:
        refuse(exchange, CODE_UNAVAILABLE,
            "the action is accepted, but no worker has it yet; repeat the "
            "cancel later");
        return;
    case CANCEL_UNKNOWN:
    default:
        refuse(exchange, CODE_NOT_FOUND, NULL);
        return;
    }
}

/* -- the request ------------------------------------------------------------------- */

static void on_done(void *arg, const struct pg_outcome *outcome)
{
    struct exchange *exchange = arg;
    if (exchange->request == NULL) {
        exchange_free(exchange);
    } else if (outcome->end == PG_DONE) {
        take_row(exchange, outcome->results[0]);
    } else if (pg_was_rolled_back(outcome) && may_ask_again(exchange)) {
        ask(exchange);
    } else {
        /* In doubt as well: a repeat finds out. */
        exchange_unavailable(exchange);
        exchange_free(exchange);
    }
}

static void ask(struct exchange *exchange)
{
    struct cancel *cancel = exchange->producer->cancel;
    pg_params_clear(&cancel->params);
    pg_array_begin(&cancel->params, PG_UUID);
    pg_array_bytes(
        &cancel->params, (struct span){(const char *)exchange->id, UUID_SIZE});
    pg_array_end(&cancel->params);
    pg_param_text(&cancel->params, span_of(exchange->tenant));
    pg_param_bytea(&cancel->params, SPAN_LIT("{}"));
    pg_param_text(&cancel->params, SPAN_LIT("api"));
    pg_run(exchange->producer->reserve_db, SQL_RESERVE_CANCEL, &cancel->params,
        on_done, exchange);
}

void cancel_post(struct exchange *exchange)
{
    const char *id = http_path(exchange->request) + strlen(PATH);
    const struct span text = {id, strcspn(id, "/")};
    if (!uuid_parse(text, exchange->id)) {
        refuse(exchange, CODE_NOT_FOUND, NULL);
        return;
    }
    uuid_format(exchange->id, exchange->id_text);
    ask(exchange);
}
