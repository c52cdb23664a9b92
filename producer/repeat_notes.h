/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repeat_notes: tells the ledger, once a second, which requests came again
 * under a key whose action is there. Nothing waits for it.
 */
#ifndef REPEAT_NOTES_H
#define REPEAT_NOTES_H

#include "schema/repeats.h"

struct producer;
struct repeat_notes;

struct repeat_notes *producer_repeat_notes_open(struct producer *producer);
void producer_repeat_notes_close(struct repeat_notes *notes); /* NULL ok */
void producer_repeat_notes_add(
    struct repeat_notes *notes, const struct repeat *repeat);

#endif
