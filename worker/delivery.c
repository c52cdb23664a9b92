/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "schema/sql_worker.h"

enum { MAX_ERROR = 2048 };

/* -- lists ----------------------------------------------------------------- */

void delivery_list_push(struct delivery_list *list, struct delivery *delivery)
{
    delivery->next = NULL;
    *(list->tail == NULL ? &list->head : &list->tail->next) = delivery;
    list->tail = delivery;
    list->count++;
}

void delivery_list_push_front(
    struct delivery_list *list, struct delivery *delivery)
{
    delivery->next = list->head;
    list->head = delivery;
    if (list->tail == NULL) {
        list->tail = delivery;
    }
    list->count++;
}

struct delivery *delivery_list_pop(struct delivery_list *list)
{
    struct delivery *delivery = list->head;
    if (delivery == NULL) {
        return NULL;
    }
    list->head = delivery->next;
    if (list->head == NULL) {
        list->tail = NULL;
    }
    list->count--;
    delivery->next = NULL;
    return delivery;
}

/* -- memory ---------------------------------------------------------------- */

struct delivery *delivery_new(struct jobs *jobs, const char *topic,
    const struct kafka_record *record, struct fault *fault)
{
    struct delivery *delivery = mem_zalloc(1, sizeof(*delivery));
    struct span text = record->value;
    buf_init(&delivery->type, WEBHOOK_MAX_TYPE);
    if (text.ptr != NULL) {
        delivery->text = span_dup(text);
        delivery->text_len = text.len;
        text.ptr = delivery->text;
    }
    delivery->topic = topic;
    delivery->partition = record->partition;
    delivery->offset = record->offset;
    delivery->asked_us = now_mono_us();
    if (webhook_capture_parse(&delivery->capture, text, record->key, fault) !=
        0) {
        delivery_free(jobs, delivery);
        return NULL;
    }
    delivery->bytes = delivery->text_len + delivery->capture.body.len;
    jobs->bytes += delivery->bytes;
    return delivery;
}

void delivery_free(struct jobs *jobs, struct delivery *delivery)
{
    if (delivery == NULL) {
        return;
    }
    jobs->bytes -= delivery->bytes;
    webhook_capture_fini(&delivery->capture);
    buf_fini(&delivery->type);
    free(delivery->text);
    free(delivery);
}

/* -- rows ------------------------------------------------------------------ */

typedef void (*put_fn)(
    struct pg_params *params, const struct delivery *delivery);

static void put_text(struct pg_params *params, struct span text)
{
    if (text.len == 0) {
        pg_array_null(params);
    } else {
        pg_array_bytes(params, text);
    }
}

static void put_at(struct pg_params *params, const struct delivery *delivery)
{
    pg_array_time(params, delivery->capture.received_us);
}

static void put_partition(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_int4(params, delivery->partition);
}

static void put_offset(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_int8(params, delivery->offset);
}

static void put_id(struct pg_params *params, const struct delivery *delivery)
{
    pg_array_bytes(
        params, (struct span){(const char *)delivery->capture.id, UUID_SIZE});
}

static void put_tenant(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_bytes(params, span_of(delivery->capture.tenant));
}

static void put_source(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_bytes(params, span_of(delivery->capture.source));
}

static void put_sender_id(
    struct pg_params *params, const struct delivery *delivery)
{
    put_text(params, buf_span(&delivery->capture.sender_id));
}

static void put_type(struct pg_params *params, const struct delivery *delivery)
{
    put_text(params, buf_span(&delivery->type));
}

static void put_verdict(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_int2(params, (int16_t)delivery->capture.verdict);
}

static void put_reason(
    struct pg_params *params, const struct delivery *delivery)
{
    put_text(params, delivery->capture.reason);
}

static void put_scheme(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_bytes(params, delivery->capture.scheme);
}

static void put_secret_no(
    struct pg_params *params, const struct delivery *delivery)
{
    if (delivery->capture.secret_no == 0) {
        pg_array_null(params);
    } else {
        pg_array_int4(params, delivery->capture.secret_no);
    }
}

static void put_decision(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_int2(params, (int16_t)delivery->decision);
}

static void put_error(struct pg_params *params, const struct delivery *delivery)
{
    struct buf error;
    if (delivery->decision != WEBHOOK_FAILED) {
        pg_array_null(params);
        return;
    }
    buf_init(&error, MAX_ERROR);
    buf_put_char(&error, '{');
    json_put_name(&error, "code");
    json_put_cstring(&error, code_name(delivery->fault.code));
    json_put_name(&error, "message");
    json_put_cstring(&error, delivery->fault.detail);
    json_put_name(&error, "pointer");
    json_put_cstring(&error, delivery->fault.pointer);
    buf_put_char(&error, '}');
    pg_array_bytes(params, buf_span(&error));
    buf_fini(&error);
}

static void put_replay_of(
    struct pg_params *params, const struct delivery *delivery)
{
    if (delivery->capture.is_replay) {
        pg_array_bytes(
            params, (struct span){
                        (const char *)delivery->capture.replay_of, UUID_SIZE});
    } else {
        pg_array_null(params);
    }
}

static void put_method(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_bytes(params, delivery->capture.method);
}

static void put_headers(
    struct pg_params *params, const struct delivery *delivery)
{
    pg_array_bytes(params, delivery->capture.headers.raw);
}

static void put_body(struct pg_params *params, const struct delivery *delivery)
{
    const struct span body = buf_span(&delivery->capture.body);
    pg_array_bytes(params, body.ptr == NULL ? SPAN_LIT("") : body);
}

/* In the order of SQL_WORKER_DELIVERIES. */
static const struct {
    enum pg_type type;
    put_fn put;
} COLUMNS[] = {
    {PG_TIMESTAMPTZ, put_at},
    {PG_INT4, put_partition},
    {PG_INT8, put_offset},
    {PG_UUID, put_id},
    {PG_TEXT, put_tenant},
    {PG_TEXT, put_source},
    {PG_TEXT, put_sender_id},
    {PG_TEXT, put_type},
    {PG_INT2, put_verdict},
    {PG_TEXT, put_reason},
    {PG_TEXT, put_scheme},
    {PG_INT4, put_secret_no},
    {PG_INT2, put_decision},
    {PG_BYTEA, put_error},
    {PG_UUID, put_replay_of},
    {PG_TEXT, put_method},
    {PG_BYTEA, put_headers},
    {PG_BYTEA, put_body},
};

void delivery_put_step(
    struct pg *pg, struct delivery *const *deliveries, size_t count)
{
    struct pg_params params;
    if (count == 0) {
        return;
    }
    pg_params_init(&params);
    for (size_t column = 0; column < ARRAY_LEN(COLUMNS); column++) {
        pg_array_begin(&params, COLUMNS[column].type);
        for (size_t i = 0; i < count; i++) {
            COLUMNS[column].put(&params, deliveries[i]);
        }
        pg_array_end(&params);
    }
    pg_step(pg, SQL_WORKER_DELIVERIES, &params);
    pg_params_fini(&params);
}
