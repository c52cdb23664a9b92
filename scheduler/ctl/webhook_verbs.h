/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_verbs: the halves of `actionist webhook`. Each gets the words of the
 * whole command, reads its own options, and returns the exit code.
 */
#ifndef WEBHOOK_VERBS_H
#define WEBHOOK_VERBS_H

#include "common/crypt.h"
#include "scheduler/ctl/ctl.h"

/* webhook source VERB: who may deliver, and what becomes of it. */
int webhook_source_run(struct ctl *ctl, int argc, char **argv);

/* webhook list, show, tail, replay, retention: what was delivered. */
int webhook_list_run(struct ctl *ctl, int argc, char **argv);
int webhook_show_run(struct ctl *ctl, int argc, char **argv);
int webhook_tail_run(struct ctl *ctl, int argc, char **argv);
int webhook_replay_run(struct ctl *ctl, int argc, char **argv);
int webhook_retention_run(struct ctl *ctl, int argc, char **argv);

/* Rows of SQL_CTL_DELIVERY_SHOW, one at least, oldest first. NULL after an
 * error was printed. tenant NULL: any. */
PGresult *webhook_load(PGconn *conn, const char *tenant,
    const uint8_t id[UUID_SIZE], int *exit_code);

/*
 * Reads a mapping from a file, "-" is standard input, and checks it. Appends
 * its text; returns the exit code, not 0: an error was printed.
 */
int webhook_mapping_read(const char *path, struct buf *out);

#endif
