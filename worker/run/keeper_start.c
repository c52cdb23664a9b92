/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side of the keeper's birth, and the settings of this folder. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/run/frame.h"
#include "worker/run/keeper.h"
#include "worker/run/run.h"

enum { READY_MS = 60000, SPARE_FILES = 64 };

const struct conf_setting RUN_SETTINGS[] = {
    {"run.cgroup", CONF_TEXT, "actionist", 0, 0,
        "cgroup below which the runners' groups are made"},
    {"run.memory_mb", CONF_INT, "512", 16, 1 << 20, "memory limit of a runner"},
    {"run.cpu_percent", CONF_INT, "100", 0, 100000,
        "processor limit of a runner, of one core; 0: none"},
    {"run.pids", CONF_INT, "64", 8, 32768,
        "limit of processes and threads of a runner"},
    {"run.uid_base", CONF_INT, "61000", 1000, INT64_C(2000000000),
        "first user id for runners; each worker takes a free block of 64, from "
        "a multiple of 64 on"},
    {"run.max_runners", CONF_INT, "64", 1, KEEPER_MAX_SLOTS,
        "tenants that run at the same time"},
    {"run.max_calls_per_tenant", CONF_INT, "1000", 1, FRAME_MAX_CALLS,
        "calls that a tenant runs at the same time in this worker"},
    {"run.idle_s", CONF_INT, "60", 1, 86400,
        "a runner ends when it had nothing to do for so long"},
    {"run.connect_timeout_ms", CONF_INT, "10000", 1, 3600000,
        "time for one connection, TLS included"},
    {"run.ca_file", CONF_PATH, "", 0, 0,
        "certificates to trust instead of the system's; PEM, readable by all"},
    {"run.runner_path", CONF_TEXT, "", 0, 0,
        "the program actionist-runner; empty: beside actionist-worker"},
    {"egress.private_allow", CONF_TEXT, "", 0, 0,
        "private addresses or blocks, with an optional port, that calls may "
        "reach: 127.0.0.1:8080, 10.1.0.0/16, [fd00::1]:443"},
    {"worker.user", CONF_TEXT, "", 0, 0,
        "user to become once the keeper runs; empty: stay, without "
        "capabilities"},
};
const size_t RUN_SETTINGS_COUNT = ARRAY_LEN(RUN_SETTINGS);

/* -- before the fork -------------------------------------------------------------- */

static int find_program(const struct conf *conf, char *path, struct err *err)
{
    const char *given = conf_text(conf, "run.runner_path");
    if (given[0] != '\0') {
        (void)snprintf(path, PATH_MAX, "%s", given);
        return 0;
    }
    char self[PATH_MAX - 32];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (len < 0) {
        return err_set_errno(
            err, ERR_FATAL, "NO_RUNNER", "/proc/self/exe cannot be read");
    }
    self[len] = '\0';
    (void)snprintf(path, PATH_MAX, "%s/actionist-runner", dirname(self));
    return 0;
}

static int fill_options(const struct conf *conf, const char *boot,
    struct keeper_options *options, struct err *err)
{
    const char *parent = conf_text(conf, "run.cgroup");
    if (strlen(parent) >= sizeof(options->parent) ||
        strlen(boot) >= sizeof(options->boot)) {
        return err_set(err, ERR_FATAL, "BAD_SETTING", "run.cgroup is too long");
    }
    (void)snprintf(options->parent, sizeof(options->parent), "%s", parent);
    (void)snprintf(options->boot, sizeof(options->boot), "%s", boot);
    options->limits = (struct cgroup_limits){
        .memory_bytes = conf_int(conf, "run.memory_mb") << 20,
        .cpu_percent = conf_int(conf, "run.cpu_percent"),
        .pids = conf_int(conf, "run.pids"),
    };
    options->uid_base = (unsigned)conf_int(conf, "run.uid_base");
    /* One connection a call, as many idle ones. */
    options->max_files =
        2 * (unsigned)conf_int(conf, "run.max_calls_per_tenant") + SPARE_FILES;
    char path[PATH_MAX];
    if (find_program(conf, path, err) != 0) {
        return -1;
    }
    options->program = open(path, O_PATH | O_CLOEXEC);
    if (options->program < 0) {
        return err_set_errno(err, ERR_FATAL, "NO_RUNNER",
            "the program %.120s cannot be opened (run.runner_path)", path);
    }
    return 0;
}

/* -- after the fork --------------------------------------------------------------- */

static int await_ready(int socket, struct err *err)
{
    struct pollfd watched = {.fd = socket, .events = POLLIN};
    int count = 0;
    do {
        count = poll(&watched, 1, READY_MS);
    } while (count < 0 && errno == EINTR);
    struct keeper_message message = {.kind = 0};
    const ssize_t got =
        count > 0 ? recv(socket, &message, sizeof(message), 0) : 0;
    if (got != (ssize_t)sizeof(message)) {
        return err_set(err, ERR_FATAL, "KEEPER_FAILED",
            "the keeper ended or hung before it was ready");
    }
    message.text[sizeof(message.text) - 1] = '\0';
    if (message.kind != KEEPER_READY) {
        return err_set(err, ERR_FATAL, "KEEPER_FAILED", "%s", message.text);
    }
    return 0;
}

static int drop_privileges(const char *user, struct err *err)
{
    if (geteuid() == 0 && user[0] != '\0') {
        errno = 0;
        const struct passwd *entry = getpwnam(user);
        if (entry == NULL) {
            return err_set_errno(err, ERR_FATAL, "BAD_SETTING",
                "worker.user: there is no user '%.80s'", user);
        }
        if (initgroups(user, entry->pw_gid) != 0 ||
            setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) != 0 ||
            setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) != 0) {
            return err_set_errno(err, ERR_FATAL, "BAD_SETTING",
                "worker.user: cannot become '%.80s'", user);
        }
    }
    if (keeper_keep_capabilities(NULL, 0) != 0) {
        return err_set_errno(err, ERR_FATAL, "CAPABILITIES",
            "the worker cannot drop its capabilities");
    }
    return 0;
}

int keeper_start(const struct conf *conf, const char *boot_id_text,
    struct keeper *keeper, struct err *err)
{
    struct keeper_options options = {.program = -1};
    int pair[2] = {-1, -1};
    int rc = -1;
    *keeper = (struct keeper){.socket = -1};
    if (fill_options(conf, boot_id_text, &options, err) != 0) {
        goto out;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        (void)err_set_errno(
            err, ERR_FATAL, "KEEPER_FAILED", "no socket for the keeper");
        goto out;
    }
    options.socket = pair[1];
    keeper->pid = fork();
    if (keeper->pid == 0) {
        (void)close(pair[0]);
        keeper_main(&options);
    }
    if (keeper->pid < 0) {
        (void)err_set_errno(
            err, ERR_FATAL, "KEEPER_FAILED", "the keeper cannot be forked");
        goto out;
    }
    (void)close(pair[1]);
    pair[1] = -1;
    if (await_ready(pair[0], err) != 0 ||
        drop_privileges(conf_text(conf, "worker.user"), err) != 0) {
        goto out;
    }
    keeper->socket = pair[0];
    pair[0] = -1;
    rc = 0;
out:
    for (size_t i = 0; i < ARRAY_LEN(pair); i++) {
        if (pair[i] >= 0) {
            (void)close(pair[i]); /* ends a keeper that runs */
        }
    }
    if (options.program >= 0) {
        (void)close(options.program);
    }
    if (rc != 0 && keeper->pid > 0) {
        (void)waitpid(keeper->pid, NULL, 0);
        keeper->pid = 0;
    }
    return rc;
}
