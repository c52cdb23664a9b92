/* SPDX-License-Identifier: Apache-2.0 */
/*
 * begin: the begun commit of unsafe actions. Batched. The gate opens only when
 * the commit is confirmed; if we die between the two, the action ends
 * `indeterminate` without having run: the safe side. Begun is never set back.
 */
#ifndef BEGIN_H
#define BEGIN_H

#include "worker/job.h"

struct worker;
struct begin;

struct begin *begin_open(struct worker *worker);
void begin_close(struct begin *begin); /* NULL ok */

/* A job that holds a slot. Goes on to admit_begun(), or is dropped. */
void begin_add(struct begin *begin, struct job *job);
bool begin_is_busy(const struct begin *begin);
/* Takes out a job whose commit is not under way and never was; NULL: none. */
struct job *begin_give_up(struct begin *begin);

#endif
