/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify: the conservation audit on demand. Judges what is new since its last
 * run, and the newest quarter of an hour again.
 */
#include <string.h>

#include "common/json.h"
#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/verify/pass.h"

enum { LAG_S = 900, PROGRESS_AFTER_S = 2, MAX_REPORT_BYTES = 1 << 20 };

struct ask {
    const char *tenant;
    const char *from;
    bool is_full;
    bool has_no_kafka;
};

/* -- progress ---------------------------------------------------------------------- */

struct progress {
    int64_t shown_us;
};

static void on_progress(void *arg, const char *what, int64_t count)
{
    struct progress *progress = arg;
    int64_t now_us = now_mono_us();
    if (now_us - progress->shown_us < PROGRESS_AFTER_S * US_PER_S)
        return;
    progress->shown_us = now_us;
    fprintf(stderr, "actionist: %lld %s judged\n", (long long)count, what);
}

/* -- for machines --------------------------------------------------------------------- */

static void put_number(struct buf *out, const char *name, int64_t value)
{
    json_put_name(out, name);
    buf_put_int(out, value);
}

static void put_tally(struct buf *out, const struct verify_tally *tally)
{
    buf_put_char(out, '{');
    put_number(out, "count", tally->count);
    json_put_name(out, "ids");
    buf_put_char(out, '[');
    for (size_t i = 0; i < tally->sample_count; i++) {
        if (i > 0)
            buf_put_char(out, ',');
        json_put_cstring(out, tally->samples[i]);
    }
    buf_put_str(out, "]}");
}

static void put_oldest(struct buf *out, const struct pass_result *result)
{
    json_put_name(out, "oldest_unfinished");
    buf_put_char(out, '[');
    for (size_t i = 0; i < result->oldest_count; i++) {
        buf_put_str(out, i > 0 ? ",{" : "{");
        json_put_name(out, "tenant");
        json_put_cstring(out, result->oldest[i].tenant);
        put_number(out, "unfinished", result->oldest[i].count);
        put_number(out, "age_s", result->oldest[i].age_s);
        buf_put_char(out, '}');
    }
    buf_put_char(out, ']');
}

static void print_json(const struct pass_result *result, bool has_kafka)
{
    struct buf out;
    buf_init(&out, MAX_REPORT_BYTES);
    buf_put_char(&out, '{');
    json_put_name(&out, "ok");
    buf_put_str(&out, pass_violations(result) == 0 ? "true" : "false");
    put_number(&out, "violations", pass_violations(result));
    put_number(&out, "unaccounted", verify_unaccounted(result->tallies));
    put_number(&out, "duplicates", verify_duplicates(result->tallies));
    put_number(&out, "actions", result->actions);
    put_number(&out, "outcomes", result->outcomes);
    put_number(&out, "records", result->records);
    put_number(&out, "late", result->late);
    json_put_name(&out, "kafka");
    buf_put_str(&out, has_kafka ? "true" : "false");
    json_put_name(&out, "from_scratch");
    buf_put_str(&out, result->is_from_scratch ? "true" : "false");
    put_number(&out, "unpublished_from_seq", result->unpublished_from);
    for (int kind = VERIFY_MISSING; kind < VERIFY_KIND_COUNT; kind++) {
        json_put_name(&out, verify_kind_name((enum verify_kind)kind));
        put_tally(&out, &result->tallies[kind]);
    }
    put_oldest(&out, result);
    buf_put_char(&out, '}');
    puts(buf_str(&out));
    buf_fini(&out);
}

/* -- for people ------------------------------------------------------------------------ */

static void print_tally(enum verify_kind kind, const struct verify_tally *tally)
{
    printf("%-18s %8lld  %s\n", verify_kind_name(kind), (long long)tally->count,
        verify_kind_text(kind));
    for (size_t i = 0; i < tally->sample_count; i++)
        printf("  %s\n", tally->samples[i]);
    if (tally->count > (int64_t)tally->sample_count)
        printf("  ... and %lld more\n",
            (long long)tally->count - (long long)tally->sample_count);
}

static void print_people(const struct pass_result *result, bool has_kafka)
{
    printf("%lld actions, %lld outcomes and %lld records judged%s\n",
        (long long)result->actions, (long long)result->outcomes,
        (long long)result->records,
        result->is_from_scratch ? ", from the start" : "");
    if (!has_kafka)
        puts("the outcomes topic was not read");
    if (result->is_topic_anew)
        puts("the outcomes topic is shorter than before: it was made anew");
    if (result->unpublished_from > 0)
        printf("outcomes before number %lld may have left the topic by age\n",
            (long long)result->unpublished_from);
    for (int kind = VERIFY_MISSING; kind < VERIFY_KIND_COUNT; kind++)
        print_tally((enum verify_kind)kind, &result->tallies[kind]);
    printf("%-18s %8lld  results that came too late, noted in the ledger\n",
        "late", (long long)result->late);
    for (size_t i = 0; i < result->oldest_count; i++)
        printf("tenant %s: %lld unfinished, the oldest for %lld s\n",
            result->oldest[i].tenant, (long long)result->oldest[i].count,
            (long long)result->oldest[i].age_s);
    puts(pass_violations(result) == 0
             ? "Every accepted action is accounted for."
             : "Something is wrong; see the ids above.");
}

/* -- the command ------------------------------------------------------------------------ */

static int verify(struct ctl *ctl, const struct pass_options *options)
{
    static struct pass_result result;
    struct err err = ERR_INIT;
    int code = CTL_DONE;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    int failed = pass_run(conn, options, &result, &err);
    PQfinish(conn);
    if (failed != 0)
        return ctl_fail_err(&err);
    if (ctl->is_json)
        print_json(&result, options->has_kafka);
    else
        print_people(&result, options->has_kafka);
    return pass_violations(&result) == 0 ? CTL_DONE : CTL_NEGATIVE;
}

static int check_ask(
    const struct ctl *ctl, const struct ask *ask, int64_t *from_us)
{
    const char *servers = conf_text(ctl->conf, "kafka.bootstrap.servers");
    if (ask->tenant != NULL && !name_is_valid(span_of(ask->tenant)))
        return ctl_fail(CTL_USAGE, "--tenant must be a name");
    if (ask->from != NULL && !time_parse_rfc3339(span_of(ask->from), from_us))
        return ctl_fail(CTL_USAGE,
            "--from takes a time of RFC 3339 with a zone, not '%s'", ask->from);
    if (ask->is_full && (ask->tenant != NULL || ask->from != NULL))
        return ctl_fail(CTL_USAGE,
            "--full is for the whole fleet; --tenant and --from always begin "
            "anew");
    if (!ask->has_no_kafka && (servers == NULL || servers[0] == '\0'))
        return ctl_fail(CTL_USAGE,
            "no brokers: set ACTIONIST_KAFKA_BOOTSTRAP_SERVERS, or give "
            "--no-kafka");
    return CTL_DONE;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct ask ask = {NULL, NULL, false, false};
    const struct ctl_option table[] = {
        {"tenant", "T", "only this tenant; remembers nothing", &ask.tenant,
            NULL},
        {"from", "TIME", "only what was accepted since; remembers nothing",
            &ask.from, NULL},
        {"full", NULL, "from scratch: forget marks and findings", NULL,
            &ask.is_full},
        {"no-kafka", NULL, "do not read the outcomes topic", NULL,
            &ask.has_no_kafka},
    };
    struct progress progress = {.shown_us = now_mono_us()};
    struct pass_options options = {.conf = ctl->conf,
        .lag_s = LAG_S,
        .on_progress = on_progress,
        .arg = &progress};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_VERIFY, table, ARRAY_LEN(table), argc, argv,
            NULL, 0, &code) < 0)
        return code;
    code = check_ask(ctl, &ask, &options.from_us);
    if (code != CTL_DONE)
        return code;
    options.name = ask.tenant == NULL && ask.from == NULL ? "command" : NULL;
    options.tenant = ask.tenant;
    options.is_full = ask.is_full;
    options.has_kafka = !ask.has_no_kafka;
    return verify(ctl, &options);
}

const struct command COMMAND_VERIFY = {
    .name = "verify",
    .arguments = "",
    .summary = "Check that every accepted action has exactly one outcome",
    .details =
        "Compares actions, unfinished work, outcomes and the outcomes topic. "
        "Goes on\nwhere the last run ended and judges the newest 15 minutes "
        "again; what was found\nstays until --full. Exit code 4 if anything "
        "is wrong.",
    .run = run,
};
