/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/story.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/time.h"

#define MAX_LINE ((size_t)64 << 10)
#define MAX_BODY ((size_t)2000)
enum { DEPTH = 80, MAX_WORDS = 160 };

static const char *const COLUMNS[] = {
    "at", "what", "attempt_no", "actor", "reason", "detail"};

/* Control characters in other people's text must not reach a terminal. */
void story_put_plain(struct buf *out, struct span text, size_t max)
{
    const size_t len = text.len < max ? text.len : max;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        buf_put_char(out, c < 0x20 || c == 0x7f ? '?' : (char)c);
    }
    if (len < text.len)
        buf_put_str(out, "...");
}

/* -- an entry in words ------------------------------------------------------------ */

static bool find_time(
    const struct json_value *root, const char *name, int64_t *wall_us)
{
    struct json_value value;
    return json_find(*root, name, &value) && value.type == JSON_STRING &&
           time_parse_rfc3339(
               (struct span){value.raw.ptr + 1, value.raw.len - 2}, wall_us);
}

static bool find_number(
    const struct json_value *root, const char *pointer, int64_t *number)
{
    struct json_value value;
    return json_pointer(*root, span_of(pointer), &value) &&
           value.type == JSON_NUMBER && json_to_int(value, number);
}

static void put_text_at(
    struct buf *out, const struct json_value *root, const char *pointer)
{
    struct json_value value;
    struct buf text;
    if (!json_pointer(*root, span_of(pointer), &value) ||
        value.type != JSON_STRING)
        return;
    buf_init(&text, MAX_LINE);
    json_decode(value, &text);
    buf_put_str(out, out->len > 0 ? ", " : "");
    story_put_plain(out, buf_span(&text), MAX_WORDS);
    buf_fini(&text);
}

/* "took 12 ms, the provider answered 503, again after 2000 ms" */
static void put_attempt(struct buf *out, const struct json_value *root)
{
    int64_t begun_us = 0;
    int64_t ended_us = 0;
    int64_t wait_ms = 0;
    if (find_time(root, "started_at", &begun_us) &&
        find_time(root, "finished_at", &ended_us))
        buf_printf(out, "took %lld ms",
            (long long)((ended_us - begun_us) / US_PER_MS));
    put_text_at(out, root, "/error/message");
    if (find_number(root, "/wait_ms", &wait_ms))
        buf_printf(out, ", again after %lld ms", (long long)wait_ms);
}

static void put_outcome(struct buf *out, const struct json_value *root)
{
    struct json_value result;
    int64_t wall_ms = 0;
    put_text_at(out, root, "/status");
    if (find_number(root, "/usage/wall_ms", &wall_ms) && wall_ms > 0)
        buf_printf(out, ", took %lld ms", (long long)wall_ms);
    put_text_at(out, root, "/error/message");
    if (json_find(*root, "result", &result) && result.type != JSON_NULL) {
        buf_put_str(out, ", answer ");
        story_put_plain(out, result.raw, MAX_WORDS);
    }
}

void story_put_words(struct buf *out, const PGresult *ledger, int row)
{
    struct json_value root;
    const struct span detail = pg_get_bytes(ledger, row, ENTRY_DETAIL);
    const int64_t kind = pg_get_int(ledger, row, ENTRY_KIND);
    const bool is_json = json_parse(detail, DEPTH, &root, NULL) == 0;
    if (is_json && kind == LEDGER_ATTEMPT)
        put_attempt(out, &root);
    else if (is_json && kind == LEDGER_OUTCOME)
        put_outcome(out, &root);
    else if (!span_is(detail, "{}"))
        story_put_plain(out, detail, MAX_WORDS);
}

/* -- for people --------------------------------------------------------------------- */

static void print_text(const char *label, struct span text)
{
    struct buf plain;
    buf_init(&plain, MAX_LINE);
    story_put_plain(&plain, text, MAX_BODY);
    printf("%-10s %s\n", label, buf_str(&plain));
    buf_fini(&plain);
}

static void print_time(const char *label, int64_t wall_us)
{
    char text[TIME_TEXT_SIZE];
    time_format_rfc3339(wall_us, text);
    printf("%-10s %s\n", label, text);
}

static void print_call(const struct shown_call *shown)
{
    struct buf line;
    if (!shown->is_there)
        return;
    buf_init(&line, MAX_LINE);
    buf_printf(&line, "%s ", shown->call.is_echo ? "echo" : shown->call.method);
    story_put_plain(&line, shown->call.url, CALL_MAX_URL);
    printf("%-10s %s\n", "call", buf_str(&line));
    for (size_t i = 0; i < shown->call.header_count; i++) {
        const struct call_header *header = &shown->call.headers[i];
        buf_clear(&line);
        story_put_plain(&line, header->name, MAX_WORDS);
        buf_put_str(&line, ": ");
        story_put_plain(&line, shown_call_value(header), MAX_WORDS);
        printf("%-10s %s\n", "", buf_str(&line));
    }
    if (shown->call.body.ptr != NULL)
        print_text("", shown->call.body);
    buf_fini(&line);
}

static void print_request(const struct story *story)
{
    const PGresult *action = story->action;
    print_text("connector", pg_get_bytes(action, 0, STORY_CONNECTOR));
    print_text("action", pg_get_bytes(action, 0, STORY_ACTION));
    print_time("accepted", pg_get_time(action, 0, STORY_ACCEPTED_AT));
    print_text("source", pg_get_bytes(action, 0, STORY_SOURCE));
    print_text("request", pg_get_bytes(action, 0, STORY_REQUEST));
    print_call(&story->call);
}

static void add_entry(struct ctl_table *table, const PGresult *ledger, int row)
{
    char at[TIME_TEXT_SIZE];
    char attempt[24];
    struct buf words;
    struct buf reason;
    struct buf actor;
    const char *kind =
        ledger_kind_name((enum ledger_kind)pg_get_int(ledger, row, ENTRY_KIND));
    buf_init(&words, MAX_LINE);
    buf_init(&reason, MAX_LINE);
    buf_init(&actor, MAX_LINE);
    story_put_words(&words, ledger, row);
    story_put_plain(&reason, story_bytes(ledger, row, ENTRY_REASON), MAX_WORDS);
    story_put_plain(&actor, story_bytes(ledger, row, ENTRY_ACTOR), MAX_WORDS);
    time_format_rfc3339(pg_get_time(ledger, row, ENTRY_AT), at);
    snprintf(attempt, sizeof attempt, "%lld",
        (long long)pg_get_int(ledger, row, ENTRY_ATTEMPT_NO));
    ctl_table_add(
        table, (const char *[]){at, kind != NULL ? kind : "unknown", attempt,
                   buf_str(&actor), buf_str(&reason), buf_str(&words)});
    buf_fini(&words);
    buf_fini(&reason);
    buf_fini(&actor);
}

static void print_ledger(const struct ctl *ctl, const PGresult *ledger)
{
    if (pg_rows(ledger) == 0)
        return;
    putchar('\n');
    struct ctl_table *table = ctl_table_new(ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    for (int row = 0; row < pg_rows(ledger); row++)
        add_entry(table, ledger, row);
    ctl_table_end(table);
    putchar('\n');
}

static void print_where(const PGresult *action)
{
    if (!pg_is_null(action, 0, STORY_OUTCOME)) {
        print_text("outcome", pg_get_bytes(action, 0, STORY_OUTCOME));
        return;
    }
    print_text("state", span_of(story_state(action)));
    if (pg_is_null(action, 0, STORY_WAIT_REASON))
        return;
    print_text("reason", span_of(wait_reason_name((enum wait_reason)pg_get_int(
                             action, 0, STORY_WAIT_REASON))));
    print_time("due", pg_get_time(action, 0, STORY_WAIT_DUE));
    if (!pg_is_null(action, 0, STORY_PAUSE_REASON))
        print_text("pause", pg_get_bytes(action, 0, STORY_PAUSE_REASON));
    if (!pg_is_null(action, 0, STORY_WAIT_ERROR))
        print_text("error", pg_get_bytes(action, 0, STORY_WAIT_ERROR));
}

void story_print(const struct ctl *ctl, const struct story *story)
{
    const PGresult *action = story->action;
    print_text("id", span_of(story->id));
    print_text("tenant", pg_get_bytes(action, 0, STORY_TENANT));
    if (!pg_is_null(action, 0, STORY_SOURCE))
        print_request(story);
    print_ledger(ctl, story->ledger);
    print_where(action);
    if (!pg_is_null(action, 0, STORY_EVENT)) {
        print_text("resolved", span_of(status_name((enum status)pg_get_int(
                                   action, 0, STORY_WORD))));
        print_text("note", pg_get_bytes(action, 0, STORY_NOTE));
        print_text("by", pg_get_bytes(action, 0, STORY_ACTOR));
    }
}
