/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_driver: a keeper and struct run under a unit test's thumb. The runner is
 * the test program itself: it is executed again under the runner's name, and
 * its main() then does what the test wants of a runner.
 *
 * Needs root and cgroup v1; without root the tests are skipped.
 */
#ifndef RUN_DRIVER_H
#define RUN_DRIVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <libcgroup.h>

#include "common/time.h"
#include "worker/run/run.h"

#define DRIVER_DEADLINE_US (60 * US_PER_S)

/* What came back for one job. */
struct answer {
    bool is_there;
    struct run_result result; /* its spans are of the two below */
    struct buf headers;
    struct buf body;
};

struct driver {
    struct loop loop;
    struct conf *conf;
    struct keeper keeper;
    struct run *run;        /* NULL: not root, to be skipped */
    struct answer *answers; /* by id */
    size_t answer_count;
    size_t done;
    bool is_dead;
    bool is_lease_lost; /* do not renew */
    char cgroup[64];
};

static void driver_on_done(void *owner, const struct run_result *result)
{
    struct driver *driver = owner;
    assert_true(result->id < driver->answer_count);
    struct answer *answer = &driver->answers[result->id];
    assert_false(answer->is_there);
    answer->is_there = true;
    answer->result = *result;
    buf_put_span(&answer->headers, result->headers);
    buf_put_span(&answer->body, result->body);
    driver->done++;
}

static void driver_on_dead(void *owner)
{
    struct driver *driver = owner;
    driver->is_dead = true;
}

static void driver_forget(struct driver *driver)
{
    for (size_t i = 0; i < driver->answer_count; i++) {
        buf_fini(&driver->answers[i].headers);
        buf_fini(&driver->answers[i].body);
    }
    free(driver->answers);
    driver->answers = NULL;
    driver->answer_count = 0;
    driver->done = 0;
}

/* Room for the answers of jobs 0 to count - 1. */
static void driver_expect(struct driver *driver, size_t count)
{
    if (driver->run == NULL) {
        skip();
    }
    driver_forget(driver);
    driver->answers = mem_zalloc(count, sizeof(*driver->answers));
    driver->answer_count = count;
    for (size_t i = 0; i < count; i++) {
        buf_init(&driver->answers[i].headers, 1 << 20);
        buf_init(&driver->answers[i].body, 4 << 20);
    }
}

static void driver_turn(struct driver *driver)
{
    if (!driver->is_lease_lost) {
        run_renewed(driver->run);
    }
    (void)uv_run(&driver->loop.uv, UV_RUN_ONCE); /* 100 ms at most */
}

/* Runs until all that was expected is there. */
static void driver_await(struct driver *driver)
{
    const int64_t end_us = now_mono_us() + DRIVER_DEADLINE_US;
    while (driver->done < driver->answer_count) {
        assert_true(now_mono_us() < end_us);
        driver_turn(driver);
    }
}

/* A name for a group that no other run of any test has. Not to be freed. */
static const char *driver_cgroup_name(void)
{
    static char name[64];
    (void)snprintf(name, sizeof(name), "actionist-unit-%d", (int)getpid());
    return name;
}

/* settings: pairs of name and value, NULL at the end. */
static void driver_open(struct driver *driver, const char *cgroup,
    const char *boot, const char *const *settings)
{
    struct err err = ERR_INIT;
    *driver = (struct driver){.run = NULL};
    if (geteuid() != 0) {
        return;
    }
    driver->conf = conf_new("test", RUN_SETTINGS, RUN_SETTINGS_COUNT);
    (void)snprintf(driver->cgroup, sizeof(driver->cgroup), "%s", cgroup);
    if (conf_set(driver->conf, "run.cgroup", driver->cgroup, &err) != 0 ||
        conf_set(driver->conf, "run.runner_path", "/proc/self/exe", &err) !=
            0) {
        fail_msg("%s", err.msg);
    }
    for (; settings[0] != NULL; settings += 2) {
        if (conf_set(driver->conf, settings[0], settings[1], &err) != 0) {
            fail_msg("%s", err.msg);
        }
    }
    if (keeper_start(driver->conf, boot, &driver->keeper, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    loop_init(&driver->loop, driver_on_dead, driver);
    driver->run = run_open(&driver->loop, driver->conf, &driver->keeper,
        driver_on_done, driver_on_dead, driver, &err);
    if (driver->run == NULL) {
        fail_msg("%s", err.msg);
    }
}

/* Is there still a cgroup of this test? */
static bool driver_has_cgroup(const struct driver *driver)
{
    static const char *const controllers[] = {"memory", "cpu", "pids"};
    bool has_any = false;
    assert_int_equal(cgroup_init(), 0);
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        char *mount = NULL;
        char path[512];
        assert_int_equal(
            cgroup_get_subsys_mount_point(controllers[i], &mount), 0);
        (void)snprintf(path, sizeof(path), "%s/%s", mount, driver->cgroup);
        free(mount);
        has_any = has_any || access(path, F_OK) == 0;
    }
    return has_any;
}

static void driver_close(struct driver *driver)
{
    if (driver->run != NULL) {
        driver_forget(driver);
        run_close(driver->run);
        loop_fini(&driver->loop);
        conf_free(driver->conf);
        driver->run = NULL;
    }
}

#endif
