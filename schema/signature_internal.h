/* SPDX-License-Identifier: Apache-2.0 */
/* signature_internal: what the signature*.c files share. */
#ifndef SIGNATURE_INTERNAL_H
#define SIGNATURE_INTERNAL_H

#include "schema/signature.h"

#define SIGNATURE_MAX_FORM 1024 /* fields of a form that is signed */

/* What a message is made of, beside the input. */
struct signature_parts {
    struct span id;
    struct span time;
    struct span url; /* the parameter, or its other form */
};

/* Appends what is signed. False if the body is no form that can be. */
bool signature_put_message(const struct signature_scheme *scheme,
    const struct signature_input *input, const struct signature_parts *parts,
    struct buf *out);

/* Appends the URL with its default port added or taken away; false if it has
 * another one. */
bool signature_put_other_url(struct span url, struct buf *out);

#endif
