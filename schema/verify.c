/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

enum { BITS = 8, FIRST_BYTES = 4096 };

const char *verify_kind_name(enum verify_kind kind)
{
    static const char *const names[VERIFY_KIND_COUNT] = {
#define X(symbol, number, name, text) [number] = (name),
        VERIFY_KIND_LIST(X)
#undef X
    };
    return names[kind];
}

const char *verify_kind_text(enum verify_kind kind)
{
    static const char *const texts[VERIFY_KIND_COUNT] = {
#define X(symbol, number, name, text) [number] = (text),
        VERIFY_KIND_LIST(X)
#undef X
    };
    return texts[kind];
}

/* -- tallies --------------------------------------------------------------------- */

void verify_tally_add(
    struct verify_tally *tally, int64_t amount, const char *what)
{
    tally->count += amount;
    if (what != NULL && tally->sample_count < VERIFY_SAMPLES) {
        (void)snprintf(tally->samples[tally->sample_count], VERIFY_SAMPLE_SIZE,
            "%s", what);
        tally->sample_count++;
    }
}

int64_t verify_unaccounted(const struct verify_tally *tallies)
{
    return tallies[VERIFY_MISSING].count + tallies[VERIFY_ORPHANED].count +
           tallies[VERIFY_STRAY].count + tallies[VERIFY_UNKNOWN].count +
           tallies[VERIFY_UNPUBLISHED].count + tallies[VERIFY_FOREIGN].count;
}

int64_t verify_duplicates(const struct verify_tally *tallies)
{
    return tallies[VERIFY_DOUBLE].count + tallies[VERIFY_TWICE].count;
}

/* -- numbers ------------------------------------------------------------------------ */

void verify_seen_init(struct verify_seen *seen, int64_t base)
{
    *seen = (struct verify_seen){.base = base};
}

void verify_seen_fini(struct verify_seen *seen)
{
    free(seen->bits);
    verify_seen_init(seen, seen->base);
}

static void make_room(struct verify_seen *seen, size_t byte)
{
    if (byte < seen->size) {
        return;
    }
    size_t size = seen->size == 0 ? FIRST_BYTES : seen->size;
    while (size <= byte) {
        size *= 2;
    }
    seen->bits = mem_resize(seen->bits, size, 1);
    memset(seen->bits + seen->size, 0, size - seen->size);
    seen->size = size;
}

bool verify_seen_has(const struct verify_seen *seen, int64_t seq)
{
    if (seq <= seen->base || seq - seen->base > VERIFY_MAX_SEQS) {
        return false;
    }
    const size_t bit = (size_t)(seq - seen->base - 1);
    return bit / BITS < seen->size &&
           (seen->bits[bit / BITS] & (1U << (bit % BITS))) != 0;
}

enum verify_word verify_record(
    struct verify_seen *seen, int64_t seq, bool was_read, bool is_partial)
{
    if (seq <= seen->base) {
        /* All of these were published before the end of the last pass. */
        return was_read || is_partial ? VERIFY_SKIP : VERIFY_AGAIN;
    }
    if (seq - seen->base > VERIFY_MAX_SEQS) {
        return VERIFY_BEYOND;
    }
    if (verify_seen_has(seen, seq)) {
        return VERIFY_AGAIN;
    }
    const size_t bit = (size_t)(seq - seen->base - 1);
    make_room(seen, bit / BITS);
    seen->bits[bit / BITS] |= (uint8_t)(1U << (bit % BITS));
    return VERIFY_NEW;
}
