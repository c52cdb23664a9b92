/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/template_internal.h"

#include <string.h>

enum { MAX_PIECES = 1024 };

/* A range that ends before the first `needle`; false if there is none. */
static bool find_pair(struct span text, const char *needle, size_t *at)
{
    const char *found =
        text.len == 0 ? NULL : memmem(text.ptr, text.len, needle, 2);
    if (found == NULL) {
        return false;
    }
    *at = (size_t)(found - text.ptr);
    return true;
}

static struct span cut(struct span text, size_t from, size_t to)
{
    return (struct span){.ptr = text.ptr + from, .len = to - from};
}

static struct span rest_of(struct span text, size_t from)
{
    return cut(text, from, text.len);
}

static bool is_blank(char c)
{
    return c == ' ';
}

static struct span trim(struct span text)
{
    while (text.len > 0 && is_blank(text.ptr[0])) {
        text = rest_of(text, 1);
    }
    while (text.len > 0 && is_blank(text.ptr[text.len - 1])) {
        text.len--;
    }
    return text;
}

static bool is_name_char(char c)
{
    return (unsigned char)c > 0x20 && c != 0x7F && c != '.' && c != '{' &&
           c != '}' && c != '"' && c != '\\';
}

/* "a.b.0" to "/a/b/0". */
static bool load_pointer(
    struct arena *arena, struct span names, struct piece *piece)
{
    struct buf pointer;
    buf_init(&pointer, names.len * 2 + 1);
    bool is_valid = true;
    size_t start = 0;
    for (size_t i = 0; i <= names.len; i++) {
        if (i < names.len && names.ptr[i] != '.') {
            is_valid = is_valid && is_name_char(names.ptr[i]);
            continue;
        }
        is_valid = is_valid && i > start;
        buf_put_char(&pointer, '/');
        path_put_name(&pointer, cut(names, start, i));
        start = i + 1;
    }
    piece->kind = PIECE_PAYLOAD;
    piece->text = (struct span){
        .ptr = arena_copy(arena, buf_span(&pointer)), .len = pointer.len};
    buf_fini(&pointer);
    return is_valid;
}

/* The names at the top of what a mapping sees (webhook_view.h). */
static bool load_view(
    struct arena *arena, struct span text, struct piece *piece)
{
    static const char *const tops[] = {"body", "headers", "webhook"};
    for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
        const size_t len = strlen(tops[i]);
        if (text.len >= len && memcmp(text.ptr, tops[i], len) == 0 &&
            (text.len == len || text.ptr[len] == '.')) {
            const bool is_valid = load_pointer(arena, text, piece);
            piece->kind = PIECE_VIEW;
            return is_valid;
        }
    }
    return false;
}

static bool load_placeholder(
    struct arena *arena, struct span text, struct piece *piece)
{
    const struct span payload = SPAN_LIT("payload.");
    if (span_is(text, "payload")) {
        *piece = (struct piece){.kind = PIECE_PAYLOAD, .text = {.ptr = ""}};
        return true;
    }
    if (text.len > payload.len &&
        memcmp(text.ptr, payload.ptr, payload.len) == 0) {
        return load_pointer(arena, rest_of(text, payload.len), piece);
    }
    if (span_is(text, "action.id")) {
        piece->kind = PIECE_ID;
    } else if (span_is(text, "action.tenant")) {
        piece->kind = PIECE_TENANT;
    } else if (span_is(text, "action.key")) {
        piece->kind = PIECE_KEY;
    } else {
        return false;
    }
    return true;
}

static size_t count_pieces(struct span text)
{
    size_t count = 1;
    size_t at = 0;
    while (find_pair(text, "{{", &at)) {
        count += 2;
        text = rest_of(text, at + 2);
    }
    return count;
}

static void add_fixed(
    struct arena *arena, struct text_template *template, struct span text)
{
    if (text.len == 0) {
        return;
    }
    struct piece *piece = &template->pieces[template->count];
    piece->text =
        (struct span){.ptr = arena_copy(arena, text), .len = text.len};
    template->count++;
}

static bool load_piece(struct arena *arena, struct span text,
    enum template_scope scope, struct piece *piece)
{
    return scope == TEMPLATE_OF_WEBHOOK ? load_view(arena, text, piece)
                                        : load_placeholder(arena, text, piece);
}

static const char *const RULES[] = {
    [TEMPLATE_OF_ACTION] =
        "a placeholder must be {{payload}}, {{payload.name}}, "
        "{{action.id}}, {{action.tenant}} or {{action.key}}",
    [TEMPLATE_OF_WEBHOOK] = "a placeholder must be {{body}}, {{body.name}}, "
                            "{{headers.name}} or {{webhook.name}}",
};

struct text_template *template_load(struct arena *arena, struct span text,
    enum template_scope scope, const struct path *path, struct fault *fault)
{
    struct text_template *template = arena_alloc(arena, 1, sizeof(*template));
    const size_t max = count_pieces(text);
    if (max > MAX_PIECES) {
        (void)path_fault(fault, CODE_INVALID_MEMBER, path,
            "has too many placeholders"); /* fills fault */
        return NULL;
    }
    template->pieces = arena_alloc(arena, max, sizeof(*template->pieces));
    size_t open = 0;
    while (find_pair(text, "{{", &open)) {
        add_fixed(arena, template, cut(text, 0, open));
        text = rest_of(text, open + 2);
        size_t close = 0;
        struct piece *piece = &template->pieces[template->count];
        if (!find_pair(text, "}}", &close) ||
            !load_piece(arena, trim(cut(text, 0, close)), scope, piece)) {
            (void)path_fault(
                fault, CODE_INVALID_MEMBER, path, "%s", RULES[scope]);
            return NULL;
        }
        template->count++;
        text = rest_of(text, close + 2);
    }
    add_fixed(arena, template, text);
    return template;
}

size_t template_piece_count(const struct text_template *template)
{
    return template->count;
}

struct span template_fixed(const struct text_template *template, size_t index)
{
    const struct piece *piece = &template->pieces[index];
    return piece->kind == PIECE_FIXED ? piece->text : (struct span){0};
}

/* -- JSON ---------------------------------------------------------------------- */

struct json_loader {
    struct arena *arena;
    enum template_scope scope;
    struct json_template *template;
    const struct path *path;
    struct fault *fault;
    size_t max;
    const char *fixed_from; /* raw text not yet turned into a piece */
};

/* The end of the string whose opening quote is at `at`. */
static const char *string_end(const char *at)
{
    at++;
    while (*at != '"') {
        at += *at == '\\' ? 2 : 1;
    }
    return at + 1;
}

static bool is_member_name(const char *after, const char *end)
{
    while (after < end && (*after == ' ' || *after == '\t' || *after == '\n' ||
                              *after == '\r')) {
        after++;
    }
    return after < end && *after == ':';
}

static int refuse(const struct json_loader *loader, const char *what)
{
    return path_fault(
        loader->fault, CODE_INVALID_MEMBER, loader->path, "%s", what);
}

static void close_fixed(struct json_loader *loader, const char *until)
{
    if (until > loader->fixed_from) {
        struct json_piece *piece =
            &loader->template->pieces[loader->template->count];
        piece->fixed = (struct span){.ptr = loader->fixed_from,
            .len = (size_t)(until - loader->fixed_from)};
        loader->template->count++;
    }
}

/* One string token; only those with placeholders become pieces. */
static int load_string(struct json_loader *loader, const char *from,
    const char *after, const char *end)
{
    const struct json_value value = {.type = JSON_STRING,
        .raw = {.ptr = from, .len = (size_t)(after - from)}};
    struct buf text;
    buf_init(&text, value.raw.len);
    json_decode(value, &text);
    size_t at = 0;
    int result = 0;
    if (!find_pair(buf_span(&text), "{{", &at)) {
        result = 0;
    } else if (is_member_name(after, end)) {
        result = refuse(loader, "a member name cannot be a placeholder");
    } else if (loader->template->count + 3 > loader->max) {
        result = refuse(loader, "has too many placeholders");
    } else {
        close_fixed(loader, from);
        loader->fixed_from = after;
        struct json_piece *piece =
            &loader->template->pieces[loader->template->count];
        piece->string = template_load(loader->arena, buf_span(&text),
            loader->scope, loader->path, loader->fault);
        loader->template->count++;
        result = piece->string == NULL ? -1 : 0;
    }
    buf_fini(&text);
    return result;
}

/* Each string gives two pieces at most, and there is one at the end. */
static size_t json_piece_limit(struct span raw)
{
    size_t quotes = 0;
    for (size_t i = 0; i < raw.len; i++) {
        quotes += raw.ptr[i] == '"' ? 1 : 0;
    }
    return (quotes < MAX_PIECES ? quotes : MAX_PIECES) + 3;
}

struct json_template *json_template_load(struct arena *arena,
    struct json_value source, enum template_scope scope,
    const struct path *path, struct fault *fault)
{
    const char *at = source.raw.ptr;
    const char *end = at + source.raw.len;
    struct json_template *template = arena_alloc(arena, 1, sizeof(*template));
    struct json_loader loader = {.arena = arena,
        .scope = scope,
        .template = template,
        .path = path,
        .fault = fault,
        .max = json_piece_limit(source.raw),
        .fixed_from = at};
    template->pieces =
        arena_alloc(arena, loader.max, sizeof(*template->pieces));
    while (at < end) {
        if (*at != '"') {
            at++;
            continue;
        }
        const char *after = string_end(at);
        if (load_string(&loader, at, after, end) != 0) {
            return NULL;
        }
        at = after;
    }
    close_fixed(&loader, end);
    return template;
}
