/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_verbs: the halves of `actionist webhook`. Each gets the words of the
 * whole command, reads its own options, and returns the exit code.
 */
#ifndef WEBHOOK_VERBS_H
#define WEBHOOK_VERBS_H

#include "scheduler/ctl/ctl.h"

/* webhook source VERB: who may deliver, and what becomes of it. */
int webhook_source_run(struct ctl *ctl, int argc, char **argv);

/*
 * Reads a mapping from a file, "-" is standard input, and checks it. Appends
 * its text; returns the exit code, not 0: an error was printed.
 */
int webhook_mapping_read(const char *path, struct buf *out);

#endif
