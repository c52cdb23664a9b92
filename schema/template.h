/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template: texts with {{placeholders}} that a record fills in (CONTRACTS,
 * "Templates"). A placeholder is `payload`, `payload.<name>...` (a name, or
 * an index of an array), `action.id`, `action.tenant` or `action.key`.
 * In the mapping of a webhook it is `body`, `body.<name>...`,
 * `headers.<name>` or `webhook.<name>` (webhook_view.h).
 * Everything loaded lives in the arena of its manifest or mapping.
 */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include "schema/arena.h"
#include "schema/path.h"

struct text_template;
struct json_template;

/* What placeholders may name. A template of a webhook is filled in by a record
 * whose payload is the view. */
enum template_scope { TEMPLATE_OF_ACTION, TEMPLATE_OF_WEBHOOK };

/* text: decoded. NULL and a fault when a placeholder is not well-formed. */
struct text_template *template_load(struct arena *arena, struct span text,
    enum template_scope scope, const struct path *path, struct fault *fault);

/* source: any JSON value; must live as long as the arena. A string that is
 * exactly one placeholder becomes the value itself. Member names are fixed. */
struct json_template *json_template_load(struct arena *arena,
    struct json_value source, enum template_scope scope,
    const struct path *path, struct fault *fault);

/* The fixed texts of a template, for checks at load. */
size_t template_piece_count(const struct text_template *template);
/* NULL ptr: piece `index` is a placeholder. */
struct span template_fixed(const struct text_template *template, size_t index);

enum template_use {
    TEMPLATE_SEGMENT, /* of a path: values percent-encoded, not empty, not "."
                         or ".."; fixed text as it is */
    TEMPLATE_SCALAR,  /* values must be string, number, true or false */
    TEMPLATE_HEADER,  /* the same, without control characters but tab */
    TEMPLATE_TEXT     /* other values become their JSON text */
};

/* Appends the text. -1: TEMPLATE_INVALID with the pointer of the member that
 * is missing or does not fit. */
int template_put(const struct text_template *template, enum template_use use,
    const struct record *record, struct buf *out,
    struct fault *fault) MUST_CHECK;

/* Appends the JSON text: fixed parts and values byte for byte. */
int json_template_put(const struct json_template *template,
    const struct record *record, struct buf *out,
    struct fault *fault) MUST_CHECK;

/* Appends with all but RFC 3986 unreserved characters percent-encoded. */
void percent_put(struct buf *out, struct span text);

#endif
