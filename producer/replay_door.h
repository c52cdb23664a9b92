/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_door: /v1/replays. Asks for replays, tells how they go, pauses,
 * resumes and cancels them, each for the tenant of the key. The work is the
 * scheduler's (scheduler/replay/); here is no state.
 */
#ifndef REPLAY_DOOR_H
#define REPLAY_DOOR_H

#include "producer/exchange.h"
#include "schema/replay.h"

#define REPLAY_DOOR_PATH "/v1/replays"
#define REPLAY_DOOR_MAX_IDS 10000

/* POST /v1/replays: 202. Named actions of which none can run are 409, or 404
 * when the tenant has none of them. */
void replay_door_post(struct exchange *exchange);
void replay_door_list(struct exchange *exchange);
void replay_door_get(struct exchange *exchange);
void replay_door_pause(struct exchange *exchange);
void replay_door_resume(struct exchange *exchange);
void replay_door_cancel(struct exchange *exchange);

/* -- of replay_door_parse.c ------------------------------------------------- */

/* What a body asks for. */
struct replay_request {
    struct replay_wish wish;
    uint8_t (*ids)[UUID_SIZE]; /* owned; wish.id_count of them */
};

/* Reads and judges the body; wish.tenant is set before. */
int replay_door_parse(struct span body, struct replay_request *request,
    struct fault *fault) MUST_CHECK;

#endif
