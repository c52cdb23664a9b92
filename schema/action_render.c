/* SPDX-License-Identifier: Apache-2.0 */
/*
 * action_render(): one call from an action and a record. Parts are put into
 * one buffer that may move while it grows, so they are kept as offsets until
 * everything is there.
 */
#include "schema/manifest_internal.h"

#define USER_AGENT "actionist/1"
#define HEADER_VALUE_MAX 8192

_Static_assert(MANIFEST_MAX_HEADERS + 3 <= CALL_MAX_HEADERS,
    "a call has room for the manifest's headers and ours");

struct part {
    size_t start;
    size_t len;
};

struct draft {
    const struct manifest_action *action;
    const struct record *record;
    struct buf *storage;
    struct fault *fault;
    struct part url;
    struct part names[CALL_MAX_HEADERS];
    struct part values[CALL_MAX_HEADERS];
    size_t header_count;
    struct part body;
};

static struct part part_since(const struct draft *draft, size_t start)
{
    return (struct part){.start = start, .len = draft->storage->len - start};
}

static struct span span_of_part(const struct draft *draft, struct part part)
{
    static const char nothing[1] = "";
    const char *base = draft->storage->data;
    return (struct span){
        .ptr = base == NULL ? nothing : base + part.start, .len = part.len};
}

static int unfit(const struct draft *draft, const char *what)
{
    return fault_set(
        draft->fault, CODE_TEMPLATE_INVALID, "/payload", "%s", what);
}

/* -- URL ---------------------------------------------------------------------- */

/* name=value&name=value, both percent-encoded. */
static int put_fields(struct draft *draft, const struct field_list *list)
{
    struct buf *out = draft->storage;
    struct buf text;
    buf_init(&text, out->max);
    int result = 0;
    for (size_t i = 0; i < list->count && result == 0; i++) {
        buf_clear(&text);
        result = template_put(list->fields[i].value, TEMPLATE_SCALAR,
            draft->record, &text, draft->fault);
        if (i > 0) {
            buf_put_char(out, '&');
        }
        percent_put(out, span_of(list->fields[i].name));
        buf_put_char(out, '=');
        percent_put(out, buf_span(&text));
        out->is_overflowed = out->is_overflowed || text.is_overflowed;
    }
    buf_fini(&text);
    return result;
}

static int render_url(struct draft *draft)
{
    const struct request_rules *request = &draft->action->request;
    struct buf *out = draft->storage;
    const size_t start = out->len;
    buf_put_str(out, draft->action->manifest->base.text);
    if (template_put(request->path, TEMPLATE_SEGMENT, draft->record, out,
            draft->fault) != 0) {
        return -1;
    }
    if (request->query.count > 0) {
        buf_put_char(out, '?');
        if (put_fields(draft, &request->query) != 0) {
            return -1;
        }
    }
    draft->url = part_since(draft, start);
    if (draft->url.len > CALL_MAX_URL) {
        return unfit(draft, "the URL would be longer than 8192 bytes");
    }
    return 0;
}

/* -- headers ------------------------------------------------------------------- */

static void put_header(struct draft *draft, const char *name, const char *value)
{
    struct buf *out = draft->storage;
    size_t start = out->len;
    buf_put_str(out, name);
    draft->names[draft->header_count] = part_since(draft, start);
    start = out->len;
    buf_put_str(out, value);
    draft->values[draft->header_count] = part_since(draft, start);
    draft->header_count++;
}

static int render_header(struct draft *draft, const struct field *field)
{
    struct buf *out = draft->storage;
    size_t start = out->len;
    buf_put_str(out, field->name);
    draft->names[draft->header_count] = part_since(draft, start);
    start = out->len;
    if (template_put(field->value, TEMPLATE_HEADER, draft->record, out,
            draft->fault) != 0) {
        return -1;
    }
    const struct part part = part_since(draft, start);
    if (part.len > HEADER_VALUE_MAX) {
        return fault_set(draft->fault, CODE_TEMPLATE_INVALID, "/payload",
            "the header %s would have more than %d bytes", field->name,
            HEADER_VALUE_MAX);
    }
    draft->values[draft->header_count] = part;
    draft->header_count++;
    return 0;
}

static const char *content_type_of(enum body_kind body)
{
    switch (body) {
    case BODY_JSON:
        return "application/json";
    case BODY_TEXT:
        return "text/plain; charset=utf-8";
    case BODY_FORM:
        return "application/x-www-form-urlencoded";
    case BODY_NONE:
        break;
    }
    return NULL;
}

static int render_headers(struct draft *draft)
{
    const struct manifest_action *action = draft->action;
    const struct request_rules *request = &action->request;
    put_header(draft, "User-Agent", USER_AGENT);
    const char *type = content_type_of(request->body);
    if (type != NULL && !request->has_content_type) {
        put_header(draft, "Content-Type", type);
    }
    if (action->key_header != NULL) {
        char id[UUID_TEXT_SIZE];
        uuid_format(record_effect_id(draft->record), id);
        put_header(draft, action->key_header, id);
    }
    for (size_t i = 0; i < request->headers.count; i++) {
        if (render_header(draft, &request->headers.fields[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

/* -- body ---------------------------------------------------------------------- */

static int render_body(struct draft *draft)
{
    const struct request_rules *request = &draft->action->request;
    const size_t start = draft->storage->len;
    int result = 0;
    switch (request->body) {
    case BODY_JSON:
        result = json_template_put(
            request->json, draft->record, draft->storage, draft->fault);
        break;
    case BODY_TEXT:
        result = template_put(request->text, TEMPLATE_TEXT, draft->record,
            draft->storage, draft->fault);
        break;
    case BODY_FORM:
        result = put_fields(draft, &request->form);
        break;
    case BODY_NONE:
        break;
    }
    draft->body = part_since(draft, start);
    return result;
}

static void finish(const struct draft *draft, struct call *call)
{
    const struct request_rules *request = &draft->action->request;
    *call = (struct call){.method = request->method,
        .url = span_of_part(draft, draft->url),
        .header_count = draft->header_count};
    for (size_t i = 0; i < draft->header_count; i++) {
        call->headers[i] =
            (struct call_header){.name = span_of_part(draft, draft->names[i]),
                .value = span_of_part(draft, draft->values[i])};
    }
    if (request->body != BODY_NONE) {
        call->body = span_of_part(draft, draft->body);
    }
}

/* The payload as it stands in the request. */
static void render_echo(const struct draft *draft, struct call *call)
{
    buf_put_span(draft->storage, draft->record->payload.raw);
    *call = (struct call){
        .is_echo = true, .method = "", .body = buf_span(draft->storage)};
}

int action_render(const struct manifest_action *action,
    const struct record *record, struct buf *storage, struct call *call,
    struct fault *fault)
{
    struct draft draft = {
        .action = action, .record = record, .storage = storage, .fault = fault};
    if (action->is_echo) {
        render_echo(&draft, call);
        return 0;
    }
    if (render_url(&draft) != 0 || render_headers(&draft) != 0 ||
        render_body(&draft) != 0) {
        return -1;
    }
    if (storage->is_overflowed) {
        return fault_set(fault, CODE_TEMPLATE_INVALID, "/payload",
            "the request would be larger than %zu bytes", storage->max);
    }
    finish(&draft, call);
    return 0;
}
