/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revive: a live row that is ours, back into memory: taken from dispatch, or
 * found by reconcile. Reads the request again, finds the manifest version the
 * action was claimed with, and hands the job on: ready ones are admitted, a
 * begun one is a lost attempt and is settled as such.
 */
#ifndef REVIVE_H
#define REVIVE_H

#include <libpq-fe.h>

struct worker;

/* A row of SQL_WORKER_TAKE or SQL_WORKER_LOAD. Does nothing when its id is in
 * memory already. */
void revive_row(struct worker *worker, const PGresult *rows, int row);

#endif
