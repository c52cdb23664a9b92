/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifest_*.c files share. manifest.h is the interface. */
#ifndef MANIFEST_INTERNAL_H
#define MANIFEST_INTERNAL_H

#include "schema/manifest.h"
#include "schema/payload_schema.h"
#include "schema/template.h"

#define MANIFEST_MAX_DEPTH 64
#define MANIFEST_MAX_EGRESS 64
#define MANIFEST_MAX_RESET_HEADERS 8
#define MANIFEST_MAX_HEADERS 32
#define MANIFEST_MAX_FIELDS 256 /* of a query or form */
#define MOVABLE_STATUS_MIN 300
#define MOVABLE_STATUS_MAX 599

struct retry_rules {
    int max_attempts;
    int64_t base_ms;
    int64_t max_ms;
    const struct reset_header *reset_headers;
    size_t reset_count;
};

/* A query parameter, form field or header. Names are literal. */
struct field {
    const char *name;
    const struct text_template *value;
};

struct field_list {
    struct field *fields;
    size_t count;
};

enum body_kind { BODY_NONE, BODY_JSON, BODY_TEXT, BODY_FORM };

struct request_rules {
    const char *method; /* static */
    const struct text_template *path;
    struct field_list query;
    struct field_list headers;
    bool has_content_type; /* among the headers */
    enum body_kind body;
    const struct json_template *json;
    const struct text_template *text;
    struct field_list form;
};

struct manifest_action {
    const struct manifest *manifest;
    const char *name;
    enum effect effect;
    bool has_effect;
    const char *key_header; /* keyed only */
    int64_t key_retention_s;
    bool has_key;
    int64_t timeout_ms;
    struct retry_rules retry;
    uint8_t moves[MOVABLE_STATUS_MAX - MOVABLE_STATUS_MIN + 1];
    const struct payload_schema *payload; /* NULL: anything */
    bool is_echo;                 /* runtime echo: there is no request */
    struct request_rules request; /* method NULL: none */
};

/* Where calls go: base_url taken apart. */
struct base_url {
    const char *text; /* normalised, without a slash at the end */
    const char *host; /* lower case; IPv6 without brackets */
    uint16_t port;
    uint16_t default_port; /* of the scheme */
};

struct manifest {
    struct arena arena; /* everything below */
    struct span text;
    uint8_t digest[SHA256_SIZE];
    const char *name;
    const char *version;
    struct base_url base;
    struct egress_rule *egress;
    size_t egress_count;
    struct retry_rules retry;
    struct manifest_action *actions;
    size_t action_count;
};

/* -- walking ------------------------------------------------------------------ */

/* What a loader of one member gets. */
struct load {
    struct manifest *manifest;
    struct fault *fault;
};

/* Loads one member into target (a struct that the table's owner knows). */
typedef int (*load_fn)(const struct load *load, void *target,
    struct json_value value, const struct path *path);

struct member_rule {
    const char *name;
    load_fn fn; /* NULL: known, but not supported by this version */
    bool is_required;
};

/* Walks an object by a table: unknown members and missing ones are faults. */
int load_object(const struct load *load, void *target, struct json_value value,
    const struct path *path, const struct member_rule *rules,
    size_t count) MUST_CHECK;

/* Fills the fault: INVALID_MEMBER. Returns -1. */
int load_refuse(
    const struct load *load, const struct path *path, const char *what);

/* Decodes a string without NUL of 1 to max bytes into the arena. NULL and a
 * fault otherwise. */
const char *load_text(const struct load *load, struct json_value value,
    size_t max, const struct path *path);

int load_integer(const struct load *load, struct json_value value, int64_t min,
    int64_t max, int64_t *number, const struct path *path) MUST_CHECK;

/* Members or items; 0 for what is neither object nor array. */
size_t load_count(struct json_value container);
/* The decoded name of a member, in the arena. */
struct span load_name(const struct load *load, struct span raw_name);

/* -- parts, each in its own file ------------------------------------------------- */

int load_base_url(const struct load *load, void *manifest,
    struct json_value value, const struct path *path);
int load_egress(const struct load *load, void *manifest,
    struct json_value value, const struct path *path);
/* After all members: the default list, or that the list covers base_url. */
int egress_finish(const struct load *load) MUST_CHECK;

/* target: a struct retry_rules. */
int load_retry(const struct load *load, void *target, struct json_value value,
    const struct path *path);
/* target: the manifest. */
int load_actions(const struct load *load, void *manifest,
    struct json_value value, const struct path *path);
/* target: a struct manifest_action. */
int load_request(const struct load *load, void *action, struct json_value value,
    const struct path *path);

/* RFC 9110 token of at most 64 bytes that is not a header we own. */
bool header_name_is_free(struct span name);

#endif
