/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_sources: who may deliver webhooks, from the table webhook_source,
 * with the secrets unsealed. Read at start and again every second if anything
 * changed; while Postgres is away the last reading serves.
 */
#ifndef WEBHOOK_SOURCES_H
#define WEBHOOK_SOURCES_H

#include "common/seal.h"
#include "producer/refresh.h"
#include "schema/record.h"
#include "schema/signature.h"

struct producer;
struct webhook_sources;

struct webhook_source {
    char tenant[RECORD_MAX_NAME + 1];
    char source[RECORD_MAX_NAME + 1];
    const struct signature_scheme *scheme; /* NULL: the row cannot be used */
    char *parameter;                       /* owned */
    struct buf keys[SIGNATURE_MAX_KEYS];   /* the newest first */
    size_t key_count;
    int64_t old_until_us; /* wall; of the second key */
    int secret_no;        /* of the first key */
    struct buf token;     /* empty: none */
    bool keeps_rejected;
    size_t max_body_bytes;
    int64_t rate_per_s;
    int64_t answer_us;
    /* Kept over readings: */
    int64_t paid_until_us;  /* monotonic; deliveries taken, at the rate */
    int64_t minute_us;      /* monotonic; when the count began */
    int64_t rejected_count; /* kept as evidence since then */
};

/* keys: borrowed for its life. */
struct webhook_sources *webhook_sources_open(
    struct producer *producer, const struct seal_keys *keys);
void webhook_sources_close(struct webhook_sources *sources); /* NULL ok */

/* NULL if there is none, or it is disabled. Valid until the loop goes on. */
struct webhook_source *webhook_sources_find(
    struct webhook_sources *sources, struct span tenant, struct span source);
struct refresh *webhook_sources_refresh(struct webhook_sources *sources);

/* The keys that are valid now. */
size_t webhook_source_keys(const struct webhook_source *source,
    int64_t now_wall_us, struct span keys[SIGNATURE_MAX_KEYS]);
/* Takes one delivery of the rate; false if there is none left. */
bool webhook_source_pay(struct webhook_source *source, int64_t now_mono_us);
/* Takes one of the rejected ones of a minute that are kept. */
bool webhook_source_keep(struct webhook_source *source, int64_t now_mono_us);

#endif
