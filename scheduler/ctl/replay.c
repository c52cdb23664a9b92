/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `actionist replay`; see replay.h. */
#include "scheduler/ctl/replay.h"

#include <string.h>

#include "scheduler/ctl/commands.h"

enum { MAX_WORDS = 256 };

/* -- verbs ------------------------------------------------------------------------- */

static int show(struct ctl *ctl, PGconn *conn, struct replay *replay)
{
    (void)conn;
    return replay_show(ctl, replay);
}

static int watch(struct ctl *ctl, PGconn *conn, struct replay *replay)
{
    return replay_follow(ctl, conn, replay, false);
}

static int act_and_show(
    struct ctl *ctl, PGconn *conn, struct replay *replay, enum replay_act act)
{
    int code = replay_do_act(conn, replay->wish.id, NULL, act);
    if (code == CTL_DONE &&
        replay_load(conn, replay->wish.id, NULL, replay, &code))
        code = replay_show(ctl, replay);
    return code;
}

static int pause_it(struct ctl *ctl, PGconn *conn, struct replay *replay)
{
    return act_and_show(ctl, conn, replay, REPLAY_PAUSE);
}

static int resume_it(struct ctl *ctl, PGconn *conn, struct replay *replay)
{
    return act_and_show(ctl, conn, replay, REPLAY_RESUME);
}

static int cancel_it(struct ctl *ctl, PGconn *conn, struct replay *replay)
{
    return act_and_show(ctl, conn, replay, REPLAY_CANCEL);
}

static const struct verb {
    const char *name;
    int (*run)(struct ctl *ctl, PGconn *conn, struct replay *replay);
} VERBS[] = {
    {"show", show},
    {"watch", watch},
    {"pause", pause_it},
    {"resume", resume_it},
    {"cancel", cancel_it},
};

static const struct verb *find_verb(const char *word)
{
    for (size_t i = 0; word != NULL && i < ARRAY_LEN(VERBS); i++)
        if (strcmp(VERBS[i].name, word) == 0)
            return &VERBS[i];
    return NULL;
}

static int run_verb(struct ctl *ctl, const struct verb *verb,
    const char *const *rest, size_t rest_count, const char *tenant)
{
    uint8_t id[UUID_SIZE];
    struct replay replay;
    int code = CTL_DONE;
    if (rest_count != 2 || !uuid_parse(span_of(rest[1]), id))
        return ctl_fail(
            CTL_USAGE, "replay %s takes the id of a replay", verb->name);
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    if (replay_load(conn, id, tenant, &replay, &code))
        code = verb->run(ctl, conn, &replay);
    PQfinish(conn);
    return code;
}

/* -- the command -------------------------------------------------------------------- */

static int run_words(struct ctl *ctl, struct replay_words *words,
    const char *const *rest, size_t rest_count)
{
    const struct verb *verb = find_verb(rest[0]);
    if (verb != NULL)
        return run_verb(ctl, verb, rest, rest_count, words->tenant);
    if (rest_count == 1 && strcmp(rest[0], "list") == 0)
        return replay_list(ctl, words->tenant, words->limit);
    if (rest_count == 0 && words->file == NULL && words->tenant == NULL)
        return ctl_fail(
            CTL_USAGE, "replay takes ids, --file, or --tenant with a filter");
    words->ids = rest;
    words->id_count = rest_count;
    return replay_start(ctl, words);
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct replay_words words = {.tenant = NULL};
    const struct ctl_option options[] = {
        {"tenant", "T", "whose actions", &words.tenant, NULL},
        {"file", "F", "ids, one a line; - is standard input", &words.file,
            NULL},
        {"status", "S,S", "ended so: exhausted, failed, ...", &words.status,
            NULL},
        {"error-code", "E", "ended with this code", &words.error_code, NULL},
        {"since", "T", "ended since then: a time, or an age like 2h",
            &words.since, NULL},
        {"until", "T", "ended before", &words.until, NULL},
        {"connector", "C", "of this connector", &words.connector, NULL},
        {"action", "A", "this action", &words.action, NULL},
        {"source", "S", "made by webhooks of this source", &words.source, NULL},
        {"rate", "N/s", "so many a second at most", &words.rate, NULL},
        {"limit", "N", "so many at most", &words.limit, NULL},
        {"new-key", NULL, "under new keys: providers see new requests", NULL,
            &words.has_new_key},
        {"yes", NULL, "--new-key without being asked", NULL,
            &words.is_confirmed},
        {"force", NULL, "with ids: also what has succeeded", NULL,
            &words.is_forced},
        {"reason", "TEXT", "why; kept with the replay", &words.reason, NULL},
        {"dry-run", NULL, "only count", NULL, &words.is_dry_run},
        {"outcomes", NULL, "send outcomes again, to another topic", NULL,
            &words.is_outcomes},
        {"to", "TOPIC", "with --outcomes: where to", &words.to, NULL},
        {"detach", NULL, "do not wait; print its id", NULL, &words.is_detached},
    };
    const char *rest[MAX_WORDS] = {NULL};
    int code = CTL_DONE;
    const int count = ctl_options(ctl, &COMMAND_REPLAY, options,
        ARRAY_LEN(options), argc, argv, rest, ARRAY_LEN(rest), &code);
    return count < 0 ? code : run_words(ctl, &words, rest, (size_t)count);
}

const struct command COMMAND_REPLAY = {
    .name = "replay",
    .arguments = "[ID...] | list | show|watch|pause|resume|cancel REPLAY",
    .summary = "Run ended actions again, or send their outcomes again",
    .details =
        "  replay --tenant T --status exhausted --since 2h [--rate 50/s]\n"
        "  replay ID...             these actions\n"
        "  replay --file F          all ids of a file\n"
        "  replay --tenant T --outcomes --to TOPIC [--since 2h]\n"
        "  replay list [--tenant T]\n"
        "  replay show|watch|pause|resume|cancel REPLAY\n\n"
        "Counts first. What has succeeded since is left out, and what may have "
        "had\nits effect, if nothing keeps it from having it twice: name that "
        "by id.\nEach runs as an action of its own that points back "
        "(replay_of), under the\nkey of the first one, so that providers "
        "know it again. The scheduler does\nthe work: this command may end "
        "at any time, and others may pause it.\n"
        "Exit code 0 if all succeeded, 4 if not, 5 if it was refused or "
        "cancelled.",
    .run = run,
};
