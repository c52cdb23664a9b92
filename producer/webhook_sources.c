/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/webhook_sources.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/time.h"
#include "producer/producer.h"
#include "schema/sql_producer.h"
#include "schema/webhook.h"

enum { READ_EVERY_MS = 1000, READ_APART_MS = 200, KEPT_A_MINUTE = 60 };

struct webhook_sources {
    struct producer *producer;
    const struct seal_keys *seal;
    struct refresh *refresh;
    struct webhook_source *sorted; /* owned; by tenant and source */
    size_t count;
    int64_t rows; /* what the table's counts were when it was read */
    int64_t versions;
    int64_t next_rows;
    int64_t next_versions;
};

/* -- one source ------------------------------------------------------------ */

static void source_init(struct webhook_source *source)
{
    *source = (struct webhook_source){.scheme = NULL};
    for (size_t i = 0; i < SIGNATURE_MAX_KEYS; i++) {
        buf_init(&source->keys[i], SIGNATURE_MAX_KEY);
    }
    buf_init(&source->token, SIGNATURE_MAX_SECRET);
}

static void wipe(struct buf *buf)
{
    if (buf->data != NULL) {
        OPENSSL_cleanse(buf->data, buf->cap);
    }
    buf_fini(buf);
}

static void source_fini(struct webhook_source *source)
{
    for (size_t i = 0; i < SIGNATURE_MAX_KEYS; i++) {
        wipe(&source->keys[i]);
    }
    wipe(&source->token);
    free(source->parameter);
}

static void free_all(struct webhook_source *sources, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        source_fini(&sources[i]);
    }
    free(sources);
}

size_t webhook_source_keys(const struct webhook_source *source,
    int64_t now_wall_us, struct span keys[SIGNATURE_MAX_KEYS])
{
    size_t count = 0;
    for (size_t i = 0; i < source->key_count; i++) {
        if (i == 0 || now_wall_us <= source->old_until_us) {
            keys[count++] = buf_span(&source->keys[i]);
        }
    }
    return count;
}

/* Deliveries are paid for at the rate; one second's worth may come at once. */
bool webhook_source_pay(struct webhook_source *source, int64_t now_mono_us)
{
    const int64_t price_us = US_PER_S / source->rate_per_s;
    const int64_t since_us = source->paid_until_us > now_mono_us
                                 ? source->paid_until_us
                                 : now_mono_us;
    if (since_us + price_us > now_mono_us + US_PER_S) {
        return false;
    }
    source->paid_until_us = since_us + price_us;
    return true;
}

bool webhook_source_keep(struct webhook_source *source, int64_t now_mono_us)
{
    if (now_mono_us - source->minute_us >= 60 * US_PER_S ||
        source->minute_us == 0) {
        source->minute_us = now_mono_us;
        source->rejected_count = 0;
    }
    if (!source->keeps_rejected || source->rejected_count >= KEPT_A_MINUTE) {
        return false;
    }
    source->rejected_count++;
    return true;
}

/* -- a row ----------------------------------------------------------------- */

static int open_sealed(const struct webhook_sources *sources,
    const struct webhook_source *source, const char *what, struct span sealed,
    struct buf *out, struct err *err)
{
    struct buf context;
    buf_init(&context, 256);
    webhook_put_context(
        &context, what, span_of(source->tenant), span_of(source->source));
    const int rc =
        seal_open(sources->seal, sealed, buf_span(&context), out, err);
    buf_fini(&context);
    return rc;
}

static int add_key(const struct webhook_sources *sources,
    struct webhook_source *source, const struct signature_scheme *scheme,
    struct span sealed, struct err *err)
{
    struct buf secret;
    buf_init(&secret, SIGNATURE_MAX_SECRET);
    int rc = open_sealed(
        sources, source, WEBHOOK_CONTEXT_SECRET, sealed, &secret, err);
    if (rc == 0) {
        rc = signature_key_parse(
            scheme, buf_span(&secret), &source->keys[source->key_count], err);
    }
    if (rc == 0) {
        source->key_count++;
    }
    wipe(&secret);
    return rc;
}

static int take_secrets(const struct webhook_sources *sources,
    struct webhook_source *source, const PGresult *rows, int row,
    struct err *err)
{
    const struct span name = pg_get_bytes(rows, row, HOOK_SCHEME);
    const struct signature_scheme *scheme = signature_find(name);
    if (scheme == NULL) {
        return err_set(err, ERR_PERMANENT, "UNKNOWN_SCHEME",
            "this version does not know its scheme");
    }
    if (add_key(sources, source, scheme, pg_get_bytes(rows, row, HOOK_SECRET),
            err) != 0) {
        return -1;
    }
    if (!pg_is_null(rows, row, HOOK_OLD_SECRET)) {
        source->old_until_us = pg_get_time(rows, row, HOOK_OLD_UNTIL);
        if (add_key(sources, source, scheme,
                pg_get_bytes(rows, row, HOOK_OLD_SECRET), err) != 0) {
            return -1;
        }
    }
    if (!pg_is_null(rows, row, HOOK_TOKEN) &&
        open_sealed(sources, source, WEBHOOK_CONTEXT_TOKEN,
            pg_get_bytes(rows, row, HOOK_TOKEN), &source->token, err) != 0) {
        return -1;
    }
    source->scheme = scheme;
    return 0;
}

/* False: the row's names are none. A source that cannot be used stays without
 * a scheme, and its deliveries are asked to come again. */
static bool take_row(const struct webhook_sources *sources,
    struct webhook_source *source, const PGresult *rows, int row)
{
    const struct span tenant = pg_get_bytes(rows, row, HOOK_TENANT);
    const struct span name = pg_get_bytes(rows, row, HOOK_SOURCE);
    struct err err = ERR_INIT;
    if (!name_is_valid(tenant) || !name_is_valid(name)) {
        return false;
    }
    source_init(source);
    memcpy(source->tenant, tenant.ptr, tenant.len);
    memcpy(source->source, name.ptr, name.len);
    source->parameter = span_dup(pg_get_bytes(rows, row, HOOK_PARAMETER));
    source->secret_no = (int)pg_get_int(rows, row, HOOK_SECRET_NO);
    source->keeps_rejected = pg_get_bool(rows, row, HOOK_KEEPS_REJECTED);
    source->max_body_bytes = (size_t)pg_get_int(rows, row, HOOK_MAX_BODY);
    source->rate_per_s = pg_get_int(rows, row, HOOK_RATE);
    source->answer_us = pg_get_int(rows, row, HOOK_ANSWER_MS) * US_PER_MS;
    if (take_secrets(sources, source, rows, row, &err) != 0) {
        LOG(ERROR, "webhook_source_refused",
            (&(struct log_fields){.tenant = source->tenant,
                .name1 = "source",
                .value1 = source->source,
                .err = &err}),
            "deliveries of this source are answered with 503");
    }
    return true;
}

/* -- the table ------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct webhook_source *left = a;
    const struct webhook_source *right = b;
    const int order = strcmp(left->tenant, right->tenant);
    return order != 0 ? order : strcmp(left->source, right->source);
}

struct webhook_source *webhook_sources_find(
    struct webhook_sources *sources, struct span tenant, struct span source)
{
    struct webhook_source wanted = {.scheme = NULL};
    if (!name_is_valid(tenant) || !name_is_valid(source) ||
        sources->count == 0) {
        return NULL;
    }
    memcpy(wanted.tenant, tenant.ptr, tenant.len);
    memcpy(wanted.source, source.ptr, source.len);
    return bsearch(&wanted, sources->sorted, sources->count,
        sizeof(*sources->sorted), compare);
}

static void keep_counts(
    struct webhook_sources *sources, struct webhook_source *source)
{
    const struct webhook_source *before = webhook_sources_find(
        sources, span_of(source->tenant), span_of(source->source));
    if (before != NULL) {
        source->paid_until_us = before->paid_until_us;
        source->minute_us = before->minute_us;
        source->rejected_count = before->rejected_count;
    }
}

static void take_rows(struct webhook_sources *sources, const PGresult *rows)
{
    const size_t max = (size_t)pg_rows(rows);
    struct webhook_source *sorted = mem_zalloc(max + 1, sizeof(*sorted));
    size_t count = 0;
    for (int row = 0; row < pg_rows(rows); row++) {
        if (take_row(sources, &sorted[count], rows, row)) {
            keep_counts(sources, &sorted[count]);
            count++;
        }
    }
    qsort(sorted, count, sizeof(*sorted), compare);
    free_all(sources->sorted, sources->count);
    sources->sorted = sorted;
    sources->count = count;
}

/* -- reading --------------------------------------------------------------- */

static void on_rows(void *arg, const struct pg_outcome *outcome)
{
    struct webhook_sources *sources = arg;
    const bool is_read = outcome->end == PG_DONE;
    if (is_read) {
        take_rows(sources, outcome->results[0]);
        sources->rows = sources->next_rows;
        sources->versions = sources->next_versions;
        LOG(INFO, "webhook_sources_read",
            (&(struct log_fields){
                .number_name = "sources", .number = (long long)sources->count}),
            "the table of webhook sources changed");
    }
    if (sources->count >= SQL_LOOK_HOOK_ROWS) {
        LOG(ERROR, "webhook_sources_full", NULL,
            "too many sources: those behind the first are not read");
    }
    refresh_end(sources->refresh, is_read);
}

static void on_counts(void *arg, const struct pg_outcome *outcome)
{
    struct webhook_sources *sources = arg;
    if (outcome->end != PG_DONE || sources->producer->is_closing) {
        refresh_end(sources->refresh, false);
        return;
    }
    sources->next_rows = pg_get_int(outcome->results[0], 0, 0);
    sources->next_versions = pg_get_int(outcome->results[0], 0, 1);
    if (sources->sorted != NULL && sources->next_rows == sources->rows &&
        sources->next_versions == sources->versions) {
        refresh_end(sources->refresh, true);
        return;
    }
    pg_run(sources->producer->look_db, SQL_LOOK_HOOKS, NULL, on_rows, sources);
}

static void on_read(void *owner)
{
    struct webhook_sources *sources = owner;
    pg_run(sources->producer->look_db, SQL_LOOK_HOOK_COUNTS, NULL, on_counts,
        sources);
}

struct webhook_sources *webhook_sources_open(
    struct producer *producer, const struct seal_keys *keys)
{
    struct webhook_sources *sources = mem_zalloc(1, sizeof(*sources));
    sources->producer = producer;
    sources->seal = keys;
    sources->refresh = refresh_open(
        producer->loop, &(struct refresh_options){.every_ms = READ_EVERY_MS,
                            .apart_ms = READ_APART_MS,
                            .read = on_read,
                            .owner = sources});
    return sources;
}

void webhook_sources_close(struct webhook_sources *sources)
{
    if (sources != NULL) {
        refresh_close(sources->refresh);
        free_all(sources->sorted, sources->count);
        free(sources);
    }
}

struct refresh *webhook_sources_refresh(struct webhook_sources *sources)
{
    return sources->refresh;
}
