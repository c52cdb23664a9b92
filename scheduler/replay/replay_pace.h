/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_pace: how many actions a replay may put on their way now. A bucket
 * that is empty at the start and holds a quarter of a second, or two, so that
 * neither a pause nor the death of a scheduler is made up for by a burst. Pure.
 */
#ifndef REPLAY_PACE_H
#define REPLAY_PACE_H

#include <stdint.h>

struct replay_pace {
    int64_t rate;       /* a second; 0: no limit */
    int64_t at_us;      /* when the bucket was last filled */
    int64_t millionths; /* what is in it */
};

void replay_pace_start(
    struct replay_pace *pace, int64_t rate, int64_t now_mono_us);
/* How many, at most `most`. */
int64_t replay_pace_room(
    struct replay_pace *pace, int64_t most, int64_t now_mono_us);
void replay_pace_take(struct replay_pace *pace, int64_t count);

#endif
