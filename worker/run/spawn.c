/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/run/runner.h"

/* Above every number that a runner is born with. */
enum { FIRST_SPARE_FD = 10, FIRST_EXIT_CODE = 100 };

typedef int (*step_fn)(const struct spawn *spawn);

static int join_cgroup(const struct spawn *spawn)
{
    return cgroup_slot_join(spawn->slot);
}

static int reset_signals(const struct spawn *spawn)
{
    (void)spawn;
    for (int number = 1; number < SIGRTMIN; number++) {
        (void)signal(number, SIG_DFL); /* fails for the two that have none */
    }
    sigset_t none;
    (void)sigemptyset(&none);
    return setsid() < 0 ? -1 : sigprocmask(SIG_SETMASK, &none, NULL);
}

/* 0 is empty, 1 and 2 are the worker's standard error, 3 to 5 as in
 * runner.h; nothing else is left. */
static int number_files(const struct spawn *spawn)
{
    const int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int socket = fcntl(spawn->socket, F_DUPFD, FIRST_SPARE_FD);
    const int peak = fcntl(spawn->slot->peak, F_DUPFD, FIRST_SPARE_FD);
    const int program = fcntl(spawn->program, F_DUPFD, FIRST_SPARE_FD);
    if (empty < 0 || socket < 0 || peak < 0 || program < 0 ||
        dup2(empty, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
        dup2(socket, RUNNER_FD_SOCKET) < 0 ||
        dup2(peak, RUNNER_FD_MEMORY) < 0 ||
        dup3(program, RUNNER_FD_PROGRAM, O_CLOEXEC) < 0) {
        return -1;
    }
    return close_range(RUNNER_FD_PROGRAM + 1, ~0U, 0);
}

static int set_limit(__rlimit_resource_t resource, rlim_t value)
{
    const struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
    return setrlimit(resource, &limit);
}

/* Files cannot be opened for writing (filter.h), so none needs a limit but
 * the shared standard error, which must not stop at one. */
static int limit_resources(const struct spawn *spawn)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return -1;
    }
    const rlim_t wanted = spawn->max_files;
    return set_limit(RLIMIT_NOFILE,
               wanted < files.rlim_max ? wanted : files.rlim_max) == 0 &&
                   set_limit(RLIMIT_CORE, 0) == 0 &&
                   set_limit(RLIMIT_MEMLOCK, 0) == 0 &&
                   set_limit(RLIMIT_MSGQUEUE, 0) == 0
               ? 0
               : -1;
}

static int drop_bounding_set(const struct spawn *spawn)
{
    (void)spawn;
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
        if (prctl(PR_CAPBSET_READ, cap) == 1 &&
            prctl(PR_CAPBSET_DROP, cap) != 0) {
            return -1;
        }
    }
    return 0;
}

/* From root to another uid the kernel drops all capabilities. */
static int change_user(const struct spawn *spawn)
{
    return setgroups(0, NULL) == 0 &&
                   setresgid(spawn->uid, spawn->uid, spawn->uid) == 0 &&
                   setresuid(spawn->uid, spawn->uid, spawn->uid) == 0
               ? 0
               : -1;
}

static int give_up_privileges(const struct spawn *spawn)
{
    (void)spawn;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int execute(const struct spawn *spawn)
{
    static char name[] = "actionist-runner";
    static char locale[] = "LC_ALL=C.UTF-8";
    static char resolver[] = "RES_OPTIONS=timeout:2 attempts:2";
    char *const argv[] = {name, NULL};
    char *const envp[] = {locale, resolver, NULL};
    (void)spawn;
    return execveat(RUNNER_FD_PROGRAM, "", argv, envp, AT_EMPTY_PATH);
}

static const struct {
    const char *name;
    step_fn run;
} STEPS[] = {
    {"joining the cgroup", join_cgroup},
    {"resetting signals", reset_signals},
    {"numbering descriptors", number_files},
    {"limiting resources", limit_resources},
    {"dropping the bounding set", drop_bounding_set},
    {"changing the user", change_user},
    {"giving up privileges", give_up_privileges},
    {"executing actionist-runner", execute},
};

const char *spawn_step_name(int exit_code)
{
    const int step = exit_code - FIRST_EXIT_CODE;
    return step >= 0 && step < (int)ARRAY_LEN(STEPS) ? STEPS[step].name : NULL;
}

_Noreturn static void become_runner(const struct spawn *spawn, pid_t keeper)
{
    for (int i = 0; i < (int)ARRAY_LEN(STEPS); i++) {
        /* The death signal is cleared when the user changes, so it is set
         * anew before each step; the last look at the parent closes the gap
         * before the first. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper ||
            STEPS[i].run(spawn) != 0) {
            _exit(FIRST_EXIT_CODE + i);
        }
    }
    _exit(FIRST_EXIT_CODE); /* not reached: the last step does not return */
}

int spawn_runner(
    const struct spawn *spawn, pid_t *pid, int *pidfd, struct err *err)
{
    const pid_t keeper = getpid();
    const pid_t child = fork();
    if (child < 0) {
        return err_set_errno(
            err, ERR_TRANSIENT, "FORK_FAILED", "a runner cannot be forked");
    }
    if (child == 0) {
        become_runner(spawn, keeper);
    }
    *pid = child;
    *pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    if (*pidfd < 0) {
        /* Nobody would hear of its end. */
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        return err_set_errno(
            err, ERR_TRANSIENT, "FORK_FAILED", "a runner cannot be watched");
    }
    return 0;
}
