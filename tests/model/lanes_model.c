/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/lanes_model.h"

#include <stdint.h>
#include <stdlib.h>

#include "common/buf.h"

enum {
    ROWS = 3,
    ALL_ROWS = (1 << ROWS) - 1,
    NOBODY = MODEL_RELAYS,
    STATE_BITS = 4 + ROWS + MODEL_RELAYS * (3 + ROWS)
};

struct relay_state {
    unsigned fenced; /* lanes fenced so far: 0, 1, 2 (then it publishes) */
    unsigned known;  /* rows that it knows as published */
    unsigned turn;   /* of its transactions, modulo 2 */
};

struct model_state {
    unsigned owner[2]; /* of each lane; NOBODY */
    unsigned published;
    struct relay_state relays[MODEL_RELAYS];
};

struct search {
    const struct lanes_rules *rules;
    uint8_t *seen; /* a bit a state */
    uint32_t *stack;
    size_t height;
    size_t cap;
    size_t states;
    bool is_broken;
};

/* -- states as numbers ---------------------------------------------------------------- */

static uint32_t put_bits(uint32_t code, unsigned value, unsigned bits)
{
    return code << bits | value;
}

static unsigned take_bits(uint32_t *code, unsigned bits)
{
    const unsigned value = *code & ((1U << bits) - 1U);
    *code >>= bits;
    return value;
}

static uint32_t pack(const struct model_state *state)
{
    uint32_t code = 0;
    for (int i = 0; i < MODEL_RELAYS; i++) {
        code = put_bits(code, state->relays[i].fenced, 2);
        code = put_bits(code, state->relays[i].known, ROWS);
        code = put_bits(code, state->relays[i].turn, 1);
    }
    code = put_bits(code, state->published, ROWS);
    code = put_bits(code, state->owner[0], 2);
    return put_bits(code, state->owner[1], 2);
}

static struct model_state unpack(uint32_t code)
{
    struct model_state state;
    state.owner[1] = take_bits(&code, 2);
    state.owner[0] = take_bits(&code, 2);
    state.published = take_bits(&code, ROWS);
    for (int i = MODEL_RELAYS - 1; i >= 0; i--) {
        state.relays[i].turn = take_bits(&code, 1);
        state.relays[i].known = take_bits(&code, ROWS);
        state.relays[i].fenced = take_bits(&code, 2);
    }
    return state;
}

static void reach(struct search *search, const struct model_state *state)
{
    const uint32_t code = pack(state);
    const uint8_t bit = (uint8_t)(1U << (code & 7U));
    if ((search->seen[code >> 3] & bit) != 0) {
        return;
    }
    search->seen[code >> 3] |= bit;
    search->states++;
    if (search->height == search->cap) {
        search->cap = search->cap == 0 ? 1024 : search->cap * 2;
        search->stack =
            mem_resize(search->stack, search->cap, sizeof(*search->stack));
    }
    search->stack[search->height] = code;
    search->height++;
}

/* -- what a relay may do next ----------------------------------------------------------- */

static void restart(struct search *search, struct model_state state, int i)
{
    state.relays[i] = (struct relay_state){.fenced = 0};
    reach(search, &state);
}

static void fence(struct search *search, struct model_state state, int i)
{
    struct relay_state *relay = &state.relays[i];
    const unsigned first = (unsigned)search->rules->fenced_first[i];
    const unsigned lane = relay->fenced == 0 ? first : 1 - first;
    const unsigned read_at = search->rules->reads_after_both ? 2 : 1;
    state.owner[lane] = (unsigned)i;
    relay->fenced++;
    relay->turn = 0;
    if (relay->fenced == read_at) {
        relay->known = state.published;
    }
    reach(search, &state);
}

static void publish(struct search *search, struct model_state state, int i)
{
    struct relay_state *relay = &state.relays[i];
    const unsigned todo = ALL_ROWS & ~relay->known;
    const unsigned row = todo & (~todo + 1U); /* the lowest */
    const unsigned lane = (unsigned)search->rules->first_lane ^ relay->turn;
    if (todo == 0) {
        return;
    }
    if (state.owner[lane] != (unsigned)i) {
        restart(search, state, i); /* fenced */
        return;
    }
    if ((state.published & row) != 0) {
        search->is_broken = true;
        return;
    }
    state.published |= row;
    relay->known |= row;
    relay->turn ^= 1U;
    reach(search, &state);
}

static void expand(struct search *search, uint32_t code)
{
    const struct model_state state = unpack(code);
    for (int i = 0; i < MODEL_RELAYS; i++) {
        if (state.relays[i].fenced > 0) {
            restart(search, state, i); /* killed */
        }
        if (state.relays[i].fenced < 2) {
            fence(search, state, i);
        } else {
            publish(search, state, i);
        }
    }
}

bool lanes_model_holds(const struct lanes_rules *rules, size_t *states)
{
    const struct model_state start = {.owner = {NOBODY, NOBODY}};
    struct search search = {.rules = rules};
    search.seen = mem_zalloc((size_t)1 << (STATE_BITS - 3), 1);
    reach(&search, &start);
    while (search.height > 0 && !search.is_broken) {
        search.height--;
        expand(&search, search.stack[search.height]);
    }
    *states = search.states;
    free(search.seen);
    free(search.stack);
    return !search.is_broken;
}
