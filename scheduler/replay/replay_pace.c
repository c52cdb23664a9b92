/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/replay/replay_pace.h"

enum { PARTS_OF_A_SECOND = 4, LEAST = 2 };

#define MILLION INT64_C(1000000)

void replay_pace_start(
    struct replay_pace *pace, int64_t rate, int64_t now_mono_us)
{
    *pace = (struct replay_pace){.rate = rate, .at_us = now_mono_us};
}

static void fill(struct replay_pace *pace, int64_t now_us)
{
    const int64_t whole = pace->rate / PARTS_OF_A_SECOND;
    const int64_t cap = (whole > LEAST ? whole : LEAST) * MILLION;
    const int64_t full_us = LEAST * MILLION; /* at any rate; no overflow */
    const int64_t passed_us = now_us - pace->at_us;
    pace->millionths +=
        (passed_us < full_us ? passed_us : full_us) * pace->rate;
    pace->at_us = now_us;
    if (pace->millionths > cap) {
        pace->millionths = cap;
    }
}

int64_t replay_pace_room(
    struct replay_pace *pace, int64_t most, int64_t now_mono_us)
{
    if (pace->rate == 0) {
        return most;
    }
    fill(pace, now_mono_us);
    const int64_t room = pace->millionths / MILLION;
    return room < most ? room : most;
}

void replay_pace_take(struct replay_pace *pace, int64_t count)
{
    pace->millionths -= count * MILLION;
}
