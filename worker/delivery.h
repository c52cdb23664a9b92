/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery: one captured webhook in the worker's memory, from its record on
 * the topic to its row in Postgres. What is an action too is written together
 * with its claim, so the row and the action are there both or not at all.
 */
#ifndef DELIVERY_H
#define DELIVERY_H

#include "common/kafka.h"
#include "common/pg.h"
#include "schema/webhook.h"
#include "worker/job.h"

struct delivery {
    struct delivery *next; /* in a list */
    char *text;            /* owned: the document */
    size_t text_len;
    struct webhook_capture capture; /* borrows text */
    struct buf type;                /* "": none */
    enum webhook_decision decision;
    struct fault fault; /* FAILED: why */
    const char *topic;  /* static for the process */
    int32_t partition;
    int64_t offset;
    struct offset_entry *entry; /* NULL once it is done, or its job has it */
    int64_t asked_us;           /* mono: when it was received */
    size_t bytes;               /* counted in jobs->bytes */
};

struct delivery_list {
    struct delivery *head;
    struct delivery *tail;
    size_t count;
};

void delivery_list_push(struct delivery_list *list, struct delivery *delivery);
void delivery_list_push_front(
    struct delivery_list *list, struct delivery *delivery);
struct delivery *delivery_list_pop(
    struct delivery_list *list); /* NULL: empty */

/* Copies the record's value; its bytes count in jobs. NULL and a fault if it
 * is no document. */
struct delivery *delivery_new(struct jobs *jobs, const char *topic,
    const struct kafka_record *record, struct fault *fault);
/* The offset entry is not touched. NULL ok. */
void delivery_free(struct jobs *jobs, struct delivery *delivery);

/* The rows as one step of a batch that was begun. Nothing for none. */
void delivery_put_step(
    struct pg *pg, struct delivery *const *deliveries, size_t count);

#endif
