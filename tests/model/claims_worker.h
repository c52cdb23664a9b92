/* SPDX-License-Identifier: Apache-2.0 */
/* claims_worker: what a worker of claims_model may do next. */
#ifndef CLAIMS_WORKER_H
#define CLAIMS_WORKER_H

#include "tests/model/claims_state.h"
#include "tests/model/search.h"

/* Adds every next step of a running boot. */
void claims_worker_expand(struct search *search,
    const struct claims_config *config, const struct claims_state *state,
    int boot);

/* Lets a statement be given up while it may still run. False: there is no
 * room. */
bool claims_delay(struct claims_state *state,
    const struct claims_config *config,
    const struct claims_statement *statement);

/* Empties a boot's memory; its rows stay. */
void claims_end_process(struct claims_state *state, int boot);

#endif
