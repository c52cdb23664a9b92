/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/connectors.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "producer/producer.h"
#include "schema/connector_cache.h"
#include "schema/sql_producer.h"

enum { READ_EVERY_MS = 1000, READ_APART_MS = 20 };
#define MAX_RENDERED ((size_t)4 << 20)

struct connectors {
    struct producer *producer;
    struct connector_cache *cache;
    struct refresh *refresh;
    struct buf rendered; /* of the request being judged */
};

/* -- reading --------------------------------------------------------------- */

static void read_rows(void *owner);

static void take_row(
    struct connectors *connectors, const PGresult *rows, int row)
{
    struct fault fault = FAULT_INIT;
    const struct span digest = pg_get_bytes(rows, row, CONNECTOR_CACHE_DIGEST);
    if (digest.len != SHA256_SIZE) {
        return; /* the table's CHECK forbids it */
    }
    const int64_t number = pg_get_int(rows, row, CONNECTOR_CACHE_NUMBER);
    if (connector_cache_add(connectors->cache, number,
            (const uint8_t *)digest.ptr,
            pg_get_bytes(rows, row, CONNECTOR_CACHE_MANIFEST), &fault) != 0) {
        LOG(ERROR, "manifest_refused",
            (&(struct log_fields){.name1 = "pointer",
                .value1 = fault.pointer,
                .number_name = "number",
                .number = number}),
            "this version of a connector is not used: %s", fault.detail);
    }
}

static void on_rows(void *arg, const struct pg_outcome *outcome)
{
    struct connectors *connectors = arg;
    if (outcome->end != PG_DONE) {
        refresh_end(connectors->refresh, false);
        return;
    }
    const PGresult *rows = outcome->results[0];
    for (int row = 0; row < pg_rows(rows); row++) {
        take_row(connectors, rows, row);
    }
    if (pg_rows(rows) < CONNECTOR_CACHE_ROWS) {
        refresh_end(connectors->refresh, true);
    } else if (connector_cache_is_full(connectors->cache)) {
        LOG(ERROR, "connectors_full", NULL,
            "too many versions of connectors: newer ones are not read");
        refresh_end(connectors->refresh, true);
    } else if (connectors->producer->is_closing) {
        refresh_end(connectors->refresh, false);
    } else {
        read_rows(connectors);
    }
}

static void read_rows(void *owner)
{
    struct connectors *connectors = owner;
    struct pg_params params;
    pg_params_init(&params);
    connector_cache_put_known(connectors->cache, &params);
    pg_run(connectors->producer->look_db, SQL_LOOK_CONNECTORS, &params, on_rows,
        connectors);
    pg_params_fini(&params);
}

struct connectors *connectors_open(struct producer *producer)
{
    struct connectors *connectors = mem_zalloc(1, sizeof(*connectors));
    connectors->producer = producer;
    connectors->cache = connector_cache_new();
    buf_init(&connectors->rendered, MAX_RENDERED);
    connectors->refresh = refresh_open(
        producer->loop, &(struct refresh_options){.every_ms = READ_EVERY_MS,
                            .apart_ms = READ_APART_MS,
                            .read = read_rows,
                            .owner = connectors});
    return connectors;
}

void connectors_close(struct connectors *connectors)
{
    if (connectors != NULL) {
        refresh_close(connectors->refresh);
        connector_cache_free(connectors->cache);
        buf_fini(&connectors->rendered);
        free(connectors);
    }
}

bool connectors_are_read(const struct connectors *connectors)
{
    return refresh_since_us(connectors->refresh) != 0;
}

/* -- judging --------------------------------------------------------------- */

static int judge(struct connectors *connectors, const struct record *record,
    struct fault *fault)
{
    const struct manifest *manifest =
        connector_cache_find(connectors->cache, record->connector);
    if (manifest == NULL) {
        return fault_set(fault, CODE_UNKNOWN_CONNECTOR, "/connector",
            "no connector is named \"%s\"", record->connector);
    }
    const struct manifest_action *action =
        manifest_find(manifest, record->action);
    if (action == NULL) {
        return fault_set(fault, CODE_UNKNOWN_ACTION, "/action",
            "connector \"%s\" has no action \"%s\"", record->connector,
            record->action);
    }
    if (action_check_payload(action, record->payload, fault) != 0) {
        return -1;
    }
    struct call call;
    buf_clear(&connectors->rendered);
    return action_render(action, record, &connectors->rendered, &call, fault);
}

static void on_refreshed(void *arg, bool is_read)
{
    struct exchange *exchange = arg;
    if (exchange->request == NULL) {
        exchange_free(exchange);
    } else if (!is_read) {
        exchange_unavailable(exchange);
        exchange_free(exchange);
    } else {
        connectors_judge(exchange, exchange->handler);
    }
}

void connectors_judge(
    struct exchange *exchange, void (*next)(struct exchange *exchange))
{
    struct connectors *connectors = exchange->producer->connectors;
    struct fault fault = FAULT_INIT;
    exchange->handler = next;
    if (judge(connectors, &exchange->record, &fault) == 0) {
        next(exchange);
    } else if (refresh_since_us(connectors->refresh) >= exchange->began_us) {
        exchange_fault(exchange, &fault);
        exchange_free(exchange);
    } else {
        exchange->refresh.done = on_refreshed;
        exchange->refresh.arg = exchange;
        refresh_wait(connectors->refresh, &exchange->refresh);
    }
}
