/* SPDX-License-Identifier: Apache-2.0 */
/* The `request` of an action: what is checked once, at load. */
#include <string.h>

#include "schema/manifest_internal.h"

enum {
    MAX_HEADER_NAME = 64,
    MAX_FIELD_NAME = 256,
    MAX_TEMPLATE = 262144,
    MAX_PATH = 4096
};

/* -- names --------------------------------------------------------------------- */

static bool is_token(struct span name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        const bool is_alnum = (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alnum && (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return name.len > 0 && name.len <= MAX_HEADER_NAME;
}

bool header_name_is_free(struct span name)
{
    /* What decides about framing, routing and connections is the runner's. */
    static const char *const owned[] = {"host", "content-length",
        "transfer-encoding", "connection", "keep-alive", "te", "trailer",
        "upgrade", "expect", "user-agent", "accept-encoding",
        "proxy-authorization", "proxy-connection", "proxy-authenticate"};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++) {
        if (span_is_nocase(name, owned[i])) {
            return false;
        }
    }
    return is_token(name);
}

/* -- templates ------------------------------------------------------------------ */

/* A string template; numbers and booleans stand for their text. */
static struct text_template *load_template(const struct load *load,
    struct json_value value, size_t max, const struct path *path)
{
    struct arena *arena = &load->manifest->arena;
    if (value.type == JSON_NUMBER || value.type == JSON_TRUE ||
        value.type == JSON_FALSE) {
        return template_load(
            arena, value.raw, TEMPLATE_OF_ACTION, path, load->fault);
    }
    if (value.type != JSON_STRING) {
        (void)load_refuse(load, path,
            "must be a string, a number, true or false"); /* fills fault */
        return NULL;
    }
    struct buf text;
    buf_init(&text, max);
    json_decode(value, &text);
    struct text_template *template = NULL;
    if (text.is_overflowed) {
        (void)load_refuse(load, path, "is too long"); /* fills fault */
    } else {
        template = template_load(
            arena, buf_span(&text), TEMPLATE_OF_ACTION, path, load->fault);
    }
    buf_fini(&text);
    return template;
}

/* Decoded names with templates: a query, a form or headers. */
static int load_fields(const struct load *load, struct field_list *list,
    size_t max, struct json_value value, const struct path *path)
{
    struct arena *arena = &load->manifest->arena;
    const size_t count = load_count(value);
    if (value.type != JSON_OBJECT || count > max) {
        return path_fault(load->fault, CODE_INVALID_MEMBER, path,
            "must be an object of at most %zu members", max);
    }
    list->fields = arena_alloc(arena, count + 1, sizeof(*list->fields));
    struct json_cursor cursor = json_enter(value);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        const struct span name = load_name(load, member.name);
        const struct path at = path_span(path, name);
        struct field *field = &list->fields[list->count];
        if (name.len == 0 || name.len > MAX_FIELD_NAME ||
            strlen(name.ptr) != name.len || strstr(name.ptr, "{{") != NULL) {
            return load_refuse(load, &at, "is not a usable name");
        }
        field->name = name.ptr;
        field->value = load_template(load, member.value, MAX_TEMPLATE, &at);
        if (field->value == NULL) {
            return -1;
        }
        list->count++;
    }
    return 0;
}

/* -- members -------------------------------------------------------------------- */

static int load_method(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    static const char *const methods[] = {
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    struct request_rules *request = target;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (value.type == JSON_STRING && json_string_is(value, methods[i])) {
            request->method = methods[i];
            return 0;
        }
    }
    return load_refuse(
        load, path, "must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS");
}

static bool path_text_is_plain(struct span text)
{
    static const char allowed[] = "-._~!$&'()*+,;=:@/";
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        const bool is_alnum = (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alnum && (c == '\0' || strchr(allowed, c) == NULL)) {
            return false;
        }
    }
    return true;
}

/* A segment "." or "..": values cannot make one, they are checked alone. */
static bool path_has_dots(const struct text_template *template)
{
    struct buf path; /* with x for each placeholder, and a slash at the end */
    buf_init(&path, (size_t)MAX_PATH * 2);
    for (size_t i = 0; i < template_piece_count(template); i++) {
        const struct span fixed = template_fixed(template, i);
        if (fixed.ptr == NULL) {
            buf_put_char(&path, 'x');
        } else {
            buf_put_span(&path, fixed);
        }
    }
    buf_put_char(&path, '/');
    const bool has_dots = strstr(buf_str(&path), "/./") != NULL ||
                          strstr(buf_str(&path), "/../") != NULL;
    buf_fini(&path);
    return has_dots;
}

static int load_path(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct request_rules *request = target;
    if (value.type != JSON_STRING) {
        return load_refuse(load, path, "must be a string");
    }
    struct text_template *template = load_template(load, value, MAX_PATH, path);
    if (template == NULL) {
        return -1;
    }
    struct span first = {0};
    if (template_piece_count(template) > 0) {
        first = template_fixed(template, 0);
    }
    if (first.len == 0 || first.ptr[0] != '/') {
        return load_refuse(load, path, "must start with /");
    }
    for (size_t i = 0; i < template_piece_count(template); i++) {
        if (!path_text_is_plain(template_fixed(template, i))) {
            return load_refuse(load, path,
                "may have only plain characters beside placeholders (a "
                "query goes to `query`)");
        }
    }
    if (path_has_dots(template)) {
        return load_refuse(load, path, "must not have a segment . or ..");
    }
    request->path = template;
    return 0;
}

static int load_query(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct request_rules *request = target;
    return load_fields(load, &request->query, MANIFEST_MAX_FIELDS, value, path);
}

static bool header_text_is_valid(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7F) {
            return false;
        }
    }
    return true;
}

static int check_header(const struct load *load, const struct field_list *list,
    size_t index, const struct path *path)
{
    const struct field *field = &list->fields[index];
    const struct path at = path_member(path, field->name);
    if (!header_name_is_free(span_of(field->name))) {
        return load_refuse(load, &at,
            "must be a header name that is not managed by the runner");
    }
    for (size_t i = 0; i < index; i++) {
        if (span_is_nocase(span_of(field->name), list->fields[i].name)) {
            return load_refuse(load, &at, "the header is given twice");
        }
    }
    for (size_t i = 0; i < template_piece_count(field->value); i++) {
        if (!header_text_is_valid(template_fixed(field->value, i))) {
            return load_refuse(
                load, &at, "must not contain control characters");
        }
    }
    return 0;
}

static int load_headers(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct request_rules *request = target;
    struct field_list *list = &request->headers;
    if (load_fields(load, list, MANIFEST_MAX_HEADERS, value, path) != 0) {
        return -1;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (check_header(load, list, i, path) != 0) {
            return -1;
        }
        if (span_is_nocase(span_of(list->fields[i].name), "content-type")) {
            request->has_content_type = true;
        }
    }
    return 0;
}

/* json, body and form exclude one another. */
static int claim_body(const struct load *load, struct request_rules *request,
    enum body_kind kind, const struct path *path)
{
    if (request->body != BODY_NONE) {
        return load_refuse(
            load, path, "only one of json, body and form may be given");
    }
    request->body = kind;
    return 0;
}

static int load_json(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct request_rules *request = target;
    if (claim_body(load, request, BODY_JSON, path) != 0) {
        return -1;
    }
    request->json = json_template_load(
        &load->manifest->arena, value, TEMPLATE_OF_ACTION, path, load->fault);
    return request->json == NULL ? -1 : 0;
}

static int load_body(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct request_rules *request = target;
    if (claim_body(load, request, BODY_TEXT, path) != 0) {
        return -1;
    }
    if (value.type != JSON_STRING) {
        return load_refuse(load, path, "must be a string");
    }
    request->text = load_template(load, value, MAX_TEMPLATE, path);
    return request->text == NULL ? -1 : 0;
}

static int load_form(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct request_rules *request = target;
    if (claim_body(load, request, BODY_FORM, path) != 0) {
        return -1;
    }
    return load_fields(load, &request->form, MANIFEST_MAX_FIELDS, value, path);
}

int load_request(const struct load *load, void *target, struct json_value value,
    const struct path *path)
{
    static const struct member_rule rules[] = {
        {"method", load_method, true},
        {"path", load_path, true},
        {"query", load_query, false},
        {"headers", load_headers, false},
        {"json", load_json, false},
        {"body", load_body, false},
        {"form", load_form, false},
    };
    struct request_rules *request =
        &((struct manifest_action *)target)->request;
    if (load_object(load, request, value, path, rules, ARRAY_LEN(rules)) != 0) {
        return -1;
    }
    const bool is_read = strcmp(request->method, "GET") == 0 ||
                         strcmp(request->method, "HEAD") == 0;
    if (is_read && request->body != BODY_NONE) {
        const struct path at = path_member(path, "method");
        return load_refuse(load, &at, "GET and HEAD carry no body");
    }
    return 0;
}
