/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control API, everything under `/_control/` (README.md lists it). Its
 * requests are neither logged nor counted.
 */
#ifndef DOUBLE_CONTROL_H
#define DOUBLE_CONTROL_H

#include "provider.h"

/* True for a path that belongs to the control API. */
bool control_owns(const struct http_request *request);
/* Does what the request says; `answer` comes cleared. */
void control_answer(struct provider *provider,
    const struct http_request *request, struct answer *answer);

#endif
