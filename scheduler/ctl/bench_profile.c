/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the processor time goes: perf samples every process while a load runs,
 * its stacks are folded (one line each: frames from the outermost, a count),
 * the form that flame graphs are drawn from. Frames are found by their frame
 * pointers, so the stacks of programs built without them end early; the frame
 * that ran is always right.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/ctl/bench.h"
#include "scheduler/ctl/dev_process.h"

enum {
    MAX_FRAMES = 48,
    MAX_LINE = 4096,
    MAX_TEXT_BYTES = 1 << 20,
    BEGIN_WAIT_MS = 30000,
    END_WAIT_MS = 30000
};
#define ENV "/usr/bin/env"

struct stacks {
    char **lines; /* each owned: one sample */
    size_t count;
    size_t cap;
};

/* One sample while it is read: perf names the innermost frame first. */
struct sample {
    char head[MAX_LINE];
    char frames[MAX_FRAMES][256];
    size_t frame_count;
    bool is_wanted;
};

/* -- perf ------------------------------------------------------------------------- */

static void make_words(char **argv, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        argv[i] = mem_strdup(words[i]);
}

static void free_words(char **argv)
{
    for (size_t i = 0; argv[i] != NULL; i++)
        free(argv[i]);
}

int bench_profile_check(const struct bench *bench, struct err *err)
{
    static const char *const words[] = {
        ENV, "perf", "record", "-a", "-q", "-o", "/dev/null", "--", "true"};
    char *argv[ARRAY_LEN(words) + 1] = {NULL};
    struct buf text;
    (void)bench;
    buf_init(&text, MAX_TEXT_BYTES);
    make_words(argv, words, ARRAY_LEN(words));
    const int code = dev_run(argv, &text, err);
    free_words(argv);
    buf_fini(&text);
    if (code == 0)
        return 0;
    if (code == 127)
        return err_set(err, ERR_PERMANENT, "NO_PERF",
            "--profile needs perf (Debian: linux-perf), which is not here");
    return err_set(err, ERR_PERMANENT, "NO_PERF",
        "--profile: perf may not sample here (exit code %d): it needs root or"
        " kernel.perf_event_paranoid = -1, and a kernel with perf events",
        code);
}

/* Both ends of a named pipe in one descriptor: neither open waits. */
static int open_pipe(const char *path, struct err *err)
{
    (void)unlink(path);
    const int fd = mkfifo(path, 0600) == 0
                       ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
                       : -1;
    if (fd < 0)
        (void)err_set_errno(err, ERR_PERMANENT, "PIPE", "%s", path);
    return fd;
}

/* perf needs a while to start; nothing may run before it samples. */
static int await_answer(int asks, int answers, struct err *err)
{
    static const char word[] = "enable\n";
    struct pollfd wait = {.fd = answers, .events = POLLIN};
    const ssize_t len = (ssize_t)sizeof word - 1;
    if (write(asks, word, sizeof word - 1) == len &&
        poll(&wait, 1, BEGIN_WAIT_MS) == 1)
        return 0;
    return err_set(
        err, ERR_TRANSIENT, "NO_PERF", "perf does not begin to sample");
}

static int start_perf(const struct bench *bench, const char *data,
    const char *control, struct err *err)
{
    char *log = dev_file(&bench->fleet, "log/perf.log");
    char *pid_file = dev_file(&bench->fleet, "perf.pid");
    const char *const words[] = {ENV, "perf", "record", "-a", "-g", "-q", "-F",
        "499", "-D", "-1", "--control", control, "-o", data};
    char *argv[ARRAY_LEN(words) + 1] = {NULL};
    make_words(argv, words, ARRAY_LEN(words));
    const int rc = dev_spawn(argv, bench->fleet.dir, log, pid_file, err);
    free_words(argv);
    free(log);
    free(pid_file);
    return rc;
}

int bench_profile_begin(const struct bench *bench, struct err *err)
{
    struct buf control;
    char *data = dev_file(&bench->fleet, "perf.data");
    char *asks = dev_file(&bench->fleet, "perf.ask");
    char *answers = dev_file(&bench->fleet, "perf.answer");
    const int ask_fd = open_pipe(asks, err);
    const int answer_fd = ask_fd >= 0 ? open_pipe(answers, err) : -1;
    int rc = -1;
    buf_init(&control, MAX_LINE);
    buf_printf(&control, "fifo:%s,%s", asks, answers);
    if (answer_fd >= 0)
        rc = start_perf(bench, data, buf_str(&control), err);
    if (rc == 0)
        rc = await_answer(ask_fd, answer_fd, err);
    if (ask_fd >= 0)
        close(ask_fd);
    if (answer_fd >= 0)
        close(answer_fd);
    buf_fini(&control);
    free(data);
    free(asks);
    free(answers);
    return rc;
}

/* perf's text as a stream; NULL: err says why. */
static FILE *open_script(const struct bench *bench, pid_t *pid, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        (void)err_set_errno(err, ERR_PERMANENT, "PIPE", "perf script");
        return NULL;
    }
    char *data = dev_file(&bench->fleet, "perf.data");
    const char *const words[] = {
        ENV, "perf", "script", "-i", data, "-F", "comm,pid,tid,ip,sym,dso"};
    char *argv[ARRAY_LEN(words) + 1] = {NULL};
    make_words(argv, words, ARRAY_LEN(words));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(
        &actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    errno = posix_spawn(pid, ENV, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    free_words(argv);
    free(data);
    close(ends[1]);
    if (errno != 0) {
        (void)err_set_errno(err, ERR_PERMANENT, "SPAWN", "perf script");
        close(ends[0]);
        return NULL;
    }
    return fdopen(ends[0], "re");
}

/* -- reading ------------------------------------------------------------------------ */

/* A frame may not hold what parts frames, nor the space before the count. */
static void put_frame(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++)
        buf_put_char(out, *text == ';' || *text == ' ' ? '_' : *text);
}

/* "comm pid/tid": the comm may hold spaces. */
static void begin_sample(struct sample *sample, const char *line,
    const struct bench_owners *owners, enum bench_kind kind)
{
    struct buf head;
    char comm[64];
    sample->frame_count = 0;
    const char *slash = strrchr(line, '/');
    const char *at = slash;
    while (at != NULL && at > line && at[-1] != ' ')
        at--;
    if (at == NULL || at == line) {
        sample->is_wanted = false;
        return;
    }
    size_t len = (size_t)(at - 1 - line);
    while (len > 0 && line[len - 1] == ' ')
        len--;
    len = len < sizeof comm - 1 ? len : sizeof comm - 1;
    memcpy(comm, line, len);
    comm[len] = '\0';
    const pid_t pid = (pid_t)strtol(at, NULL, 10);
    const enum bench_process process = bench_owners_find(owners, pid);
    sample->is_wanted = true;
    buf_init(&head, MAX_LINE - 1);
    buf_put_str(&head, bench_kind_name(kind));
    buf_put_char(&head, ';');
    if (pid == 0) {
        buf_put_str(&head, "idle");
    } else {
        buf_put_str(&head, process == BENCH_PROCESS_COUNT
                               ? "others"
                               : bench_process_name(process));
        buf_put_char(&head, ';');
        put_frame(&head, comm);
    }
    memcpy(sample->head, buf_str(&head), head.len + 1);
    buf_fini(&head);
}

/* "  address symbol (file)"; a symbol that is not known is told by its file. */
static void add_frame(struct sample *sample, char *line)
{
    char *at = line + strspn(line, " \t");
    at += strcspn(at, " ");
    at += strspn(at, " ");
    char *file = strrchr(at, '(');
    if (file == NULL || sample->frame_count == MAX_FRAMES)
        return;
    if (file > at)
        file[-1] = '\0';
    const char *name = at;
    if (strcmp(at, "[unknown]") == 0) {
        const char *slash = strrchr(file, '/');
        name = slash != NULL ? slash + 1 : file + 1;
        file[strcspn(file, ")")] = '\0';
    }
    char *frame = sample->frames[sample->frame_count++];
    const size_t size = sizeof sample->frames[0];
    const size_t len = strlen(name) < size - 1 ? strlen(name) : size - 1;
    memcpy(frame, name, len);
    frame[len] = '\0';
}

static void end_sample(struct sample *sample, struct stacks *stacks)
{
    struct buf line;
    size_t len = 0;
    if (!sample->is_wanted)
        return;
    sample->is_wanted = false;
    buf_init(&line, MAX_TEXT_BYTES);
    buf_put_str(&line, sample->head);
    for (size_t i = sample->frame_count; i > 0; i--) {
        buf_put_char(&line, ';');
        put_frame(&line, sample->frames[i - 1]);
    }
    if (stacks->count == stacks->cap) {
        stacks->cap = stacks->cap == 0 ? 1024 : 2 * stacks->cap;
        stacks->lines =
            mem_resize(stacks->lines, stacks->cap, sizeof *stacks->lines);
    }
    stacks->lines[stacks->count++] = buf_take(&line, &len);
}

static void read_stacks(FILE *script, const struct bench_owners *owners,
    enum bench_kind kind, struct stacks *stacks)
{
    static struct sample sample;
    char line[MAX_LINE];
    sample.is_wanted = false;
    while (fgets(line, sizeof line, script) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        line[strlen(line) > 0 && line[strlen(line) - 1] == ' '
                 ? strlen(line) - 1
                 : strlen(line)] = '\0';
        if (line[0] == '\0')
            end_sample(&sample, stacks);
        else if (line[0] == '\t')
            add_frame(&sample, line);
        else
            begin_sample(&sample, line, owners, kind);
    }
    end_sample(&sample, stacks);
}

/* -- writing ------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void write_stacks(FILE *out, struct stacks *stacks)
{
    size_t first = 0;
    if (stacks->count > 0)
        qsort(stacks->lines, stacks->count, sizeof *stacks->lines, compare);
    for (size_t i = 0; i < stacks->count; i++) {
        const bool is_last =
            i + 1 == stacks->count ||
            strcmp(stacks->lines[i], stacks->lines[i + 1]) != 0;
        if (is_last) {
            fprintf(out, "%s %zu\n", stacks->lines[i], i + 1 - first);
            first = i + 1;
        }
    }
    for (size_t i = 0; i < stacks->count; i++)
        free(stacks->lines[i]);
    free(stacks->lines);
}

int bench_profile_end(
    const struct bench *bench, enum bench_kind kind, struct err *err)
{
    struct stacks stacks = {.count = 0};
    pid_t pid = 0;
    int status = 0;
    struct bench_owners *owners = bench_owners_read(&bench->fleet);
    char *pid_file = dev_file(&bench->fleet, "perf.pid");
    dev_stop(pid_file, END_WAIT_MS);
    free(pid_file);
    FILE *script = open_script(bench, &pid, err);
    if (script != NULL) {
        read_stacks(script, owners, kind, &stacks);
        (void)fclose(script);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    bench_owners_free(owners);
    if (script == NULL)
        return -1;
    const bool is_empty = stacks.count == 0;
    write_stacks(bench->profile, &stacks);
    return is_empty ? err_set(err, ERR_PERMANENT, "NO_PERF",
                          "perf has sampled nothing (exit code %d)",
                          WEXITSTATUS(status))
                    : 0;
}
