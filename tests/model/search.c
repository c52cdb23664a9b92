/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/search.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

enum { FIRST_SLOTS = 1 << 16, MAX_STATES = 20000000 };
#define NO_STATE UINT32_MAX

struct edge {
    uint32_t from;
    uint32_t to;
};

struct search {
    const struct search_model *model;
    const void *config;
    uint8_t *states; /* one after the other, in the order of discovery */
    uint32_t *before;
    const char **what; /* the step from before */
    size_t count;
    size_t cap;
    uint32_t *slots; /* index + 1; 0: free */
    size_t slot_count;
    struct edge *edges; /* fair ones */
    size_t edge_count;
    size_t edge_cap;
    uint32_t at; /* under expansion; at the end, where it ended */
};

struct search *search_new(const struct search_model *model, const void *config)
{
    struct search *search = mem_zalloc(1, sizeof(*search));
    search->model = model;
    search->config = config;
    search->slot_count = FIRST_SLOTS;
    search->slots = mem_zalloc(search->slot_count, sizeof(*search->slots));
    return search;
}

void search_free(struct search *search)
{
    free(search->states);
    free(search->before);
    free(search->what);
    free(search->slots);
    free(search->edges);
    free(search);
}

size_t search_states(const struct search *search)
{
    return search->count;
}

/* -- the set of states ----------------------------------------------------- */

static const uint8_t *state_at(const struct search *search, size_t index)
{
    return search->states + index * search->model->state_size;
}

/* Eight bytes at a time: multiply and fold. */
static size_t hash(const uint8_t *state, size_t size)
{
    uint64_t sum = size;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        const size_t left = size - i;
        uint64_t word = 0;
        memcpy(&word, state + i, left < sizeof(word) ? left : sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 32;
    }
    return (size_t)sum;
}

/* The slot that holds state, or the free one where it belongs. */
static size_t find_slot(const struct search *search, const uint8_t *state)
{
    const size_t size = search->model->state_size;
    size_t slot = hash(state, size) & (search->slot_count - 1);
    while (
        search->slots[slot] != 0 &&
        memcmp(state_at(search, search->slots[slot] - 1), state, size) != 0) {
        slot = (slot + 1) & (search->slot_count - 1);
    }
    return slot;
}

static bool is_cut(const struct search *search, const uint8_t *state)
{
    const struct search_model *model = search->model;
    return model->is_cut != NULL && model->is_cut(search->config, state);
}

static void grow_slots(struct search *search)
{
    free(search->slots);
    search->slot_count *= 2;
    search->slots = mem_zalloc(search->slot_count, sizeof(*search->slots));
    for (size_t i = 0; i < search->count; i++) {
        search->slots[find_slot(search, state_at(search, i))] = (uint32_t)i + 1;
    }
}

static void grow_states(struct search *search)
{
    const size_t size = search->model->state_size;
    search->cap = search->cap == 0 ? 4096 : search->cap * 2;
    search->states = mem_resize(search->states, search->cap, size);
    search->before =
        mem_resize(search->before, search->cap, sizeof(*search->before));
    search->what = mem_resize(search->what, search->cap, sizeof(*search->what));
}

/* The index of state, which is added if it is new. */
static uint32_t put_state(
    struct search *search, const uint8_t *state, const char *what)
{
    const size_t slot = find_slot(search, state);
    if (search->slots[slot] != 0) {
        return search->slots[slot] - 1;
    }
    assert(search->count < MAX_STATES);
    if (search->count == search->cap) {
        grow_states(search);
    }
    const uint32_t index = (uint32_t)search->count;
    const size_t size = search->model->state_size;
    memcpy(search->states + index * size, state, size);
    search->before[index] = search->at;
    search->what[index] = what;
    search->slots[slot] = index + 1;
    search->count++;
    if (search->count * 2 > search->slot_count) {
        grow_slots(search);
    }
    return index;
}

void search_add(
    struct search *search, void *next, bool is_fair, const char *what)
{
    if (search->model->normalise != NULL) {
        search->model->normalise(next);
    }
    const uint32_t to = put_state(search, next, what);
    if (!is_fair) {
        return;
    }
    if (search->edge_count == search->edge_cap) {
        search->edge_cap = search->edge_cap == 0 ? 4096 : search->edge_cap * 2;
        search->edges =
            mem_resize(search->edges, search->edge_cap, sizeof(*search->edges));
    }
    search->edges[search->edge_count] =
        (struct edge){.from = search->at, .to = to};
    search->edge_count++;
}

/* -- whether everything can end -------------------------------------------- */

/* starts[i]..starts[i + 1]: where the edges that lead to i stand in order. */
static void sort_edges(
    const struct search *search, uint32_t *starts, uint32_t *sources)
{
    for (size_t i = 0; i < search->edge_count; i++) {
        starts[search->edges[i].to + 1]++;
    }
    for (size_t i = 0; i < search->count; i++) {
        starts[i + 1] += starts[i];
    }
    uint32_t *next = mem_zalloc(search->count + 1, sizeof(*next));
    memcpy(next, starts, (search->count + 1) * sizeof(*next));
    for (size_t i = 0; i < search->edge_count; i++) {
        sources[next[search->edges[i].to]++] = search->edges[i].from;
    }
    free(next);
}

/* Walks back from the ends. The first state that was not met, or NO_STATE. */
static uint32_t find_stuck(const struct search *search)
{
    const struct search_model *model = search->model;
    uint32_t *starts = mem_zalloc(search->count + 2, sizeof(*starts));
    uint32_t *sources = mem_zalloc(search->edge_count + 1, sizeof(*sources));
    uint32_t *todo = mem_zalloc(search->count + 1, sizeof(*todo));
    bool *is_met = mem_zalloc(search->count + 1, sizeof(*is_met));
    size_t height = 0;
    sort_edges(search, starts, sources);
    for (size_t i = 0; i < search->count; i++) {
        const uint8_t *state = state_at(search, i);
        is_met[i] =
            model->is_end(search->config, state) || is_cut(search, state);
        if (is_met[i]) {
            todo[height++] = (uint32_t)i;
        }
    }
    while (height > 0) {
        const uint32_t at = todo[--height];
        for (uint32_t i = starts[at]; i < starts[at + 1]; i++) {
            if (!is_met[sources[i]]) {
                is_met[sources[i]] = true;
                todo[height++] = sources[i];
            }
        }
    }
    uint32_t stuck = 0;
    while (stuck < search->count && is_met[stuck]) {
        stuck++;
    }
    free(starts);
    free(sources);
    free(todo);
    free(is_met);
    return stuck == search->count ? NO_STATE : stuck;
}

/* -- the search ------------------------------------------------------------ */

const char *search_run(struct search *search, const void *first)
{
    const struct search_model *model = search->model;
    uint8_t *state = mem_zalloc(1, model->state_size);
    const char *broken = NULL;
    search->at = NO_STATE;
    (void)put_state(search, first, "start");
    for (size_t i = 0; i < search->count && broken == NULL; i++) {
        /* A copy, since the array moves when it grows. */
        memcpy(state, state_at(search, i), model->state_size);
        search->at = (uint32_t)i;
        broken = model->check(search->config, state);
        if (broken == NULL && !is_cut(search, state)) {
            model->expand(search, search->config, state);
        }
    }
    free(state);
    if (broken == NULL) {
        search->at = find_stuck(search);
        broken = search->at == NO_STATE ? NULL : "stuck";
    }
    return broken;
}

void search_print_way(const struct search *search)
{
    enum { MAX_STEPS = 100 };
    uint32_t way[MAX_STEPS];
    size_t count = 0;
    for (uint32_t at = search->at; at != NO_STATE && count < MAX_STEPS;
         at = search->before[at]) {
        way[count++] = at;
    }
    while (count > 0) {
        count--;
        (void)printf("  %s\n", search->what[way[count]]);
    }
}
