/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connector: manifests. Adding checks the manifest as a worker would; the
 * newest version added is the one new actions use, actions under way keep
 * theirs.
 */
#include <stdlib.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/file.h"
#include "scheduler/ctl/signal.h"
#include "schema/manifest.h"
#include "schema/sql_ctl.h"

static int report_added(struct ctl *ctl, const struct manifest *manifest)
{
    static const char *const columns[] = {
        "name", "version", "digest", "actions_count"};
    struct buf digest;
    char count[24];
    buf_init(&digest, 128);
    buf_put_str(&digest, "sha256:");
    hex_put(&digest,
        (struct span){(const char *)manifest_digest(manifest), SHA256_SIZE});
    snprintf(count, sizeof count, "%zu", manifest_action_count(manifest));
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    ctl_table_add(
        table, (const char *[]){manifest_name(manifest),
                   manifest_version(manifest), buf_str(&digest), count});
    ctl_table_end(table);
    buf_fini(&digest);
    return CTL_DONE;
}

static int store(struct ctl *ctl, PGconn *conn, const struct manifest *manifest)
{
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, span_of(manifest_name(manifest)));
    pg_param_text(&params, span_of(manifest_version(manifest)));
    pg_param_bytea(&params,
        (struct span){(const char *)manifest_digest(manifest), SHA256_SIZE});
    pg_param_bytea(&params, manifest_text(manifest));
    PGresult *result = ctl_query(conn, SQL_CTL_CONNECTOR_ADD, &params, &code);
    bool is_there = result != NULL &&
                    (pg_get_bool(result, 0, 0) || pg_get_bool(result, 0, 1));
    if (is_there) {
        ctl_signal(ctl, "connector", manifest_name(manifest));
        code = report_added(ctl, manifest);
    } else if (result != NULL) {
        code = ctl_fail(CTL_CONFLICT,
            "version %s of connector %s exists with other content: give the "
            "manifest a new version",
            manifest_version(manifest), manifest_name(manifest));
    }
    PQclear(result);
    pg_params_fini(&params);
    return code;
}

static int add(struct ctl *ctl, const char *path, bool is_unsigned_allowed)
{
    struct err err = ERR_INIT;
    struct fault fault = FAULT_INIT;
    struct buf text;
    int code = CTL_DONE;
    if (path == NULL)
        return ctl_fail(CTL_USAGE, "connector add takes a manifest file, or -");
    if (!is_unsigned_allowed)
        return ctl_fail(CTL_CONFLICT,
            "%s: no signature; this version knows no trust store yet, so say "
            "--allow-unsigned if you trust where the manifest comes from",
            path);
    buf_init(&text, MANIFEST_MAX_BYTES);
    if (file_read(path, &text, &err) != 0) {
        buf_fini(&text);
        return ctl_fail(CTL_FAILED, "%s", err.msg);
    }
    struct manifest *manifest = manifest_load(buf_span(&text), &fault);
    buf_fini(&text);
    if (manifest == NULL)
        return ctl_fail(CTL_NEGATIVE, "%s: %s%s%s", path, fault.pointer,
            fault.pointer[0] != '\0' ? ": " : "", fault.detail);
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn != NULL)
        code = store(ctl, conn, manifest);
    PQfinish(conn);
    manifest_free(manifest);
    return code;
}

static int list(struct ctl *ctl)
{
    static const char *const columns[] = {
        "name", "version", "digest", "added_at"};
    int code = CTL_DONE;
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    PGresult *result = ctl_query(conn, SQL_CTL_CONNECTOR_LIST, NULL, &code);
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    for (int row = 0; result != NULL && row < pg_rows(result); row++) {
        char added[TIME_TEXT_SIZE];
        char *name = span_dup(pg_get_bytes(result, row, 0));
        char *version = span_dup(pg_get_bytes(result, row, 1));
        char *digest = span_dup(pg_get_bytes(result, row, 2));
        time_format_rfc3339(pg_get_time(result, row, 3), added);
        ctl_table_add(table, (const char *[]){name, version, digest, added});
        free(name);
        free(version);
        free(digest);
    }
    ctl_table_end(table);
    PQclear(result);
    PQfinish(conn);
    return code;
}

static int show(struct ctl *ctl, const char *name, const char *version)
{
    int code = CTL_DONE;
    struct pg_params params;
    if (name == NULL)
        return ctl_fail(CTL_USAGE, "connector show takes a name");
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    pg_params_init(&params);
    pg_param_text(&params, span_of(name));
    if (version != NULL)
        pg_param_text(&params, span_of(version));
    else
        pg_param_null(&params);
    PGresult *result = ctl_query(conn, SQL_CTL_CONNECTOR_SHOW, &params, &code);
    if (result != NULL && pg_rows(result) == 0) {
        code = ctl_fail(CTL_NOT_FOUND, "no connector %s%s%s", name,
            version != NULL ? " " : "", version != NULL ? version : "");
    } else if (result != NULL) {
        struct span text = pg_get_bytes(result, 0, 0);
        fwrite(text.ptr, 1, text.len, stdout);
        fputc('\n', stdout);
    }
    PQclear(result);
    pg_params_fini(&params);
    PQfinish(conn);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    const char *version = NULL;
    bool is_unsigned_allowed = false;
    const struct ctl_option options[] = {
        {"version", "V", "show: this version, not the newest", &version, NULL},
        {"allow-unsigned", NULL, "add: take a manifest without a signature",
            NULL, &is_unsigned_allowed},
    };
    const char *rest[2] = {NULL, NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_CONNECTOR, options, ARRAY_LEN(options), argc,
            argv, rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    const char *verb = rest[0] != NULL ? rest[0] : "";
    if (strcmp(verb, "add") == 0)
        return add(ctl, rest[1],
            is_unsigned_allowed ||
                conf_bool(ctl->conf, "connector.allow_unsigned"));
    if (strcmp(verb, "list") == 0)
        return list(ctl);
    if (strcmp(verb, "show") == 0)
        return show(ctl, rest[1], version);
    return ctl_fail(CTL_USAGE, "connector takes add, list or show");
}

const struct command COMMAND_CONNECTOR = {
    .name = "connector",
    .arguments = "add FILE|list|show NAME",
    .summary = "Add, list and show connector manifests",
    .details =
        "  connector add FILE --allow-unsigned    check a manifest and use it\n"
        "  connector list                         the newest of each name\n"
        "  connector show NAME [--version V]      the exact bytes",
    .run = run,
};
