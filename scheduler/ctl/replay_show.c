/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/json.h"
#include "common/time.h"
#include "scheduler/ctl/replay.h"
#include "schema/replay_sql.h"
#include "schema/sql_ctl.h"

#define DEFAULT_LIMIT 50
#define MAX_LIMIT 10000
#define MAX_DOCUMENT ((size_t)64 << 10)

static const char *const COLUMNS[] = {"id", "tenant", "what", "state",
    "matched_count", "planned_count", "replayed_count", "ended_count",
    "skipped_count", "actor", "created_at"};

static void put_tenant(struct pg_params *params, const char *tenant)
{
    if (tenant != NULL)
        pg_param_text(params, span_of(tenant));
    else
        pg_param_null(params);
}

bool replay_load(PGconn *conn, const uint8_t id[UUID_SIZE], const char *tenant,
    struct replay *replay, int *exit_code)
{
    struct pg_params params;
    char text[UUID_TEXT_SIZE];
    bool is_found = false;
    pg_params_init(&params);
    pg_param_uuid(&params, id);
    put_tenant(&params, tenant);
    PGresult *rows = ctl_query(conn, SQL_CTL_REPLAY_GET, &params, exit_code);
    pg_params_fini(&params);
    if (rows != NULL && pg_rows(rows) == 1) {
        replay_read(rows, 0, 0, replay);
        is_found = true;
    } else if (rows != NULL) {
        uuid_format(id, text);
        *exit_code = ctl_fail(CTL_NOT_FOUND, "no replay %s", text);
    }
    PQclear(rows);
    return is_found;
}

int replay_do_act(PGconn *conn, const uint8_t id[UUID_SIZE], const char *tenant,
    enum replay_act act)
{
    struct pg_params params;
    struct replay replay;
    int code = CTL_DONE;
    if (!replay_load(conn, id, tenant, &replay, &code))
        return code;
    pg_params_init(&params);
    pg_param_uuid(&params, id);
    put_tenant(&params, tenant);
    pg_param_int4(&params, (int32_t)act);
    ctl_put_actor(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_REPLAY_ACT, &params, &code);
    pg_params_fini(&params);
    if (rows != NULL && pg_rows(rows) == 0 &&
        replay_load(conn, id, tenant, &replay, &code))
        code = ctl_fail(CTL_CONFLICT,
            replay.phase == REPLAY_ENDING
                ? "it is too late: all of its actions are on their way"
                : "the replay is over: %s",
            replay_state(&replay));
    PQclear(rows);
    return code;
}

/* -- list ------------------------------------------------------------------------- */

static void add_row(struct ctl_table *table, const struct replay *replay)
{
    char id[UUID_TEXT_SIZE];
    char created[TIME_TEXT_SIZE];
    char counts[5][24];
    const int64_t numbers[] = {replay->matched, replay->planned,
        replay->published, replay_ended(replay), replay_skipped(replay)};
    uuid_format(replay->wish.id, id);
    time_format_rfc3339(replay->created_at_us, created);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        snprintf(counts[i], sizeof counts[i], "%lld", (long long)numbers[i]);
    ctl_table_add(table,
        (const char *[]){id, replay->wish.tenant,
            replay->wish.kind == REPLAY_OUTCOMES ? "outcomes" : "actions",
            replay_state(replay), counts[0], counts[1], counts[2], counts[3],
            counts[4], replay->wish.actor, created});
}

static void print_document(const struct replay *replay)
{
    struct buf out;
    buf_init(&out, MAX_DOCUMENT);
    replay_put(&out, replay);
    puts(buf_str(&out));
    buf_fini(&out);
}

static void print_rows(struct ctl *ctl, const PGresult *rows)
{
    struct replay replay;
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    for (int row = 0; row < pg_rows(rows); row++) {
        replay_read(rows, row, 0, &replay);
        if (ctl->is_json)
            print_document(&replay);
        else
            add_row(table, &replay);
    }
    ctl_table_end(table);
}

int replay_list(struct ctl *ctl, const char *tenant, const char *limit)
{
    struct pg_params params;
    int64_t rows_max = DEFAULT_LIMIT;
    int code = CTL_DONE;
    if (limit != NULL && (!span_to_int(span_of(limit), &rows_max) ||
                             rows_max < 1 || rows_max > MAX_LIMIT))
        return ctl_fail(CTL_USAGE, "--limit takes 1 to %d", MAX_LIMIT);
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    pg_params_init(&params);
    put_tenant(&params, tenant);
    pg_param_null(&params);
    pg_param_int4(&params, (int32_t)rows_max);
    PGresult *rows = ctl_query(conn, SQL_CTL_REPLAY_LIST, &params, &code);
    if (rows != NULL)
        print_rows(ctl, rows);
    PQclear(rows);
    pg_params_fini(&params);
    PQfinish(conn);
    return code;
}

/* -- show ----------------------------------------------------------------------------- */

static void print_time(const char *label, int64_t wall_us)
{
    char text[TIME_TEXT_SIZE];
    if (wall_us == 0)
        return;
    time_format_rfc3339(wall_us, text);
    printf("%-10s %s\n", label, text);
}

static void print_text(const char *label, const char *text)
{
    if (text[0] == '\0')
        return;
    printf("%-10s ", label);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
    putchar('\n');
}

static void print_number(const char *label, int64_t number)
{
    if (number != 0)
        printf("%-10s %lld\n", label, (long long)number);
}

static void print_filter(const struct replay_wish *wish)
{
    print_number("ids", wish->id_count);
    for (int status = 1; status < REPLAY_STATUS_COUNT; status++)
        if ((wish->statuses & (1 << status)) != 0)
            print_text("status", status_name((enum status)status));
    print_text("connector", wish->connector);
    print_text("action", wish->action);
    print_text("error code", wish->error_code);
    print_time("since", wish->since_us);
    print_time("until", wish->until_us);
    print_text("source", wish->source);
    print_number("rate", wish->rate);
    print_number("limit", wish->max_rows);
    print_text("to", wish->to_topic);
    print_text("key", wish->has_new_key ? "new" : "same");
    print_text("forced", wish->is_forced ? "yes" : "");
    print_text("dry run", wish->is_dry_run ? "yes" : "");
}

int replay_show(struct ctl *ctl, const struct replay *replay)
{
    char id[UUID_TEXT_SIZE];

    if (ctl->is_json) {
        print_document(replay);
        return CTL_DONE;
    }
    uuid_format(replay->wish.id, id);
    print_text("id", id);
    print_text("tenant", replay->wish.tenant);
    print_text("state", replay_state(replay));
    print_text("actor", replay->wish.actor);
    print_text("reason", replay->wish.reason);
    print_filter(&replay->wish);
    print_time("created", replay->created_at_us);
    print_time("ended", replay->ended_at_us);
    print_number("matched", replay->matched);
    print_number("planned", replay->planned);
    print_number("replayed", replay->published);
    for (int status = 1; status < REPLAY_STATUS_COUNT; status++)
        print_number(status_name((enum status)status), replay->ends[status]);
    for (size_t i = 1; i < REPLAY_SKIP_COUNT; i++)
        if (replay->skips[i] != 0)
            printf("%-10s %lld: %s\n", "left out", (long long)replay->skips[i],
                replay_skip_text((enum replay_skip)i));
    print_text("trouble", replay->trouble);
    return CTL_DONE;
}
