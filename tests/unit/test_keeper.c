/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keeper does to a child: its limits hold, and it is left with
 * nothing it does not need. The child is this program in the runner's place;
 * it answers each job with what it sees of itself, without the runner's own
 * system call filter.
 */
#include "run_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "worker/run/frame.h"
#include "worker/run/keeper.h"
#include "worker/run/runner.h"

enum { PIDS_LIMIT = 12, CPU_PERCENT = 20 };
enum { BURN_MS = 1000, FRAME_ROOM = 1 << 20 };

/* -- the child ---------------------------------------------------------------- */

static void tell_status(struct buf *body)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        buf_put_str(body, line);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static void tell_files(struct buf *body)
{
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            buf_printf(body, "%d ", fd);
        }
    }
}

static void tell_environment(struct buf *body)
{
    for (char **item = environ; *item != NULL; item++) {
        buf_printf(body, "%s\n", *item);
    }
}

/* How many processes it may have besides itself. */
static int count_forks(void)
{
    enum { TRIES = 100 };
    pid_t pids[TRIES];
    int count = 0;
    while (count < TRIES) {
        pids[count] = fork();
        if (pids[count] == 0) {
            (void)pause();
            _exit(0);
        }
        if (pids[count] < 0) {
            break;
        }
        count++;
    }
    for (int i = 0; i < count; i++) {
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
    return count;
}

static void eat_memory(void)
{
    for (;;) {
        const size_t size = (size_t)8 << 20;
        memset(mem_alloc(size), 'x', size);
    }
}

/* Processor time got in a second of trying, in ms. */
static int burn(void)
{
    const int64_t end_us = now_mono_us() + BURN_MS * US_PER_MS;
    while (now_mono_us() < end_us) {
    }
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int)(used.tv_sec * 1000 + used.tv_nsec / 1000000);
}

static void do_job(
    const struct frame_job *job, struct run_result *result, struct buf *body)
{
    if (span_is(job->url, "status")) {
        tell_status(body);
    } else if (span_is(job->url, "files")) {
        tell_files(body);
    } else if (span_is(job->url, "environment")) {
        tell_environment(body);
    } else if (span_is(job->url, "fork")) {
        result->http_status = count_forks();
    } else if (span_is(job->url, "eat")) {
        eat_memory();
    } else if (span_is(job->url, "burn")) {
        result->http_status = burn();
    } else if (span_is(job->url, "hang")) {
        for (;;) {
            (void)pause();
        }
    } else if (span_is(job->url, "lie")) {
        result->id++;
    } else {
        _exit(3);
    }
}

static void answer_frame(const struct frame *frame, struct buf *out)
{
    struct buf body;
    struct frame_job job;
    uint32_t index = 0;
    buf_init(&body, FRAME_ROOM);
    if (frame->type == FRAME_SETUP) {
        (void)!frame_put_ready(out);
    } else if (frame_get_job(frame->content, &job) == 0) {
        struct run_result result = {.id = job.id, .end = CALL_ANSWERED};
        index = job.index;
        do_job(&job, &result, &body);
        result.body = buf_span(&body);
        (void)!frame_put_result(out, index, &result);
    }
    buf_fini(&body);
}

static int child_main(void)
{
    struct buf in;
    struct buf out;
    buf_init(&in, FRAME_ROOM);
    buf_init(&out, FRAME_ROOM);
    for (;;) {
        struct frame frame;
        size_t used = 0;
        if (frame_next(buf_span(&in), &frame, &used) == 1) {
            answer_frame(&frame, &out);
            buf_drop_front(&in, used);
            (void)!send(RUNNER_FD_SOCKET, out.data, out.len, MSG_NOSIGNAL);
            buf_clear(&out);
            continue;
        }
        char *room = buf_reserve(&in, 4096);
        const ssize_t got =
            room == NULL ? 0 : recv(RUNNER_FD_SOCKET, room, 4096, 0);
        if (got <= 0) {
            return 0;
        }
        in.len += (size_t)got;
    }
}

/* -- the tests ---------------------------------------------------------------- */

static struct driver driver;

static int try_start(
    uint64_t id, const char *tenant, const char *what, struct err *err)
{
    const struct call call = {.method = "GET", .url = span_of(what)};
    const struct run_job job = {
        .id = id,
        .tenant = tenant,
        .call = &call,
        .timeout_ms = strcmp(what, "hang") == 0 && id == 0 ? 100 : 60000,
        .max_result_bytes = FRAME_ROOM,
    };
    return run_start(driver.run, &job, err);
}

static const struct answer *ask(const char *tenant, const char *what)
{
    struct err err = ERR_INIT;
    driver_expect(&driver, 1);
    if (try_start(0, tenant, what, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    driver_await(&driver);
    return &driver.answers[0];
}

static long number_after(const char *text, const char *name, int base)
{
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtol(at + strlen(name), NULL, base);
}

static void a_child_has_its_own_user_and_no_capabilities(void **state)
{
    (void)state;
    static const char *const empty[] = {
        "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    char *text = mem_strdup(buf_str(&ask("acme", "status")->body));
    const long uid = number_after(text, "Uid:", 10);
    /* The first slot of a block. */
    assert_true(uid >= 61000 && uid % KEEPER_MAX_SLOTS == 0);
    assert_int_equal(number_after(text, "Gid:", 10), uid);
    assert_non_null(strstr(text, "Groups:\t \n"));
    assert_int_equal(number_after(text, "NoNewPrivs:", 10), 1);
    for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
        assert_int_equal(number_after(text, empty[i], 16), 0);
    }
    free(text);
    const char *other = buf_str(&ask("beta", "status")->body);
    assert_int_not_equal(number_after(other, "Uid:", 10), uid);
}

static void the_worker_keeps_no_capabilities(void **state)
{
    (void)state;
    struct buf text;
    if (driver.run == NULL) {
        skip();
    }
    buf_init(&text, FRAME_ROOM);
    tell_status(&text);
    assert_int_equal(number_after(buf_str(&text), "CapEff:", 16), 0);
    assert_int_equal(number_after(buf_str(&text), "CapPrm:", 16), 0);
    assert_int_equal(number_after(buf_str(&text), "NoNewPrivs:", 10), 1);
    buf_fini(&text);
}

static void a_child_has_only_the_numbered_descriptors(void **state)
{
    (void)state;
    assert_string_equal(buf_str(&ask("acme", "files")->body), "0 1 2 3 4 ");
}

static void a_child_has_a_clean_environment(void **state)
{
    (void)state;
    const char *text = buf_str(&ask("acme", "environment")->body);
    assert_null(strstr(text, "proxy"));
    assert_null(strstr(text, "PROXY"));
    assert_null(strstr(text, "PATH"));
    assert_null(strstr(text, "HOME"));
}

static void processes_are_limited(void **state)
{
    (void)state;
    const int count = ask("acme", "fork")->result.http_status;
    assert_true(count >= 1);
    assert_true(count < PIDS_LIMIT);
}

static void processor_time_is_limited(void **state)
{
    (void)state;
    const int used_ms = ask("burner", "burn")->result.http_status;
    assert_true(used_ms < 3 * BURN_MS * CPU_PERCENT / 100);
}

static void memory_is_limited(void **state)
{
    (void)state;
    const struct answer *answer = ask("eater", "eat");
    assert_int_equal(answer->result.end, CALL_LOST);
    assert_int_equal(answer->result.code, CODE_RUNNER_DIED);
    assert_non_null(strstr(answer->result.message, "memory limit"));
    /* Nobody else was hit, and it comes back. */
    assert_int_equal(ask("eater", "files")->result.end, CALL_ANSWERED);
}

static void a_child_that_exits_is_told_by_its_code(void **state)
{
    (void)state;
    const struct answer *answer = ask("leaver", "exit");
    assert_int_equal(answer->result.end, CALL_LOST);
    assert_non_null(strstr(answer->result.message, "code 3"));
}

static void a_child_that_lies_is_ended(void **state)
{
    (void)state;
    assert_int_equal(ask("liar", "lie")->result.end, CALL_LOST);
}

static void calls_over_the_limit_are_told_to_wait(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    driver_expect(&driver, 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(try_start(i, "busy", "files", &err), 0);
    }
    assert_int_equal(try_start(3, "busy", "files", &err), -1);
    assert_int_equal(err.class, ERR_TRANSIENT);
    driver_await(&driver);
}

/* Four places, more tenants: whoever was idle for longest makes room. */
static void an_idle_tenant_makes_room(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        char tenant[16];
        (void)snprintf(tenant, sizeof(tenant), "t%d", i % 6);
        assert_int_equal(ask(tenant, "files")->result.end, CALL_ANSWERED);
    }
}

static void all_places_taken_is_told_to_wait(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    driver_expect(&driver, 4);
    for (uint64_t i = 0; i < 4; i++) {
        char tenant[16];
        (void)snprintf(tenant, sizeof(tenant), "h%d", (int)i);
        assert_int_equal(try_start(i, tenant, "hang", &err), 0);
    }
    assert_int_equal(try_start(4, "late", "files", &err), -1);
    assert_int_equal(err.class, ERR_TRANSIENT);
    /* The first has a time-out that its child does not keep. */
    const int64_t end_us = now_mono_us() + DRIVER_DEADLINE_US;
    while (driver.done == 0) {
        assert_true(now_mono_us() < end_us);
        driver_turn(&driver);
    }
    /* Not renewed any more, the keeper kills the others after 8 s. */
    driver.is_lease_lost = true;
    driver_await(&driver);
    driver.is_lease_lost = false;
    assert_int_equal(driver.answers[0].result.end, CALL_TIMED_OUT);
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(driver.answers[i].result.end, CALL_LOST);
    }
}

static void the_end_leaves_no_cgroup(void **state)
{
    (void)state;
    if (driver.run == NULL) {
        skip();
    }
    assert_true(driver_has_cgroup(&driver));
    driver_close(&driver);
    assert_false(driver_has_cgroup(&driver));
}

static int open_all(void **state)
{
    (void)state;
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1);
    static const char *const settings[] = {"run.pids", "12", "run.memory_mb",
        "64", "run.cpu_percent", "20", "run.max_runners", "4",
        "run.max_calls_per_tenant", "3", NULL};
    driver_open(&driver, driver_cgroup_name(), "boot", settings);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    driver_close(&driver);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "actionist-runner") == 0) {
        _exit(child_main());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_has_its_own_user_and_no_capabilities),
        cmocka_unit_test(the_worker_keeps_no_capabilities),
        cmocka_unit_test(a_child_has_only_the_numbered_descriptors),
        cmocka_unit_test(a_child_has_a_clean_environment),
        cmocka_unit_test(processes_are_limited),
        cmocka_unit_test(processor_time_is_limited),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(a_child_that_exits_is_told_by_its_code),
        cmocka_unit_test(a_child_that_lies_is_ended),
        cmocka_unit_test(calls_over_the_limit_are_told_to_wait),
        cmocka_unit_test(an_idle_tenant_makes_room),
        cmocka_unit_test(all_places_taken_is_told_to_wait),
        cmocka_unit_test(the_end_leaves_no_cgroup),
    };
    return cmocka_run_group_tests_name("keeper", tests, open_all, close_all);
}
