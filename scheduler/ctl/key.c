/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key: API keys of tenants. A key is 32 random bytes, shown once; the
 * database holds its SHA-256.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crypt.h"
#include "common/time.h"
#include "scheduler/ctl/commands.h"
#include "schema/record.h"
#include "schema/sql_ctl.h"

#define KEY_BYTES 32

static int require_tenant(const char *tenant)
{
    if (tenant != NULL && name_is_valid(span_of(tenant)))
        return CTL_DONE;
    if (tenant == NULL)
        return ctl_fail(CTL_USAGE, "--tenant is required");
    return ctl_fail(CTL_USAGE,
        "--tenant: '%s' is not a name ([a-z0-9][a-z0-9._-]{0,62})", tenant);
}

static void make_key(
    char *id, size_t id_size, struct buf *secret, uint8_t digest[SHA256_SIZE])
{
    uint8_t bytes[KEY_BYTES];
    random_bytes(bytes, sizeof bytes);
    buf_put_str(secret, "ak_");
    base64url_put(secret, (struct span){(const char *)bytes, sizeof bytes});
    sha256(buf_span(secret), digest);
    /* The id says which key it is and nothing about the rest of it. */
    snprintf(id, id_size, "key_%02x%02x%02x%02x%02x%02x", digest[0], digest[1],
        digest[2], digest[3], digest[4], digest[5]);
}

static int add(struct ctl *ctl, PGconn *conn, const char *tenant)
{
    static const char *const columns[] = {"id", "tenant", "key"};
    char id[32];
    struct buf secret;
    uint8_t digest[SHA256_SIZE];
    struct pg_params params;
    int code = require_tenant(tenant);
    if (code != CTL_DONE)
        return code;
    buf_init(&secret, 128);
    pg_params_init(&params);
    make_key(id, sizeof id, &secret, digest);
    pg_param_text(&params, span_of(id));
    pg_param_text(&params, span_of(tenant));
    pg_param_bytea(&params, (struct span){(const char *)digest, sizeof digest});
    PGresult *result = ctl_query(conn, SQL_CTL_KEY_ADD, &params, &code);
    if (result != NULL) {
        struct ctl_table *table =
            ctl_table_new(ctl, columns, ARRAY_LEN(columns));
        ctl_table_add(table, (const char *[]){id, tenant, buf_str(&secret)});
        ctl_table_end(table);
        if (!ctl->is_json)
            fputs("Keep the key: it is shown this once.\n", stderr);
    }
    PQclear(result);
    pg_params_fini(&params);
    buf_fini(&secret);
    return code;
}

static int list(struct ctl *ctl, PGconn *conn, const char *tenant)
{
    static const char *const columns[] = {
        "id", "tenant", "created_at", "revoked_at"};
    int code = CTL_DONE;
    struct pg_params params;
    pg_params_init(&params);
    if (tenant != NULL)
        pg_param_text(&params, span_of(tenant));
    else
        pg_param_null(&params);
    PGresult *result = ctl_query(conn, SQL_CTL_KEY_LIST, &params, &code);
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    for (int row = 0; result != NULL && row < pg_rows(result); row++) {
        char created[TIME_TEXT_SIZE];
        char revoked[TIME_TEXT_SIZE] = "";
        char *id = span_dup(pg_get_bytes(result, row, 0));
        char *owner = span_dup(pg_get_bytes(result, row, 1));
        time_format_rfc3339(pg_get_time(result, row, 2), created);
        if (!pg_is_null(result, row, 3))
            time_format_rfc3339(pg_get_time(result, row, 3), revoked);
        ctl_table_add(table, (const char *[]){id, owner, created, revoked});
        free(id);
        free(owner);
    }
    ctl_table_end(table);
    PQclear(result);
    pg_params_fini(&params);
    return code;
}

static int revoke_key(PGconn *conn, const char *id, const char *tenant)
{
    int code = CTL_DONE;
    struct pg_params params;
    if (id == NULL)
        return ctl_fail(
            CTL_USAGE, "which key? `actionist key list` names them");
    pg_params_init(&params);
    pg_param_text(&params, span_of(id));
    if (tenant != NULL)
        pg_param_text(&params, span_of(tenant));
    else
        pg_param_null(&params);
    PGresult *result = ctl_query(conn, SQL_CTL_KEY_REVOKE, &params, &code);
    if (result != NULL && pg_affected(result) == 0)
        code = ctl_fail(CTL_NOT_FOUND, "no key %s", id);
    PQclear(result);
    pg_params_fini(&params);
    return code;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    const char *tenant = NULL;
    const struct ctl_option options[] = {
        {"tenant", "T", "the tenant the key belongs to", &tenant, NULL},
    };
    const char *rest[2] = {NULL, NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_KEY, options, ARRAY_LEN(options), argc, argv,
            rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    const char *verb = rest[0] != NULL ? rest[0] : "";
    bool is_known = strcmp(verb, "add") == 0 || strcmp(verb, "list") == 0 ||
                    strcmp(verb, "revoke") == 0;
    if (!is_known)
        return ctl_fail(CTL_USAGE, "key takes add, list or revoke");
    PGconn *conn = ctl_connect(ctl, &code);
    if (conn == NULL)
        return code;
    if (strcmp(verb, "add") == 0)
        code = add(ctl, conn, tenant);
    else if (strcmp(verb, "list") == 0)
        code = list(ctl, conn, tenant);
    else
        code = revoke_key(conn, rest[1], tenant);
    PQfinish(conn);
    return code;
}

const struct command COMMAND_KEY = {
    .name = "key",
    .arguments = "add|list|revoke [ID]",
    .summary = "Make, list and revoke the API keys of tenants",
    .details =
        "  key add --tenant T       prints a new key, this once\n"
        "  key list [--tenant T]    ids, never keys\n"
        "  key revoke ID            refused by every producer within 1 s",
    .run = run,
};
