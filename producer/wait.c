/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/wait.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/time.h"
#include "producer/producer.h"
#include "schema/sql_producer.h"

enum {
    LOOK_MAX = 64, /* documents of one query: 2 MiB each at most */
    WAITERS_MAX = 4096,
    TICK_MS = 25
};
#define PATH "/v1/actions/"

struct list {
    struct exchange *first;
    struct exchange **end; /* NULL while nothing was pushed */
    size_t count;
};

struct wait {
    struct producer *producer;
    struct list queue;               /* to be looked at */
    struct exchange *look[LOOK_MAX]; /* being looked at */
    size_t look_count;
    struct list waiting; /* no outcome yet */
    struct loop_timer *tick;
    bool is_ticking; /* a tick's query is under way */
};

/* -- lists, linked by exchange->link --------------------------------------- */

static void push(struct list *list, struct exchange *exchange)
{
    exchange->link = NULL;
    *(list->first == NULL ? &list->first : list->end) = exchange;
    list->end = &exchange->link;
    list->count++;
}

static struct exchange *pop(struct list *list)
{
    struct exchange *exchange = list->first;
    if (exchange != NULL) {
        list->first = exchange->link;
        list->count--;
    }
    return exchange;
}

/* -- life ------------------------------------------------------------------ */

static void on_tick(void *owner);

struct wait *wait_open(struct producer *producer)
{
    struct wait *wait = mem_zalloc(1, sizeof(*wait));
    wait->producer = producer;
    wait->tick = loop_timer_new(producer->loop, on_tick, wait);
    return wait;
}

void wait_close(struct wait *wait)
{
    if (wait != NULL) {
        loop_timer_free(wait->tick);
        free(wait);
    }
}

/* -- one look -------------------------------------------------------------- */

static void put_ids(
    struct pg_params *params, struct exchange *const *list, size_t count)
{
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < count; i++) {
        pg_array_bytes(params,
            (struct span){.ptr = (const char *)list[i]->id, .len = UUID_SIZE});
    }
    pg_array_end(params);
}

static void put_text(struct buf *out, const char *name, const PGresult *rows,
    int row, int column)
{
    json_put_name(out, name);
    json_put_string(out, pg_get_bytes(rows, row, column));
}

static void put_attempts(struct buf *out, int64_t attempts)
{
    json_put_name(out, "attempts");
    buf_put_int(out, attempts);
}

static void put_place(struct buf *out, const PGresult *rows, int row)
{
    json_put_name(out, "state");
    if (!pg_is_null(rows, row, LOOK_LIVE_STATE)) {
        const bool is_begun =
            pg_get_int(rows, row, LOOK_LIVE_STATE) == LIVE_BEGUN;
        json_put_cstring(out, is_begun ? "begun" : "ready");
        /* The row counts the calls that ended. */
        put_attempts(
            out, pg_get_int(rows, row, LOOK_LIVE_CALLS) + (is_begun ? 1 : 0));
    } else if (!pg_is_null(rows, row, LOOK_WAIT_REASON)) {
        const int64_t reason = pg_get_int(rows, row, LOOK_WAIT_REASON);
        json_put_cstring(out, "waiting");
        json_put_name(out, "reason");
        json_put_cstring(out, wait_reason_name((enum wait_reason)reason));
        json_put_name(out, "due");
        json_put_time(out, pg_get_time(rows, row, LOOK_WAIT_DUE));
        put_attempts(out, pg_get_int(rows, row, LOOK_WAIT_CALLS));
    } else {
        json_put_cstring(out, "accepted");
        put_attempts(out, 0);
    }
}

static void answer_state(
    struct exchange *exchange, const PGresult *rows, int row)
{
    struct buf body;
    buf_init(&body, 4096);
    buf_put_char(&body, '{');
    json_put_name(&body, "id");
    json_put_cstring(&body, exchange->id_text);
    json_put_name(&body, "tenant");
    json_put_cstring(&body, exchange->tenant);
    if (!pg_is_null(rows, row, LOOK_TENANT)) {
        put_text(&body, "connector", rows, row, LOOK_CONNECTOR);
        put_text(&body, "action", rows, row, LOOK_ACTION);
    }
    put_place(&body, rows, row);
    buf_put_str(&body, "}\n");
    exchange_json(exchange, 200, buf_span(&body));
    buf_fini(&body);
}

static void answer_not_found(struct exchange *exchange)
{
    const struct fault fault = {.code = CODE_NOT_FOUND};
    exchange_fault(exchange, &fault);
    exchange_free(exchange);
}

static bool may_wait(const struct wait *wait, const struct exchange *exchange)
{
    return !wait->producer->is_draining && wait->waiting.count < WAITERS_MAX &&
           now_mono_us() < exchange->wait_until_us &&
           !http_is_gone(exchange->request);
}

static void keep_waiting(struct wait *wait, struct exchange *exchange)
{
    push(&wait->waiting, exchange);
    http_on_gone(exchange->request, NULL, NULL); /* http_is_gone() tells */
    metric_set(
        wait->producer->meters.waiters, NULL, (double)wait->waiting.count);
    if (!wait->is_ticking && !loop_timer_is_active(wait->tick)) {
        loop_timer_start(wait->tick, TICK_MS, 0);
    }
}

/* Another tenant's action is as good as none. */
static bool is_theirs(
    const struct exchange *exchange, const PGresult *rows, int row)
{
    const int column =
        pg_is_null(rows, row, LOOK_TENANT) ? LOOK_RESERVED_TENANT : LOOK_TENANT;
    return !pg_is_null(rows, row, column) &&
           span_is(pg_get_bytes(rows, row, column), exchange->tenant);
}

static void take_row(
    struct wait *wait, struct exchange *exchange, const PGresult *rows, int row)
{
    if (!is_theirs(exchange, rows, row)) {
        answer_not_found(exchange);
    } else if (!pg_is_null(rows, row, LOOK_OUTCOME)) {
        exchange_json(exchange, 200, pg_get_bytes(rows, row, LOOK_OUTCOME));
        exchange_free(exchange);
    } else if (may_wait(wait, exchange)) {
        keep_waiting(wait, exchange);
    } else {
        answer_state(exchange, rows, row);
        exchange_free(exchange);
    }
}

static void look(struct wait *wait);

static int find_row(const PGresult *rows, const uint8_t *id)
{
    for (int row = 0; row < pg_rows(rows); row++) {
        if (memcmp(pg_get_uuid(rows, row, LOOK_ID), id, UUID_SIZE) == 0) {
            return row;
        }
    }
    return -1;
}

static void on_looked(void *arg, const struct pg_outcome *outcome)
{
    struct wait *wait = arg;
    const size_t count = wait->look_count;
    for (size_t i = 0; i < count; i++) {
        struct exchange *exchange = wait->look[i];
        const int row = outcome->end == PG_DONE && exchange->request != NULL
                            ? find_row(outcome->results[0], exchange->id)
                            : -1;
        if (row >= 0) {
            take_row(wait, exchange, outcome->results[0], row);
            continue;
        }
        if (exchange->request != NULL) {
            exchange_unavailable(exchange);
        }
        exchange_free(exchange);
    }
    wait->look_count = 0;
    look(wait);
}

static void look(struct wait *wait)
{
    if (wait->look_count != 0 || wait->producer->is_closing) {
        return;
    }
    struct exchange *exchange = NULL;
    while (
        wait->look_count < LOOK_MAX && (exchange = pop(&wait->queue)) != NULL) {
        if (exchange->request == NULL) {
            exchange_free(exchange);
        } else {
            wait->look[wait->look_count++] = exchange;
        }
    }
    if (wait->look_count == 0) {
        return;
    }
    struct pg_params params;
    pg_params_init(&params);
    put_ids(&params, wait->look, wait->look_count);
    pg_run(wait->producer->look_db, SQL_LOOK_ACTIONS, &params, on_looked, wait);
    pg_params_fini(&params);
}

/* -- who waits ------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, UUID_SIZE);
}

/* Those that finished get looked at, the others go on waiting. */
static void take_finished(struct wait *wait, const PGresult *rows)
{
    const size_t count = (size_t)pg_rows(rows);
    uint8_t(*ids)[UUID_SIZE] = mem_zalloc(count + 1, sizeof(*ids));
    for (size_t i = 0; i < count; i++) {
        memcpy(ids[i], pg_get_uuid(rows, (int)i, 0), UUID_SIZE);
    }
    qsort(ids, count, sizeof(*ids), compare_ids);
    struct list before = wait->waiting;
    struct exchange *exchange = NULL;
    wait->waiting = (struct list){0};
    while ((exchange = pop(&before)) != NULL) {
        const bool is_finished = bsearch(exchange->id, ids, count, sizeof(*ids),
                                     compare_ids) != NULL;
        push(is_finished ? &wait->queue : &wait->waiting, exchange);
    }
    free(ids);
}

static void end_tick(struct wait *wait)
{
    metric_set(
        wait->producer->meters.waiters, NULL, (double)wait->waiting.count);
    if (wait->waiting.first != NULL && !wait->producer->is_closing) {
        loop_timer_start(wait->tick, TICK_MS, 0);
    }
    look(wait);
}

static void on_finished(void *arg, const struct pg_outcome *outcome)
{
    struct wait *wait = arg;
    wait->is_ticking = false;
    if (outcome->end == PG_DONE) {
        take_finished(wait, outcome->results[0]);
    }
    end_tick(wait);
}

/* Takes out who need not wait any more: the time is over, or the client has
 * closed (half of it at least: so it is answered). */
static void take_over(struct wait *wait)
{
    struct list before = wait->waiting;
    struct exchange *exchange = NULL;
    wait->waiting = (struct list){0};
    while ((exchange = pop(&before)) != NULL) {
        if (exchange->request == NULL) {
            exchange_free(exchange);
        } else if (may_wait(wait, exchange)) {
            push(&wait->waiting, exchange);
        } else {
            push(&wait->queue, exchange);
        }
    }
}

static void on_tick(void *owner)
{
    struct wait *wait = owner;
    if (wait->is_ticking) {
        return;
    }
    take_over(wait);
    if (wait->waiting.first == NULL) {
        end_tick(wait);
        return;
    }
    struct pg_params params;
    pg_params_init(&params);
    pg_array_begin(&params, PG_UUID);
    const struct exchange *at = wait->waiting.first;
    for (; at != NULL; at = at->link) {
        pg_array_bytes(&params,
            (struct span){.ptr = (const char *)at->id, .len = UUID_SIZE});
    }
    pg_array_end(&params);
    wait->is_ticking = true;
    pg_run(
        wait->producer->look_db, SQL_LOOK_FINISHED, &params, on_finished, wait);
    pg_params_fini(&params);
}

void wait_drain(struct wait *wait)
{
    on_tick(wait);
}

/* -- the request ----------------------------------------------------------- */

bool wait_parse(const char *text, int64_t *wait_us)
{
    int64_t number = 0;
    const size_t digits = strspn(text, "0123456789");
    const char *unit = text + digits;
    const int64_t unit_us = strcmp(unit, "ms") == 0 ? US_PER_MS : US_PER_S;
    if (digits == 0 || digits > 6 ||
        (*unit != '\0' && strcmp(unit, "s") != 0 && strcmp(unit, "ms") != 0) ||
        !span_to_int((struct span){.ptr = text, .len = digits}, &number) ||
        number * unit_us > WAIT_MAX_US) {
        return false;
    }
    *wait_us = number * unit_us;
    return true;
}

void wait_get(struct exchange *exchange)
{
    struct wait *wait = exchange->producer->wait;
    struct fault fault = FAULT_INIT;
    int64_t wait_us = 0;
    const char *text = http_query(exchange->request, "wait");
    const char *id = http_path(exchange->request) + strlen(PATH);
    if (!uuid_parse(span_of(id), exchange->id)) {
        answer_not_found(exchange);
        return;
    }
    if (text != NULL && !wait_parse(text, &wait_us)) {
        (void)fault_set(&fault, CODE_INVALID_MEMBER, "",
            "wait must be a time like 30s or 500ms, at most 60s");
        exchange_fault(exchange, &fault);
        exchange_free(exchange);
        return;
    }
    uuid_format(exchange->id, exchange->id_text);
    if (wait_us != 0) {
        exchange->wait_until_us = now_mono_us() + wait_us;
        exchange->limit_us = exchange->wait_until_us + EXCHANGE_LIMIT_US;
    }
    push(&wait->queue, exchange);
    look(wait);
}
