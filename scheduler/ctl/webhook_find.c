/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/webhook_find.h"

#include <inttypes.h>
#include <string.h>

#include "common/time.h"
#include "schema/codes.h"
#include "schema/replay.h"
#include "schema/sql_ctl.h"

/* -- the command line --------------------------------------------------------------- */

static int take_time(const char *option, const char *text, int64_t *wall_us)
{
    if (text == NULL ||
        replay_parse_time(span_of(text), now_wall_us(), wall_us))
        return CTL_DONE;
    return ctl_fail(CTL_USAGE,
        "--%s takes a time of RFC 3339, or 90s, 15m, 2h, 7d", option);
}

/* "2026-12-01T08:00:00.000000Z/3/17", as list prints it. */
static int take_place(const char *text, struct webhook_place *place)
{
    const char *partition = text == NULL ? NULL : strchr(text, '/');
    const char *offset = partition == NULL ? NULL : strchr(partition + 1, '/');
    int64_t number = 0;
    if (text == NULL)
        return CTL_DONE;
    if (offset == NULL ||
        !time_parse_rfc3339(
            (struct span){text, (size_t)(partition - text)}, &place->at_us) ||
        !span_to_int(
            (struct span){partition + 1, (size_t)(offset - partition - 1)},
            &number) ||
        number < 0 || number > INT32_MAX ||
        !span_to_int(span_of(offset + 1), &place->offset))
        return ctl_fail(CTL_USAGE, "--before takes what list printed");
    place->partition = (int32_t)number;
    return CTL_DONE;
}

static int take_names(
    const struct webhook_words *words, struct webhook_filter *filter)
{
    enum webhook_verdict verdict;
    enum webhook_decision decision;
    if (words->tenant == NULL || !name_is_valid(span_of(words->tenant)))
        return ctl_fail(CTL_USAGE, "--tenant is required and must be a name");
    if (words->source != NULL && !name_is_valid(span_of(words->source)))
        return ctl_fail(CTL_USAGE, "--source must be a name");
    if (words->verdict != NULL) {
        if (!webhook_verdict_parse(span_of(words->verdict), &verdict))
            return ctl_fail(
                CTL_USAGE, "--verdict must be verified, conflict or rejected");
        filter->verdict = (int)verdict;
    }
    if (words->decision != NULL) {
        if (!webhook_decision_parse(span_of(words->decision), &decision))
            return ctl_fail(CTL_USAGE,
                "--became must be mapped, unmapped, filtered, failed or held");
        filter->decision = (int)decision;
    }
    return CTL_DONE;
}

int webhook_filter_read(const struct webhook_words *words, int64_t max_limit,
    struct webhook_filter *filter)
{
    filter->tenant = words->tenant;
    filter->source = words->source;
    filter->sender_id = words->sender_id;
    filter->type = words->type;
    filter->verdict = -1;
    int code = take_names(words, filter);
    if (code == CTL_DONE)
        code = take_time("since", words->since, &filter->since_us);
    if (code == CTL_DONE)
        code = take_time("until", words->until, &filter->until_us);
    if (code == CTL_DONE)
        code = take_place(words->before, &filter->before);
    if (code == CTL_DONE && words->limit != NULL &&
        (!span_to_int(span_of(words->limit), &filter->limit) ||
            filter->limit < 1 || filter->limit > max_limit))
        code = ctl_fail(CTL_USAGE, "--limit takes 1 to %" PRId64, max_limit);
    return code;
}

/* -- rows ------------------------------------------------------------------------------ */

static void put_text(struct pg_params *params, const char *text)
{
    if (text == NULL)
        pg_param_null(params);
    else
        pg_param_text(params, span_of(text));
}

static void put_time(struct pg_params *params, int64_t wall_us)
{
    if (wall_us == 0)
        pg_param_null(params);
    else
        pg_param_time(params, wall_us);
}

static void put_number(struct pg_params *params, int number, int none)
{
    if (number == none)
        pg_param_null(params);
    else
        pg_param_int2(params, (int16_t)number);
}

PGresult *webhook_find(
    PGconn *conn, const struct webhook_filter *filter, int *exit_code)
{
    struct pg_params params;
    pg_params_init(&params);
    put_text(&params, filter->tenant);
    put_text(&params, filter->source);
    put_text(&params, filter->sender_id);
    put_text(&params, filter->type);
    put_number(&params, filter->verdict, -1);
    put_number(&params, filter->decision, 0);
    put_time(&params, filter->since_us);
    put_time(&params, filter->until_us);
    put_time(&params, filter->before.at_us);
    pg_param_int4(&params, filter->before.partition);
    pg_param_int8(&params, filter->before.offset);
    pg_param_int4(&params,
        filter->limit < WEBHOOK_PAGE ? (int32_t)filter->limit : WEBHOOK_PAGE);
    PGresult *rows = ctl_query(conn, SQL_CTL_DELIVERY_LIST, &params, exit_code);
    pg_params_fini(&params);
    return rows;
}

void webhook_place_of(
    const PGresult *rows, int row, struct webhook_place *place)
{
    place->at_us = pg_get_time(rows, row, CTL_DELIVERY_AT);
    place->partition = (int32_t)pg_get_int(rows, row, CTL_DELIVERY_PARTITION);
    place->offset = pg_get_int(rows, row, CTL_DELIVERY_OFFSET);
}

const char *webhook_state(const PGresult *rows, int row, int status_column)
{
    if (pg_is_null(rows, row, status_column))
        return "";
    int64_t status = pg_get_int(rows, row, status_column);
    return status == 0 ? "running" : status_name((enum status)status);
}
