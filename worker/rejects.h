/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rejects: records nobody can read go to the rejects topic, bytes unchanged,
 * with headers that say why and where from. Their offset counts as done only
 * once the copy is acknowledged; until then it is sent again, cut by half each
 * time that the topic takes no record of its size.
 */
#ifndef REJECTS_H
#define REJECTS_H

#include "common/kafka.h"
#include "worker/job.h"

struct worker;
struct rejects;

struct rejects *rejects_open(struct worker *worker, struct err *err) MUST_CHECK;
void rejects_close(struct rejects *rejects); /* NULL ok */

/* Copies key and value of record; takes the entry over. */
void rejects_add(struct rejects *rejects, const struct kafka_record *record,
    struct offset_entry *entry, const struct fault *fault);
/* A job that cannot be claimed; takes its entry over. reason: static. */
void rejects_add_job(
    struct rejects *rejects, struct job *job, const char *reason);
size_t rejects_waiting(const struct rejects *rejects);
size_t rejects_bytes(const struct rejects *rejects);
bool rejects_is_up(const struct rejects *rejects);

#endif
