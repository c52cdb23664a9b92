/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending: terminal outcomes of actions that no worker can end: the deadline
 * passed while they waited, or their worker died after an unsafe call may have
 * begun. Reads what the document needs, then one statement deletes the row and
 * inserts the outcome; if the row has moved on meanwhile, nothing happens.
 */
#ifndef ENDING_H
#define ENDING_H

#include <stdint.h>

#include "common/crypt.h"
#include "schema/codes.h"

struct ending;
struct scheduler;

enum ending_source { ENDING_LIVE, ENDING_WAITING, ENDING_SOURCE_COUNT };

struct ending_row {
    uint8_t id[UUID_SIZE];
    int32_t attempt_no; /* the fence */
    int32_t calls;      /* to be reported */
    enum status status;
    enum code code;
};

struct ending *ending_open(struct scheduler *scheduler);
void ending_close(struct ending *ending); /* NULL ok */

/* Copies the row. One that is under way already is ignored, and so is any when
 * too many are: whoever found it will find it again. */
void ending_add(struct ending *ending, enum ending_source source,
    const struct ending_row *row);
bool ending_is_idle(const struct ending *ending, enum ending_source source);

#endif
