/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/keys.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/crypt.h"
#include "common/log.h"
#include "common/time.h"
#include "producer/producer.h"
#include "schema/sql_producer.h"

enum { READ_EVERY_MS = 400, READ_APART_MS = 20, MAX_KEY_BYTES = 512 };

/* A revoke acts within a second: what is older than this is not trusted. */
#define TRUST_US (900 * US_PER_MS)
/* /readyz: checks fail or hang. */
#define STALE_US (3 * US_PER_S)

struct key {
    uint8_t hash[SHA256_SIZE];
    char tenant[RECORD_MAX_NAME + 1];
};

struct keys {
    struct producer *producer;
    struct refresh *refresh;
    struct key *sorted; /* owned; by hash */
    size_t count;
    int64_t added; /* what the counts of the table were when it was read */
    int64_t revoked;
    int64_t next_added;
    int64_t next_revoked;
};

/* -- the table ------------------------------------------------------------- */

static int compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, SHA256_SIZE);
}

/*
 * How long the search takes tells about the SHA-256 of what was sent, which
 * helps nobody to find a key; the decision itself takes constant time.
 */
static const struct key *find(
    const struct keys *keys, const uint8_t hash[SHA256_SIZE])
{
    size_t low = 0;
    size_t high = keys->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (memcmp(keys->sorted[middle].hash, hash, SHA256_SIZE) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == keys->count) {
        return NULL;
    }
    const struct key *key = &keys->sorted[low];
    const bool is_it = equal_in_constant_time(
        (struct span){.ptr = (const char *)key->hash, .len = SHA256_SIZE},
        (struct span){.ptr = (const char *)hash, .len = SHA256_SIZE});
    return is_it ? key : NULL;
}

static void take_rows(struct keys *keys, const PGresult *rows)
{
    const size_t max = (size_t)pg_rows(rows);
    struct key *sorted = mem_zalloc(max + 1, sizeof(*sorted));
    size_t count = 0;
    for (int row = 0; row < pg_rows(rows); row++) {
        const struct span hash = pg_get_bytes(rows, row, KEY_HASH);
        const struct span tenant = pg_get_bytes(rows, row, KEY_TENANT);
        if (hash.len == SHA256_SIZE && name_is_valid(tenant)) {
            memcpy(sorted[count].hash, hash.ptr, SHA256_SIZE);
            memcpy(sorted[count].tenant, tenant.ptr, tenant.len);
            count++;
        }
    }
    qsort(sorted, count, sizeof(*sorted), compare_hashes);
    free(keys->sorted);
    keys->sorted = sorted;
    keys->count = count;
}

/* -- reading --------------------------------------------------------------- */

static void on_rows(void *arg, const struct pg_outcome *outcome)
{
    struct keys *keys = arg;
    const bool is_read = outcome->end == PG_DONE;
    if (is_read) {
        take_rows(keys, outcome->results[0]);
        keys->added = keys->next_added;
        keys->revoked = keys->next_revoked;
        LOG(INFO, "keys_read",
            (&(struct log_fields){
                .number_name = "keys", .number = (long long)keys->count}),
            "the table of API keys changed");
    }
    refresh_end(keys->refresh, is_read);
}

static void on_counts(void *arg, const struct pg_outcome *outcome)
{
    struct keys *keys = arg;
    if (outcome->end != PG_DONE) {
        refresh_end(keys->refresh, false);
        return;
    }
    keys->next_added = pg_get_int(outcome->results[0], 0, 0);
    keys->next_revoked = pg_get_int(outcome->results[0], 0, 1);
    if (keys->sorted != NULL && keys->next_added == keys->added &&
        keys->next_revoked == keys->revoked) {
        refresh_end(keys->refresh, true);
        return;
    }
    if (keys->producer->is_closing) {
        refresh_end(keys->refresh, false);
        return;
    }
    pg_run(keys->producer->look_db, SQL_LOOK_KEYS, NULL, on_rows, keys);
}

static void on_read(void *owner)
{
    struct keys *keys = owner;
    pg_run(keys->producer->look_db, SQL_LOOK_KEY_COUNTS, NULL, on_counts, keys);
}

struct keys *keys_open(struct producer *producer)
{
    struct keys *keys = mem_zalloc(1, sizeof(*keys));
    keys->producer = producer;
    keys->refresh = refresh_open(
        producer->loop, &(struct refresh_options){.every_ms = READ_EVERY_MS,
                            .apart_ms = READ_APART_MS,
                            .read = on_read,
                            .owner = keys});
    return keys;
}

void keys_close(struct keys *keys)
{
    if (keys != NULL) {
        refresh_close(keys->refresh);
        free(keys->sorted);
        free(keys);
    }
}

bool keys_are_fresh(const struct keys *keys)
{
    const int64_t since_us = refresh_since_us(keys->refresh);
    return since_us != 0 && now_mono_us() - since_us < STALE_US;
}

/* -- a request ------------------------------------------------------------- */

struct span keys_of_headers(const char *authorization, const char *api_key)
{
    static const char SCHEME[] = "Bearer ";
    struct span key = span_of(api_key);
    if (authorization != NULL) {
        if (strncasecmp(authorization, SCHEME, sizeof(SCHEME) - 1) != 0) {
            return (struct span){0};
        }
        const char *token = authorization + sizeof(SCHEME) - 1;
        token += strspn(token, " ");
        if (api_key != NULL && !equal_in_constant_time(key, span_of(token))) {
            return (struct span){0};
        }
        key = span_of(token);
    }
    if (key.len > MAX_KEY_BYTES) {
        return (struct span){0};
    }
    return key;
}

static struct span key_of_request(const struct http_request *request)
{
    if (http_header_count(request, "Authorization") > 1 ||
        http_header_count(request, "X-API-Key") > 1) {
        return (struct span){0};
    }
    return keys_of_headers(http_header(request, "Authorization"),
        http_header(request, "X-API-Key"));
}

static void refuse(struct exchange *exchange)
{
    const struct fault fault = {.code = CODE_UNAUTHORIZED};
    exchange_fault(exchange, &fault);
    exchange_free(exchange);
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
        keys_authenticate(exchange);
    }
}

void keys_authenticate(struct exchange *exchange)
{
    struct keys *keys = exchange->producer->keys;
    const struct span secret = key_of_request(exchange->request);
    if (secret.len == 0) {
        refuse(exchange);
        return;
    }
    uint8_t hash[SHA256_SIZE];
    sha256(secret, hash);
    const int64_t since_us = refresh_since_us(keys->refresh);
    const struct key *key = find(keys, hash);
    const bool is_sure = since_us >= exchange->began_us && since_us != 0;
    const bool is_recent = since_us != 0 && now_mono_us() - since_us < TRUST_US;
    if (key != NULL && (is_sure || is_recent)) {
        memcpy(exchange->tenant, key->tenant, sizeof(exchange->tenant));
        exchange->handler(exchange);
    } else if (is_sure) {
        refuse(exchange);
    } else {
        exchange->refresh.done = on_refreshed;
        exchange->refresh.arg = exchange;
        refresh_wait(keys->refresh, &exchange->refresh);
    }
}
