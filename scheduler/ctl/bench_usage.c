/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time and memory of a fleet's processes, as the kernel counts. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/time.h"
#include "scheduler/ctl/bench.h"
#include "scheduler/ctl/dev_process.h"

enum { MAX_PROCESSES = 4096, MAX_DEPTH = 16 };

static const char *const NAMES[BENCH_PROCESS_COUNT] = {
    [BENCH_WORKER] = "worker",
    [BENCH_KEEPER] = "keeper",
    [BENCH_RUNNER] = "runner",
    [BENCH_SCHEDULER] = "scheduler",
    [BENCH_POSTGRES] = "postgres",
    [BENCH_KAFKA] = "kafka",
    [BENCH_DOUBLE] = "double",
    [BENCH_LOAD] = "load",
};

/* The pid files of those that have one. */
static const struct {
    enum bench_process process;
    const char *pid_file;
} ROOTS[] = {
    {BENCH_WORKER, "worker.pid"},
    {BENCH_SCHEDULER, "scheduler.pid"},
    {BENCH_POSTGRES, "postgres.pid"},
    {BENCH_KAFKA, "kafka-1.pid"},
    {BENCH_DOUBLE, "provider-double.pid"},
};

const char *bench_process_name(enum bench_process process)
{
    return NAMES[process];
}

static pid_t root_pid(const struct dev_fleet *fleet, const char *name)
{
    char *path = dev_file(fleet, name);
    const pid_t pid = dev_pid(path);
    free(path);
    return pid;
}

/* -- the table of processes --------------------------------------------------- */

struct process {
    pid_t pid;
    pid_t parent;
    int64_t ticks; /* its own and that of its ended children */
};

static bool read_process(const char *name, struct process *process)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = '\0';
    /* After the name: state, parent (field 4), ..., utime, stime, cutime and
     * cstime (14 to 17). */
    char *at = strrchr(text, ')');
    if (at == NULL || strlen(at) < 4)
        return false;
    at += 3;
    process->pid = (pid_t)strtol(name, NULL, 10);
    process->parent = (pid_t)strtol(at, &at, 10);
    process->ticks = 0;
    for (int field = 5; field <= 17; field++) {
        const int64_t value = strtoll(at, &at, 10);
        if (field >= 14)
            process->ticks += value;
    }
    return true;
}

static size_t read_all(struct process *all)
{
    size_t count = 0;
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return 0;
    const struct dirent *entry;
    while (count < MAX_PROCESSES && (entry = readdir(proc)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_process(entry->d_name, &all[count]))
            count++;
    closedir(proc);
    return count;
}

static pid_t parent_of(const struct process *all, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].pid == pid)
            return all[i].parent;
    return 0;
}

/* Below the worker stands the keeper, below that the runners. */
static enum bench_process name_child(enum bench_process root, int depth)
{
    if (root != BENCH_WORKER || depth == 0)
        return root;
    return depth == 1 ? BENCH_KEEPER : BENCH_RUNNER;
}

static enum bench_process classify(
    const struct process *all, size_t count, const pid_t *roots, pid_t pid)
{
    pid_t at = pid;
    for (int depth = 0; depth < MAX_DEPTH && at > 1; depth++) {
        for (size_t i = 0; i < ARRAY_LEN(ROOTS); i++)
            if (roots[i] == at)
                return name_child(ROOTS[i].process, depth);
        at = parent_of(all, count, at);
    }
    return pid == getpid() ? BENCH_LOAD : BENCH_PROCESS_COUNT;
}

struct bench_owners {
    pid_t roots[ARRAY_LEN(ROOTS)];
    size_t count;
    struct process all[MAX_PROCESSES];
};

struct bench_owners *bench_owners_read(const struct dev_fleet *fleet)
{
    struct bench_owners *owners = mem_zalloc(1, sizeof *owners);
    for (size_t i = 0; i < ARRAY_LEN(ROOTS); i++)
        owners->roots[i] = root_pid(fleet, ROOTS[i].pid_file);
    owners->count = read_all(owners->all);
    return owners;
}

enum bench_process bench_owners_find(
    const struct bench_owners *owners, pid_t pid)
{
    return classify(owners->all, owners->count, owners->roots, pid);
}

void bench_owners_free(struct bench_owners *owners)
{
    free(owners);
}

void bench_usage_read(const struct dev_fleet *fleet, struct bench_usage *usage)
{
    const int64_t tick_us = US_PER_S / sysconf(_SC_CLK_TCK);
    struct bench_owners *owners = bench_owners_read(fleet);
    *usage = (struct bench_usage){{0}};
    for (size_t i = 0; i < owners->count; i++) {
        const struct process *process = &owners->all[i];
        const enum bench_process whose =
            bench_owners_find(owners, process->pid);
        if (whose != BENCH_PROCESS_COUNT)
            usage->cpu_us[whose] += process->ticks * tick_us;
    }
    bench_owners_free(owners);
}

/* -- memory --------------------------------------------------------------------- */

static FILE *open_worker_file(
    const struct dev_fleet *fleet, const char *name, const char *mode)
{
    char path[64];
    const pid_t pid = root_pid(fleet, "worker.pid");
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return pid > 0 ? fopen(path, mode) : NULL;
}

void bench_peak_reset(const struct dev_fleet *fleet)
{
    FILE *file = open_worker_file(fleet, "clear_refs", "we");
    if (file == NULL)
        return;
    (void)fputs("5", file); /* proc(5): the peak, not the references */
    (void)fclose(file);
}

double bench_peak_mib(const struct dev_fleet *fleet)
{
    char line[256];
    double mib = 0;
    FILE *file = open_worker_file(fleet, "status", "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            mib = strtod(line + 6, NULL) / 1024.0;
    fclose(file);
    return mib;
}
