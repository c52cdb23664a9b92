/* SPDX-License-Identifier: Apache-2.0 */
/* webhook list, webhook tail: a tenant's deliveries, of before and as they come. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/time.h"
#include "scheduler/ctl/webhook_find.h"
#include "scheduler/ctl/webhook_verbs.h"
#include "schema/sql_ctl.h"

#define DEFAULT_LIMIT 50
#define MAX_LIMIT 10000

static const char *const COLUMNS[] = {"received_at", "id", "source",
    "sender_id", "type", "verdict", "became", "status", "body_bytes", "why"};

/* Why it was rejected or is no action: the reason or the code. */
static char *why_of(const PGresult *rows, int row)
{
    struct json_value root;
    struct json_value code;
    struct err err = ERR_INIT;
    if (!pg_is_null(rows, row, CTL_DELIVERY_REASON))
        return span_dup(pg_get_bytes(rows, row, CTL_DELIVERY_REASON));
    if (pg_is_null(rows, row, CTL_DELIVERY_ERROR) ||
        json_parse(
            pg_get_bytes(rows, row, CTL_DELIVERY_ERROR), 2, &root, &err) != 0 ||
        !json_find(root, "code", &code) || code.type != JSON_STRING)
        return NULL;
    return span_dup((struct span){code.raw.ptr + 1, code.raw.len - 2});
}

static char *text_of(const PGresult *rows, int row, int column)
{
    return pg_is_null(rows, row, column)
               ? NULL
               : span_dup(pg_get_bytes(rows, row, column));
}

static void add_row(struct ctl_table *table, const PGresult *rows, int row)
{
    char at[TIME_TEXT_SIZE];
    char id[UUID_TEXT_SIZE];
    char bytes[24];
    char *source = text_of(rows, row, CTL_DELIVERY_SOURCE);
    char *sender = text_of(rows, row, CTL_DELIVERY_SENDER_ID);
    char *type = text_of(rows, row, CTL_DELIVERY_TYPE);
    char *why = why_of(rows, row);
    time_format_rfc3339(pg_get_time(rows, row, CTL_DELIVERY_AT), at);
    uuid_format(pg_get_uuid(rows, row, CTL_DELIVERY_ID), id);
    snprintf(bytes, sizeof bytes, "%" PRId64,
        pg_get_int(rows, row, CTL_DELIVERY_SIZE));
    ctl_table_add(
        table, (const char *[]){at, id, source, sender, type,
                   webhook_verdict_name((enum webhook_verdict)pg_get_int(
                       rows, row, CTL_DELIVERY_VERDICT)),
                   webhook_decision_name((enum webhook_decision)pg_get_int(
                       rows, row, CTL_DELIVERY_DECISION)),
                   webhook_state(rows, row, CTL_DELIVERY_STATUS), bytes, why});
    free(source);
    free(sender);
    free(type);
    free(why);
}

/* -- list ------------------------------------------------------------------------------ */

static void tell_more(const struct ctl *ctl, const struct webhook_place *place)
{
    char at[TIME_TEXT_SIZE];
    time_format_rfc3339(place->at_us, at);
    if (!ctl->is_json)
        fprintf(stderr, "More: --before %s/%" PRId32 "/%" PRId64 "\n", at,
            place->partition, place->offset);
}

static int list(struct ctl *ctl, struct webhook_filter *filter)
{
    int code = CTL_DONE;
    int64_t left = filter->limit;
    bool is_at_end = false;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    while (code == CTL_DONE && left > 0 && !is_at_end) {
        filter->limit = left;
        PGresult *rows = webhook_find(conn, filter, &code);
        int count = rows == NULL ? 0 : pg_rows(rows);
        for (int row = 0; row < count; row++)
            add_row(table, rows, row);
        if (count > 0)
            webhook_place_of(rows, count - 1, &filter->before);
        is_at_end = count < WEBHOOK_PAGE && count < left;
        left -= count;
        PQclear(rows);
    }
    ctl_table_end(table);
    PQfinish(conn);
    if (code == CTL_DONE && left == 0 && !is_at_end)
        tell_more(ctl, &filter->before);
    return code;
}

static const struct command COMMAND_DELIVERIES = {
    .name = "webhook list",
    .arguments = "--tenant T",
    .summary = "List the deliveries of a tenant's sources, newest first",
    .details = "What they became: mapped (an action of the same id), unmapped "
               "(the source\nhas no mapping), filtered (another type), failed "
               "(see `webhook show ID`), or\nheld (rejected or in conflict: "
               "evidence).",
};

int webhook_list_run(struct ctl *ctl, int argc, char **argv)
{
    struct webhook_words words = {.tenant = NULL};
    struct webhook_filter filter = {.limit = DEFAULT_LIMIT};
    const struct ctl_option options[] = {
        WEBHOOK_FIND_OPTIONS(words),
        {"before", "PLACE", "the page after that one", &words.before, NULL},
        {"limit", "N", "rows, 50 by default, 10000 at most", &words.limit,
            NULL},
    };
    const char *rest[1];
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_DELIVERIES, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    code = webhook_filter_read(&words, MAX_LIMIT, &filter);
    return code == CTL_DONE ? list(ctl, &filter) : code;
}

/* -- tail ------------------------------------------------------------------------------ */

enum { LOOK_MS = 500, BACK_S = 15, MAX_SEEN = 100000 };

/* Workers write rows in no order of time, so each look goes some seconds back
 * and leaves out what was shown. */
struct tail {
    struct ctl *ctl;
    PGconn *conn;
    struct webhook_filter filter;
    struct webhook_place *seen; /* owned; those of the last looks */
    size_t count;
    int64_t shown;
    int64_t wanted; /* 0: no end */
};

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    is_interrupted = 1;
}

static bool is_seen(const struct tail *tail, const struct webhook_place *place)
{
    for (size_t i = 0; i < tail->count; i++)
        if (tail->seen[i].offset == place->offset &&
            tail->seen[i].partition == place->partition &&
            tail->seen[i].at_us == place->at_us)
            return true;
    return false;
}

static void forget(struct tail *tail, int64_t since_us)
{
    size_t kept = 0;
    for (size_t i = 0; i < tail->count; i++)
        if (tail->seen[i].at_us >= since_us)
            tail->seen[kept++] = tail->seen[i];
    tail->count = kept;
}

static void show_new(struct tail *tail, const PGresult *rows)
{
    struct ctl_table *table =
        ctl_table_new(tail->ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    for (int row = pg_rows(rows) - 1; row >= 0; row--) {
        struct webhook_place place;
        webhook_place_of(rows, row, &place);
        bool is_over = tail->wanted > 0 && tail->shown >= tail->wanted;
        if (is_over || tail->count == MAX_SEEN || is_seen(tail, &place))
            continue;
        tail->seen[tail->count++] = place;
        tail->shown++;
        add_row(table, rows, row);
    }
    ctl_table_end(table); /* nothing for no rows */
    fflush(stdout);
}

static int look(struct tail *tail)
{
    int code = CTL_DONE;
    const int64_t back_us = now_wall_us() - BACK_S * US_PER_S;
    struct webhook_filter filter = tail->filter;
    if (back_us > filter.since_us)
        filter.since_us = back_us;
    PGresult *rows = webhook_find(tail->conn, &filter, &code);
    if (rows != NULL)
        show_new(tail, rows);
    PQclear(rows);
    forget(tail, filter.since_us);
    return code;
}

static int follow(struct ctl *ctl, const struct webhook_filter *filter)
{
    static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    struct tail tail = {.ctl = ctl, .filter = *filter, .wanted = filter->limit};
    const struct sigaction action = {.sa_handler = on_interrupt};
    int code = CTL_DONE;
    tail.conn = ctl_connect(ctl, &code);
    if (tail.conn == NULL)
        return code;
    tail.seen = mem_zalloc(MAX_SEEN, sizeof(*tail.seen));
    tail.filter.limit = WEBHOOK_PAGE;
    if (tail.filter.since_us == 0)
        tail.filter.since_us = now_wall_us();
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    while (code == CTL_DONE && !is_interrupted &&
           (tail.wanted == 0 || tail.shown < tail.wanted)) {
        code = look(&tail);
        if (code == CTL_DONE && !is_interrupted &&
            (tail.wanted == 0 || tail.shown < tail.wanted))
            (void)nanosleep(&pause, NULL);
    }
    free(tail.seen);
    PQfinish(tail.conn);
    return code;
}

static const struct command COMMAND_TAIL = {
    .name = "webhook tail",
    .arguments = "--tenant T",
    .summary = "Show deliveries as workers read them, until Ctrl-C",
    .details = "Of a flood, the newest thousand twice a second.",
};

int webhook_tail_run(struct ctl *ctl, int argc, char **argv)
{
    struct webhook_words words = {.tenant = NULL};
    struct webhook_filter filter = {.limit = 0};
    const struct ctl_option options[] = {
        WEBHOOK_FIND_OPTIONS(words),
        {"limit", "N", "end after so many", &words.limit, NULL},
    };
    const char *rest[1];
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_TAIL, options, ARRAY_LEN(options), argc, argv,
            rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    code = webhook_filter_read(&words, MAX_LIMIT, &filter);
    return code == CTL_DONE ? follow(ctl, &filter) : code;
}
