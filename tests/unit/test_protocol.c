/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker concludes from what it reads back, case by case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/protocol.h"

static void claims_are_judged_by_what_is_there(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct claim_row row;
        enum claim_word wanted;
    } cases[] = {
        {"nothing: not applied", {.has_row = false}, CLAIM_REPEAT},
        {"the same again", {.has_row = true, .is_same = true}, CLAIM_DUPLICATE},
        {"other content", {.has_row = true}, CLAIM_CONFLICT},
        {"other content, running here",
            {.has_row = true, .is_in_memory = true, .is_live_mine = true},
            CLAIM_CONFLICT},
        {"my row, unknown to me",
            {.has_row = true, .is_same = true, .is_live_mine = true},
            CLAIM_ADOPT},
        {"my row, known",
            {.has_row = true,
                .is_same = true,
                .is_live_mine = true,
                .is_in_memory = true},
            CLAIM_DUPLICATE},
        {"a position never conflicts", {.has_row = true, .is_source_id = true},
            CLAIM_DUPLICATE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (protocol_claim(&cases[i].row) != cases[i].wanted) {
            fail_msg("%s", cases[i].name);
        }
    }
}

/* All rows there can be: a gate opens only for begun, mine, my fence. */
static void a_gate_opens_only_on_my_own_begun(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 16; bits++) {
        for (int attempt_no = 1; attempt_no <= 3; attempt_no++) {
            const struct live_row row = {
                .has_row = (bits & 1) != 0,
                .is_mine = (bits & 2) != 0,
                .state = (bits & 4) != 0 ? LIVE_BEGUN : LIVE_READY,
                .is_cancelled = (bits & 8) != 0,
                .attempt_no = attempt_no,
            };
            const bool is_mine = row.has_row && row.is_mine && attempt_no == 2;
            const enum begin_word word = protocol_begin(&row, 2);
            assert_int_equal(
                word == BEGIN_GO, is_mine && row.state == LIVE_BEGUN);
            assert_int_equal(word == BEGIN_DROP, !is_mine);
            assert_int_equal(word == BEGIN_CANCEL,
                is_mine && row.state == LIVE_READY && row.is_cancelled);
        }
    }
}

static struct settle_facts facts(bool is_terminal, bool was_in_doubt)
{
    return (struct settle_facts){.attempt_no = 2,
        .is_terminal = is_terminal,
        .status = STATUS_SUCCEEDED,
        .was_in_doubt = was_in_doubt};
}

static void my_row_is_settled_again(void **state)
{
    (void)state;
    struct settle_facts mine = facts(true, true);
    mine.live =
        (struct live_row){.has_row = true, .is_mine = true, .attempt_no = 2};
    assert_int_equal(protocol_settle(&mine), SETTLE_REPEAT);
    mine.live.is_cancelled = true; /* the call has ended: it wins */
    assert_int_equal(protocol_settle(&mine), SETTLE_REPEAT);
    mine.is_terminal = false;
    assert_int_equal(protocol_settle(&mine), SETTLE_CANCEL);
}

static void a_moved_fence_makes_a_result_late(void **state)
{
    (void)state;
    struct settle_facts moved = facts(true, false);
    assert_int_equal(protocol_settle(&moved), SETTLE_LATE);
    moved.live =
        (struct live_row){.has_row = true, .is_mine = true, .attempt_no = 3};
    assert_int_equal(protocol_settle(&moved), SETTLE_LATE);
    moved.live.attempt_no = 2;
    moved.live.is_mine = false;
    assert_int_equal(protocol_settle(&moved), SETTLE_LATE);
    /* An outcome with this fence that is not ours: the sweeper wrote it. */
    moved.has_outcome = true;
    moved.outcome_status = STATUS_SUCCEEDED;
    assert_int_equal(protocol_settle(&moved), SETTLE_LATE);
}

static void a_doubt_is_resolved_by_what_was_written(void **state)
{
    (void)state;
    struct settle_facts doubt = facts(true, true);
    assert_int_equal(protocol_settle(&doubt), SETTLE_LATE);
    doubt.has_outcome = true;
    doubt.outcome_status = STATUS_INDETERMINATE;
    assert_int_equal(protocol_settle(&doubt), SETTLE_LATE);
    doubt.outcome_status = STATUS_SUCCEEDED;
    assert_int_equal(protocol_settle(&doubt), SETTLE_APPLIED);

    doubt = facts(false, true);
    assert_int_equal(protocol_settle(&doubt), SETTLE_LATE);
    doubt.has_waited = true;
    assert_int_equal(protocol_settle(&doubt), SETTLE_APPLIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_are_judged_by_what_is_there),
        cmocka_unit_test(a_gate_opens_only_on_my_own_begun),
        cmocka_unit_test(my_row_is_settled_again),
        cmocka_unit_test(a_moved_fence_makes_a_result_late),
        cmocka_unit_test(a_doubt_is_resolved_by_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
