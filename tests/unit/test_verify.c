/* SPDX-License-Identifier: Apache-2.0 */
/* verify: which records of the topic are new, repeated or judged before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "schema/verify.h"

static void first_sight_is_new_and_second_is_again(void **state)
{
    (void)state;
    struct verify_seen seen;
    verify_seen_init(&seen, 100);
    assert_int_equal(verify_record(&seen, 101, false, false), VERIFY_NEW);
    assert_int_equal(verify_record(&seen, 108, false, false), VERIFY_NEW);
    assert_int_equal(verify_record(&seen, 109, false, false), VERIFY_NEW);
    assert_int_equal(verify_record(&seen, 101, false, false), VERIFY_AGAIN);
    assert_true(verify_seen_has(&seen, 101));
    assert_false(verify_seen_has(&seen, 102));
    assert_true(verify_seen_has(&seen, 108));
    assert_true(verify_seen_has(&seen, 109));
    assert_false(verify_seen_has(&seen, 100));
    verify_seen_fini(&seen);
}

static void numbers_up_to_the_mark(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool was_read;
        bool is_partial;
        enum verify_word word;
    } cases[] = {
        {"behind the last pass: published a second time", false, false,
            VERIFY_AGAIN},
        {"read again: judged before", true, false, VERIFY_SKIP},
        {"a pass from the middle knows nothing of it", false, true,
            VERIFY_SKIP},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct verify_seen seen;
        verify_seen_init(&seen, 100);
        print_message("%s\n", cases[i].name);
        assert_int_equal(
            verify_record(&seen, 100, cases[i].was_read, cases[i].is_partial),
            cases[i].word);
        verify_seen_fini(&seen);
    }
}

static void what_is_read_again_above_the_mark_is_judged_again(void **state)
{
    (void)state;
    struct verify_seen seen;
    verify_seen_init(&seen, 100);
    assert_int_equal(verify_record(&seen, 105, true, false), VERIFY_NEW);
    assert_int_equal(verify_record(&seen, 105, false, false), VERIFY_AGAIN);
    verify_seen_fini(&seen);
}

static void memory_is_capped(void **state)
{
    (void)state;
    struct verify_seen seen;
    verify_seen_init(&seen, 7);
    assert_int_equal(
        verify_record(&seen, 7 + VERIFY_MAX_SEQS + 1, false, false),
        VERIFY_BEYOND);
    assert_int_equal(
        verify_record(&seen, INT64_MAX, false, false), VERIFY_BEYOND);
    assert_int_equal(seen.size, 0);
    assert_false(verify_seen_has(&seen, INT64_MAX));
    assert_int_equal(
        verify_record(&seen, 7 + 1000000, false, false), VERIFY_NEW);
    assert_true(seen.size <= 2 * 1000000 / 8);
    verify_seen_fini(&seen);
    verify_seen_fini(&seen);
}

static void tally_keeps_twenty_samples(void **state)
{
    (void)state;
    struct verify_tally tally;
    memset(&tally, 0, sizeof(tally));
    for (int i = 0; i < 25; i++) {
        verify_tally_add(&tally, 1, "0:1");
    }
    verify_tally_add(&tally, 5, NULL);
    assert_int_equal(tally.count, 30);
    assert_int_equal(tally.sample_count, VERIFY_SAMPLES);
    assert_string_equal(tally.samples[19], "0:1");
}

static void every_kind_counts_once(void **state)
{
    (void)state;
    static struct verify_tally tallies[VERIFY_KIND_COUNT];
    for (int kind = VERIFY_MISSING; kind < VERIFY_KIND_COUNT; kind++) {
        memset(tallies, 0, sizeof(tallies));
        tallies[kind].count = 1;
        const bool is_double = kind == VERIFY_DOUBLE || kind == VERIFY_TWICE;
        assert_int_equal(verify_duplicates(tallies), is_double ? 1 : 0);
        assert_int_equal(verify_unaccounted(tallies), is_double ? 0 : 1);
        assert_non_null(verify_kind_name((enum verify_kind)kind));
        assert_non_null(verify_kind_text((enum verify_kind)kind));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_sight_is_new_and_second_is_again),
        cmocka_unit_test(numbers_up_to_the_mark),
        cmocka_unit_test(what_is_read_again_above_the_mark_is_judged_again),
        cmocka_unit_test(memory_is_capped),
        cmocka_unit_test(tally_keeps_twenty_samples),
        cmocka_unit_test(every_kind_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
