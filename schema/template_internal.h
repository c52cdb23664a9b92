/* SPDX-License-Identifier: Apache-2.0 */
/* What template_load.c and template_put.c share. */
#ifndef TEMPLATE_INTERNAL_H
#define TEMPLATE_INTERNAL_H

#include "schema/template.h"

enum piece_kind {
    PIECE_FIXED,
    PIECE_PAYLOAD, /* text: JSON pointer into the payload */
    PIECE_VIEW,    /* text: JSON pointer into the view of a webhook */
    PIECE_ID,
    PIECE_TENANT,
    PIECE_KEY
};

struct piece {
    enum piece_kind kind;
    struct span text;
};

struct text_template {
    struct piece *pieces;
    size_t count;
};

struct json_piece {
    struct span fixed;                  /* when string is NULL: raw JSON */
    const struct text_template *string; /* a string with placeholders */
};

struct json_template {
    struct json_piece *pieces;
    size_t count;
};

#endif
