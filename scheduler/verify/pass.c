/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order matters: the bounds are read first. So everything up to `low` is in
 * the topic before its end offsets are taken, and every row up to `low` that
 * will ever exist is visible when the rows are read.
 */
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/verify/pass_private.h"

enum { MAX_STORED = 10000, MAX_POSITIONS_BYTES = 4 << 20 };

PGresult *pass_query(
    struct pass *pass, enum sql_verify statement, struct err *err)
{
    PGresult *result = pg_query_blocking(
        pass->conn, &SQL_VERIFY[statement], &pass->params, err);
    pg_params_clear(&pass->params);
    return result;
}

void pass_put_text(struct pass *pass, const char *text)
{
    if (text == NULL) {
        pg_param_null(&pass->params);
    } else {
        pg_param_text(&pass->params, span_of(text));
    }
}

static int run(struct pass *pass, enum sql_verify statement, struct err *err)
{
    PGresult *result = pass_query(pass, statement, err);
    PQclear(result);
    return result == NULL ? -1 : 0;
}

int pass_step(
    struct pass *pass, const char *what, int64_t count, struct err *err)
{
    const struct pass_options *options = pass->options;
    if (options->is_cancelled != NULL && atomic_load(options->is_cancelled)) {
        return err_set(err, ERR_TRANSIENT, "CANCELLED", "the check was ended");
    }
    if (options->on_progress != NULL) {
        options->on_progress(options->arg, what, count);
    }
    return 0;
}

/* -- findings ---------------------------------------------------------------------- */

int pass_find(
    struct pass *pass, enum verify_kind kind, const char *what, struct err *err)
{
    if (pass->options->name == NULL) {
        verify_tally_add(&pass->result->tallies[kind], 1, what);
        return 0;
    }
    if (pass->stored == MAX_STORED) {
        pass->unstored[kind]++;
        return 0;
    }
    pass->stored++;
    pass_put_text(pass, pass->options->name);
    pg_param_int2(&pass->params, (int16_t)kind);
    pass_put_text(pass, what);
    return run(pass, SQL_VERIFY_FIND, err);
}

/* All that was found since the audit began from scratch. */
static int load_findings(struct pass *pass, struct err *err)
{
    pass_put_text(pass, pass->options->name);
    PGresult *found = pass_query(pass, SQL_VERIFY_FINDINGS, err);
    if (found == NULL) {
        return -1;
    }
    for (int row = 0; row < pg_rows(found); row++) {
        const int64_t kind = pg_get_int(found, row, 0);
        struct verify_tally *tally = &pass->result->tallies[kind];
        char *samples = span_dup(pg_get_bytes(found, row, 2));
        char *rest = samples;
        verify_tally_add(
            tally, pg_get_int(found, row, 1) + pass->unstored[kind], NULL);
        for (char *one = strsep(&rest, " "); one != NULL;
             one = strsep(&rest, " ")) {
            verify_tally_add(tally, 0, one);
        }
        free(samples);
    }
    PQclear(found);
    return 0;
}

/* -- marks ------------------------------------------------------------------------- */

static int lock(struct pass *pass, struct err *err)
{
    pass_put_text(pass, pass->options->name);
    PGresult *result = pass_query(pass, SQL_VERIFY_LOCK, err);
    if (result == NULL) {
        return -1;
    }
    const bool is_mine = pg_get_bool(result, 0, 0);
    PQclear(result);
    return is_mine ? 0
                   : err_set(err, ERR_TRANSIENT, "VERIFY_BUSY",
                         "another check of this kind is running");
}

static int parse_mark(struct pass *pass, const PGresult *mark, struct err *err)
{
    pass->has_mark = true;
    pass->mark_us = pg_get_time(mark, 0, MARK_ACCEPTED_AT);
    pass->seen.base = pg_get_int(mark, 0, MARK_SEQ);
    if (positions_parse(&pass->read_from, pg_get_bytes(mark, 0, MARK_READ_FROM),
            err) != 0) {
        return -1;
    }
    return positions_parse(
        &pass->read_to, pg_get_bytes(mark, 0, MARK_READ_TO), err);
}

static int read_mark(struct pass *pass, struct err *err)
{
    if (pass->options->is_full) {
        pass_put_text(pass, pass->options->name);
        return run(pass, SQL_VERIFY_RESET, err);
    }
    pass_put_text(pass, pass->options->name);
    PGresult *mark = pass_query(pass, SQL_VERIFY_MARK_READ, err);
    if (mark == NULL) {
        return -1;
    }
    const int result = pg_rows(mark) == 1 ? parse_mark(pass, mark, err) : 0;
    PQclear(mark);
    return result;
}

static void put_positions(struct pass *pass, const struct positions *positions)
{
    struct buf text;
    buf_init(&text, MAX_POSITIONS_BYTES);
    positions_format(positions, &text);
    pg_param_text(&pass->params, buf_span(&text));
    buf_fini(&text);
}

static int write_mark(struct pass *pass, struct err *err)
{
    const bool has_read = pass->options->has_kafka;
    pass_put_text(pass, pass->options->name);
    pg_param_time(&pass->params, pass->next_us);
    pg_param_int8(&pass->params, has_read ? pass->next_seq : pass->seen.base);
    put_positions(pass, has_read ? &pass->next_from : &pass->read_from);
    put_positions(pass, has_read ? &pass->next_to : &pass->read_to);
    return run(pass, SQL_VERIFY_MARK_WRITE, err);
}

/* -- bounds ------------------------------------------------------------------------ */

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void set_bounds(struct pass *pass, const PGresult *bounds)
{
    const struct pass_options *options = pass->options;
    pass->now_us = pg_get_time(bounds, 0, BOUND_NOW);
    pass->from_us = pg_get_time(bounds, 0, BOUND_OLDEST);
    pass->low = pg_get_int(bounds, 0, BOUND_LOW);
    pass->last = pg_get_int(bounds, 0, BOUND_LAST);
    if (pass->has_mark) {
        pass->from_us = pass->mark_us;
    } else if (options->from_us != 0) {
        pass->from_us = options->from_us - 1;
        pass->seen.base = pg_get_int(bounds, 0, BOUND_FIRST) - 1;
    }
    pass->next_us =
        max_of(pass->from_us, pass->now_us - options->lag_s * US_PER_S);
    pass->next_seq = max_of(
        pass->seen.base, min_of(pass->low, pg_get_int(bounds, 0, BOUND_CALM)));
}

static int read_bounds(struct pass *pass, struct err *err)
{
    pg_param_int8(&pass->params, pass->options->lag_s);
    if (pass->options->from_us != 0) {
        pg_param_time(&pass->params, pass->options->from_us);
    } else {
        pg_param_null(&pass->params);
    }
    PGresult *bounds = pass_query(pass, SQL_VERIFY_BOUNDS, err);
    if (bounds == NULL) {
        return -1;
    }
    set_bounds(pass, bounds);
    PQclear(bounds);
    if (pass->low - pass->seen.base > VERIFY_MAX_SEQS) {
        return err_set(err, ERR_PERMANENT, "VERIFY_TOO_MUCH",
            "more than %lld outcomes in one pass; begin later, with --from",
            (long long)VERIFY_MAX_SEQS);
    }
    return 0;
}

/* -- a pass ------------------------------------------------------------------------- */

static int steps(struct pass *pass, struct err *err)
{
    const bool has_name = pass->options->name != NULL;
    if (has_name && (lock(pass, err) != 0 || read_mark(pass, err) != 0)) {
        return -1;
    }
    pass->result->is_from_scratch =
        !pass->has_mark && pass->options->from_us == 0;
    if (read_bounds(pass, err) != 0) {
        return -1;
    }
    if (pass->options->has_kafka && pass_read_topic(pass, err) != 0) {
        return -1;
    }
    if (pass_judge_actions(pass, err) != 0 ||
        pass_judge_outcomes(pass, err) != 0) {
        return -1;
    }
    pass->result->unpublished_from = pass->floor;
    return has_name &&
                   (write_mark(pass, err) != 0 || load_findings(pass, err) != 0)
               ? -1
               : 0;
}

int pass_run(PGconn *conn, const struct pass_options *options,
    struct pass_result *result, struct err *err)
{
    struct pass pass = {.options = options, .conn = conn, .result = result};
    memset(result, 0, sizeof(*result));
    pg_params_init(&pass.params);
    positions_init(&pass.read_from);
    positions_init(&pass.read_to);
    positions_init(&pass.next_from);
    positions_init(&pass.next_to);
    const int code = steps(&pass, err);
    verify_seen_fini(&pass.seen);
    positions_fini(&pass.next_to);
    positions_fini(&pass.next_from);
    positions_fini(&pass.read_to);
    positions_fini(&pass.read_from);
    pg_params_fini(&pass.params);
    return code;
}

int64_t pass_violations(const struct pass_result *result)
{
    return verify_unaccounted(result->tallies) +
           verify_duplicates(result->tallies);
}
