/* SPDX-License-Identifier: Apache-2.0 */
/* replay: who runs again, how a replay is written, and its pace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "common/time.h"
#include "scheduler/replay/replay_pace.h"
#include "schema/replay.h"

/* -- who runs ------------------------------------------------------------------ */

#define KEPT .is_known = true, .has_request = true
#define KEYED .before = EFFECT_KEYED, .now = EFFECT_KEYED
#define UNSAFE .before = EFFECT_UNSAFE, .now = EFFECT_UNSAFE
#define ENDED KEPT, KEYED, .status = STATUS_EXHAUSTED
#define IN_DOUBT KEPT, .status = STATUS_INDETERMINATE

static const struct {
    const char *name;
    struct replay_facts facts;
    enum replay_skip skip;
} judged[] = {
    {"it was exhausted", {ENDED}, REPLAY_SKIP_NONE},
    {"another tenant's",
        {.has_request = true, KEYED, .status = STATUS_EXHAUSTED},
        REPLAY_SKIP_UNKNOWN},
    {"its line is under way", {ENDED, .is_open = true}, REPLAY_SKIP_RUNNING},
    {"its line is under way, and has succeeded before",
        {ENDED, .is_open = true, .has_succeeded = true, .is_forced = true,
            .is_named = true},
        REPLAY_SKIP_RUNNING},
    {"this replay has its line", {ENDED, .is_repeated = true},
        REPLAY_SKIP_REPEATED},
    {"forced, but this replay has its line",
        {ENDED, .is_repeated = true, .is_forced = true, .is_named = true},
        REPLAY_SKIP_REPEATED},
    {"its line has succeeded", {ENDED, .has_succeeded = true},
        REPLAY_SKIP_SUCCEEDED},
    {"named, and its line has succeeded",
        {ENDED, .has_succeeded = true, .is_named = true},
        REPLAY_SKIP_SUCCEEDED},
    {"forced, and its line has succeeded",
        {ENDED, .has_succeeded = true, .is_named = true, .is_forced = true},
        REPLAY_SKIP_NONE},
    {"its request is gone",
        {.is_known = true, KEYED, .status = STATUS_EXHAUSTED},
        REPLAY_SKIP_GONE},
    {"its key was another one's", {ENDED, .is_conflict = true},
        REPLAY_SKIP_CONFLICT},
    {"not declared any more",
        {KEPT, .before = EFFECT_KEYED, .status = STATUS_EXHAUSTED},
        REPLAY_SKIP_UNDECLARED},
    {"paused", {ENDED, .is_paused = true}, REPLAY_SKIP_PAUSED},
    {"it was rejected", {KEPT, .now = EFFECT_KEYED, .status = STATUS_REJECTED},
        REPLAY_SKIP_NONE},
    {"unsafe, and nothing happened", {KEPT, UNSAFE, .status = STATUS_EXHAUSTED},
        REPLAY_SKIP_NONE},
    {"unsafe in doubt",
        {IN_DOUBT, .before = EFFECT_UNSAFE, .now = EFFECT_UNSAFE},
        REPLAY_SKIP_MAY_HAVE_ACTED},
    {"in doubt, unsafe then",
        {IN_DOUBT, .before = EFFECT_UNSAFE, .now = EFFECT_KEYED},
        REPLAY_SKIP_MAY_HAVE_ACTED},
    {"in doubt, unsafe now",
        {IN_DOUBT, .before = EFFECT_NATURAL, .now = EFFECT_UNSAFE},
        REPLAY_SKIP_MAY_HAVE_ACTED},
    {"unsafe in doubt, with a new key",
        {IN_DOUBT, .before = EFFECT_UNSAFE, .now = EFFECT_UNSAFE,
            .has_new_key = true},
        REPLAY_SKIP_MAY_HAVE_ACTED},
    {"unsafe in doubt, named",
        {IN_DOUBT, .before = EFFECT_UNSAFE, .now = EFFECT_UNSAFE,
            .is_named = true},
        REPLAY_SKIP_NONE},
    {"keyed in doubt", {IN_DOUBT, .before = EFFECT_KEYED, .now = EFFECT_KEYED},
        REPLAY_SKIP_NONE},
    {"keyed in doubt, its key may be forgotten",
        {IN_DOUBT, .before = EFFECT_KEYED, .now = EFFECT_KEYED,
            .is_key_expired = true},
        REPLAY_SKIP_MAY_HAVE_ACTED},
    {"keyed without a doubt, its key may be forgotten",
        {ENDED, .is_key_expired = true}, REPLAY_SKIP_NONE},
    {"natural in doubt",
        {IN_DOUBT, .before = EFFECT_NATURAL, .now = EFFECT_NATURAL},
        REPLAY_SKIP_NONE},
};

static void each_is_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(judged); i++) {
        const enum replay_skip skip = replay_judge(&judged[i].facts);
        if (skip != judged[i].skip) {
            fail_msg("%s: %d", judged[i].name, (int)skip);
        }
    }
}

static void ids_are_of_replay_and_line(void **state)
{
    (void)state;
    const uint8_t one[UUID_SIZE] = {1};
    const uint8_t two[UUID_SIZE] = {2};
    uint8_t a[UUID_SIZE];
    uint8_t b[UUID_SIZE];
    replay_action_id(one, two, a);
    replay_action_id(one, two, b);
    assert_memory_equal(a, b, UUID_SIZE);
    replay_action_id(two, one, b);
    assert_memory_not_equal(a, b, UUID_SIZE);
    replay_action_id(one, one, b);
    assert_memory_not_equal(a, b, UUID_SIZE);
}

static void a_replay_keeps_the_key_or_has_its_own(void **state)
{
    (void)state;
    const uint8_t first[UUID_SIZE] = {7};
    char text[UUID_TEXT_SIZE];
    struct record record = {.id = {9}, .key = "order-1", .priority = 5};
    assert_memory_equal(record_effect_id(&record), record.id, UUID_SIZE);
    record_make_replay(&record, first, first, false);
    assert_memory_equal(record_effect_id(&record), first, UUID_SIZE);
    assert_string_equal(record.key, "order-1");
    assert_int_equal(record.priority, 0);
    record_make_replay(&record, first, record.id, true);
    uuid_format(record.id, text);
    assert_memory_equal(record_effect_id(&record), record.id, UUID_SIZE);
    assert_string_equal(record.key, text);
}

/* -- words ------------------------------------------------------------------------ */

static void times_are_moments_or_ages(void **state)
{
    (void)state;
    const int64_t now_us = INT64_C(1796000000) * US_PER_S;
    static const struct {
        const char *text;
        int64_t ago_s; /* -1: refused */
    } cases[] = {
        {"90s", 90},
        {"15m", 900},
        {"2h", 7200},
        {"7d", 604800},
        {"0s", 0},
        {"2026-11-30T00:53:20Z", 0},
        {"2026-11-30T00:53:10Z", 10},
        {"", -1},
        {"h", -1},
        {"-1h", -1},
        {"2w", -1},
        {"2", -1},
        {"2026-11-30", -1},
        {"123456789h", -1},
        {"1.5h", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t at_us = 0;
        const bool is_taken =
            replay_parse_time(span_of(cases[i].text), now_us, &at_us);
        if (is_taken != (cases[i].ago_s >= 0) ||
            (is_taken && at_us != now_us - cases[i].ago_s * US_PER_S)) {
            fail_msg("'%s'", cases[i].text);
        }
    }
}

static void statuses_and_rates_are_read(void **state)
{
    (void)state;
    int statuses = 0;
    int64_t rate = 0;
    assert_true(replay_parse_statuses(span_of("exhausted,failed"), &statuses));
    assert_int_equal(statuses, 1 << STATUS_EXHAUSTED | 1 << STATUS_FAILED);
    assert_false(replay_parse_statuses(span_of(""), &statuses));
    assert_false(replay_parse_statuses(span_of("failed,"), &statuses));
    assert_false(replay_parse_statuses(span_of("done"), &statuses));
    assert_true(replay_parse_rate(span_of("50/s"), &rate) && rate == 50);
    assert_true(replay_parse_rate(span_of("7"), &rate) && rate == 7);
    assert_false(replay_parse_rate(span_of("0/s"), &rate));
    assert_false(replay_parse_rate(span_of("100001"), &rate));
    assert_false(replay_parse_rate(span_of("/s"), &rate));
    assert_true(replay_topic_is_valid(span_of("lost.outcomes_2-a")));
    assert_false(replay_topic_is_valid(span_of("a b")));
    assert_false(replay_topic_is_valid(span_of("")));
    assert_false(replay_topic_is_valid(span_of("..")));
}

static void wishes_are_checked_as_a_whole(void **state)
{
    (void)state;
    struct replay_wish wish = {.kind = REPLAY_ACTIONS};
    assert_non_null(replay_wish_fault(&wish));
    wish.statuses = 1 << STATUS_FAILED;
    assert_null(replay_wish_fault(&wish));
    wish.is_forced = true;
    assert_non_null(replay_wish_fault(&wish));
    wish.id_count = 1;
    assert_non_null(replay_wish_fault(&wish));
    memcpy(wish.reason, "why", 4);
    assert_null(replay_wish_fault(&wish));
    wish = (struct replay_wish){.kind = REPLAY_OUTCOMES};
    assert_null(replay_wish_fault(&wish));
    wish.has_new_key = true;
    assert_non_null(replay_wish_fault(&wish));
}

static void the_document_tells_all(void **state)
{
    (void)state;
    struct replay replay = {.phase = REPLAY_RUNNING,
        .is_paused = true,
        .matched = 5,
        .planned = 3,
        .published = 2};
    struct buf out;
    replay.wish.kind = REPLAY_ACTIONS;
    replay.wish.statuses = 1 << STATUS_EXHAUSTED;
    replay.skips[REPLAY_SKIP_GONE] = 2;
    replay.ends[STATUS_SUCCEEDED] = 1;
    replay.sample_count = 1;
    memcpy(replay.wish.tenant, "acme", 5);
    memcpy(replay.wish.actor, "operator:a", 11);
    buf_init(&out, 4096);
    replay_put(&out, &replay);
    assert_string_equal(buf_str(&out),
        "{\"id\":\"00000000-0000-0000-0000-000000000000\","
        "\"tenant\":\"acme\",\"what\":\"actions\","
        "\"filter\":{\"status\":[\"exhausted\"],\"connector\":null,"
        "\"action\":null,\"error_code\":null,\"since\":null,"
        "\"until\":null,\"source\":null},\"dry_run\":false,"
        "\"new_key\":false,\"force\":false,\"rate\":null,\"limit\":null,"
        "\"to\":null,\"actor\":\"operator:a\",\"reason\":null,"
        "\"state\":\"paused\",\"created_at\":null,\"ended_at\":null,"
        "\"matched\":5,\"planned\":3,\"replayed\":2,"
        "\"skipped\":{\"total\":2,\"gone\":2},"
        "\"outcomes\":{\"total\":1,\"succeeded\":1},"
        "\"sample\":[\"00000000-0000-0000-0000-000000000000\"],"
        "\"trouble\":null}");
    buf_fini(&out);
}

/* -- pace ----------------------------------------------------------------------------- */

static void pace_has_no_burst(void **state)
{
    (void)state;
    struct replay_pace pace;
    int64_t now_us = 1000000;
    replay_pace_start(&pace, 40, now_us);
    assert_int_equal(replay_pace_room(&pace, 500, now_us), 0);
    /* However long it stood still: a quarter of a second's worth. */
    assert_int_equal(
        replay_pace_room(&pace, 500, now_us + 3600 * US_PER_S), 10);
    replay_pace_take(&pace, 10);
    assert_int_equal(replay_pace_room(&pace, 500, now_us + 3600 * US_PER_S), 0);
    replay_pace_start(&pace, 0, now_us);
    assert_int_equal(replay_pace_room(&pace, 500, now_us), 500);
}

static void pace_keeps_its_rate(void **state)
{
    (void)state;
    static const int64_t rates[] = {1, 3, 7, 50, 999, 100000};
    static const int64_t steps_us[] = {1, 33, 999, 20000, 100001};
    for (size_t r = 0; r < ARRAY_LEN(rates); r++) {
        for (size_t s = 0; s < ARRAY_LEN(steps_us); s++) {
            struct replay_pace pace;
            int64_t taken = 0;
            const int64_t end_us = steps_us[s] == 1 ? 100000 : 10 * US_PER_S;
            replay_pace_start(&pace, rates[r], 0);
            for (int64_t at_us = 0; at_us <= end_us; at_us += steps_us[s]) {
                const int64_t room = replay_pace_room(&pace, 1 << 20, at_us);
                replay_pace_take(&pace, room);
                taken += room;
            }
            const int64_t most = rates[r] * end_us / US_PER_S;
            assert_true(taken <= most);
            assert_true(taken >= most - rates[r] / 4 - 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_judged),
        cmocka_unit_test(ids_are_of_replay_and_line),
        cmocka_unit_test(a_replay_keeps_the_key_or_has_its_own),
        cmocka_unit_test(times_are_moments_or_ages),
        cmocka_unit_test(statuses_and_rates_are_read),
        cmocka_unit_test(wishes_are_checked_as_a_whole),
        cmocka_unit_test(the_document_tells_all),
        cmocka_unit_test(pace_has_no_burst),
        cmocka_unit_test(pace_keeps_its_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
