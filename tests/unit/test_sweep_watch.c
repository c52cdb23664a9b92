/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "scheduler/sweep_watch.h"

enum { MAX_WORKERS = 8 };

/* One look at `count` workers: h held, f free, H and F with expired lease.
 * What is expected of each: '.' leave, 'G' gone, 'L' lapsed. */
struct look {
    int64_t at_ms;
    const char *seen;
    const char *expected;
};

static void fill(struct watch_sight *sights, const char *seen)
{
    for (size_t i = 0; i < strlen(seen); i++) {
        memset(sights[i].boot_id, (int)i + 1, UUID_SIZE);
        sights[i].is_held = seen[i] == 'h' || seen[i] == 'H';
        sights[i].is_expired = seen[i] == 'F' || seen[i] == 'H';
    }
}

static void check(struct watch *watch, const struct look *look)
{
    static const char letters[] = {
        [WATCH_LEAVE] = '.', [WATCH_GONE] = 'G', [WATCH_LAPSED] = 'L'};
    struct watch_sight sights[MAX_WORKERS] = {{.is_held = false}};
    char got[MAX_WORKERS + 1] = "";
    fill(sights, look->seen);
    watch_look(watch, look->at_ms * US_PER_MS, sights, strlen(look->seen));
    for (size_t i = 0; i < strlen(look->seen); i++) {
        got[i] = letters[sights[i].verdict];
    }
    assert_string_equal(got, look->expected);
}

static void run(const struct look *looks, size_t count)
{
    struct watch watch;
    watch_init(&watch);
    watch_restart(&watch, 0);
    for (size_t i = 0; i < count; i++) {
        check(&watch, &looks[i]);
    }
    watch_fini(&watch);
}

#define RUN(...)                                                               \
    do {                                                                       \
        const struct look looks[] = {__VA_ARGS__};                             \
        run(looks, ARRAY_LEN(looks));                                          \
    } while (0)

static void a_vanished_worker_is_gone_after_500_ms(void **state)
{
    (void)state;
    RUN({0, "hhh", "..."}, {200, "hfh", "..."}, {400, "hfh", "..."},
        {600, "hfh", "..."}, {700, "hfh", ".G."});
}

static void one_of_one_and_of_two_may_be_gone(void **state)
{
    (void)state;
    RUN({0, "h", "."}, {200, "f", "."}, {700, "f", "G"});
    RUN({0, "hh", ".."}, {200, "hf", ".."}, {700, "hf", ".G"});
}

static void half_of_the_workers_are_not_believed(void **state)
{
    (void)state;
    RUN({0, "hh", ".."}, {200, "ff", ".."}, {900, "ff", ".."});
    RUN({0, "hhhh", "...."}, {200, "hhff", "...."}, {900, "hhff", "...."});
    RUN({0, "hhhhh", "....."}, {200, "hhhff", "....."},
        {900, "hhhff", "...GG"});
}

static void a_lock_never_seen_held_proves_nothing(void **state)
{
    (void)state;
    RUN({0, "ffh", "..."}, {2000, "ffh", "..."}, {9000, "ffh", "..."});
}

static void a_lock_that_came_back_starts_over(void **state)
{
    (void)state;
    RUN({0, "hhh", "..."}, {200, "hfh", "..."}, {400, "hhh", "..."},
        {600, "hfh", "..."}, {1000, "hfh", "..."}, {1100, "hfh", ".G."});
}

static void a_lease_counts_after_the_quiet_time_only(void **state)
{
    (void)state;
    RUN({0, "Hh", ".."}, {11000, "Hh", ".."}, {14900, "Hh", ".."},
        {15000, "Hh", "L."});
}

static void a_lease_must_look_lapsed_for_3_s(void **state)
{
    (void)state;
    /* As after a step of the clock: the next renewal repairs it. */
    RUN({20000, "hh", ".."}, {20200, "HH", ".."}, {22000, "HH", ".."},
        {22400, "hh", ".."}, {24000, "Hh", ".."}, {26900, "Hh", ".."},
        {27000, "Hh", "L."});
}

static void a_new_session_has_seen_nothing(void **state)
{
    struct watch watch;
    (void)state;
    watch_init(&watch);
    watch_restart(&watch, 0);
    check(&watch, &(struct look){20000, "hhh", "..."});
    check(&watch, &(struct look){20200, "fhh", "..."});
    watch_restart(&watch, 20300 * US_PER_MS);
    check(&watch, &(struct look){20800, "fhh", "..."});
    check(&watch, &(struct look){30000, "Fhh", "..."});
    check(&watch, &(struct look){35200, "Fhh", "..."});
    check(&watch, &(struct look){35300, "Fhh", "L.."});
    watch_fini(&watch);
}

static void workers_may_come_and_go(void **state)
{
    struct watch watch;
    (void)state;
    watch_init(&watch);
    watch_restart(&watch, 0);
    check(&watch, &(struct look){0, "hh", ".."});
    check(&watch, &(struct look){200, "hfh", "..."});
    check(&watch, &(struct look){400, "", ""});
    check(&watch, &(struct look){600, "hfh", "..."});
    check(&watch, &(struct look){1400, "hfh", "..."});
    watch_fini(&watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vanished_worker_is_gone_after_500_ms),
        cmocka_unit_test(one_of_one_and_of_two_may_be_gone),
        cmocka_unit_test(half_of_the_workers_are_not_believed),
        cmocka_unit_test(a_lock_never_seen_held_proves_nothing),
        cmocka_unit_test(a_lock_that_came_back_starts_over),
        cmocka_unit_test(a_lease_counts_after_the_quiet_time_only),
        cmocka_unit_test(a_lease_must_look_lapsed_for_3_s),
        cmocka_unit_test(a_new_session_has_seen_nothing),
        cmocka_unit_test(workers_may_come_and_go),
    };
    return cmocka_run_group_tests_name("sweep_watch", tests, NULL, NULL);
}
