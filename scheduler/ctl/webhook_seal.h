/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_seal: a secret of a webhook source on its way from a file, or from
 * standard input, into its sealed column. It is checked on the way, and never
 * printed.
 */
#ifndef WEBHOOK_SEAL_H
#define WEBHOOK_SEAL_H

#include "common/seal.h"
#include "scheduler/ctl/ctl.h"
#include "schema/signature.h"

/* The keys of webhooks.master_key_file; NULL after an error was printed. */
struct seal_keys *ctl_seal_keys(struct ctl *ctl, int *exit_code);

/* Whose secret it is, and which. */
struct ctl_secret {
    const char *tenant;
    const char *source;
    const char *context; /* WEBHOOK_CONTEXT_* */
    const char *path;    /* "-": standard input */
};

/* Appends the sealed text. scheme: the secret must be one of it; NULL: any
 * printable text. Returns the exit code; not 0: an error was printed. */
int ctl_seal_secret(const struct seal_keys *keys,
    const struct ctl_secret *secret, const struct signature_scheme *scheme,
    struct buf *out);

#endif
