/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/manifests.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "producer/producer.h"
#include "schema/connector_cache.h"
#include "schema/sql_producer.h"

enum { READ_EVERY_MS = 1000, READ_APART_MS = 20 };
#define MAX_RENDERED ((size_t)4 << 20)

struct manifests {
    struct producer *producer;
    struct connector_cache *cache;
    struct refresh *refresh;
    struct buf rendered; /* of the request being judged */
};

/* -- reading --------------------------------------------------------------- */

static void read_rows(void *owner);

static void take_row(struct manifests *manifests, const PGresult *rows, int row)
{
    struct fault fault = FAULT_INIT;
    const struct span digest = pg_get_bytes(rows, row, CONNECTOR_CACHE_DIGEST);
    if (digest.len != SHA256_SIZE) {
        return; /* the table's CHECK forbids it */
    }
    const int64_t number = pg_get_int(rows, row, CONNECTOR_CACHE_NUMBER);
    if (connector_cache_add(manifests->cache, number,
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
    struct manifests *manifests = arg;
    if (outcome->end != PG_DONE) {
        refresh_end(manifests->refresh, false);
        return;
    }
    const PGresult *rows = outcome->results[0];
    for (int row = 0; row < pg_rows(rows); row++) {
        take_row(manifests, rows, row);
    }
    if (pg_rows(rows) < CONNECTOR_CACHE_ROWS) {
        refresh_end(manifests->refresh, true);
    } else if (connector_cache_is_full(manifests->cache)) {
        LOG(ERROR, "manifests_full", NULL,
            "too many versions of connectors: newer ones are not read");
        refresh_end(manifests->refresh, true);
    } else if (manifests->producer->is_closing) {
        refresh_end(manifests->refresh, false);
    } else {
        read_rows(manifests);
    }
}

static void read_rows(void *owner)
{
    struct manifests *manifests = owner;
    struct pg_params params;
    pg_params_init(&params);
    connector_cache_put_known(manifests->cache, &params);
    pg_run(manifests->producer->look_db, SQL_LOOK_CONNECTORS, &params, on_rows,
        manifests);
    pg_params_fini(&params);
}

struct manifests *manifests_open(struct producer *producer)
{
    struct manifests *manifests = mem_zalloc(1, sizeof(*manifests));
    manifests->producer = producer;
    manifests->cache = connector_cache_new();
    buf_init(&manifests->rendered, MAX_RENDERED);
    manifests->refresh = refresh_open(
        producer->loop, &(struct refresh_options){.every_ms = READ_EVERY_MS,
                            .apart_ms = READ_APART_MS,
                            .read = read_rows,
                            .owner = manifests});
    return manifests;
}

void manifests_close(struct manifests *manifests)
{
    if (manifests != NULL) {
        refresh_close(manifests->refresh);
        connector_cache_free(manifests->cache);
        buf_fini(&manifests->rendered);
        free(manifests);
    }
}

bool manifests_are_read(const struct manifests *manifests)
{
    return refresh_since_us(manifests->refresh) != 0;
}

/* -- judging --------------------------------------------------------------- */

static int judge(struct manifests *manifests, const struct record *record,
    struct fault *fault)
{
    const struct manifest *manifest =
        connector_cache_find(manifests->cache, record->connector);
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
    buf_clear(&manifests->rendered);
    return action_render(action, record, &manifests->rendered, &call, fault);
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
        manifests_judge(exchange, exchange->handler);
    }
}

void manifests_judge(
    struct exchange *exchange, void (*next)(struct exchange *exchange))
{
    struct manifests *manifests = exchange->producer->manifests;
    struct fault fault = FAULT_INIT;
    exchange->handler = next;
    if (judge(manifests, &exchange->record, &fault) == 0) {
        next(exchange);
    } else if (refresh_since_us(manifests->refresh) >= exchange->began_us) {
        exchange_fault(exchange, &fault);
        exchange_free(exchange);
    } else {
        exchange->refresh.done = on_refreshed;
        exchange->refresh.arg = exchange;
        refresh_wait(manifests->refresh, &exchange->refresh);
    }
}
