/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/dev_process.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time.h"

#define LOOK_EVERY_MS 30
#define KILL_WAIT_MS 10000
#define HTTP_WAIT_MS 2000
#define LOG_TAIL_BYTES 4096
#define MAX_LOG_LINE 160
#define OWN_PREFIX "ACTIONIST_"

static volatile sig_atomic_t interrupts;

static void on_signal(int signal_number)
{
    (void)signal_number;
    interrupts = 1;
}

void dev_catch_interrupts(void)
{
    /* No SA_RESTART: a wait for a child ends too. */
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

bool dev_is_interrupted(void)
{
    return interrupts != 0;
}

static void pause_ms(int wait_ms)
{
    (void)poll(NULL, 0, wait_ms);
}

/* -- running to the end ----------------------------------------------------- */

static void read_all(int fd, struct buf *out)
{
    char chunk[4096];
    ssize_t len;
    while ((len = read(fd, chunk, sizeof chunk)) != 0) {
        if (len > 0)
            buf_put(out, chunk, (size_t)len);
        else if (errno != EINTR || dev_is_interrupted())
            return;
    }
}

static int wait_for_end(pid_t pid)
{
    int status = 0;
    bool is_told = false;
    pid_t ended = 0;
    while (ended != pid) {
        if (!is_told && dev_is_interrupted()) {
            (void)kill(pid, SIGTERM);
            is_told = true;
        }
        ended = waitpid(pid, &status, 0);
        if (ended < 0 && errno != EINTR)
            return -1;
    }
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}

int dev_run(char *const argv[], struct buf *out, struct err *err)
{
    int ends[2];
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set_errno(err, ERR_PERMANENT, "PIPE", "%s", argv[0]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    /* A group of its own, so that Ctrl-C reaches it once, through us: a second
     * signal would break off the undoing that the first began. */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int failure =
        posix_spawn(&pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failure != 0) {
        errno = failure;
        (void)err_set_errno(err, ERR_PERMANENT, "SPAWN", "%s", argv[0]);
        close(ends[0]);
        return -1;
    }
    read_all(ends[0], out);
    close(ends[0]);
    return wait_for_end(pid);
}

/* -- daemons ------------------------------------------------------------------ */

/* The kernel's start time of a living pid, else 0. */
static unsigned long long start_time(pid_t pid)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = '\0';
    /* Field 3 is the state; the name before it may hold anything. */
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] == '\0' || strchr("ZX", at[2]) != NULL)
        return 0;
    at += 2;
    for (int field = 3; field < 22 && at != NULL; field++) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static int write_pid_file(const char *pid_file, pid_t pid, struct err *err)
{
    FILE *file = fopen(pid_file, "we");
    if (file == NULL)
        return err_set_errno(err, ERR_PERMANENT, "FILE", "%s", pid_file);
    fprintf(file, "%d %llu\n", (int)pid, start_time(pid));
    if (fclose(file) != 0)
        return err_set_errno(err, ERR_PERMANENT, "FILE", "%s", pid_file);
    return 0;
}

/* Our environment without ACTIONIST_*; the caller frees the array alone. */
static char **clean_environment(void)
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **clean = mem_zalloc(count + 1, sizeof *clean);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], OWN_PREFIX, strlen(OWN_PREFIX)) != 0)
            clean[kept++] = environ[i];
    return clean;
}

int dev_spawn(char *const argv[], const char *dir, const char *log,
    const char *pid_file, struct err *err)
{
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **clean = clean_environment();
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    posix_spawn_file_actions_addopen(
        &actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(
        &actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&actions, dir);
    int failure =
        posix_spawn(&pid, argv[0], &actions, &attributes, argv, clean);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(clean);
    errno = failure;
    if (failure != 0)
        return err_set_errno(err, ERR_PERMANENT, "SPAWN", "%s", argv[0]);
    return write_pid_file(pid_file, pid, err);
}

pid_t dev_pid(const char *pid_file)
{
    char text[64] = "";
    FILE *file = fopen(pid_file, "re");
    if (file == NULL)
        return 0;
    bool is_read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    if (!is_read)
        return 0;
    char *rest = NULL;
    long pid = strtol(text, &rest, 10);
    unsigned long long born = strtoull(rest, NULL, 10);
    if (pid <= 1 || born == 0 || start_time((pid_t)pid) != born)
        return 0;
    return (pid_t)pid;
}

static bool wait_until_gone(const char *pid_file, int wait_ms)
{
    int64_t deadline_us = now_mono_us() + wait_ms * US_PER_MS;
    while (dev_pid(pid_file) != 0) {
        if (now_mono_us() > deadline_us)
            return false;
        pause_ms(LOOK_EVERY_MS);
    }
    return true;
}

void dev_stop(const char *pid_file, int wait_ms)
{
    pid_t pid = dev_pid(pid_file);
    if (pid != 0) {
        (void)kill(pid, SIGCONT); /* it may have been stopped by hand */
        (void)kill(pid, SIGTERM);
        if (!wait_until_gone(pid_file, wait_ms)) {
            (void)kill(pid, SIGKILL);
            (void)wait_until_gone(pid_file, KILL_WAIT_MS);
        }
    }
    (void)unlink(pid_file);
}

/* -- readiness ------------------------------------------------------------------ */

static size_t drop_body(char *bytes, size_t size, size_t count, void *arg)
{
    (void)bytes;
    (void)arg;
    return size * count;
}

static bool answers_200(const char *url)
{
    long status = 0;
    CURL *curl = curl_easy_init();
    if (curl == NULL)
        return false;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)HTTP_WAIT_MS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    return status == 200;
}

/* The last line of a log, within size bytes; "" when there is none. */
static void last_line(const char *log, char *line, size_t size)
{
    char tail[LOG_TAIL_BYTES + 1];
    line[0] = '\0';
    FILE *file = fopen(log, "re");
    if (file == NULL)
        return;
    if (fseek(file, -LOG_TAIL_BYTES, SEEK_END) != 0)
        rewind(file);
    size_t len = fread(tail, 1, LOG_TAIL_BYTES, file);
    fclose(file);
    while (len > 0 && isspace((unsigned char)tail[len - 1]))
        len--;
    tail[len] = '\0';
    const char *at = strrchr(tail, '\n');
    at = at != NULL ? at + 1 : tail;
    size_t take = strlen(at);
    if (take >= size)
        take = size - 1;
    memcpy(line, at, take);
    line[take] = '\0';
}

static int fail_ready(const char *what, const char *log, struct err *err)
{
    char line[MAX_LOG_LINE];
    last_line(log, line, sizeof line);
    return err_set(err, ERR_PERMANENT, "NOT_READY", "%s%s%s", what,
        line[0] != '\0' ? "; its log ends with: " : "", line);
}

int dev_wait_ready(const char *url, const char *pid_file, const char *log,
    int wait_ms, struct err *err)
{
    int64_t deadline_us = now_mono_us() + wait_ms * US_PER_MS;
    while (!answers_200(url)) {
        if (dev_is_interrupted())
            return err_set(err, ERR_PERMANENT, "INTERRUPTED", "interrupted");
        if (dev_pid(pid_file) == 0)
            return fail_ready("ended at once", log, err);
        if (now_mono_us() > deadline_us)
            return fail_ready("is not ready in time", log, err);
        pause_ms(LOOK_EVERY_MS);
    }
    return 0;
}
