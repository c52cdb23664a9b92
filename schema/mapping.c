/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/mapping.h"

#include <stdlib.h>
#include <string.h>

#include "schema/template.h"
#include "schema/webhook_view.h"

enum { MAX_DEPTH = 64, MAX_TYPE_TEMPLATE = 1024, FINGERPRINT_VERSION = 1 };
#define DOMAIN_CONTENT SPAN_LIT("actionist content of webhook 1")
#define WHOLE_BODY SPAN_LIT("\"{{body}}\"")

struct mapping {
    struct arena arena; /* everything below */
    struct span text;
    const char *connector;
    const char *action;
    const struct json_template *payload;
    const struct text_template *type; /* NULL: as the scheme tells it */
    struct span *types;               /* "x" or "x*" */
    size_t type_count;                /* 0: all */
};

/* -- loading --------------------------------------------------------------- */

/* What a loader of one member gets. */
struct loading {
    struct mapping *mapping;
    struct json_value value;
    struct path path;
    struct fault *fault;
};

static int refuse(const struct loading *loading, const char *what)
{
    return path_fault(
        loading->fault, CODE_INVALID_MEMBER, &loading->path, "%s", what);
}

/* A copy in the arena of what a string says; ptr NULL: it is none of 1 to max
 * bytes, or has control characters. */
static struct span copy_string(
    struct arena *arena, struct json_value value, size_t max)
{
    struct span copy = {0};
    struct buf text;
    buf_init(&text, max);
    if (value.type == JSON_STRING) {
        json_decode(value, &text);
    }
    bool is_fine = text.len > 0 && !text.is_overflowed;
    for (size_t i = 0; i < text.len; i++) {
        is_fine = is_fine && (unsigned char)text.data[i] >= ' ';
    }
    if (is_fine) {
        copy = (struct span){arena_copy(arena, buf_span(&text)), text.len};
    }
    buf_fini(&text);
    return copy;
}

static int load_name_of(const struct loading *loading, const char **name)
{
    const struct span text =
        copy_string(&loading->mapping->arena, loading->value, RECORD_MAX_NAME);
    if (!name_is_valid(text)) {
        return refuse(loading, "must match [a-z0-9][a-z0-9._-]{0,62}");
    }
    *name = text.ptr;
    return 0;
}

static int load_connector(const struct loading *loading)
{
    return load_name_of(loading, &loading->mapping->connector);
}

static int load_action(const struct loading *loading)
{
    return load_name_of(loading, &loading->mapping->action);
}

static int load_payload(const struct loading *loading)
{
    struct mapping *mapping = loading->mapping;
    mapping->payload = json_template_load(&mapping->arena, loading->value,
        TEMPLATE_OF_WEBHOOK, &loading->path, loading->fault);
    return mapping->payload == NULL ? -1 : 0;
}

static int load_type(const struct loading *loading)
{
    struct mapping *mapping = loading->mapping;
    const struct span text =
        copy_string(&mapping->arena, loading->value, MAX_TYPE_TEMPLATE);
    if (text.ptr == NULL) {
        return refuse(loading, "must be a template of 1 to 1024 bytes");
    }
    mapping->type = template_load(&mapping->arena, text, TEMPLATE_OF_WEBHOOK,
        &loading->path, loading->fault);
    return mapping->type == NULL ? -1 : 0;
}

static int load_types(const struct loading *loading)
{
    static const char WHAT[] = "must be an array of 1 to 100 strings of 1 to "
                               "255 bytes";
    struct mapping *mapping = loading->mapping;
    if (loading->value.type != JSON_ARRAY) {
        return refuse(loading, WHAT);
    }
    mapping->types =
        arena_alloc(&mapping->arena, MAPPING_MAX_TYPES, sizeof(struct span));
    struct json_cursor cursor = json_enter(loading->value);
    struct json_member item;
    while (json_next(&cursor, &item)) {
        struct span type =
            copy_string(&mapping->arena, item.value, WEBHOOK_MAX_TYPE);
        if (type.ptr == NULL || mapping->type_count == MAPPING_MAX_TYPES) {
            return refuse(loading, WHAT);
        }
        mapping->types[mapping->type_count++] = type;
    }
    return mapping->type_count == 0 ? refuse(loading, WHAT) : 0;
}

static const struct {
    const char *name;
    int (*load)(const struct loading *loading);
    bool is_required;
} MEMBERS[] = {
    {"connector", load_connector, true},
    {"action", load_action, true},
    {"payload", load_payload, false},
    {"type", load_type, false},
    {"types", load_types, false},
};

static int load_member(struct mapping *mapping,
    const struct json_member *member, const struct path *root,
    struct fault *fault)
{
    struct buf name;
    int result = -1;
    buf_init(&name, member->name.len);
    json_decode_name(member->name, &name);
    const struct loading loading = {.mapping = mapping,
        .value = member->value,
        .path = path_span(root, buf_span(&name)),
        .fault = fault};
    size_t at = 0;
    while (at < ARRAY_LEN(MEMBERS) &&
           !span_is(buf_span(&name), MEMBERS[at].name)) {
        at++;
    }
    result = at == ARRAY_LEN(MEMBERS)
                 ? refuse(&loading, "is not a member of a mapping")
                 : MEMBERS[at].load(&loading);
    buf_fini(&name);
    return result;
}

static int load_members(
    struct mapping *mapping, struct json_value root, struct fault *fault)
{
    struct json_cursor cursor = json_enter(root);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        if (load_member(mapping, &member, NULL, fault) != 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++) {
        struct json_value found;
        if (MEMBERS[i].is_required &&
            !json_find(root, MEMBERS[i].name, &found)) {
            const struct path at = path_member(NULL, MEMBERS[i].name);
            return path_fault(fault, CODE_INVALID_MEMBER, &at, "is required");
        }
    }
    return 0;
}

static int load_root(struct mapping *mapping, struct fault *fault)
{
    struct json_value root;
    struct err err = ERR_INIT;
    if (json_parse(mapping->text, MAX_DEPTH, &root, &err) != 0) {
        return fault_set(fault, CODE_MALFORMED_JSON, "", "%s", err.msg);
    }
    if (root.type != JSON_OBJECT) {
        return fault_set(
            fault, CODE_INVALID_MEMBER, "", "must be a JSON object");
    }
    if (load_members(mapping, root, fault) != 0) {
        return -1;
    }
    if (mapping->payload == NULL) {
        const struct path path = path_member(NULL, "payload");
        const struct json_value whole = {JSON_STRING, WHOLE_BODY};
        mapping->payload = json_template_load(
            &mapping->arena, whole, TEMPLATE_OF_WEBHOOK, &path, fault);
    }
    return mapping->payload == NULL ? -1 : 0;
}

struct mapping *mapping_load(struct span text, struct fault *fault)
{
    if (text.len > MAPPING_MAX_BYTES) {
        (void)fault_set(fault, CODE_TOO_LARGE, "",
            "a mapping has at most 65536 bytes"); /* fills fault */
        return NULL;
    }
    struct mapping *mapping = mem_zalloc(1, sizeof(*mapping));
    arena_init(&mapping->arena);
    mapping->text = (struct span){arena_copy(&mapping->arena, text), text.len};
    if (load_root(mapping, fault) != 0) {
        mapping_free(mapping);
        return NULL;
    }
    return mapping;
}

void mapping_free(struct mapping *mapping)
{
    if (mapping != NULL) {
        arena_fini(&mapping->arena);
        free(mapping);
    }
}

const char *mapping_connector(const struct mapping *mapping)
{
    return mapping->connector;
}

const char *mapping_action(const struct mapping *mapping)
{
    return mapping->action;
}

/* -- applying -------------------------------------------------------------- */

static bool is_asked_for(const struct mapping *mapping, struct span type)
{
    for (size_t i = 0; i < mapping->type_count; i++) {
        struct span wanted = mapping->types[i];
        const bool is_prefix = wanted.ptr[wanted.len - 1] == '*';
        wanted.len -= is_prefix ? 1 : 0;
        if (is_prefix ? type.len >= wanted.len &&
                            memcmp(type.ptr, wanted.ptr, wanted.len) == 0
                      : span_equal(type, wanted)) {
            return true;
        }
    }
    return mapping->type_count == 0;
}

/* "webhook:<source>:" and the sender's id, or ours where that is no key. */
static void put_key(const struct webhook_capture *capture, struct buf *out)
{
    char id[UUID_TEXT_SIZE];
    struct buf key;
    buf_init(&key, RECORD_MAX_KEY);
    buf_printf(&key, "webhook:%s:", capture->source);
    const size_t head = key.len;
    buf_put_span(&key, buf_span(&capture->sender_id));
    if (key.len == head || key.is_overflowed || !key_is_valid(buf_span(&key))) {
        buf_clear(&key);
        uuid_format(capture->id, id);
        buf_printf(&key, "webhook:%s:%s", capture->source, id);
    }
    json_put_string(out, buf_span(&key));
    buf_fini(&key);
}

static int put_request(const struct mapping *mapping,
    const struct webhook_capture *capture, const struct record *view,
    struct buf *request, struct fault *fault)
{
    buf_put_str(request, "{\"spec\":\"actionist/1\"");
    json_put_name(request, "tenant");
    json_put_cstring(request, capture->tenant);
    json_put_name(request, "connector");
    json_put_cstring(request, mapping->connector);
    json_put_name(request, "action");
    json_put_cstring(request, mapping->action);
    json_put_name(request, "idempotency_key");
    put_key(capture, request);
    json_put_name(request, "payload");
    if (json_template_put(mapping->payload, view, request, fault) != 0) {
        return -1;
    }
    buf_put_char(request, '}');
    if (request->is_overflowed) {
        return fault_set(fault, CODE_TOO_LARGE, "/payload",
            "the payload is larger than an action may have");
    }
    return 0;
}

/* The view as a record's payload; -1: it is no document. */
static int see(const struct webhook_capture *capture, struct span type,
    struct buf *view, struct record *record, struct fault *fault)
{
    struct err err = ERR_INIT;
    buf_clear(view);
    webhook_view_put(view, capture, type);
    if (view->is_overflowed) {
        return fault_set(fault, CODE_TOO_LARGE, "/body", NULL);
    }
    if (json_parse(
            buf_span(view), WEBHOOK_VIEW_DEPTH, &record->payload, &err) != 0) {
        return fault_set(fault, CODE_MALFORMED_JSON, "", "%s", err.msg);
    }
    return 0;
}

/* What was put is cut off again if it is no type. */
static int put_type(const struct mapping *mapping, const struct record *view,
    struct buf *type, struct fault *fault)
{
    bool is_fine = true;
    if (template_put(mapping->type, TEMPLATE_SCALAR, view, type, fault) != 0) {
        buf_clear(type);
        return -1;
    }
    for (size_t i = 0; i < type->len; i++) {
        is_fine = is_fine && (unsigned char)type->data[i] >= ' ';
    }
    if (!is_fine || type->is_overflowed) {
        buf_clear(type);
        return fault_set(fault, CODE_TEMPLATE_INVALID, "/webhook/type",
            "must be at most 255 bytes without control characters");
    }
    return 0;
}

static enum webhook_decision decide(const struct mapping *mapping,
    const struct webhook_capture *capture, struct buf *type, struct buf *view,
    struct buf *request, struct fault *fault)
{
    struct record record = {.payload = {.type = JSON_NULL}};
    if (mapping->type == NULL) {
        (void)webhook_capture_type(capture, type); /* none is "" */
    }
    if (see(capture, buf_span(type), view, &record, fault) != 0) {
        return WEBHOOK_FAILED;
    }
    if (mapping->type != NULL &&
        (put_type(mapping, &record, type, fault) != 0 ||
            see(capture, buf_span(type), view, &record, fault) != 0)) {
        return WEBHOOK_FAILED;
    }
    if (!is_asked_for(mapping, buf_span(type))) {
        return WEBHOOK_FILTERED;
    }
    return put_request(mapping, capture, &record, request, fault) == 0
               ? WEBHOOK_MAPPED
               : WEBHOOK_FAILED;
}

enum webhook_decision mapping_apply(const struct mapping *mapping,
    const struct webhook_capture *capture, struct buf *type,
    struct buf *request, struct fault *fault)
{
    struct buf view;
    buf_init(&view, WEBHOOK_VIEW_MAX);
    const enum webhook_decision decision =
        decide(mapping, capture, type, &view, request, fault);
    buf_fini(&view);
    return decision;
}

void mapping_fingerprint(const struct webhook_capture *capture,
    uint8_t fingerprint[FINGERPRINT_SIZE])
{
    const struct span parts[] = {DOMAIN_CONTENT, buf_span(&capture->body)};
    fingerprint[0] = FINGERPRINT_VERSION;
    sha256_parts(parts, ARRAY_LEN(parts), fingerprint + 1);
}
