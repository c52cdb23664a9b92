/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logs: entries of the ledger and outcomes as they come. What was committed
 * late has an earlier time than what was seen already, so each look begins a
 * few seconds back and leaves out what it has shown.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/entries.h"
#include "scheduler/ctl/story.h"

#define DEFAULT_AGE_US (3600 * US_PER_S)
#define OVERLAP_US (5 * US_PER_S)
#define EVERY_US 300000
#define MAX_LINE ((size_t)32 << 20)

/* Entries of one look, by their ids. */
struct seen {
    uint8_t (*ids)[UUID_SIZE]; /* owned */
    size_t count;
    size_t room;
};

struct logs {
    struct ctl *ctl;
    struct seen before; /* sorted */
    struct seen now;
    int64_t newest_us;
    int64_t settled_seq; /* outcomes up to it are older than the overlap */
    int64_t mark_seq;    /* the next one, and its time */
    int64_t mark_us;
    int64_t left; /* lines that may still be shown */
};

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, UUID_SIZE);
}

static void remember(struct seen *seen, const uint8_t *id)
{
    if (seen->count == seen->room) {
        const size_t room = seen->room == 0 ? 256 : seen->room * 2;
        uint8_t(*grown)[UUID_SIZE] = mem_zalloc(room, UUID_SIZE);
        if (seen->count > 0)
            memcpy(grown, seen->ids, seen->count * UUID_SIZE);
        free(seen->ids);
        seen->ids = grown;
        seen->room = room;
    }
    memcpy(seen->ids[seen->count++], id, UUID_SIZE);
}

static bool was_shown(const struct seen *seen, const uint8_t *id)
{
    return seen->count > 0 &&
           bsearch(id, seen->ids, seen->count, UUID_SIZE, compare_ids) != NULL;
}

static void print_line(const PGresult *rows, int row)
{
    struct buf line;
    char at[TIME_TEXT_SIZE];
    char id[UUID_TEXT_SIZE] = "-";
    const char *kind =
        ledger_kind_name((enum ledger_kind)pg_get_int(rows, row, ENTRY_KIND));
    if (!pg_is_null(rows, row, ENTRY_ID))
        uuid_format(pg_get_uuid(rows, row, ENTRY_ID), id);
    time_format_rfc3339(pg_get_time(rows, row, ENTRY_AT), at);
    buf_init(&line, MAX_LINE);
    buf_printf(&line, "%s  ", at);
    story_put_plain(&line, story_bytes(rows, row, ENTRY_TENANT), 64);
    buf_printf(&line, "  %s  %s %lld  ", id, kind != NULL ? kind : "unknown",
        (long long)pg_get_int(rows, row, ENTRY_ATTEMPT_NO));
    story_put_plain(&line, story_bytes(rows, row, ENTRY_ACTOR), 80);
    buf_put_str(&line, "  ");
    story_put_plain(&line, story_bytes(rows, row, ENTRY_REASON), 200);
    buf_put_str(&line, "  ");
    struct buf words;
    buf_init(&words, MAX_LINE);
    story_put_words(&words, rows, row);
    buf_put_span(&line, buf_span(&words));
    buf_fini(&words);
    puts(buf_str(&line));
    buf_fini(&line);
}

static void mark(struct logs *logs, int64_t seq, int64_t at_us)
{
    if (at_us - logs->mark_us > OVERLAP_US) {
        logs->settled_seq = logs->mark_seq;
        logs->mark_seq = seq;
        logs->mark_us = at_us;
    }
}

static bool show(void *owner, const PGresult *rows, int row)
{
    struct logs *logs = owner;
    const uint8_t *id = pg_get_uuid(rows, row, ENTRY_ENTRY);
    const int64_t at_us = pg_get_time(rows, row, ENTRY_AT);
    logs->newest_us = at_us > logs->newest_us ? at_us : logs->newest_us;
    if (!pg_is_null(rows, row, ENTRY_SEQ))
        mark(logs, pg_get_int(rows, row, ENTRY_SEQ), at_us);
    remember(&logs->now, id);
    if (was_shown(&logs->before, id))
        return true;
    if (logs->ctl->is_json)
        story_print_entry(rows, row);
    else
        print_line(rows, row);
    logs->left--;
    return logs->left > 0;
}

static void turn(struct logs *logs)
{
    if (logs->now.count > 1)
        qsort(logs->now.ids, logs->now.count, UUID_SIZE, compare_ids);
    free(logs->before.ids);
    logs->before = logs->now;
    logs->now = (struct seen){0};
}

static int follow(struct logs *logs, PGconn *conn, struct entries_query *query)
{
    int code = CTL_DONE;
    while (code == CTL_DONE && logs->left > 0) {
        if (fflush(stdout) != 0)
            return CTL_FAILED;
        usleep(EVERY_US);
        const int64_t back_us = logs->newest_us - OVERLAP_US;
        query->since_us = back_us > query->since_us ? back_us : query->since_us;
        query->after_seq = logs->settled_seq;
        code = entries_read(conn, query, show, logs);
        turn(logs);
    }
    return code;
}

static int run_logs(struct ctl *ctl, const struct entries_words *words,
    bool is_following, int64_t limit)
{
    int code = CTL_DONE;
    struct entries_query query = {.kind = -1};
    struct logs logs = {.ctl = ctl, .left = limit};
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    code = entries_parse(conn, words, DEFAULT_AGE_US, &query);
    if (code == CTL_DONE) {
        code = entries_read(conn, &query, show, &logs);
        turn(&logs);
    }
    if (code == CTL_DONE && is_following)
        code = follow(&logs, conn, &query);
    free(logs.before.ids);
    PQfinish(conn);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct entries_words words = {.tenant = NULL};
    bool is_following = false;
    const char *limit_text = NULL;
    int64_t limit = INT64_MAX;
    static char FOLLOW[] = "--follow";
    const struct ctl_option options[] = {
        ENTRIES_OPTIONS(words),
        {"limit", "N", "at most so many lines", &limit_text, NULL},
        {"follow", NULL, "go on with what comes; also -f", NULL, &is_following},
    };
    int code = CTL_DONE;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-f") == 0)
            argv[i] = FOLLOW;
    if (ctl_options(ctl, &COMMAND_LOGS, options, ARRAY_LEN(options), argc, argv,
            NULL, 0, &code) < 0)
        return code;
    if (limit_text != NULL &&
        (!span_to_int(span_of(limit_text), &limit) || limit < 1))
        return ctl_fail(CTL_USAGE, "--limit takes a number above 0");
    if (is_following && words.until != NULL)
        return ctl_fail(CTL_USAGE, "--follow and --until exclude each other");
    return run_logs(ctl, &words, is_following, limit);
}

const struct command COMMAND_LOGS = {
    .name = "logs",
    .arguments = "",
    .summary = "Show what happened lately, and follow it",
    .details =
        "Attempts, repeats, waits, outcomes and acts of people, in order of "
        "time; the last hour\nunless --since says otherwise. With --json: one "
        "object a line.",
    .run = run,
};
