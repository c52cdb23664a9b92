/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search: every state that a small system can reach, shortest way first. A
 * model gives the first state and, for each state, what may happen next; it
 * says when a promise is broken. What may happen is fair, if it will happen
 * unless something else does (a statement is answered), or unfair, if it may
 * never happen (a process is killed). At the end every state must have a way
 * of fair steps to an end: else something can be stuck for ever.
 *
 * States are plain bytes without padding, compared as such. One thread; memory
 * grows with the states and is freed by search_free().
 */
#ifndef SEARCH_H
#define SEARCH_H

#include <stdbool.h>
#include <stddef.h>

struct search;

struct search_model {
    size_t state_size;
    /* Calls search_add() for everything that may happen in state. */
    void (*expand)(
        struct search *search, const void *config, const void *state);
    /* Makes states equal that differ in names alone; may be NULL. */
    void (*normalise)(void *state);
    /* The first promise that state breaks; NULL: none. */
    const char *(*check)(const void *config, const void *state);
    /* Whether nothing more has to happen. */
    bool (*is_end)(const void *config, const void *state);
    /* Whether the search does not go on from here: past the model's bounds; may
     * be NULL. */
    bool (*is_cut)(const void *config, const void *state);
};

/* config is borrowed and handed to the model's functions. */
struct search *search_new(const struct search_model *model, const void *config);
void search_free(struct search *search);

/* The promise that is broken, "stuck" if something never ends, or NULL. */
const char *search_run(struct search *search, const void *first);
/* A step from the state under expansion; what: its name, static. next is
 * normalised in place. */
void search_add(
    struct search *search, void *next, bool is_fair, const char *what);

size_t search_states(const struct search *search);
/* Prints the shortest way to where search_run() ended. */
void search_print_way(const struct search *search);

#endif
