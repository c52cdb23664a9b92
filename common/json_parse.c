/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_parse(): one pass over the text, as a small machine of steps with a
 * stack of open containers.
 *
 * The names of all open objects lie on one stack of names; an object's own
 * are compared when it ends. Both stacks begin in automatic storage, so that
 * usual documents need no allocation; only the names may move to the heap.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/json_scan.h"

enum { LOCAL_NAMES = 48, PAIRWISE_NAMES = 16 };

#define FRAME_IS_OBJECT UINT32_C(0x80000000)
#define TEXT_MAX_BYTES UINT32_C(0x7FFFFFFF)

struct name {
    struct span raw;
    uint32_t hash; /* of the decoded bytes */
};

enum step { STEP_VALUE, STEP_NAME, STEP_AFTER, STEP_DONE, STEP_FAILED };

struct parser {
    const char *begin;
    const char *at;
    const char *end;
    struct err *err;
    unsigned depth;
    unsigned max_depth;
    struct name *names;
    size_t name_count;
    size_t name_cap;
    /* Where the names of each open container begin, and what it is. */
    uint32_t frames[JSON_MAX_DEPTH];
    struct name local_names[LOCAL_NAMES];
};

static enum step fail_at(
    struct parser *p, const char *code, const char *what, const char *where)
{
    (void)err_set(p->err, ERR_PERMANENT, code, "%s at byte %zu", what,
        (size_t)(where - p->begin));
    return STEP_FAILED;
}

static enum step malformed(struct parser *p, const char *what)
{
    return fail_at(p, "MALFORMED_JSON", what, p->at);
}

const char *json_skip_space(const char *at, const char *end)
{
    while (
        at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
        at++;
    }
    return at;
}

/* Skips white space; '\0' at the end (a NUL byte in the text is no token). */
static char peek(struct parser *p)
{
    p->at = json_skip_space(p->at, p->end);
    return p->at < p->end ? *p->at : '\0';
}

/* -- strings --------------------------------------------------------------- */

int32_t json_hex4(const char *at)
{
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = at[i];
        int digit = -1;
        if (c >= '0' && c <= '9') {
            digit = c - '0';
        } else if (c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = c - 'A' + 10;
        } else {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* The value of the \uXXXX at `at`, negative if that is not one. */
static int32_t unicode_escape(const char *at, const char *end)
{
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') {
        return -1;
    }
    return json_hex4(at + 2);
}

/* Steps over the escape at p->at. */
static bool skip_escape(struct parser *p)
{
    if (p->end - p->at < 2) {
        return false;
    }
    if (p->at[1] != 'u') {
        if (p->at[1] == '\0' || strchr("\"\\/bfnrt", p->at[1]) == NULL) {
            return false;
        }
        p->at += 2;
        return true;
    }
    const int32_t first = unicode_escape(p->at, p->end);
    if (first < 0 || (first >= 0xDC00 && first <= 0xDFFF)) {
        return false;
    }
    p->at += 6;
    if (first >= 0xD800 && first <= 0xDBFF) {
        const int32_t second = unicode_escape(p->at, p->end);
        if (second < 0xDC00 || second > 0xDFFF) {
            return false;
        }
        p->at += 6;
    }
    return true;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Steps over the string whose opening quote is at p->at. */
static bool skip_string(struct parser *p, bool *has_escape)
{
    p->at++;
    *has_escape = false;
    while (p->at < p->end) {
        const unsigned char c = (unsigned char)*p->at;
        if (is_plain(c)) {
            p->at++;
        } else if (c == '"') {
            p->at++;
            return true;
        } else if (c == '\\') {
            *has_escape = true;
            if (!skip_escape(p)) {
                (void)malformed(p, "wrong escape in a string");
                return false;
            }
        } else if (c < 0x20) {
            (void)malformed(p, "raw control character in a string");
            return false;
        } else {
            const size_t len = utf8_sequence(p->at, p->end);
            if (len == 0) {
                (void)malformed(p, "broken UTF-8 in a string");
                return false;
            }
            p->at += len;
        }
    }
    (void)malformed(p, "string without an end");
    return false;
}

/* -- names ----------------------------------------------------------------- */

/* FNV-1a; only to tell most names apart cheaply, so it need not withstand
 * anybody: equal hashes are settled by comparing. */
static uint32_t hash_bytes(uint32_t hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * UINT32_C(16777619);
    }
    return hash;
}

static uint32_t hash_name(struct span raw, bool has_escape)
{
    uint32_t hash = UINT32_C(2166136261);
    if (!has_escape) {
        return hash_bytes(hash, raw.ptr, raw.len);
    }
    const char *at = raw.ptr;
    while (at < raw.ptr + raw.len) {
        char bytes[4];
        const size_t len = json_decode_step(&at, bytes);
        hash = hash_bytes(hash, bytes, len);
    }
    return hash;
}

static void push_name(struct parser *p, struct name name)
{
    if (p->name_count == p->name_cap) {
        p->name_cap *= 2;
        if (p->names == p->local_names) {
            p->names = mem_alloc(p->name_cap * sizeof(*p->names));
            memcpy(p->names, p->local_names, sizeof(p->local_names));
        } else {
            p->names = mem_resize(p->names, p->name_cap, sizeof(*p->names));
        }
    }
    p->names[p->name_count++] = name;
}

static int compare_names(const void *a, const void *b)
{
    const struct name *left = a;
    const struct name *right = b;
    if (left->hash != right->hash) {
        return left->hash < right->hash ? -1 : 1;
    }
    return json_compare_decoded(left->raw, right->raw);
}

/* The second of two equal names; NULL if all differ. Sorts long lists, so
 * that an object made of equal hashes costs no more than n log n. */
static const struct name *find_duplicate(struct name *names, size_t count)
{
    if (count > PAIRWISE_NAMES) {
        qsort(names, count, sizeof(*names), compare_names);
    }
    for (size_t i = 1; i < count; i++) {
        const size_t first = count > PAIRWISE_NAMES ? i - 1 : 0;
        for (size_t j = first; j < i; j++) {
            if (names[i].hash == names[j].hash &&
                json_compare_decoded(names[i].raw, names[j].raw) == 0) {
                return &names[i];
            }
        }
    }
    return NULL;
}

/* -- steps ----------------------------------------------------------------- */

static enum step open_container(struct parser *p, bool is_object)
{
    if (p->depth == p->max_depth) {
        return fail_at(p, "TOO_DEEP", "nested too deep", p->at);
    }
    p->frames[p->depth++] =
        (uint32_t)p->name_count | (is_object ? FRAME_IS_OBJECT : 0);
    p->at++;
    const char c = peek(p);
    if (c == (is_object ? '}' : ']')) {
        p->at++;
        p->depth--;
        return STEP_AFTER;
    }
    return is_object ? STEP_NAME : STEP_VALUE;
}

static enum step close_container(struct parser *p)
{
    const uint32_t frame = p->frames[p->depth - 1];
    const size_t first = frame & ~FRAME_IS_OBJECT;
    const struct name *twice =
        find_duplicate(p->names + first, p->name_count - first);
    if (twice != NULL) {
        return fail_at(
            p, "DUPLICATE_MEMBER", "member name used twice", twice->raw.ptr);
    }
    p->name_count = first;
    p->depth--;
    p->at++;
    return STEP_AFTER;
}

static size_t skip_digits(struct parser *p)
{
    const char *start = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        p->at++;
    }
    return (size_t)(p->at - start);
}

static bool skip_char(struct parser *p, char a, char b)
{
    if (p->at < p->end && (*p->at == a || *p->at == b)) {
        p->at++;
        return true;
    }
    return false;
}

static enum step number(struct parser *p)
{
    (void)skip_char(p, '-', '-');
    const bool is_zero = p->at < p->end && *p->at == '0';
    const size_t digits = skip_digits(p);
    if (digits == 0 || (is_zero && digits > 1)) {
        return malformed(p, "wrong number");
    }
    if (skip_char(p, '.', '.') && skip_digits(p) == 0) {
        return malformed(p, "no digits after the point of a number");
    }
    if (skip_char(p, 'e', 'E')) {
        (void)skip_char(p, '+', '-');
        if (skip_digits(p) == 0) {
            return malformed(p, "no digits in the exponent of a number");
        }
    }
    return STEP_AFTER;
}

static enum step literal(struct parser *p, const char *word)
{
    const size_t len = strlen(word);
    if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len) != 0) {
        return malformed(p, "expected a value");
    }
    p->at += len;
    return STEP_AFTER;
}

static enum step on_value(struct parser *p)
{
    bool has_escape = false;
    const char c = peek(p);
    switch (c) {
    case '{':
        return open_container(p, true);
    case '[':
        return open_container(p, false);
    case '"':
        return skip_string(p, &has_escape) ? STEP_AFTER : STEP_FAILED;
    case 't':
        return literal(p, "true");
    case 'f':
        return literal(p, "false");
    case 'n':
        return literal(p, "null");
    default:
        return c == '-' || (c >= '0' && c <= '9')
                   ? number(p)
                   : malformed(p, "expected a value");
    }
}

static enum step on_name(struct parser *p)
{
    bool has_escape = false;
    if (peek(p) != '"') {
        return malformed(p, "expected a member name in quotes");
    }
    const char *start = p->at + 1;
    if (!skip_string(p, &has_escape)) {
        return STEP_FAILED;
    }
    const struct span raw = {.ptr = start, .len = (size_t)(p->at - start) - 1};
    push_name(p, (struct name){.raw = raw, .hash = hash_name(raw, has_escape)});
    if (peek(p) != ':') {
        return malformed(p, "expected a colon");
    }
    p->at++;
    return STEP_VALUE;
}

static enum step on_after(struct parser *p)
{
    if (p->depth == 0) {
        return STEP_DONE;
    }
    const bool is_object = (p->frames[p->depth - 1] & FRAME_IS_OBJECT) != 0;
    const char c = peek(p);
    if (c == ',') {
        p->at++;
        return is_object ? STEP_NAME : STEP_VALUE;
    }
    if (c == (is_object ? '}' : ']')) {
        return close_container(p);
    }
    return malformed(p, is_object ? "expected , or } in an object"
                                  : "expected , or ] in an array");
}

static enum step run(struct parser *p)
{
    enum step step = STEP_VALUE;
    while (step != STEP_DONE && step != STEP_FAILED) {
        if (step == STEP_VALUE) {
            step = on_value(p);
        } else if (step == STEP_NAME) {
            step = on_name(p);
        } else {
            step = on_after(p);
        }
    }
    return step;
}

int json_parse(struct span text, unsigned max_depth, struct json_value *root,
    struct err *err)
{
    if (text.len == 0 || text.len > TEXT_MAX_BYTES) {
        return err_set(err, ERR_PERMANENT, "MALFORMED_JSON",
            text.len == 0 ? "expected a value at byte 0" : "over 2 GiB");
    }
    struct parser p;
    p.begin = text.ptr;
    p.end = text.ptr + text.len;
    p.at = json_skip_space(text.ptr, p.end);
    p.err = err;
    p.depth = 0;
    p.max_depth = max_depth < JSON_MAX_DEPTH ? max_depth : JSON_MAX_DEPTH;
    p.names = p.local_names;
    p.name_count = 0;
    p.name_cap = LOCAL_NAMES;
    const char *start = p.at;
    enum step step = run(&p);
    const char *stop = p.at;
    if (step == STEP_DONE && json_skip_space(stop, p.end) != p.end) {
        (void)peek(&p);
        step = malformed(&p, "something follows the value");
    }
    if (p.names != p.local_names) {
        free(p.names);
    }
    if (step != STEP_DONE) {
        return -1;
    }
    *root = (struct json_value){.type = json_type_of(*start),
        .raw = {.ptr = start, .len = (size_t)(stop - start)}};
    return 0;
}
