/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys: who is calling. API keys are kept as their SHA-256; the whole table is
 * in memory and checked for changes so often that a revoked key is refused
 * within a second. A key nobody knows waits for one reading of the table,
 * shared by all such requests, so a new key works at once.
 */
#ifndef KEYS_H
#define KEYS_H

#include "producer/exchange.h"

struct keys;

struct keys *keys_open(struct producer *producer);
void keys_close(struct keys *keys); /* NULL allowed */

/* Finds the tenant of the caller and goes on with exchange->handler, now or
 * later; or answers 401 or 503 and frees the exchange. */
void keys_authenticate(struct exchange *exchange);

/* True once the table was read, and while it is known to be no older than a
 * few seconds. */
bool keys_are_fresh(const struct keys *keys);

/*
 * The key a request carries: `Authorization: Bearer K` or `X-API-Key: K`. Both
 * arguments may be NULL. An empty span when there is none, or two that differ.
 */
struct span keys_of_headers(const char *authorization, const char *api_key);

#endif
