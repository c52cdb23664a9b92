/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_source: the sources of webhooks. A secret comes by file or standard input
 * alone, is sealed before it leaves this process, and is never shown.
 */
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/signal.h"
#include "scheduler/ctl/webhook_seal.h"
#include "scheduler/ctl/webhook_verbs.h"
#include "schema/mapping.h"
#include "schema/record.h"
#include "schema/sql_ctl.h"
#include "schema/webhook.h"

struct wanted {
    const char *tenant;
    const char *source; /* not an option */
    const char *scheme;
    const char *secret_file;
    const char *url;
    const char *webhook_id;
    const char *token_file;
    const char *max_body;
    const char *rate;
    const char *answer_ms;
    const char *grace;
    const char *map_file;
    bool keeps_rejected;
};

/* -- options -------------------------------------------------------------------- */

static int require_names(const struct wanted *wanted)
{
    if (wanted->source == NULL)
        return ctl_fail(CTL_USAGE, "which source? webhook source VERB SOURCE");
    if (!name_is_valid(span_of(wanted->source)))
        return ctl_fail(CTL_USAGE,
            "'%s' is not a name ([a-z0-9][a-z0-9._-]{0,62})", wanted->source);
    if (wanted->tenant == NULL)
        return ctl_fail(CTL_USAGE, "--tenant is required");
    if (!name_is_valid(span_of(wanted->tenant)))
        return ctl_fail(CTL_USAGE, "--tenant must be a name");
    return CTL_DONE;
}

static int take_number(const char *option, const char *text, int64_t min,
    int64_t max, int64_t *value)
{
    if (text == NULL ||
        (span_to_int(span_of(text), value) && *value >= min && *value <= max))
        return CTL_DONE;
    return ctl_fail(CTL_USAGE, "--%s takes a number from %lld to %lld", option,
        (long long)min, (long long)max);
}

static const struct signature_scheme *take_scheme(
    const char *name, int *exit_code)
{
    struct buf names;
    const struct signature_scheme *scheme =
        name == NULL ? NULL : signature_find(span_of(name));
    if (scheme != NULL)
        return scheme;
    buf_init(&names, 1024);
    for (size_t i = 0; i < SIGNATURE_SCHEME_COUNT; i++)
        buf_printf(
            &names, "%s%s", i == 0 ? "" : ", ", SIGNATURE_SCHEMES[i].name);
    *exit_code =
        ctl_fail(CTL_USAGE, "--scheme must be one of: %s", buf_str(&names));
    buf_fini(&names);
    return NULL;
}

/* -- add ------------------------------------------------------------------------- */

struct limits {
    int64_t max_body;
    int64_t rate;
    int64_t answer_ms;
};

static int check_add(const struct wanted *wanted,
    const struct signature_scheme *scheme, struct span parameter,
    struct limits *limits)
{
    struct err err = ERR_INIT;
    int code = CTL_DONE;
    if (wanted->secret_file == NULL)
        return ctl_fail(CTL_USAGE, "--secret-file is required, - is standard "
                                   "input");
    if (wanted->url != NULL && wanted->webhook_id != NULL)
        return ctl_fail(CTL_USAGE, "no scheme takes --url and --webhook-id");
    if (signature_parameter_check(scheme, parameter, &err) != 0)
        return ctl_fail(CTL_USAGE, "%s: %s",
            scheme->parameter == SIGNATURE_PARAMETER_WEBHOOK_ID ? "--webhook-id"
                                                                : "--url",
            err.msg);
    if (wanted->token_file != NULL &&
        scheme->challenge != SIGNATURE_CHALLENGE_META)
        return ctl_fail(
            CTL_USAGE, "--verify-token-file: only meta asks for one");
    if (wanted->map_file != NULL && strcmp(wanted->map_file, "-") == 0 &&
        strcmp(wanted->secret_file, "-") == 0)
        return ctl_fail(
            CTL_USAGE, "--map and --secret-file cannot both be standard input");
    code = take_number("max-body", wanted->max_body, 1,
        (int64_t)WEBHOOK_MAX_BODY, &limits->max_body);
    if (code == CTL_DONE)
        code = take_number("rate", wanted->rate, 1, 100000, &limits->rate);
    if (code == CTL_DONE)
        code = take_number(
            "answer-ms", wanted->answer_ms, 100, 8000, &limits->answer_ms);
    return code;
}

/* What goes into columns, beside what was wanted. */
struct columns {
    struct span parameter;
    struct limits limits;
    struct buf secret; /* sealed */
    struct buf token;  /* sealed; empty: none */
    struct buf mapping;
};

static void put_optional(struct pg_params *params, const struct buf *bytes)
{
    if (bytes->len > 0)
        pg_param_bytea(params, buf_span(bytes));
    else
        pg_param_null(params);
}

static int insert(struct ctl *ctl, PGconn *conn, const struct wanted *wanted,
    const struct columns *columns)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(wanted->tenant));
    pg_param_text(&params, span_of(wanted->source));
    pg_param_text(&params, span_of(wanted->scheme));
    pg_param_text(&params, columns->parameter);
    pg_param_bytea(&params, buf_span(&columns->secret));
    put_optional(&params, &columns->token);
    pg_param_bool(&params, wanted->keeps_rejected);
    pg_param_int4(&params, (int32_t)columns->limits.max_body);
    pg_param_int4(&params, (int32_t)columns->limits.rate);
    pg_param_int4(&params, (int32_t)columns->limits.answer_ms);
    put_optional(&params, &columns->mapping);
    PGresult *result = ctl_query(conn, SQL_CTL_HOOK_ADD, &params, &code);
    if (result != NULL && pg_rows(result) == 0)
        code = ctl_fail(CTL_CONFLICT,
            "tenant %s has a source %s already; rotate changes its secret",
            wanted->tenant, wanted->source);
    if (code == CTL_DONE)
        ctl_signal(ctl, "webhook", wanted->source);
    PQclear(result);
    pg_params_fini(&params);
    return code;
}

static int show(struct ctl *ctl, const struct wanted *wanted);

/* Seals what is secret, for the columns. */
static int seal(struct ctl *ctl, const struct wanted *wanted,
    const struct signature_scheme *scheme, struct columns *columns)
{
    int code = CTL_DONE;
    struct seal_keys *keys = ctl_seal_keys(ctl, &code);
    if (keys == NULL)
        return code;
    code = ctl_seal_secret(keys,
        &(struct ctl_secret){wanted->tenant, wanted->source,
            WEBHOOK_CONTEXT_SECRET, wanted->secret_file},
        scheme, &columns->secret);
    if (code == CTL_DONE && wanted->token_file != NULL)
        code = ctl_seal_secret(keys,
            &(struct ctl_secret){wanted->tenant, wanted->source,
                WEBHOOK_CONTEXT_TOKEN, wanted->token_file},
            NULL, &columns->token);
    seal_keys_free(keys);
    return code;
}

static int add(struct ctl *ctl, const struct wanted *wanted)
{
    const char *text = wanted->url != NULL ? wanted->url : wanted->webhook_id;
    struct columns columns = {.parameter = span_of(text != NULL ? text : ""),
        .limits = {(int64_t)WEBHOOK_MAX_BODY, 5000, 3000}};
    PGconn *conn = NULL;
    int code = CTL_DONE;
    const struct signature_scheme *scheme = take_scheme(wanted->scheme, &code);
    buf_init(&columns.secret, SIGNATURE_MAX_SECRET + SEAL_OVERHEAD);
    buf_init(&columns.token, SIGNATURE_MAX_SECRET + SEAL_OVERHEAD);
    buf_init(&columns.mapping, MAPPING_MAX_BYTES);
    if (scheme != NULL)
        code = check_add(wanted, scheme, columns.parameter, &columns.limits);
    if (code == CTL_DONE && wanted->map_file != NULL)
        code = webhook_mapping_read(wanted->map_file, &columns.mapping);
    if (code == CTL_DONE)
        code = seal(ctl, wanted, scheme, &columns);
    if (code == CTL_DONE)
        conn = ctl_connect(ctl, &code);
    if (conn != NULL)
        code = insert(ctl, conn, wanted, &columns);
    PQfinish(conn);
    buf_fini(&columns.secret);
    buf_fini(&columns.token);
    buf_fini(&columns.mapping);
    return code == CTL_DONE ? show(ctl, wanted) : code;
}

/* -- list, show ------------------------------------------------------------------ */

static PGresult *query_sources(
    PGconn *conn, const char *tenant, const char *source, int *exit_code)
{
    struct pg_params params;
    pg_params_init(&params);
    if (tenant != NULL)
        pg_param_text(&params, span_of(tenant));
    else
        pg_param_null(&params);
    if (source != NULL)
        pg_param_text(&params, span_of(source));
    else
        pg_param_null(&params);
    PGresult *rows = ctl_query(conn, SQL_CTL_HOOK_LIST, &params, exit_code);
    pg_params_fini(&params);
    return rows;
}

/* "connector/action" of its mapping, "" without one; out has room. */
static const char *put_becomes(
    const PGresult *rows, int row, char out[2 * RECORD_MAX_NAME + 2])
{
    struct fault fault = FAULT_INIT;
    out[0] = '\0';
    if (pg_is_null(rows, row, CTL_HOOK_MAPPING))
        return out;
    struct mapping *mapping =
        mapping_load(pg_get_bytes(rows, row, CTL_HOOK_MAPPING), &fault);
    snprintf(out, 2 * RECORD_MAX_NAME + 2, "%s/%s",
        mapping == NULL ? "?" : mapping_connector(mapping),
        mapping == NULL ? "?" : mapping_action(mapping));
    mapping_free(mapping);
    return out;
}

static int list(struct ctl *ctl, const struct wanted *wanted)
{
    static const char *const columns[] = {"tenant", "source", "scheme", "state",
        "secret_no", "old_until", "becomes", "changed_at"};
    int code = CTL_DONE;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    PGresult *rows = query_sources(conn, wanted->tenant, NULL, &code);
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    for (int row = 0; rows != NULL && row < pg_rows(rows); row++) {
        char old[TIME_TEXT_SIZE] = "";
        char changed[TIME_TEXT_SIZE];
        char secret_no[16];
        char *tenant = span_dup(pg_get_bytes(rows, row, CTL_HOOK_TENANT));
        char *source = span_dup(pg_get_bytes(rows, row, CTL_HOOK_SOURCE));
        char *scheme = span_dup(pg_get_bytes(rows, row, CTL_HOOK_SCHEME));
        char becomes[2 * RECORD_MAX_NAME + 2];
        const bool is_disabled = pg_get_bool(rows, row, CTL_HOOK_IS_DISABLED);
        snprintf(secret_no, sizeof secret_no, "%d",
            (int)pg_get_int(rows, row, CTL_HOOK_SECRET_NO));
        if (!pg_is_null(rows, row, CTL_HOOK_OLD_UNTIL))
            time_format_rfc3339(
                pg_get_time(rows, row, CTL_HOOK_OLD_UNTIL), old);
        time_format_rfc3339(
            pg_get_time(rows, row, CTL_HOOK_CHANGED_AT), changed);
        ctl_table_add(
            table, (const char *[]){tenant, source, scheme,
                       is_disabled ? "disabled" : "active", secret_no, old,
                       put_becomes(rows, row, becomes), changed});
        free(tenant);
        free(source);
        free(scheme);
    }
    ctl_table_end(table);
    PQclear(rows);
    PQfinish(conn);
    return code;
}

static void print_source(struct ctl *ctl, const PGresult *rows)
{
    static const char *const columns[] = {"tenant", "source", "scheme", "state",
        "path", "parameter", "secret_no", "master_key", "verify_token",
        "keeps_rejected", "max_body_bytes", "rate_per_s", "answer_ms",
        "mapping"};
    char secret_no[16];
    char key[16];
    char max_body[16];
    char rate[16];
    char answer[16];
    struct buf path;
    char *tenant = span_dup(pg_get_bytes(rows, 0, CTL_HOOK_TENANT));
    char *source = span_dup(pg_get_bytes(rows, 0, CTL_HOOK_SOURCE));
    char *scheme = span_dup(pg_get_bytes(rows, 0, CTL_HOOK_SCHEME));
    char *parameter = span_dup(pg_get_bytes(rows, 0, CTL_HOOK_PARAMETER));
    char *mapping = span_dup(pg_get_bytes(rows, 0, CTL_HOOK_MAPPING));
    snprintf(secret_no, sizeof secret_no, "%d",
        (int)pg_get_int(rows, 0, CTL_HOOK_SECRET_NO));
    snprintf(key, sizeof key, "%u",
        (unsigned)seal_key_number(pg_get_bytes(rows, 0, CTL_HOOK_SEAL)));
    snprintf(max_body, sizeof max_body, "%d",
        (int)pg_get_int(rows, 0, CTL_HOOK_MAX_BODY));
    snprintf(rate, sizeof rate, "%d", (int)pg_get_int(rows, 0, CTL_HOOK_RATE));
    snprintf(answer, sizeof answer, "%d",
        (int)pg_get_int(rows, 0, CTL_HOOK_ANSWER_MS));
    buf_init(&path, 256);
    buf_printf(&path, "/hooks/%s/%s", tenant, source);
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    ctl_table_add(table,
        (const char *[]){tenant, source, scheme,
            pg_get_bool(rows, 0, CTL_HOOK_IS_DISABLED) ? "disabled" : "active",
            buf_str(&path), parameter, secret_no, key,
            pg_get_bool(rows, 0, CTL_HOOK_HAS_TOKEN) ? "set" : "",
            pg_get_bool(rows, 0, CTL_HOOK_KEEPS_REJECTED) ? "yes" : "no",
            max_body, rate, answer, mapping});
    ctl_table_end(table);
    buf_fini(&path);
    free(tenant);
    free(source);
    free(scheme);
    free(parameter);
    free(mapping);
}

static int no_source(const struct wanted *wanted)
{
    return ctl_fail(CTL_NOT_FOUND, "tenant %s has no source %s", wanted->tenant,
        wanted->source);
}

static int show(struct ctl *ctl, const struct wanted *wanted)
{
    int code = CTL_DONE;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    PGresult *rows = query_sources(conn, wanted->tenant, wanted->source, &code);
    if (rows != NULL && pg_rows(rows) == 0)
        code = no_source(wanted);
    else if (rows != NULL)
        print_source(ctl, rows);
    PQclear(rows);
    PQfinish(conn);
    return code;
}

/* -- rotate, map, disable, enable ------------------------------------------------------- */

/* Runs an update of one source. */
static int update(struct ctl *ctl, PGconn *conn, const struct wanted *wanted,
    int statement, struct pg_params *params)
{
    int code = CTL_DONE;
    PGresult *result = ctl_query(conn, statement, params, &code);
    if (result != NULL && pg_affected(result) == 0)
        code = no_source(wanted);
    else if (result != NULL)
        ctl_signal(ctl, "webhook", wanted->source);
    PQclear(result);
    return code;
}

static const struct signature_scheme *scheme_of(
    PGconn *conn, const struct wanted *wanted, int *exit_code)
{
    const struct signature_scheme *scheme = NULL;
    PGresult *rows =
        query_sources(conn, wanted->tenant, wanted->source, exit_code);
    if (rows != NULL && pg_rows(rows) == 0)
        *exit_code = no_source(wanted);
    else if (rows != NULL)
        scheme = signature_find(pg_get_bytes(rows, 0, CTL_HOOK_SCHEME));
    if (rows != NULL && pg_rows(rows) > 0 && scheme == NULL)
        *exit_code = ctl_fail(
            CTL_FAILED, "this version does not know the scheme of the source");
    PQclear(rows);
    return scheme;
}

static int rotate(struct ctl *ctl, const struct wanted *wanted)
{
    int64_t grace_s = 86400;
    struct pg_params params;
    struct buf secret;
    struct seal_keys *keys = NULL;
    const struct signature_scheme *scheme = NULL;
    int code = take_number("grace-s", wanted->grace, 0, 2592000, &grace_s);
    if (code == CTL_DONE && wanted->secret_file == NULL)
        code = ctl_fail(CTL_USAGE, "--secret-file is required, - is standard "
                                   "input");
    if (code == CTL_DONE)
        keys = ctl_seal_keys(ctl, &code);
    PGconn *conn = keys == NULL ? NULL : ctl_connect(ctl, &code);
    if (conn != NULL)
        scheme = scheme_of(conn, wanted, &code);
    buf_init(&secret, SIGNATURE_MAX_SECRET + SEAL_OVERHEAD);
    pg_params_init(&params);
    if (scheme != NULL)
        code = ctl_seal_secret(keys,
            &(struct ctl_secret){wanted->tenant, wanted->source,
                WEBHOOK_CONTEXT_SECRET, wanted->secret_file},
            scheme, &secret);
    if (scheme != NULL && code == CTL_DONE) {
        pg_param_text(&params, span_of(wanted->tenant));
        pg_param_text(&params, span_of(wanted->source));
        pg_param_bytea(&params, buf_span(&secret));
        pg_param_int4(&params, (int32_t)grace_s);
        code = update(ctl, conn, wanted, SQL_CTL_HOOK_ROTATE, &params);
    }
    pg_params_fini(&params);
    buf_fini(&secret);
    PQfinish(conn);
    seal_keys_free(keys);
    return code;
}

static int map(struct ctl *ctl, const struct wanted *wanted)
{
    int code = CTL_DONE;
    struct pg_params params;
    struct buf mapping;
    if (wanted->map_file == NULL)
        return ctl_fail(CTL_USAGE, "--map is required, - is standard input");
    buf_init(&mapping, MAPPING_MAX_BYTES);
    if (strcmp(wanted->map_file, "none") != 0)
        code = webhook_mapping_read(wanted->map_file, &mapping);
    PGconn *conn = code == CTL_DONE ? ctl_connect(ctl, &code) : NULL;
    if (conn != NULL) {
        pg_params_init(&params);
        pg_param_text(&params, span_of(wanted->tenant));
        pg_param_text(&params, span_of(wanted->source));
        put_optional(&params, &mapping);
        code = update(ctl, conn, wanted, SQL_CTL_HOOK_MAP, &params);
        pg_params_fini(&params);
    }
    buf_fini(&mapping);
    PQfinish(conn);
    return code;
}

static int switch_to(
    struct ctl *ctl, const struct wanted *wanted, bool is_disabled)
{
    int code = CTL_DONE;
    struct pg_params params;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    pg_params_init(&params);
    pg_param_text(&params, span_of(wanted->tenant));
    pg_param_text(&params, span_of(wanted->source));
    pg_param_bool(&params, is_disabled);
    code = update(ctl, conn, wanted, SQL_CTL_HOOK_SWITCH, &params);
    pg_params_fini(&params);
    PQfinish(conn);
    return code;
}

/* -- the command ------------------------------------------------------------------- */

static int act(struct ctl *ctl, const char *verb, const struct wanted *wanted)
{
    if (strcmp(verb, "list") == 0)
        return list(ctl, wanted);
    int code = require_names(wanted);
    if (code != CTL_DONE)
        return code;
    if (strcmp(verb, "add") == 0)
        return add(ctl, wanted);
    if (strcmp(verb, "show") == 0)
        return show(ctl, wanted);
    if (strcmp(verb, "rotate") == 0)
        return rotate(ctl, wanted);
    if (strcmp(verb, "map") == 0)
        return map(ctl, wanted);
    return switch_to(ctl, wanted, strcmp(verb, "disable") == 0);
}

static const struct command COMMAND_SOURCE = {
    .name = "webhook source",
    .arguments = "add|list|show|rotate|map|disable|enable [SOURCE]",
    .summary = "Say who may deliver webhooks, and which action that becomes",
    .details =
        "  webhook source add SOURCE --tenant T --scheme S --secret-file F\n"
        "                                       then: POST /hooks/T/SOURCE\n"
        "  webhook source list [--tenant T]     sources, never secrets\n"
        "  webhook source show SOURCE --tenant T\n"
        "  webhook source rotate SOURCE --tenant T --secret-file F "
        "[--grace-s S]\n"
        "                                       both secrets hold meanwhile\n"
        "  webhook source map SOURCE --tenant T --map F|none\n"
        "  webhook source disable|enable SOURCE --tenant T\n\n"
        "The fleet follows within a second. Schemes: standard-webhooks,\n"
        "standard-webhooks-ed25519, svix, stripe, github, meta, slack, "
        "shopify,\nshopify-events, twilio, square, paypal, sendgrid, zendesk, "
        "linear, discord,\nzoom, paddle, twitch, hubspot-v3.\n\n"
        "A mapping is a JSON file: each verified delivery becomes one action,\n"
        "however often it comes. Without one, consumers read the topic.\n"
        "  {\"connector\": \"crm\", \"action\": \"note\", "
        "\"types\": [\"invoice.*\"],\n"
        "   \"payload\": {\"to\": \"{{body.data.customer}}\", "
        "\"kind\": \"{{webhook.type}}\"}}\n"
        "payload (the whole {{body}} if absent) may name {{body.*}}, "
        "{{headers.*}} and\n{{webhook.id|source|sender_id|type|received_at}}; "
        "types filters, a * at its end\nis any; \"type\": \"{{body.kind}}\" "
        "says where the type is if the scheme does not.",
};

int webhook_source_run(struct ctl *ctl, int argc, char **argv)
{
    static const char *const verbs[] = {
        "add", "list", "show", "rotate", "map", "disable", "enable"};
    struct wanted wanted = {.tenant = NULL};
    const struct ctl_option options[] = {
        {"tenant", "T", "whose source it is", &wanted.tenant, NULL},
        {"scheme", "S", "add: how the sender signs", &wanted.scheme, NULL},
        {"secret-file", "F", "add, rotate: its secret; - is standard input",
            &wanted.secret_file, NULL},
        {"url", "U", "add: the public URL, for senders that sign it",
            &wanted.url, NULL},
        {"webhook-id", "W", "add: the webhook's id, for paypal",
            &wanted.webhook_id, NULL},
        {"verify-token-file", "F", "add: what meta's GET must bring",
            &wanted.token_file, NULL},
        {"keep-rejected", NULL, "add: capture 60 a minute as evidence", NULL,
            &wanted.keeps_rejected},
        {"max-body", "BYTES", "add: larger is 413 (1048576)", &wanted.max_body,
            NULL},
        {"rate", "N", "add: deliveries a second, then 429 (5000)", &wanted.rate,
            NULL},
        {"answer-ms", "MS", "add: after it 503 (3000)", &wanted.answer_ms,
            NULL},
        {"map", "F", "add, map: JSON of the mapping; - is standard input",
            &wanted.map_file, NULL},
        {"grace-s", "S", "rotate: the old secret stays valid (86400)",
            &wanted.grace, NULL},
    };
    const char *rest[3] = {NULL, NULL, NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_SOURCE, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    wanted.source = rest[2];
    if (rest[1] != NULL)
        for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
            if (strcmp(rest[1], verbs[i]) == 0)
                return act(ctl, verbs[i], &wanted);
    return ctl_fail(CTL_USAGE,
        "webhook source takes add, list, show, rotate, map, disable or "
        "enable");
}
