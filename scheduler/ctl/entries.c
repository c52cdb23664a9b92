/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/entries.h"

#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/moment.h"
#include "schema/record.h"

/* An outcome may have a mebibyte. */
enum { LEDGER_ROWS = 500, OUTCOME_ROWS = 64, SIDES = 2 };

/* One of the two tables, and how far it has been read. */
struct side {
    int statement;
    int limit;
    bool is_over;
    PGresult *rows; /* owned */
    int row;
    int64_t at_us;
    uint8_t entry[UUID_SIZE];
    int64_t seq;
};

struct reading {
    PGconn *conn;
    const struct entries_query *query;
    struct side sides[SIDES]; /* ledger, outcomes */
    int code;
};

static void put_text(struct pg_params *params, const char *text)
{
    if (text != NULL)
        pg_param_text(params, span_of(text));
    else
        pg_param_null(params);
}

static void put_query(
    struct pg_params *params, const struct entries_query *query)
{
    put_text(params, query->tenant);
    if (query->has_id)
        pg_param_uuid(params, query->id);
    else
        pg_param_null(params);
    pg_param_time(params, query->since_us);
    if (query->until_us != 0)
        pg_param_time(params, query->until_us);
    else
        pg_param_null(params);
}

static void put_position(
    struct pg_params *params, const struct reading *reading, size_t index)
{
    const struct entries_query *query = reading->query;
    const struct side *side = &reading->sides[index];
    if (side->statement == SQL_CTL_ENTRIES) {
        pg_param_time(params, side->at_us);
        pg_param_uuid(params, side->entry);
        if (query->kind >= 0)
            pg_param_int2(params, (int16_t)query->kind);
        else
            pg_param_null(params);
        put_text(params, query->actor);
    } else {
        pg_param_int8(params, side->seq);
    }
    pg_param_int4(params, side->limit);
}

/* Makes sure that a row is at hand, unless the side is over. */
static void fill(struct reading *reading, size_t index)
{
    struct side *side = &reading->sides[index];
    struct pg_params params;
    if (side->is_over ||
        (side->rows != NULL && side->row < pg_rows(side->rows)))
        return;
    if (side->rows != NULL && pg_rows(side->rows) < side->limit) {
        side->is_over = true;
        return;
    }
    PQclear(side->rows);
    side->row = 0;
    pg_params_init(&params);
    put_query(&params, reading->query);
    put_position(&params, reading, index);
    side->rows =
        ctl_query(reading->conn, side->statement, &params, &reading->code);
    side->is_over = side->rows == NULL || pg_rows(side->rows) == 0;
    pg_params_fini(&params);
}

static void step(struct side *side)
{
    side->at_us = pg_get_time(side->rows, side->row, ENTRY_AT);
    memcpy(side->entry, pg_get_uuid(side->rows, side->row, ENTRY_ENTRY),
        UUID_SIZE);
    if (side->statement == SQL_CTL_OUTCOMES)
        side->seq = pg_get_int(side->rows, side->row, ENTRY_SEQ);
    side->row++;
}

/* The side whose next row is the older one; NULL: both are over. */
static struct side *choose(struct reading *reading)
{
    struct side *best = NULL;
    for (size_t i = 0; i < SIDES; i++) {
        struct side *side = &reading->sides[i];
        fill(reading, i);
        if (side->is_over)
            continue;
        if (best == NULL || pg_get_time(side->rows, side->row, ENTRY_AT) <
                                pg_get_time(best->rows, best->row, ENTRY_AT))
            best = side;
    }
    return best;
}

static bool wants_outcomes(const struct entries_query *query)
{
    static const char FLEET[] = "fleet";
    return (query->kind < 0 || query->kind == LEDGER_OUTCOME) &&
           (query->actor == NULL ||
               strncmp(FLEET, query->actor, strlen(query->actor)) == 0);
}

int entries_read(
    PGconn *conn, const struct entries_query *query, entry_fn take, void *owner)
{
    struct reading reading = {
        .conn = conn,
        .query = query,
        .sides = {{.statement = SQL_CTL_ENTRIES,
                      .limit = LEDGER_ROWS,
                      .at_us = query->since_us,
                      .is_over = query->kind == LEDGER_OUTCOME},
            {.statement = SQL_CTL_OUTCOMES,
                .limit = OUTCOME_ROWS,
                .seq = query->after_seq,
                .is_over = !wants_outcomes(query)}},
    };
    struct side *side = NULL;
    while (reading.code == CTL_DONE && (side = choose(&reading)) != NULL &&
           take(owner, side->rows, side->row))
        step(side);
    for (size_t i = 0; i < SIDES; i++)
        PQclear(reading.sides[i].rows);
    return reading.code;
}

/* -- words --------------------------------------------------------------------------- */

static int parse_names(
    const struct entries_words *words, struct entries_query *query)
{
    enum ledger_kind kind = LEDGER_OUTCOME;
    query->kind = -1;
    query->tenant = words->tenant;
    query->actor = words->actor;
    if (words->tenant != NULL && !name_is_valid(span_of(words->tenant)))
        return ctl_fail(CTL_USAGE, "--tenant must be a name");
    if (words->id != NULL && !uuid_parse(span_of(words->id), query->id))
        return ctl_fail(CTL_USAGE, "--id: '%s' is not an action id", words->id);
    query->has_id = words->id != NULL;
    if (words->kind != NULL) {
        if (!ledger_kind_parse(span_of(words->kind), &kind))
            return ctl_fail(CTL_USAGE, "--kind: there is no '%s'", words->kind);
        query->kind = (int)kind;
    }
    return CTL_DONE;
}

int entries_parse(PGconn *conn, const struct entries_words *words,
    int64_t default_age_us, struct entries_query *query)
{
    int64_t now_us = 0;
    int code = parse_names(words, query);
    if (code == CTL_DONE)
        code = ctl_now(conn, &now_us);
    if (code != CTL_DONE)
        return code;
    query->since_us = default_age_us == 0 ? 1 : now_us - default_age_us;
    query->until_us = 0;
    if (words->since != NULL &&
        !moment_parse(words->since, now_us, &query->since_us))
        return ctl_fail(CTL_USAGE,
            "--since takes a time of RFC 3339, or an age as 90s, 15m, 2h, 7d");
    if (words->until != NULL &&
        !moment_parse(words->until, now_us, &query->until_us))
        return ctl_fail(CTL_USAGE,
            "--until takes a time of RFC 3339, or an age as 90s, 15m, 2h, 7d");
    return CTL_DONE;
}
