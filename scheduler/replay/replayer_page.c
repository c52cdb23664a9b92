/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/replay/replayer.h"

/* -- asking ------------------------------------------------------------------------ */

static void put_text(struct pg_params *params, const char *text)
{
    if (text[0] == '\0') {
        pg_param_null(params);
    } else {
        pg_param_text(params, span_of(text));
    }
}

static void put_time(struct pg_params *params, int64_t wall_us)
{
    if (wall_us == 0) {
        pg_param_null(params);
    } else {
        pg_param_time(params, wall_us);
    }
}

void replayer_put_page(
    struct pg_params *params, const struct replay *replay, int32_t rows)
{
    const struct replay_wish *wish = &replay->wish;
    pg_param_uuid(params, wish->id);
    pg_param_text(params, span_of(wish->tenant));
    pg_param_int8(params, replay->position);
    pg_param_int8(params, replay->to_seq);
    pg_param_int4(params, rows);
    pg_param_int4(params, wish->statuses);
    put_text(params, wish->error_code);
    put_time(params, wish->since_us);
    put_time(params, wish->until_us);
    put_text(params, wish->connector);
    put_text(params, wish->action);
    put_text(params, wish->source);
}

static PGresult *ask(
    struct replayer *replayer, const struct replay *replay, struct err *err)
{
    const struct replay_wish *wish = &replay->wish;
    if (wish->id_count == 0) {
        replayer_put_page(&replayer->params, replay, REPLAYER_PAGE);
        return replayer_query(replayer, SQL_REPLAY_SCAN, err);
    }
    pg_param_uuid(&replayer->params, wish->id);
    pg_param_text(&replayer->params, span_of(wish->tenant));
    pg_param_int8(&replayer->params, replay->position);
    pg_param_int8(&replayer->params, replay->position + REPLAYER_PAGE);
    return replayer_query(replayer, SQL_REPLAY_NAMED, err);
}

/* -- judging ----------------------------------------------------------------------- */

static bool get_flag(const PGresult *rows, int row, int column)
{
    return !pg_is_null(rows, row, column) && pg_get_bool(rows, row, column);
}

static void copy_name(
    const PGresult *rows, int row, int column, char name[RECORD_MAX_NAME + 1])
{
    const struct span text = pg_is_null(rows, row, column)
                                 ? (struct span){"", 0}
                                 : pg_get_bytes(rows, row, column);
    const size_t len = text.len <= RECORD_MAX_NAME ? text.len : 0;
    memcpy(name, text.ptr, len);
    name[len] = '\0';
}

/* As it is declared now; NULL: it is not. */
static const struct manifest_action *find_declared(
    const struct replayer *replayer, const PGresult *rows, int row,
    struct manifest **manifest)
{
    char connector[RECORD_MAX_NAME + 1];
    char action[RECORD_MAX_NAME + 1];
    copy_name(rows, row, SCAN_CONNECTOR, connector);
    copy_name(rows, row, SCAN_ACTION, action);
    *manifest = connector_cache_find(replayer->connectors, connector);
    return *manifest == NULL ? NULL : manifest_find(*manifest, action);
}

/* When the provider may forget the key of the line; 0: it keeps none. */
static int64_t key_end_us(
    const struct manifest_action *action, const PGresult *rows, int row)
{
    const int64_t retention_s =
        action == NULL ? 0 : action_key_retention_s(action);
    if (retention_s == 0) {
        return 0;
    }
    if (pg_is_null(rows, row, SCAN_ACCEPTED_AT)) {
        return 1; /* who knows how long ago */
    }
    return pg_get_time(rows, row, SCAN_ACCEPTED_AT) + retention_s * US_PER_S;
}

static struct replay_facts read_facts(const struct replay_wish *wish,
    const PGresult *rows, int row, const struct manifest_action *action)
{
    const int64_t end_us = key_end_us(action, rows, row);
    const bool has_outcome = !pg_is_null(rows, row, SCAN_STATUS);
    const bool has_effect = !pg_is_null(rows, row, SCAN_EFFECT);
    return (struct replay_facts){
        .is_known = get_flag(rows, row, SCAN_IS_KNOWN),
        .is_open = get_flag(rows, row, SCAN_IS_OPEN),
        .is_repeated = get_flag(rows, row, SCAN_IS_REPEATED),
        .has_succeeded = get_flag(rows, row, SCAN_HAS_SUCCEEDED),
        .has_request = get_flag(rows, row, SCAN_HAS_REQUEST),
        .is_paused = get_flag(rows, row, SCAN_IS_PAUSED),
        .is_conflict = !pg_is_null(rows, row, SCAN_ERROR_CODE) &&
                       span_is(pg_get_bytes(rows, row, SCAN_ERROR_CODE),
                           code_name(CODE_IDEMPOTENCY_CONFLICT)),
        .status = has_outcome ? (enum status)pg_get_int(rows, row, SCAN_STATUS)
                              : (enum status)0,
        .before = has_effect ? (enum effect)pg_get_int(rows, row, SCAN_EFFECT)
                             : (enum effect)0,
        .now = action == NULL ? (enum effect)0 : action_effect(action),
        .is_key_expired =
            end_us != 0 && end_us <= pg_get_time(rows, row, SCAN_NOW),
        .is_named = wish->id_count > 0,
        .is_forced = wish->is_forced,
        .has_new_key = wish->has_new_key,
    };
}

static bool is_in_page(
    const struct replayer_page *page, const uint8_t root[UUID_SIZE])
{
    for (size_t i = 0; i < page->count; i++) {
        if (page->ones[i].skip == REPLAY_SKIP_NONE &&
            memcmp(page->ones[i].root, root, UUID_SIZE) == 0) {
            return true;
        }
    }
    return false;
}

static void fill_one(const struct replay_wish *wish, const PGresult *rows,
    int row, struct replayer_one *one)
{
    one->window = (int32_t)pg_get_int(rows, row, SCAN_WINDOW);
    replay_action_id(wish->id, one->root, one->action_id);
    memcpy(one->effect_id,
        wish->has_new_key ? one->action_id
                          : pg_get_uuid(rows, row, SCAN_EFFECT_ID),
        UUID_SIZE);
}

static void judge(const struct replayer *replayer, const struct replay *replay,
    const PGresult *rows, int row, struct replayer_page *page)
{
    struct replayer_one *one = &page->ones[page->count];
    struct manifest *manifest = NULL;
    const struct manifest_action *action =
        find_declared(replayer, rows, row, &manifest);
    struct replay_facts facts = read_facts(&replay->wish, rows, row, action);
    *one = (struct replayer_one){.at = pg_get_int(rows, row, SCAN_AT)};
    memcpy(one->root, pg_get_uuid(rows, row, SCAN_ROOT), UUID_SIZE);
    if (!pg_is_null(rows, row, SCAN_ID)) {
        memcpy(one->id, pg_get_uuid(rows, row, SCAN_ID), UUID_SIZE);
    }
    facts.is_repeated |= is_in_page(page, one->root);
    one->skip = replay_judge(&facts);
    if (one->skip == REPLAY_SKIP_NONE) {
        fill_one(&replay->wish, rows, row, one);
        one->manifest = manifest_digest(manifest);
        one->effect = facts.now;
        /* What may have happened under this key may still be happening. */
        one->is_unknown =
            facts.status == STATUS_INDETERMINATE && !facts.has_new_key;
        one->key_until_us = one->is_unknown && !facts.is_key_expired
                                ? key_end_us(action, rows, row)
                                : 0;
    }
    page->count++;
}

int replayer_read_page(struct replayer *replayer, const struct replay *replay,
    struct replayer_page *page, struct err *err)
{
    PGresult *rows = ask(replayer, replay, err);
    if (rows == NULL) {
        return -1;
    }
    const int count = pg_rows(rows);
    page->count = 0;
    page->last = replay->position;
    page->is_final = true;
    if (count > 0 && !pg_is_null(rows, 0, SCAN_LAST)) {
        page->last = pg_get_int(rows, 0, SCAN_LAST);
        page->is_final = pg_get_int(rows, 0, SCAN_COUNT) < REPLAYER_PAGE;
    }
    for (int row = 0; row < count && row < REPLAYER_PAGE; row++) {
        if (!pg_is_null(rows, row, SCAN_AT)) {
            judge(replayer, replay, rows, row, page);
        }
    }
    PQclear(rows);
    return 0;
}
