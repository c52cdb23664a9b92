/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/kafka.h"
#include "common/time.h"
#include "scheduler/ctl/file.h"
#include "scheduler/ctl/replay.h"
#include "schema/replay_sql.h"
#include "schema/sql_ctl.h"

/* A million ids, a line each, and some air. */
#define MAX_FILE_BYTES ((size_t)48 << 20)
#define CONFIRMATION "new key"

/* -- ids -------------------------------------------------------------------------- */

struct ids {
    uint8_t (*ids)[UUID_SIZE]; /* owned */
    size_t count;
    size_t cap;
};

static int add_id(struct ids *ids, struct span text, size_t line)
{
    if (ids->count == REPLAY_MAX_IDS)
        return ctl_fail(CTL_USAGE, "more than %d ids", REPLAY_MAX_IDS);
    if (ids->count == ids->cap) {
        ids->cap = ids->cap == 0 ? 1024 : ids->cap * 2;
        ids->ids = mem_resize(ids->ids, ids->cap, UUID_SIZE);
    }
    if (uuid_parse(text, ids->ids[ids->count])) {
        ids->count++;
        return CTL_DONE;
    }
    if (line > 0)
        return ctl_fail(CTL_USAGE, "line %zu is not an action id", line);
    char *shown = span_dup(text);
    const int code = ctl_fail(CTL_USAGE, "'%s' is not an action id", shown);
    free(shown);
    return code;
}

static struct span trim(const char *start, size_t len)
{
    while (len > 0 && (start[len - 1] == '\r' || start[len - 1] == ' '))
        len--;
    return (struct span){start, len};
}

static int add_lines(struct ids *ids, struct span text)
{
    int code = CTL_DONE;
    for (size_t line = 1; text.len > 0 && code == CTL_DONE; line++) {
        const char *end = memchr(text.ptr, '\n', text.len);
        const size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
        const struct span id = trim(text.ptr, len);
        if (id.len > 0)
            code = add_id(ids, id, line);
        const size_t used = end == NULL ? len : len + 1;
        text = (struct span){text.ptr + used, text.len - used};
    }
    return code;
}

static int read_ids(const struct replay_words *words, struct ids *ids)
{
    struct err err = ERR_INIT;
    struct buf text;
    int code = CTL_DONE;
    for (size_t i = 0; i < words->id_count && code == CTL_DONE; i++)
        code = add_id(ids, span_of(words->ids[i]), 0);
    if (code != CTL_DONE || words->file == NULL)
        return code;
    buf_init(&text, MAX_FILE_BYTES);
    if (file_read(words->file, &text, &err) != 0)
        code = ctl_fail(CTL_USAGE, "%s", err.msg);
    else
        code = add_lines(ids, buf_span(&text));
    buf_fini(&text);
    if (code == CTL_DONE && ids->count == 0)
        code = ctl_fail(CTL_USAGE, "%s holds no ids", words->file);
    return code;
}

/* -- the wish ----------------------------------------------------------------------- */

/* A value of the command line that is "" if it was not given. */
static int take_text(
    const char *option, const char *value, char *text, size_t size)
{
    if (value == NULL)
        return CTL_DONE;
    const size_t len = strlen(value);
    if (len == 0 || len >= size)
        return ctl_fail(
            CTL_USAGE, "--%s takes 1 to %zu characters", option, size - 1);
    memcpy(text, value, len + 1);
    return CTL_DONE;
}

static int take_name(
    const char *option, const char *value, char name[RECORD_MAX_NAME + 1])
{
    if (value != NULL && !name_is_valid(span_of(value)))
        return ctl_fail(CTL_USAGE, "--%s must be a name", option);
    return take_text(option, value, name, RECORD_MAX_NAME + 1);
}

static int take_names(
    const struct replay_words *words, struct replay_wish *wish)
{
    const struct {
        const char *option;
        const char *value;
        char *name;
    } names[] = {
        {"tenant", words->tenant, wish->tenant},
        {"connector", words->connector, wish->connector},
        {"action", words->action, wish->action},
        {"source", words->source, wish->source},
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const int code =
            take_name(names[i].option, names[i].value, names[i].name);
        if (code != CTL_DONE)
            return code;
    }
    return take_text(
        "reason", words->reason, wish->reason, sizeof wish->reason);
}

static int take_filter(
    const struct replay_words *words, struct replay_wish *wish)
{
    const int64_t now_us = now_wall_us();
    enum code code = CODE_NONE;
    if (words->status != NULL &&
        !replay_parse_statuses(span_of(words->status), &wish->statuses))
        return ctl_fail(CTL_USAGE,
            "--status takes terminal statuses with commas between, not '%s'",
            words->status);
    if (words->error_code != NULL &&
        !code_parse(span_of(words->error_code), &code))
        return ctl_fail(
            CTL_USAGE, "--error-code: no code '%s'", words->error_code);
    if (words->since != NULL &&
        !replay_parse_time(span_of(words->since), now_us, &wish->since_us))
        return ctl_fail(CTL_USAGE,
            "--since takes a time of RFC 3339 or an age like 90s, 2h, 7d");
    if (words->until != NULL &&
        !replay_parse_time(span_of(words->until), now_us, &wish->until_us))
        return ctl_fail(CTL_USAGE,
            "--until takes a time of RFC 3339 or an age like 90s, 2h, 7d");
    if (words->rate != NULL &&
        !replay_parse_rate(span_of(words->rate), &wish->rate))
        return ctl_fail(CTL_USAGE, "--rate takes 1 to %d a second, as 50/s",
            REPLAY_MAX_RATE);
    if (words->limit != NULL &&
        (!span_to_int(span_of(words->limit), &wish->max_rows) ||
            wish->max_rows < 1))
        return ctl_fail(CTL_USAGE, "--limit takes a number from 1");
    return take_text("error-code", words->error_code, wish->error_code,
        sizeof wish->error_code);
}

/* Another fleet's topics have another prefix. */
static int take_topic(
    struct ctl *ctl, const struct replay_words *words, struct replay_wish *wish)
{
    static const char *const own[] = {
        "actions", "outcomes", "webhooks", "dispatch", "control", "rejects"};
    char name[256];
    wish->kind = words->is_outcomes ? REPLAY_OUTCOMES : REPLAY_ACTIONS;
    if (words->is_outcomes != (words->to != NULL))
        return ctl_fail(CTL_USAGE, "--outcomes and --to TOPIC go together");
    if (words->to == NULL)
        return CTL_DONE;
    if (!replay_topic_is_valid(span_of(words->to)))
        return ctl_fail(CTL_USAGE, "--to must be the name of a topic");
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        kafka_topic_name(ctl->conf, own[i], name);
        if (strcmp(name, words->to) == 0)
            return ctl_fail(CTL_USAGE,
                "--to: %s is the fleet's own; name a topic beside it",
                words->to);
    }
    return take_text("to", words->to, wish->to_topic, sizeof wish->to_topic);
}

static void put_actor(struct replay_wish *wish)
{
    struct buf actor;
    buf_init(&actor, sizeof wish->actor - 1);
    ctl_actor(&actor);
    memcpy(wish->actor, buf_str(&actor), actor.len + 1);
    buf_fini(&actor);
}

static int make_wish(struct ctl *ctl, const struct replay_words *words,
    const struct ids *ids, struct replay_wish *wish)
{
    int code = take_names(words, wish);
    if (code == CTL_DONE)
        code = take_filter(words, wish);
    if (code == CTL_DONE)
        code = take_topic(ctl, words, wish);
    if (code != CTL_DONE)
        return code;
    const bool has_filter = replay_wish_has_filter(wish);
    wish->id_count = (int64_t)ids->count;
    wish->is_dry_run = words->is_dry_run;
    wish->has_new_key = words->has_new_key;
    wish->is_forced = words->is_forced;
    wish->is_held =
        words->has_new_key && !words->is_confirmed && !words->is_dry_run;
    put_actor(wish);
    uuid_v7(wish->id);
    if (ids->count > 0 && has_filter)
        return ctl_fail(CTL_USAGE, "a filter does not go with ids");
    const char *fault = replay_wish_fault(wish);
    return fault == NULL ? CTL_DONE : ctl_fail(CTL_USAGE, "%s", fault);
}

/* -- asking ------------------------------------------------------------------------- */

static void put_ids(
    struct pg_params *params, const struct ids *ids, size_t from, size_t count)
{
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < count; i++)
        pg_array_bytes(
            params, (struct span){(const char *)ids->ids[from + i], UUID_SIZE});
    pg_array_end(params);
}

/* Runs one statement that returns nothing of interest. */
static int run_one(PGconn *conn, int statement, struct pg_params *params)
{
    int code = CTL_DONE;
    PGresult *result = ctl_query(conn, statement, params, &code);
    PQclear(result);
    pg_params_clear(params);
    return code;
}

static int refuse_clash(PGconn *conn, const struct replay_wish *wish,
    const struct ids *ids, size_t from, size_t count)
{
    struct pg_params params;
    char other[UUID_TEXT_SIZE];
    int code = CTL_DONE;
    pg_params_init(&params);
    put_ids(&params, ids, from, count);
    pg_param_text(&params, span_of(wish->tenant));
    PGresult *rows = ctl_query(conn, SQL_CTL_REPLAY_CLASH, &params, &code);
    if (rows != NULL && pg_rows(rows) > 0) {
        uuid_format(pg_get_uuid(rows, 0, 0), other);
        code = ctl_fail(CTL_CONFLICT,
            "the replay %s has one of these and is not over", other);
    }
    PQclear(rows);
    pg_params_fini(&params);
    return code;
}

static int add_ids(
    PGconn *conn, const struct replay_wish *wish, const struct ids *ids)
{
    struct pg_params params;
    int code = CTL_DONE;
    pg_params_init(&params);
    for (size_t from = 0; from < ids->count && code == CTL_DONE;
         from += REPLAY_PART_IDS) {
        const size_t left = ids->count - from;
        const size_t count = left < REPLAY_PART_IDS ? left : REPLAY_PART_IDS;
        if (!wish->is_dry_run)
            code = refuse_clash(conn, wish, ids, from, count);
        if (code != CTL_DONE)
            break;
        pg_param_uuid(&params, wish->id);
        pg_param_int4(&params, (int32_t)(from / REPLAY_PART_IDS));
        put_ids(&params, ids, from, count);
        code = run_one(conn, SQL_CTL_REPLAY_IDS, &params);
    }
    pg_params_fini(&params);
    return code;
}

/* Dying inside of it leaves nothing; after it the replay goes on by itself. */
static int create(
    PGconn *conn, const struct replay_wish *wish, const struct ids *ids)
{
    struct pg_params params;
    pg_params_init(&params);
    int code = run_one(conn, SQL_CTL_BEGIN, &params);
    if (code == CTL_DONE) {
        pg_param_text(&params, span_of(wish->tenant));
        code = run_one(conn, SQL_CTL_REPLAY_LOCK, &params);
    }
    if (code == CTL_DONE)
        code = add_ids(conn, wish, ids);
    if (code == CTL_DONE) {
        replay_put_wish(&params, wish);
        code = run_one(conn, SQL_CTL_REPLAY_CREATE, &params);
    }
    if (code == CTL_DONE)
        code = run_one(conn, SQL_CTL_COMMIT, &params);
    pg_params_fini(&params);
    return code;
}

/* Whose the first id is, if nobody said whose. */
static int find_tenant(
    PGconn *conn, const struct ids *ids, struct replay_wish *wish)
{
    struct pg_params params;
    int code = CTL_DONE;
    if (wish->tenant[0] != '\0')
        return CTL_DONE;
    if (ids->count == 0)
        return ctl_fail(CTL_USAGE, "--tenant is required with a filter");
    pg_params_init(&params);
    pg_param_uuid(&params, ids->ids[0]);
    PGresult *rows = ctl_query(conn, SQL_CTL_TENANT_OF, &params, &code);
    pg_params_fini(&params);
    if (rows != NULL && pg_rows(rows) == 0) {
        char id[UUID_TEXT_SIZE];
        uuid_format(ids->ids[0], id);
        code = ctl_fail(CTL_NOT_FOUND, "no action %s", id);
    } else if (rows != NULL) {
        const struct span tenant = pg_get_bytes(rows, 0, 0);
        memcpy(wish->tenant, tenant.ptr, tenant.len);
        wish->tenant[tenant.len] = '\0';
    }
    PQclear(rows);
    return code;
}

/* -- the confirmation ------------------------------------------------------------------ */

/* CTL_DONE: confirmed, it runs. */
static int confirm(PGconn *conn, const struct replay *replay)
{
    char answer[64] = "";
    fprintf(stderr,
        "%lld actions would run under new keys: a provider that has carried "
        "one of them out does so once more.\nType '%s' to go on: ",
        (long long)replay->planned, CONFIRMATION);
    if (fgets(answer, sizeof answer, stdin) != NULL)
        answer[strcspn(answer, "\r\n")] = '\0';
    if (strcmp(answer, CONFIRMATION) == 0)
        return replay_do_act(conn, replay->wish.id, NULL, REPLAY_RESUME);
    const int code = replay_do_act(conn, replay->wish.id, NULL, REPLAY_CANCEL);
    return code != CTL_DONE ? code
                            : ctl_fail(CTL_CONFLICT,
                                  "not confirmed; the replay is cancelled");
}

/* -- all of it -------------------------------------------------------------------------- */

static int watch(struct ctl *ctl, PGconn *conn, const struct replay_wish *wish,
    const struct replay_words *words)
{
    struct replay replay;
    char id[UUID_TEXT_SIZE];
    int code = CTL_DONE;
    uuid_format(wish->id, id);
    if (!replay_load(conn, wish->id, NULL, &replay, &code))
        return code;
    if (words->is_detached && !wish->is_held)
        return ctl->is_json ? replay_show(ctl, &replay) : (puts(id), CTL_DONE);
    if (!ctl->is_json)
        fprintf(stderr, "replay %s\n", id);
    code = replay_follow(ctl, conn, &replay, true);
    if (code != CTL_DONE)
        return code;
    replay_tell_count(ctl, &replay);
    if (wish->is_held) {
        code = confirm(conn, &replay);
        if (code != CTL_DONE || words->is_detached)
            return code;
    }
    return replay_follow(ctl, conn, &replay, false);
}

int replay_start(struct ctl *ctl, const struct replay_words *words)
{
    struct ids ids = {.ids = NULL};
    struct replay_wish wish = {.kind = REPLAY_ACTIONS};
    PGconn *conn = NULL;
    int code = read_ids(words, &ids);
    if (code == CTL_DONE)
        code = make_wish(ctl, words, &ids, &wish);
    if (code == CTL_DONE && wish.is_held && isatty(STDIN_FILENO) != 1)
        code = ctl_fail(CTL_USAGE,
            "--new-key has to be confirmed: nobody can be asked here, so say "
            "--yes");
    if (code == CTL_DONE)
        conn = ctl_connect(ctl, &code);
    if (conn != NULL)
        code = find_tenant(conn, &ids, &wish);
    if (conn != NULL && code == CTL_DONE)
        code = create(conn, &wish, &ids);
    if (conn != NULL && code == CTL_DONE)
        code = watch(ctl, conn, &wish, words);
    PQfinish(conn);
    free(ids.ids);
    return code;
}
