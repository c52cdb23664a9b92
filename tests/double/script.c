/* SPDX-License-Identifier: Apache-2.0 */
#include "script.h"

#include <stdlib.h>
#include <string.h>

void script_free(struct script *script)
{
    if (script == NULL) {
        return;
    }
    for (size_t i = 0; i < script->step_count; i++) {
        free(script->steps[i].headers);
        free(script->steps[i].body);
        free(script->steps[i].raw);
    }
    free(script->steps);
    free(script->path);
    free(script->method);
    free(script->key_header);
    map_fini(&script->counters);
    free(script);
}

void script_set_fini(struct script_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        script_free(set->items[i]);
    }
    free(set->items);
    map_fini(&set->by_name);
    *set = (struct script_set){0};
}

/* Writes "METHOD path" and a `*` for a prefix. */
static void name_format(struct buf *name, struct http_span method,
    struct http_span path, bool is_prefix)
{
    buf_append(name, method.data, method.len);
    buf_append(name, " ", 1);
    buf_append(name, path.data, path.len);
    buf_append(name, "*", is_prefix ? 1 : 0);
}

static struct script *find_named(const struct script_set *set,
    struct http_span method, struct http_span path)
{
    struct buf name;
    buf_init(&name, HTTP_MAX_HEAD_BYTES);
    name_format(&name, method, path, false);
    const uint64_t *index = map_find(&set->by_name, name.data, name.len);
    struct script *found =
        index != NULL && *index > 0 ? set->items[*index - 1] : NULL;
    buf_fini(&name);
    return found;
}

static bool remove_named(struct script_set *set, const struct buf *name)
{
    uint64_t *index = map_find(&set->by_name, name->data, name->len);
    if (index == NULL || *index == 0) {
        return false;
    }
    struct script *script = set->items[*index - 1];
    set->items[*index - 1] = NULL;
    *index = 0;
    set->live_count--;
    set->prefix_count -= script->is_prefix ? 1 : 0;
    script_free(script);
    return true;
}

static void squeeze(struct script_set *set)
{
    size_t kept = 0;
    map_fini(&set->by_name);
    for (size_t i = 0; i < set->count; i++) {
        struct script *script = set->items[i];
        if (script == NULL) {
            continue;
        }
        struct buf name;
        buf_init(&name, HTTP_MAX_HEAD_BYTES);
        name_format(&name,
            (struct http_span){script->method, strlen(script->method)},
            (struct http_span){script->path, strlen(script->path)},
            script->is_prefix);
        set->items[kept++] = script;
        *map_slot(&set->by_name, name.data, name.len) = kept;
        buf_fini(&name);
    }
    set->count = kept;
}

int script_set_put(
    struct script_set *set, struct script *script, struct problem *problem)
{
    const struct http_span method = {script->method, strlen(script->method)};
    const struct http_span path = {script->path, strlen(script->path)};
    struct buf name;
    buf_init(&name, HTTP_MAX_HEAD_BYTES);
    name_format(&name, method, path, script->is_prefix);
    (void)remove_named(set, &name); /* usually there is none */
    if (set->live_count == SCRIPT_MAX_COUNT ||
        (script->is_prefix && set->prefix_count == SCRIPT_MAX_PREFIXES)) {
        buf_fini(&name);
        script_free(script);
        return problem_set(problem,
            "too many scripts: at most %d, and %d of "
            "them with a `*`",
            SCRIPT_MAX_COUNT, SCRIPT_MAX_PREFIXES);
    }
    if (set->count >= (size_t)2 * SCRIPT_MAX_COUNT) {
        squeeze(set);
    }
    if (set->items == NULL) {
        set->items = mem_resize(
            NULL, (size_t)2 * SCRIPT_MAX_COUNT * sizeof(struct script *));
    }
    set->items[set->count++] = script;
    *map_slot(&set->by_name, name.data, name.len) = set->count;
    set->live_count++;
    set->prefix_count += script->is_prefix ? 1 : 0;
    buf_fini(&name);
    return 0;
}

bool script_set_remove(
    struct script_set *set, const char *method, const char *path)
{
    struct buf name;
    buf_init(&name, HTTP_MAX_HEAD_BYTES * 2);
    name_format(&name, (struct http_span){method, strlen(method)},
        (struct http_span){path, strlen(path)}, false);
    const bool was_there = remove_named(set, &name);
    buf_fini(&name);
    return was_there;
}

static struct script *find_prefix(const struct script_set *set,
    struct http_span method, struct http_span path)
{
    struct script *best = NULL;
    size_t best_rank = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct script *script = set->items[i];
        if (script == NULL || !script->is_prefix) {
            continue;
        }
        const bool has_method = script->method[0] != '\0';
        const size_t len = strlen(script->path);
        if (len > path.len || memcmp(script->path, path.data, len) != 0 ||
            (has_method && !http_equals(method, script->method))) {
            continue;
        }
        const size_t rank = len * 2 + (has_method ? 1 : 0);
        if (best == NULL || rank > best_rank) {
            best = script;
            best_rank = rank;
        }
    }
    return best;
}

struct script *script_set_find(const struct script_set *set,
    struct http_span method, struct http_span path)
{
    struct script *script = find_named(set, method, path);
    if (script == NULL) {
        script = find_named(set, (struct http_span){"", 0}, path);
    }
    if (script == NULL && set->prefix_count > 0) {
        script = find_prefix(set, method, path);
    }
    return script;
}

static uint64_t count_call(struct script *script, struct http_span path,
    struct http_span key, bool is_taken)
{
    struct http_span name = {"", 0};
    if (script->per != SCRIPT_PER_ALL) {
        name = script->per == SCRIPT_PER_KEY ? key : path;
    }
    uint64_t *count = map_find(&script->counters, name.data, name.len);
    if (!is_taken) {
        return count != NULL ? *count : 0;
    }
    if (count == NULL) {
        if (script->counters.count >= SCRIPT_MAX_COUNTERS) {
            return 0; /* full: newcomers all get the first step */
        }
        count = map_slot(&script->counters, name.data, name.len);
    }
    *count += 1;
    return *count - 1;
}

const struct step *script_step(struct script *script, struct http_span path,
    struct http_span key, bool is_taken, uint64_t *n)
{
    const uint64_t before = count_call(script, path, key, is_taken);
    const uint64_t total = (uint64_t)script->total_times;
    uint64_t left = script->is_cycle ? before % total : before;
    size_t i = 0;
    while (i + 1 < script->step_count &&
           left >= (uint64_t)script->steps[i].times) {
        left -= (uint64_t)script->steps[i].times;
        i++;
    }
    *n = before + 1;
    return &script->steps[i];
}
