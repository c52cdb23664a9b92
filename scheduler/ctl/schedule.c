/* SPDX-License-Identifier: Apache-2.0 */
/* schedule: what fires when: cron lines, intervals, one-offs. */
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/schedule_ask.h"
#include "schema/manifest.h"
#include "schema/schedule_rows.h"
#include "schema/sql_ctl.h"

enum { LIST_ROWS = 1000, NEXT_COUNT = 5, NEXT_MAX = 1000 };
#define MAX_RENDERED ((size_t)4 << 20)

/* -- rows ------------------------------------------------------------------ */

static const char *kind_text(const struct schedule *schedule, struct buf *out)
{
    char at[TIME_TEXT_SIZE];
    switch (schedule->kind) {
    case SCHEDULE_CRON:
        buf_printf(out, "%s %s", schedule->cron_text, schedule->zone);
        break;
    case SCHEDULE_EVERY:
        buf_printf(
            out, "every %lld s", (long long)(schedule->every_us / US_PER_S));
        break;
    case SCHEDULE_ONCE:
    default:
        time_format_rfc3339(schedule->start_us, at);
        buf_printf(out, "once at %s", at);
        break;
    }
    return buf_str(out);
}

static const char *const COLUMNS[] = {"tenant", "name", "state", "when",
    "connector", "misfire", "next_at", "last_at", "last_action", "fired_count",
    "missed_count"};

static void time_text(
    const PGresult *rows, int row, int column, char text[TIME_TEXT_SIZE])
{
    text[0] = '\0';
    if (!pg_is_null(rows, row, column))
        time_format_rfc3339(pg_get_time(rows, row, column), text);
}

static void add_row(struct ctl_table *table, const PGresult *rows, int row)
{
    char next[TIME_TEXT_SIZE];
    char last[TIME_TEXT_SIZE];
    char action[UUID_TEXT_SIZE] = "";
    char fired[24];
    char missed[24];
    struct schedule schedule;
    struct fault fault = FAULT_INIT;
    struct buf when;
    char *tenant = span_dup(pg_get_bytes(rows, row, SCHEDULE_TENANT));
    char *name = span_dup(pg_get_bytes(rows, row, SCHEDULE_NAME));
    const enum schedule_state state =
        (enum schedule_state)pg_get_int(rows, row, SCHEDULE_STATE);
    const bool is_read = schedule_of_row(rows, row, &schedule, &fault) == 0;
    buf_init(&when, 512);
    time_text(rows, row, SCHEDULE_NEXT_AT, next);
    time_text(rows, row, SCHEDULE_LAST_AT, last);
    if (!pg_is_null(rows, row, SCHEDULE_LAST_ACTION))
        uuid_format(pg_get_uuid(rows, row, SCHEDULE_LAST_ACTION), action);
    snprintf(fired, sizeof fired, "%lld",
        (long long)pg_get_int(rows, row, SCHEDULE_FIRED));
    snprintf(missed, sizeof missed, "%lld",
        (long long)pg_get_int(rows, row, SCHEDULE_MISSED));
    ctl_table_add(table,
        (const char *[]){tenant, name, schedule_state_name(state),
            is_read ? kind_text(&schedule, &when) : "unreadable",
            is_read ? schedule.connector : "",
            is_read ? schedule_misfire_name(schedule.misfire) : "",
            state == SCHEDULE_ACTIVE ? next : "", last, action, fired, missed});
    buf_fini(&when);
    free(tenant);
    free(name);
}

/* One schedule: a table row, or the object that HTTP shows. */
static void print_one(struct ctl *ctl, const PGresult *rows)
{
    struct buf out;
    if (!ctl->is_json) {
        struct ctl_table *table =
            ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
        add_row(table, rows, 0);
        ctl_table_end(table);
        return;
    }
    buf_init(&out, SCHEDULE_VIEW_MAX_BYTES);
    schedule_put_row(&out, rows, 0);
    puts(buf_str(&out));
    buf_fini(&out);
}

/* -- add ------------------------------------------------------------------- */

/* By the connector of today: NULL, and a fault, if there is none. */
static struct manifest *read_manifest(
    PGconn *conn, const char *connector, struct fault *fault, int *code)
{
    struct manifest *manifest = NULL;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(connector));
    pg_param_null(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_CONNECTOR_SHOW, &params, code);
    pg_params_fini(&params);
    if (rows != NULL && pg_rows(rows) == 0)
        (void)fault_set(fault, CODE_UNKNOWN_CONNECTOR, "", NULL);
    else if (rows != NULL)
        manifest = manifest_load(pg_get_bytes(rows, 0, 0), fault);
    PQclear(rows);
    return manifest;
}

static int judge_by(const struct manifest *manifest,
    const struct record *record, struct fault *fault)
{
    const struct manifest_action *action =
        manifest_find(manifest, record->action);
    struct call call;
    struct buf rendered;
    if (action == NULL)
        return fault_set(fault, CODE_UNKNOWN_ACTION, "", NULL);
    if (action_check_payload(action, record->payload, fault) != 0)
        return -1;
    buf_init(&rendered, MAX_RENDERED);
    const int rc = action_render(action, record, &rendered, &call, fault);
    buf_fini(&rendered);
    return rc;
}

/* As the worker will judge the request of a tick. */
static int judge(PGconn *conn, const struct schedule *schedule,
    const char *tenant, struct fault *fault, int *code)
{
    static const uint8_t id[UUID_SIZE] = {0};
    const struct record_source source = {.door = RECORD_DOOR_HTTP,
        .tenant = span_of(tenant),
        .has_tenant = true};
    struct record record;
    struct buf text;
    int rc = -1;
    struct manifest *manifest =
        read_manifest(conn, schedule->connector, fault, code);
    buf_init(&text, RECORD_MAX_BYTES);
    schedule_put_record(&text, schedule, tenant, id, US_PER_S);
    if (manifest != NULL &&
        record_parse(buf_span(&text), &source, &record, fault) == RECORD_OK)
        rc = judge_by(manifest, &record, fault);
    manifest_free(manifest);
    buf_fini(&text);
    return rc;
}

static int say_conflict(const struct schedule_ask *ask)
{
    return ctl_fail(CTL_CONFLICT,
        "tenant %s has another schedule %s already; remove it first",
        ask->tenant, ask->name);
}

/* What is there before: the clock, and whether there is one of that name. */
static PGresult *prepare(
    PGconn *conn, const struct schedule_ask *ask, int *code)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(ask->tenant));
    pg_param_text(&params, span_of(ask->name));
    PGresult *rows = ctl_query(conn, SQL_CTL_SCHEDULE_PREPARE, &params, code);
    pg_params_fini(&params);
    return rows;
}

static int insert(struct ctl *ctl, PGconn *conn, const struct schedule_ask *ask,
    struct span document, struct schedule *schedule, const struct zone *zone,
    int64_t now_us)
{
    uint8_t id[UUID_SIZE];
    int64_t next_us = 0;
    int code = CTL_DONE;
    struct pg_params params;
    if (!schedule->has_start && schedule->kind == SCHEDULE_EVERY)
        schedule->start_us = now_us;
    if (!schedule_next(schedule, zone, now_us, &next_us))
        return ctl_fail(CTL_USAGE, "that time has passed");
    uuid_v7(id);
    pg_params_init(&params);
    pg_param_uuid(&params, id);
    pg_param_text(&params, span_of(ask->tenant));
    pg_param_text(&params, span_of(ask->name));
    pg_param_bytea(&params, document);
    pg_param_time(&params, next_us);
    pg_param_time(&params, now_us);
    ctl_put_actor(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_SCHEDULE_ADD, &params, &code);
    if (rows != NULL && pg_rows(rows) == 0)
        code = say_conflict(ask);
    else if (rows != NULL)
        print_one(ctl, rows);
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

static int add_on(struct ctl *ctl, PGconn *conn, const struct schedule_ask *ask,
    struct span document, struct schedule *schedule, const struct zone *zone)
{
    struct fault fault = FAULT_INIT;
    int code = CTL_DONE;
    if (judge(conn, schedule, ask->tenant, &fault, &code) != 0)
        return code != CTL_DONE
                   ? code
                   : ctl_fail(CTL_NEGATIVE, "%s: %s%s%s", code_name(fault.code),
                         fault.pointer, fault.pointer[0] != '\0' ? ": " : "",
                         fault.detail);
    PGresult *rows = prepare(conn, ask, &code);
    if (rows == NULL)
        return code;
    const int64_t now_us = pg_get_time(rows, 0, SCHEDULE_NOW);
    if (!pg_is_null(rows, 0, SCHEDULE_ID) && schedule_row_is(rows, 0, document))
        print_one(ctl, rows); /* said again */
    else if (!pg_is_null(rows, 0, SCHEDULE_ID))
        code = say_conflict(ask);
    else if (pg_get_int(rows, 0, SCHEDULE_COUNT) >= SCHEDULE_MAX_COUNT)
        code = ctl_fail(CTL_CONFLICT, "a tenant has at most %d schedules",
            SCHEDULE_MAX_COUNT);
    else
        code = insert(ctl, conn, ask, document, schedule, zone, now_us);
    PQclear(rows);
    return code;
}

static int add(struct ctl *ctl, const struct schedule_ask *ask)
{
    struct buf document;
    struct schedule schedule;
    struct zone *zone = NULL;
    PGconn *conn = NULL;
    buf_init(&document, SCHEDULE_MAX_BYTES + 1);
    int code = schedule_ask_document(ask, &document, &schedule, &zone);
    if (code == CTL_DONE)
        conn = ctl_connect(ctl, &code);
    if (conn != NULL)
        code = add_on(ctl, conn, ask, buf_span(&document), &schedule, zone);
    PQfinish(conn);
    zone_free(zone);
    buf_fini(&document);
    return code;
}

/* -- next ------------------------------------------------------------------ */

static int next(struct ctl *ctl, struct schedule_ask *ask)
{
    static const char *const columns[] = {"tick"};
    struct buf document;
    struct schedule schedule;
    struct zone *zone = NULL;
    int64_t at_us = now_wall_us();
    int64_t count = NEXT_COUNT;
    if (ask->after != NULL && !time_parse_rfc3339(span_of(ask->after), &at_us))
        return ctl_fail(CTL_USAGE,
            "--after takes a time of RFC 3339 with a zone, not '%s'",
            ask->after);
    if (ask->count != NULL && (!span_to_int(span_of(ask->count), &count) ||
                                  count < 1 || count > NEXT_MAX))
        return ctl_fail(
            CTL_USAGE, "--count takes a number from 1 to %d", NEXT_MAX);
    /* Only the times matter. */
    ask->name = ask->tenant = ask->connector = ask->action = "any";
    buf_init(&document, SCHEDULE_MAX_BYTES + 1);
    const int code = schedule_ask_document(ask, &document, &schedule, &zone);
    if (code == CTL_DONE) {
        if (schedule.kind == SCHEDULE_EVERY && !schedule.has_start)
            schedule.start_us = at_us;
        struct ctl_table *table =
            ctl_table_new(ctl, columns, ARRAY_LEN(columns));
        while (count-- > 0 && schedule_next(&schedule, zone, at_us, &at_us)) {
            char text[TIME_TEXT_SIZE];
            time_format_rfc3339(at_us, text);
            ctl_table_add(table, (const char *[]){text});
        }
        ctl_table_end(table);
    }
    zone_free(zone);
    buf_fini(&document);
    return code;
}

/* -- list, show, pause, resume, remove ------------------------------------- */

static int list_on(struct ctl *ctl, PGconn *conn, const char *tenant)
{
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    char *after_tenant = mem_strdup("");
    char *after_name = mem_strdup("");
    int code = CTL_DONE;
    int count = LIST_ROWS;
    while (count == LIST_ROWS) {
        struct pg_params params;
        pg_params_init(&params);
        if (tenant != NULL)
            pg_param_text(&params, span_of(tenant));
        else
            pg_param_null(&params);
        pg_param_text(&params, span_of(after_tenant));
        pg_param_text(&params, span_of(after_name));
        pg_param_int4(&params, LIST_ROWS);
        PGresult *rows = ctl_query(conn, SQL_CTL_SCHEDULE_LIST, &params, &code);
        pg_params_fini(&params);
        count = rows == NULL ? 0 : pg_rows(rows);
        for (int row = 0; row < count; row++)
            add_row(table, rows, row);
        if (count > 0) {
            free(after_tenant);
            free(after_name);
            after_tenant =
                span_dup(pg_get_bytes(rows, count - 1, SCHEDULE_TENANT));
            after_name = span_dup(pg_get_bytes(rows, count - 1, SCHEDULE_NAME));
        }
        PQclear(rows);
    }
    free(after_tenant);
    free(after_name);
    ctl_table_end(table);
    return code;
}

static PGresult *get(PGconn *conn, const struct schedule_ask *ask, int *code)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_null(&params);
    pg_param_text(&params, span_of(ask->tenant));
    pg_param_text(&params, span_of(ask->name));
    PGresult *rows = ctl_query(conn, SQL_CTL_SCHEDULE_GET, &params, code);
    pg_params_fini(&params);
    if (rows != NULL && pg_rows(rows) == 0)
        *code = ctl_fail(CTL_NOT_FOUND, "tenant %s has no schedule %s",
            ask->tenant, ask->name);
    return rows;
}

static int switch_to(struct ctl *ctl, PGconn *conn, const PGresult *rows,
    const struct schedule_ask *ask, bool is_pause)
{
    const enum schedule_state state =
        (enum schedule_state)pg_get_int(rows, 0, SCHEDULE_STATE);
    const enum schedule_state wanted =
        is_pause ? SCHEDULE_PAUSED : SCHEDULE_ACTIVE;
    struct fault fault = FAULT_INIT;
    struct pg_params params;
    int64_t next_us = 0;
    int code = CTL_DONE;
    if (state == wanted) {
        print_one(ctl, rows);
        return code;
    }
    if (state == SCHEDULE_DONE)
        return ctl_fail(CTL_CONFLICT,
            "schedule %s is done: it has no tick left", ask->name);
    if (!is_pause && schedule_row_resume(rows, 0, &next_us, &fault) != 0)
        return ctl_fail(CTL_FAILED, "%s", fault.detail);
    pg_params_init(&params);
    pg_param_uuid(&params, pg_get_uuid(rows, 0, SCHEDULE_ID));
    pg_param_text(&params, span_of(ask->tenant));
    pg_param_int2(&params, (int16_t)state);
    pg_param_int2(&params, (int16_t)wanted);
    if (is_pause)
        pg_param_null(&params);
    else
        pg_param_time(&params, next_us);
    ctl_put_actor(&params);
    pg_param_text(&params,
        is_pause ? SPAN_LIT("schedule.pause") : SPAN_LIT("schedule.resume"));
    PGresult *changed =
        ctl_query(conn, SQL_CTL_SCHEDULE_SWITCH, &params, &code);
    if (changed != NULL && pg_rows(changed) == 0)
        code = ctl_fail(CTL_TRY_LATER, "it changed just now; try again");
    else if (changed != NULL)
        print_one(ctl, changed);
    PQclear(changed);
    pg_params_fini(&params);
    return code;
}

static int remove_it(
    PGconn *conn, const PGresult *rows, const struct schedule_ask *ask)
{
    struct pg_params params;
    int code = CTL_DONE;
    pg_params_init(&params);
    pg_param_uuid(&params, pg_get_uuid(rows, 0, SCHEDULE_ID));
    pg_param_text(&params, span_of(ask->tenant));
    ctl_put_actor(&params);
    PQclear(ctl_query(conn, SQL_CTL_SCHEDULE_REMOVE, &params, &code));
    pg_params_fini(&params);
    return code;
}

/* -- the command ----------------------------------------------------------- */

static int act_on(struct ctl *ctl, PGconn *conn, const char *verb,
    const struct schedule_ask *ask)
{
    int code = CTL_DONE;
    if (strcmp(verb, "list") == 0)
        return list_on(ctl, conn, ask->tenant);
    PGresult *rows = get(conn, ask, &code);
    if (code == CTL_DONE && strcmp(verb, "show") == 0)
        print_one(ctl, rows);
    else if (code == CTL_DONE && strcmp(verb, "remove") == 0)
        code = remove_it(conn, rows, ask);
    else if (code == CTL_DONE)
        code = switch_to(ctl, conn, rows, ask, strcmp(verb, "pause") == 0);
    PQclear(rows);
    return code;
}

static int act(struct ctl *ctl, const char *verb, struct schedule_ask *ask)
{
    int code = CTL_DONE;
    const bool is_list = strcmp(verb, "list") == 0;
    if (strcmp(verb, "next") == 0)
        return next(ctl, ask);
    if (!is_list && ask->name == NULL)
        return ctl_fail(CTL_USAGE, "which one? schedule %s NAME", verb);
    if (!is_list && ask->tenant == NULL)
        return ctl_fail(CTL_USAGE, "--tenant is required");
    if (ask->tenant != NULL && !name_is_valid(span_of(ask->tenant)))
        return ctl_fail(CTL_USAGE, "--tenant must be a name");
    if (strcmp(verb, "add") == 0)
        return add(ctl, ask);
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn != NULL)
        code = act_on(ctl, conn, verb, ask);
    PQfinish(conn);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    static const char *const verbs[] = {
        "add", "list", "show", "pause", "resume", "remove", "next"};
    struct schedule_ask ask = {.name = NULL};
    const struct ctl_option options[] = {
        {"tenant", "T", "whose schedules", &ask.tenant, NULL},
        {"connector", "C", "add: the connector", &ask.connector, NULL},
        {"action", "A", "add: the action", &ask.action, NULL},
        {"payload", "JSON", "add: the payload, or @FILE", &ask.payload, NULL},
        {"cron", "EXPR", "five fields, as in crontab(5)", &ask.cron, NULL},
        {"zone", "Z", "with --cron: IANA time zone; UTC", &ask.zone, NULL},
        {"every", "TIME", "an interval: 90s, 15m, 6h, 1d", &ask.every, NULL},
        {"start", "TIME", "with --every: a tick, RFC 3339; else now",
            &ask.start, NULL},
        {"at", "TIME", "once, RFC 3339 with a zone", &ask.at, NULL},
        {"misfire", "P", "of missed ticks: once (newest), skip, all",
            &ask.misfire, NULL},
        {"misfire-cap", "N", "with all: so many of the newest; 100",
            &ask.misfire_cap, NULL},
        {"deadline", "TIME", "of each action, after its tick", &ask.deadline,
            NULL},
        {"priority", "N", "add: 0 to 9", &ask.priority, NULL},
        {"max-attempts", "N", "add: of each action", &ask.max_attempts, NULL},
        {"after", "TIME", "next: RFC 3339; else now", &ask.after, NULL},
        {"count", "N", "next: how many; 5", &ask.count, NULL},
    };
    const char *rest[2] = {NULL, NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_SCHEDULE, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    ask.name = rest[1];
    for (size_t i = 0; rest[0] != NULL && i < ARRAY_LEN(verbs); i++)
        if (strcmp(rest[0], verbs[i]) == 0)
            return act(ctl, verbs[i], &ask);
    return ctl_fail(CTL_USAGE,
        "schedule takes add, list, show, pause, resume, remove or next");
}

const struct command COMMAND_SCHEDULE = {
    .name = "schedule",
    .arguments = "add|show|pause|resume|remove NAME, list, next",
    .summary = "Fire actions by cron, at intervals or once",
    .details =
        "  schedule add NAME --tenant T --connector C --action A [--payload "
        "JSON]\n"
        "           --cron EXPR [--zone Z] | --every TIME [--start TIME] | "
        "--at "
        "TIME\n"
        "  schedule list [--tenant T]\n"
        "  schedule show|pause|resume|remove NAME --tenant T\n"
        "  schedule next --cron EXPR [--zone Z] [--after TIME] [--count N]\n\n"
        "Each tick becomes one action, whatever dies. A fixed time that the "
        "clock skips\ncomes at the first instant after the gap; one that it "
        "shows twice comes once.\nWildcards (minute or hour begins with *) and "
        "intervals follow elapsed time.\nTicks more than 60 s late are missed: "
        "--misfire says what becomes of them. A\npause leaves its ticks out.",
    .run = run,
};
