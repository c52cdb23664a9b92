/* SPDX-License-Identifier: Apache-2.0 */
/*
 * challenge: requests by which a sender makes sure that the address is ours.
 * They bring no event and are never stored. One is answered only when its own
 * signature holds (or, for Meta's GET, its verify token), so that nobody else
 * can have anything signed or reflected.
 */
#ifndef CHALLENGE_H
#define CHALLENGE_H

#include "schema/signature.h"

enum challenge {
    CHALLENGE_NONE, /* an event like any other */
    CHALLENGE_ANSWERED,
    CHALLENGE_BAD /* it is one, but says nothing that could be answered */
};

struct challenge_reply {
    const char *content_type; /* static */
    struct buf body;          /* made by the caller */
};

/* For a request that was rightly signed with the key. */
enum challenge challenge_answer(const struct signature_scheme *scheme,
    const struct signature_input *input, struct span key,
    struct challenge_reply *reply);

/* Meta's GET: true if mode and token are right. Arguments may be NULL; without
 * a token configured (empty) nothing is right. */
bool challenge_is_subscribed(
    const char *mode, const char *sent, struct span token);
/* What of it is sent back: 1 to 1024 printable ASCII characters. */
bool challenge_is_text(struct span text);

#endif
