/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay: publishes every outcome row to the outcomes topic exactly once (for
 * readers with read_committed), one leader a shard.
 *
 * One connection does it all and holds the leader's lock, so that whoever reads
 * the tail also holds the lock, and a lost connection forgets every bound. Any
 * doubt, of Kafka or of Postgres, has one cure: give up the lanes, the
 * connection and the lock, wait a little, and start again from the checkpoint.
 */
#ifndef RELAY_H
#define RELAY_H

#include "common/conf.h"
#include "common/loop.h"

struct relay;

struct relay *relay_open(struct loop *loop, const struct conf *conf);
/* Ends what is under way, saves the checkpoint, then calls done once. */
void relay_stop(struct relay *relay, loop_fn done, void *owner);
/* False: the lanes' thread is stuck, and the process should just end. */
bool relay_close(struct relay *relay) MUST_CHECK;

/* Follows another leader or publishes; why: what is wrong if not. Borrowed. */
bool relay_is_healthy(const struct relay *relay, const char **why);
bool relay_is_leader(const struct relay *relay);

#endif
