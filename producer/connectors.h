/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connectors: judges a request by the manifest of its connector, the newest
 * version that is registered. A refusal is only given by manifests that were
 * read after the request came in, so a connector that was just added counts.
 */
#ifndef CONNECTORS_H
#define CONNECTORS_H

#include "producer/exchange.h"

struct connectors;

struct connectors *connectors_open(struct producer *producer);
void connectors_close(struct connectors *connectors); /* NULL allowed */

/* Calls next now or later; or answers 422 or 503 and frees the exchange. */
void connectors_judge(
    struct exchange *exchange, void (*next)(struct exchange *exchange));

bool connectors_are_read(const struct connectors *connectors);

#endif
