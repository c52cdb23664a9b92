/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/offsets.h"

/* What was told to be committed last, and how often. */
struct told {
    int32_t partition;
    int64_t next_offset;
    int times;
};

static void on_store(void *owner, const char *topic, int32_t partition,
    int64_t next_offset, uint64_t generation)
{
    struct told *told = owner;
    (void)topic;
    (void)generation;
    told->partition = partition;
    told->next_offset = next_offset;
    told->times++;
}

static void in_order_each_record_moves_the_offset(void **state)
{
    (void)state;
    struct told told = {0};
    struct offsets *offsets = offsets_new(on_store, &told);
    offsets_assign(offsets, 1);
    struct offset_entry *a = offsets_add(offsets, "t", 3, 10, 1);
    struct offset_entry *b = offsets_add(offsets, "t", 3, 12, 1);
    offsets_done(a);
    assert_int_equal(told.next_offset, 11);
    assert_int_equal(told.partition, 3);
    offsets_done(b);
    assert_int_equal(told.next_offset, 13);
    assert_int_equal(offsets_open(offsets), 0);
    offsets_free(offsets);
}

static void an_open_record_holds_back_what_is_behind_it(void **state)
{
    (void)state;
    struct told told = {0};
    struct offsets *offsets = offsets_new(on_store, &told);
    offsets_assign(offsets, 1);
    struct offset_entry *a = offsets_add(offsets, "t", 0, 0, 1);
    struct offset_entry *b = offsets_add(offsets, "t", 0, 1, 1);
    struct offset_entry *c = offsets_add(offsets, "t", 0, 2, 1);
    offsets_done(c);
    offsets_done(b);
    assert_int_equal(told.times, 0);
    offsets_done(a);
    assert_int_equal(told.times, 1);
    assert_int_equal(told.next_offset, 3);
    offsets_free(offsets);
}

static void partitions_and_topics_are_counted_apart(void **state)
{
    (void)state;
    struct told told = {0};
    struct offsets *offsets = offsets_new(on_store, &told);
    offsets_assign(offsets, 1);
    struct offset_entry *held = offsets_add(offsets, "t", 0, 5, 1);
    struct offset_entry *other = offsets_add(offsets, "t", 1, 7, 1);
    struct offset_entry *topic = offsets_add(offsets, "u", 0, 9, 1);
    offsets_done(other);
    assert_int_equal(told.next_offset, 8);
    offsets_done(topic);
    assert_int_equal(told.next_offset, 10);
    offsets_done(held);
    assert_int_equal(told.next_offset, 6);
    offsets_free(offsets);
}

static void what_ends_after_a_rebalance_is_never_stored(void **state)
{
    (void)state;
    struct told told = {0};
    struct offsets *offsets = offsets_new(on_store, &told);
    offsets_assign(offsets, 1);
    struct offset_entry *old = offsets_add(offsets, "t", 0, 5, 1);
    offsets_assign(offsets, 2);
    struct offset_entry *again = offsets_add(offsets, "t", 0, 5, 2);
    offsets_done(old);
    assert_int_equal(told.times, 0);
    offsets_done(again);
    assert_int_equal(told.next_offset, 6);
    assert_int_equal(offsets_open(offsets), 0);
    offsets_free(offsets);
}

static void freeing_forgets_what_is_under_way(void **state)
{
    (void)state;
    struct told told = {0};
    struct offsets *offsets = offsets_new(on_store, &told);
    offsets_assign(offsets, 1);
    assert_non_null(offsets_add(offsets, "t", 0, 0, 1));
    assert_non_null(offsets_add(offsets, "t", 0, 1, 1));
    assert_int_equal(offsets_open(offsets), 2);
    offsets_free(offsets);
    offsets_free(NULL);
    assert_int_equal(told.times, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_each_record_moves_the_offset),
        cmocka_unit_test(an_open_record_holds_back_what_is_behind_it),
        cmocka_unit_test(partitions_and_topics_are_counted_apart),
        cmocka_unit_test(what_ends_after_a_rebalance_is_never_stored),
        cmocka_unit_test(freeing_forgets_what_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
