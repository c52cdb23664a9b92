/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/relay_core.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

void relay_core_init(struct relay_core *core)
{
    *core = (struct relay_core){.low = 0};
}

void relay_core_fini(struct relay_core *core)
{
    free(core->gaps);
    free(core->found);
    relay_core_init(core);
}

/* -- gaps ------------------------------------------------------------------------ */

static bool add_gap(struct relay_core *core, int64_t seq)
{
    if (core->gap_count == RELAY_MAX_GAPS) {
        return false;
    }
    if (core->gap_count == core->gap_cap) {
        core->gap_cap = core->gap_cap == 0 ? 64 : core->gap_cap * 2;
        core->gaps = mem_resize(core->gaps, core->gap_cap, sizeof(*core->gaps));
    }
    core->gaps[core->gap_count] = (struct relay_gap){.seq = seq};
    core->gap_count++;
    return true;
}

/* The index of the first gap at or above seq. */
static size_t gap_at(const struct relay_core *core, int64_t seq)
{
    size_t from = 0;
    size_t to = core->gap_count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (core->gaps[middle].seq < seq) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

static struct relay_gap *find_gap(struct relay_core *core, int64_t seq)
{
    const size_t index = gap_at(core, seq);
    if (index == core->gap_count || core->gaps[index].seq != seq) {
        return NULL;
    }
    return &core->gaps[index];
}

static void set_low(struct relay_core *core)
{
    core->low = core->gap_count > 0 ? core->gaps[0].seq - 1 : core->high;
}

bool relay_core_load(struct relay_core *core, int64_t low, int64_t high,
    const int64_t *gaps, size_t gap_count)
{
    core->gap_count = 0;
    core->found_count = 0;
    core->found_left = 0;
    core->ask_after = 0;
    core->high = high;
    for (size_t i = 0; i < gap_count; i++) {
        const int64_t before = i == 0 ? 0 : gaps[i - 1];
        if (gaps[i] <= before || gaps[i] > high || !add_gap(core, gaps[i])) {
            return false;
        }
    }
    set_low(core);
    return low >= 0 && core->low == low;
}

/* -- what was read back ------------------------------------------------------------ */

static int compare_seqs(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Whether the checkpoint alone says that it is published. */
static bool is_published(struct relay_core *core, int64_t seq)
{
    return seq <= core->high && find_gap(core, seq) == NULL;
}

size_t relay_core_add_found(
    struct relay_core *core, const int64_t *seqs, size_t count)
{
    size_t repeated = 0;
    free(core->found);
    core->found = mem_zalloc(count + 1, sizeof(*core->found));
    if (count > 0) {
        memcpy(core->found, seqs, count * sizeof(*seqs));
        qsort(core->found, count, sizeof(*core->found), compare_seqs);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t seq = core->found[i];
        const bool is_repeat = i > 0 && core->found[i - 1] == seq;
        const bool is_first_repeat =
            is_repeat && (i < 2 || core->found[i - 2] != seq);
        repeated += is_first_repeat ? 1 : 0;
    }
    int64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t seq = core->found[i];
        if ((i == 0 || seq != last) && !is_published(core, seq)) {
            core->found[kept] = seq;
            kept++;
        }
        last = seq;
    }
    core->found_count = kept;
    core->found_left = kept;
    return repeated;
}

bool relay_core_is_caught_up(const struct relay_core *core)
{
    return core->found_left == 0;
}

static bool is_found(const struct relay_core *core, int64_t seq)
{
    return core->found_count > 0 &&
           bsearch(&seq, core->found, core->found_count, sizeof(seq),
               compare_seqs) != NULL;
}

/* The verdict on a row that is met for the first time. */
static enum relay_verdict judge(struct relay_core *core, int64_t seq)
{
    if (!is_found(core, seq)) {
        return RELAY_PUBLISH;
    }
    core->found_left--;
    if (core->found_left == 0) {
        core->found_count = 0;
    }
    return RELAY_SKIP;
}

/* -- one poll ------------------------------------------------------------------------ */

void relay_core_begin(struct relay_core *core, size_t max)
{
    core->poll_high = core->high;
    core->is_cut = false;
    for (size_t i = 0; i < core->gap_count; i++) {
        core->gaps[i].is_asked = false;
        core->gaps[i].is_proven = false;
    }
    const size_t first = gap_at(core, core->ask_after + 1);
    const size_t count = core->gap_count < max ? core->gap_count : max;
    for (size_t i = 0; i < count; i++) {
        const size_t index = (first + i) % core->gap_count;
        core->gaps[index].is_asked = true;
        core->ask_after = core->gaps[index].seq;
    }
}

void relay_core_xmin(struct relay_core *core, int64_t xmin)
{
    for (size_t i = 0; i < core->gap_count; i++) {
        struct relay_gap *gap = &core->gaps[i];
        gap->is_proven = gap->is_asked && gap->bound > 0 && gap->bound <= xmin;
    }
}

static enum relay_verdict fill_gap(
    struct relay_core *core, int64_t seq, bool has_body)
{
    struct relay_gap *gap = find_gap(core, seq);
    if (gap == NULL || gap->is_taken) {
        return RELAY_LATER; /* not asked for */
    }
    gap->is_seen = true;
    if (!has_body) {
        return RELAY_LATER;
    }
    gap->is_taken = true;
    return judge(core, seq);
}

enum relay_verdict relay_core_row(
    struct relay_core *core, int64_t seq, bool has_body)
{
    if (seq <= core->poll_high) {
        return fill_gap(core, seq, has_body);
    }
    core->is_cut |= !has_body;
    if (core->is_cut || seq <= core->high) {
        return RELAY_LATER;
    }
    for (int64_t hole = core->high + 1; hole < seq; hole++) {
        if (!add_gap(core, hole)) {
            return RELAY_TOO_MANY_GAPS;
        }
    }
    core->high = seq;
    return judge(core, seq);
}

void relay_core_end(struct relay_core *core, struct relay_poll *poll)
{
    *poll = (struct relay_poll){.waiting = 0};
    size_t kept = 0;
    for (size_t i = 0; i < core->gap_count; i++) {
        const struct relay_gap *gap = &core->gaps[i];
        if (gap->is_taken) {
            continue;
        }
        if (gap->is_proven && !gap->is_seen) {
            poll->dead++;
            continue;
        }
        poll->waiting += gap->is_asked && !gap->is_seen ? 1 : 0;
        core->gaps[kept] = *gap;
        kept++;
    }
    core->gap_count = kept;
    set_low(core);
}

bool relay_core_wants_bound(const struct relay_core *core)
{
    for (size_t i = core->gap_count; i > 0; i--) {
        if (core->gaps[i - 1].bound == 0) {
            return true;
        }
    }
    return false;
}

void relay_core_bound(struct relay_core *core, int64_t xid)
{
    for (size_t i = 0; i < core->gap_count; i++) {
        if (core->gaps[i].bound == 0) {
            core->gaps[i].bound = xid;
        }
    }
}
