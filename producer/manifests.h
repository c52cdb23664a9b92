/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifests: judges a request by the manifest of its connector, the newest
 * version that is registered. A refusal is only given by manifests that were
 * read after the request came in, so a connector that was just added counts.
 */
#ifndef MANIFESTS_H
#define MANIFESTS_H

#include "producer/exchange.h"

struct manifests;

struct manifests *manifests_open(struct producer *producer);
void manifests_close(struct manifests *manifests); /* NULL allowed */

/* Calls next now or later; or answers 422 or 503 and frees the exchange. */
void manifests_judge(
    struct exchange *exchange, void (*next)(struct exchange *exchange));

bool manifests_are_read(const struct manifests *manifests);

#endif
