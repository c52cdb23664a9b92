/* SPDX-License-Identifier: Apache-2.0 */
/* rows: actions, unfinished work and outcomes against each other. */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "common/time.h"
#include "scheduler/verify/pass_private.h"

enum { OUTCOME_ROWS = 10000 };

/* Slices of accepted_at, as wide as the server judges in this time. */
#define FIRST_SLICE_US (60 * US_PER_S)
#define SMALLEST_SLICE_US US_PER_S
#define LARGEST_SLICE_US (INT64_C(366) * 86400 * US_PER_S)
#define FAST_US (200 * US_PER_MS)
#define SLOW_US (1000 * US_PER_MS)

/* -- actions ------------------------------------------------------------------------ */

static void add_samples(
    struct verify_tally *tally, const PGresult *rows, int column)
{
    if (pg_is_null(rows, 0, column)) {
        return;
    }
    char *samples = span_dup(pg_get_bytes(rows, 0, column));
    char *rest = samples;
    for (char *one = strsep(&rest, " "); one != NULL;
         one = strsep(&rest, " ")) {
        verify_tally_add(tally, 0, one);
    }
    free(samples);
}

static void add_judged(struct pass *pass, const PGresult *rows)
{
    struct pass_result *result = pass->result;
    struct verify_tally *missing = &result->tallies[VERIFY_MISSING];
    struct verify_tally *doubles = &result->tallies[VERIFY_DOUBLE];
    result->actions += pg_get_int(rows, 0, JUDGED_COUNT);
    verify_tally_add(missing, pg_get_int(rows, 0, JUDGED_MISSING), NULL);
    verify_tally_add(doubles, pg_get_int(rows, 0, JUDGED_DOUBLE), NULL);
    add_samples(missing, rows, JUDGED_MISSING_IDS);
    add_samples(doubles, rows, JUDGED_DOUBLE_IDS);
}

/* What was not finished when it was judged before. */
static int judge_open(struct pass *pass, struct err *err)
{
    if (!pass->has_mark) {
        return 0;
    }
    pass_put_text(pass, pass->options->name);
    pg_param_time(&pass->params, pass->mark_us);
    PGresult *rows = pass_query(pass, SQL_VERIFY_OPEN, err);
    if (rows == NULL) {
        return -1;
    }
    add_judged(pass, rows);
    PQclear(rows);
    return pass_step(pass, "actions", pass->result->actions, err);
}

static int judge_slice(struct pass *pass, int64_t after_us, int64_t upto_us,
    const char *name, struct err *err)
{
    pg_param_time(&pass->params, after_us);
    pg_param_time(&pass->params, upto_us);
    pass_put_text(pass, pass->options->tenant);
    pass_put_text(pass, name);
    PGresult *rows = pass_query(pass, SQL_VERIFY_ACTIONS, err);
    if (rows == NULL) {
        return -1;
    }
    add_judged(pass, rows);
    PQclear(rows);
    return pass_step(pass, "actions", pass->result->actions, err);
}

/* name: what is unfinished is remembered under it; NULL: it is not. */
static int judge_range(struct pass *pass, int64_t after_us, int64_t upto_us,
    const char *name, struct err *err)
{
    int64_t width_us = FIRST_SLICE_US;
    while (after_us < upto_us) {
        const int64_t end_us =
            upto_us - after_us > width_us ? after_us + width_us : upto_us;
        const int64_t began_us = now_mono_us();
        if (judge_slice(pass, after_us, end_us, name, err) != 0) {
            return -1;
        }
        const int64_t took_us = now_mono_us() - began_us;
        if (took_us < FAST_US && width_us < LARGEST_SLICE_US) {
            width_us *= 2;
        } else if (took_us > SLOW_US && width_us > SMALLEST_SLICE_US) {
            width_us /= 2;
        }
        after_us = end_us;
    }
    return 0;
}

/* -- unfinished work ----------------------------------------------------------------- */

static int judge_orphans(struct pass *pass, struct err *err)
{
    struct verify_tally *tally = &pass->result->tallies[VERIFY_ORPHANED];
    pass_put_text(pass, pass->options->tenant);
    PGresult *rows = pass_query(pass, SQL_VERIFY_ORPHANS, err);
    if (rows == NULL) {
        return -1;
    }
    verify_tally_add(tally, pg_get_int(rows, 0, 0), NULL);
    add_samples(tally, rows, 1);
    PQclear(rows);
    return 0;
}

static int judge_strays(struct pass *pass, struct err *err)
{
    pass_put_text(pass, pass->options->tenant);
    PGresult *rows = pass_query(pass, SQL_VERIFY_STRAYS, err);
    if (rows == NULL) {
        return -1;
    }
    int code = 0;
    for (int row = 0; row < pg_rows(rows) && code == 0; row++) {
        char *id = span_dup(pg_get_bytes(rows, row, 0));
        code = pass_find(pass, VERIFY_STRAY, id, err);
        free(id);
    }
    PQclear(rows);
    return code;
}

static int count_late(struct pass *pass, struct err *err)
{
    pg_param_time(&pass->params, pass->from_us);
    pass_put_text(pass, pass->options->tenant);
    PGresult *rows = pass_query(pass, SQL_VERIFY_LATE, err);
    if (rows == NULL) {
        return -1;
    }
    pass->result->late = pg_get_int(rows, 0, 0);
    PQclear(rows);
    return 0;
}

static int find_oldest(struct pass *pass, struct err *err)
{
    struct pass_result *result = pass->result;
    pass_put_text(pass, pass->options->tenant);
    PGresult *rows = pass_query(pass, SQL_VERIFY_OLDEST, err);
    if (rows == NULL) {
        return -1;
    }
    for (int row = 0; row < pg_rows(rows) && row < VERIFY_SAMPLES; row++) {
        struct pass_oldest *oldest = &result->oldest[row];
        const struct span tenant = pg_get_bytes(rows, row, 0);
        const size_t len = tenant.len < sizeof(oldest->tenant)
                               ? tenant.len
                               : sizeof(oldest->tenant) - 1;
        memcpy(oldest->tenant, tenant.ptr, len);
        oldest->count = pg_get_int(rows, row, 1);
        oldest->age_s = pg_get_int(rows, row, 2);
        result->oldest_count++;
    }
    PQclear(rows);
    return 0;
}

int pass_judge_actions(struct pass *pass, struct err *err)
{
    const char *name = pass->options->name;
    if (judge_open(pass, err) != 0 ||
        judge_range(pass, pass->from_us, pass->next_us, name, err) != 0 ||
        judge_range(pass, pass->next_us, pass->now_us, NULL, err) != 0) {
        return -1;
    }
    if (judge_orphans(pass, err) != 0 || judge_strays(pass, err) != 0 ||
        count_late(pass, err) != 0) {
        return -1;
    }
    return find_oldest(pass, err);
}

/* -- outcomes -------------------------------------------------------------------------- */

static int judge_outcome(
    struct pass *pass, const PGresult *rows, int row, struct err *err)
{
    const int64_t seq = pg_get_int(rows, row, 0);
    char id[UUID_TEXT_SIZE];
    uuid_format(pg_get_uuid(rows, row, 1), id);
    pass->result->outcomes++;
    if (pg_get_bool(rows, row, 2) &&
        pass_find(pass, VERIFY_STRAY, id, err) != 0) {
        return -1;
    }
    if (!pass->options->has_kafka || seq > pass->low || seq < pass->floor ||
        verify_seen_has(&pass->seen, seq)) {
        return 0;
    }
    return pass_find(pass, VERIFY_UNPUBLISHED, id, err);
}

int pass_judge_outcomes(struct pass *pass, struct err *err)
{
    int64_t above = pass->seen.base;
    for (bool is_more = true; is_more;) {
        pg_param_int8(&pass->params, above);
        pg_param_int8(&pass->params, pass->last);
        pass_put_text(pass, pass->options->tenant);
        pg_param_int4(&pass->params, OUTCOME_ROWS);
        PGresult *rows = pass_query(pass, SQL_VERIFY_OUTCOMES, err);
        if (rows == NULL) {
            return -1;
        }
        const int count = pg_rows(rows);
        int code = 0;
        for (int row = 0; row < count && code == 0; row++) {
            code = judge_outcome(pass, rows, row, err);
            above = pg_get_int(rows, row, 0);
        }
        PQclear(rows);
        if (code != 0 ||
            pass_step(pass, "outcomes", pass->result->outcomes, err) != 0) {
            return -1;
        }
        is_more = count == OUTCOME_ROWS;
    }
    return 0;
}
