/* SPDX-License-Identifier: Apache-2.0 */
/* The top level of a manifest, and what is read from a loaded one. */
#include <stdlib.h>
#include <string.h>

#include "schema/manifest_internal.h"

enum { MAX_VERSION = 64 };

static int load_format(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    (void)target;
    int64_t number = 0;
    if (value.type != JSON_NUMBER || !json_to_int(value, &number) ||
        number != 1) {
        return load_refuse(load, path, "must be 1");
    }
    return 0;
}

static int load_manifest_name(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct manifest *manifest = target;
    manifest->name = load_text(load, value, RECORD_MAX_NAME, path);
    if (manifest->name == NULL) {
        return -1;
    }
    if (!name_is_valid(span_of(manifest->name))) {
        return load_refuse(load, path, "must match [a-z0-9][a-z0-9._-]{0,62}");
    }
    return 0;
}

static int load_version(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.+-";
    struct manifest *manifest = target;
    manifest->version = load_text(load, value, MAX_VERSION, path);
    if (manifest->version == NULL) {
        return -1;
    }
    if (manifest->version[strspn(manifest->version, allowed)] != '\0') {
        return load_refuse(
            load, path, "may have letters, digits, '.', '+' and '-' only");
    }
    return 0;
}

static int load_manifest_retry(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    (void)target; /* read before: actions inherit from it */
    (void)load;
    (void)value;
    (void)path;
    return 0;
}

/* Actions inherit the manifest's retry, whichever comes first in the text. */
static int load_retry_first(const struct load *load, struct json_value root)
{
    struct json_value value;
    struct retry_rules *retry = &load->manifest->retry;
    *retry = (struct retry_rules){
        .max_attempts = 8, .base_ms = 1000, .max_ms = 300000};
    const struct path at = path_member(NULL, "retry");
    if (root.type != JSON_OBJECT || !json_find(root, "retry", &value)) {
        return 0;
    }
    return load_retry(load, retry, value, &at);
}

static int load_root(const struct load *load, struct json_value root)
{
    static const struct member_rule rules[] = {
        {"manifest", load_format, true},
        {"name", load_manifest_name, true},
        {"version", load_version, true},
        {"base_url", load_base_url, true},
        {"egress", load_egress, false},
        {"retry", load_manifest_retry, false},
        {"actions", load_actions, true},
        {"auth", NULL, false},
        {"limits", NULL, false},
    };
    if (load_retry_first(load, root) != 0 ||
        load_object(
            load, load->manifest, root, NULL, rules, ARRAY_LEN(rules)) != 0) {
        return -1;
    }
    return egress_finish(load);
}

static int parse(const struct load *load, struct json_value *root)
{
    struct err err = ERR_INIT;
    if (json_parse(load->manifest->text, MANIFEST_MAX_DEPTH, root, &err) != 0) {
        enum code code = CODE_MALFORMED_JSON;
        (void)code_parse(span_of(err.code), &code); /* else it stays */
        return fault_set(load->fault, code, "", "%s", err.msg);
    }
    return 0;
}

struct manifest *manifest_load(struct span text, struct fault *fault)
{
    if (text.len > MANIFEST_MAX_BYTES) {
        (void)fault_set(fault, CODE_TOO_LARGE, "",
            "a manifest has at most %zu bytes",
            MANIFEST_MAX_BYTES); /* fills fault */
        return NULL;
    }
    struct manifest *manifest = mem_zalloc(1, sizeof(*manifest));
    arena_init(&manifest->arena);
    manifest->text = (struct span){
        .ptr = arena_copy(&manifest->arena, text), .len = text.len};
    sha256(manifest->text, manifest->digest);
    const struct load load = {.manifest = manifest, .fault = fault};
    struct json_value root;
    if (parse(&load, &root) != 0 || load_root(&load, root) != 0) {
        manifest_free(manifest);
        return NULL;
    }
    return manifest;
}

void manifest_free(struct manifest *manifest)
{
    if (manifest != NULL) {
        arena_fini(&manifest->arena);
        free(manifest);
    }
}

const char *manifest_name(const struct manifest *manifest)
{
    return manifest->name;
}

const char *manifest_version(const struct manifest *manifest)
{
    return manifest->version;
}

const uint8_t *manifest_digest(const struct manifest *manifest)
{
    return manifest->digest;
}

struct span manifest_text(const struct manifest *manifest)
{
    return manifest->text;
}

const struct manifest_action *manifest_find(
    const struct manifest *manifest, const char *action)
{
    for (size_t i = 0; i < manifest->action_count; i++) {
        if (strcmp(manifest->actions[i].name, action) == 0) {
            return &manifest->actions[i];
        }
    }
    return NULL;
}

size_t manifest_action_count(const struct manifest *manifest)
{
    return manifest->action_count;
}

const struct manifest_action *manifest_action_at(
    const struct manifest *manifest, size_t index)
{
    return index < manifest->action_count ? &manifest->actions[index] : NULL;
}

const struct egress_rule *manifest_egress(
    const struct manifest *manifest, size_t *count)
{
    *count = manifest->egress_count;
    return manifest->egress;
}
