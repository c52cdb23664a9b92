/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release: the orderly stop. Intake ends, what is not claimed is forgotten,
 * what is ready and not started goes back to the fleet, what runs may end
 * within worker.drain_s; after that the children are killed and their calls
 * settled as what they are. Only a worker that owns no row any more says in
 * its own row that it stopped; the rows of any other are swept.
 */
#ifndef RELEASE_H
#define RELEASE_H

#include <stddef.h>

#include "worker/job.h"

struct worker;
struct release;

struct release *release_open(struct worker *worker);
void release_close(struct release *release); /* NULL ok */

/* Begins; the loop ends when it is through. */
void release_start(struct release *release);
/* Hands a ready row back. Takes the job over. */
void release_add(struct release *release, struct job *job);

#endif
