/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes_model: a search over every schedule of three relays that fence each
 * other's two lanes, publish, are fenced, are killed and start again. A relay
 * publishes the lowest row that it does not know as published, on the lanes in
 * turn; a publication counts only while it owns the lane.
 */
#ifndef LANES_MODEL_H
#define LANES_MODEL_H

#include <stdbool.h>
#include <stddef.h>

enum { MODEL_RELAYS = 3 };

/* The rules of scheduler/lanes.h, each of which a test may break. */
struct lanes_rules {
    bool reads_after_both;          /* else between the two fences */
    int first_lane;                 /* of the first transaction; 0: A, 1: B */
    int fenced_first[MODEL_RELAYS]; /* the lane that a relay fences first */
};

/* True if no schedule publishes a row twice; states: how many were seen. */
bool lanes_model_holds(const struct lanes_rules *rules, size_t *states);

#endif
