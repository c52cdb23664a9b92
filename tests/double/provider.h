/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider that is played: turns a request into an answer by script,
 * ledger and log. Knows nothing of sockets and never blocks (but for the
 * log's file). One thread.
 */
#ifndef DOUBLE_PROVIDER_H
#define DOUBLE_PROVIDER_H

#include "answer.h"
#include "http.h"
#include "ledger.h"
#include "reqlog.h"
#include "script.h"

#include <stdbool.h>
#include <stdint.h>

struct provider_stats {
    uint64_t requests; /* whole ones, without those to the control API */
    uint64_t incomplete;
    uint64_t bad_requests;
    uint64_t answered;
    uint64_t replays;
    uint64_t effects;
    uint64_t resets;
    uint64_t ledger_full;
    uint64_t connections;
    uint64_t connections_open;
    uint64_t connections_refused;
    uint64_t clients_gone; /* hung up before their answer */
};

struct provider {
    struct script_set scripts;
    struct ledger ledger;
    struct reqlog log;
    struct provider_stats stats;
};

int provider_init(
    struct provider *provider, const char *log_path, struct problem *problem);
void provider_fini(struct provider *provider);
/* Forgets scripts, ledger, log in memory and counts. */
void provider_reset(struct provider *provider);

/*
 * For a request whose body is still missing: true when the script resets it
 * now, which it notes and counts.
 */
bool provider_resets_early(struct provider *provider,
    const struct http_request *request, int64_t now_us);
/* Makes the answer to a whole request; `answer` comes cleared. */
void provider_answer(struct provider *provider,
    const struct http_request *request, int64_t now_us, struct answer *answer);
/* Notes and answers a request that is no HTTP, or too large. */
void provider_refuse(struct provider *provider,
    const struct http_request *request, int64_t now_us, struct answer *answer);
/* Notes a request whose client went away in the middle of the body. */
void provider_abandon(struct provider *provider,
    const struct http_request *request, int64_t now_us);

#endif
