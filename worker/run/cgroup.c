/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libcgroup.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/log.h"

enum { MEMORY, CPU, PIDS };
enum { CPU_PERIOD_US = 100000, REMOVE_TRIES = 200, REMOVE_WAIT_US = 10000 };
#define PATH_SIZE ((size_t)3 * CGROUP_NAME_SIZE)

static const char *const CONTROLLERS[CGROUP_CONTROLLERS] = {
    [MEMORY] = "memory", [CPU] = "cpu", [PIDS] = "pids"};

/* -- paths ------------------------------------------------------------------------ */

static void make_path(char *path, const struct cgroup_tree *tree,
    int controller, const char *name, const char *file)
{
    (void)snprintf(
        path, PATH_SIZE, "%s/%s/%s", tree->mounts[controller], name, file);
}

static int open_file(const struct cgroup_tree *tree, int controller,
    const char *name, const char *file, int flags)
{
    char path[PATH_SIZE];
    make_path(path, tree, controller, name, file);
    return open(path, flags | O_CLOEXEC);
}

/* -- the hierarchies -------------------------------------------------------------- */

static int find_mount(struct cgroup_tree *tree, int controller, struct err *err)
{
    const char *name = CONTROLLERS[controller];
    char *mount = NULL;
    struct statfs fs;
    if (cgroup_get_subsys_mount_point(name, &mount) != 0) {
        return err_set(err, ERR_FATAL, "CGROUP_MISSING",
            "no cgroup hierarchy has the controller '%s'; mount it: mount -t "
            "cgroup -o %s none /sys/fs/cgroup/%s",
            name, name, name);
    }
    const bool is_v1 =
        statfs(mount, &fs) == 0 && fs.f_type == CGROUP_SUPER_MAGIC;
    const bool fits = strlen(mount) < CGROUP_NAME_SIZE;
    (void)snprintf(tree->mounts[controller], CGROUP_NAME_SIZE, "%s", mount);
    free(mount);
    if (!fits) {
        return err_set(err, ERR_FATAL, "CGROUP_MISSING",
            "the mount point of the controller '%s' has too long a name", name);
    }
    if (!is_v1) {
        return err_set(err, ERR_FATAL, "CGROUP_VERSION",
            "the cgroup controller '%s' is on version 2, but memory, cpu and "
            "pids are needed on version 1: boot with "
            "systemd.unified_cgroup_hierarchy=0",
            name);
    }
    return 0;
}

static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && name[0] != '/' &&
           strstr(name, "..") == NULL &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789._-/") == strlen(name);
}

int cgroup_tree_open(struct cgroup_tree *tree, const char *parent,
    const char *boot, struct err *err)
{
    *tree = (struct cgroup_tree){.parent = ""};
    if (!is_plain_name(parent) || strlen(parent) >= sizeof(tree->parent) ||
        !is_plain_name(boot) || strlen(boot) >= sizeof(tree->parent)) {
        return err_set(err, ERR_FATAL, "BAD_SETTING",
            "run.cgroup: '%.80s' is not a relative path of plain names",
            parent);
    }
    (void)snprintf(tree->parent, sizeof(tree->parent), "%s", parent);
    (void)snprintf(tree->boot, sizeof(tree->boot), "%s/%s", parent, boot);
    const int rc = cgroup_init();
    if (rc != 0) {
        return err_set(err, ERR_FATAL, "CGROUP_MISSING",
            "cgroups cannot be used: %s; mount memory, cpu and pids as mount "
            "-t cgroup -o memory none /sys/fs/cgroup/memory does",
            cgroup_strerror(rc));
    }
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (find_mount(tree, i, err) != 0) {
            return -1;
        }
    }
    return 0;
}

/* -- making ----------------------------------------------------------------------- */

static bool has_swap_limit(const struct cgroup_tree *tree)
{
    char path[PATH_SIZE];
    make_path(path, tree, MEMORY, tree->boot, "memory.memsw.limit_in_bytes");
    return access(path, W_OK) == 0;
}

/* Values are written in this order: memory before memory and swap. */
static int add_limits(const struct cgroup_tree *tree,
    struct cgroup_controller **controllers, const struct cgroup_limits *limits)
{
    int rc = cgroup_add_value_int64(
        controllers[MEMORY], "memory.limit_in_bytes", limits->memory_bytes);
    if (rc == 0 && has_swap_limit(tree)) {
        rc = cgroup_add_value_int64(controllers[MEMORY],
            "memory.memsw.limit_in_bytes", limits->memory_bytes);
    }
    if (rc == 0 && limits->cpu_percent > 0) {
        rc = cgroup_add_value_int64(
            controllers[CPU], "cpu.cfs_period_us", CPU_PERIOD_US);
    }
    if (rc == 0 && limits->cpu_percent > 0) {
        rc = cgroup_add_value_int64(controllers[CPU], "cpu.cfs_quota_us",
            limits->cpu_percent * CPU_PERIOD_US / 100);
    }
    if (rc == 0) {
        rc =
            cgroup_add_value_int64(controllers[PIDS], "pids.max", limits->pids);
    }
    return rc;
}

/* libcgroup's own words; for "other" errors those of the system. */
static const char *why(int rc)
{
    return rc == ECGOTHER ? strerror(cgroup_get_last_errno())
                          : cgroup_strerror(rc);
}

/* limits NULL: a group without. */
static int make_group(const struct cgroup_tree *tree, const char *name,
    const struct cgroup_limits *limits, struct err *err)
{
    struct cgroup *group = cgroup_new_cgroup(name);
    struct cgroup_controller *controllers[CGROUP_CONTROLLERS] = {NULL};
    bool is_complete = group != NULL;
    for (int i = 0; i < CGROUP_CONTROLLERS && is_complete; i++) {
        controllers[i] = cgroup_add_controller(group, CONTROLLERS[i]);
        is_complete = controllers[i] != NULL;
    }
    if (!is_complete) {
        abort(); /* out of memory */
    }
    int rc = limits == NULL ? 0 : add_limits(tree, controllers, limits);
    if (rc == 0) {
        rc = cgroup_create_cgroup(group, 1);
    }
    if (rc != 0) {
        (void)err_set(err, ERR_TRANSIENT, "CGROUP_FAILED",
            "the cgroup %s cannot be made with its limits: %s (memory, cpu "
            "and pids must be writable, which takes root)",
            name, why(rc));
    }
    cgroup_free(&group);
    return rc == 0 ? 0 : -1;
}

/* -- slots ------------------------------------------------------------------------ */

static int64_t read_oom_kills(const struct cgroup_slot *slot)
{
    char text[256];
    const ssize_t got = pread(slot->oom, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    const char *at = strstr(text, "oom_kill ");
    if (at == NULL) {
        return slot->oom_kills;
    }
    at += strlen("oom_kill ");
    int64_t value = slot->oom_kills;
    (void)span_to_int((struct span){at, strcspn(at, "\n")}, &value);
    return value;
}

void cgroup_slot_init(struct cgroup_slot *slot)
{
    *slot = (struct cgroup_slot){.peak = -1, .oom = -1};
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        slot->tasks[i] = -1;
    }
}

static int open_files(struct cgroup_slot *slot, const struct cgroup_tree *tree)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        slot->tasks[i] = open_file(tree, i, slot->name, "tasks", O_WRONLY);
        if (slot->tasks[i] < 0) {
            return -1;
        }
    }
    slot->peak = open_file(
        tree, MEMORY, slot->name, "memory.max_usage_in_bytes", O_RDONLY);
    slot->oom =
        open_file(tree, MEMORY, slot->name, "memory.oom_control", O_RDONLY);
    return slot->peak < 0 || slot->oom < 0 ? -1 : 0;
}

/* The peak counts anew for each process. */
static void reset_peak(
    const struct cgroup_slot *slot, const struct cgroup_tree *tree)
{
    const int fd = open_file(
        tree, MEMORY, slot->name, "memory.max_usage_in_bytes", O_WRONLY);
    if (fd >= 0) {
        (void)!write(fd, "0", 1); /* a peak that is too high is no harm */
        (void)close(fd);
    }
}

int cgroup_slot_open(struct cgroup_slot *slot, const struct cgroup_tree *tree,
    unsigned number, const struct cgroup_limits *limits, struct err *err)
{
    if (slot->oom >= 0) {
        reset_peak(slot, tree);
        return 0;
    }
    (void)snprintf(
        slot->name, sizeof(slot->name), "%s/http/%u", tree->boot, number);
    if (make_group(tree, slot->name, limits, err) != 0) {
        return -1;
    }
    if (open_files(slot, tree) != 0) {
        (void)err_set_errno(err, ERR_TRANSIENT, "CGROUP_FAILED",
            "the files of cgroup %s cannot be opened", slot->name);
        cgroup_slot_close(slot);
        return -1;
    }
    slot->oom_kills = read_oom_kills(slot);
    return 0;
}

bool cgroup_slot_take_oom(struct cgroup_slot *slot)
{
    const int64_t before = slot->oom_kills;
    slot->oom_kills = read_oom_kills(slot);
    return slot->oom_kills > before;
}

void cgroup_slot_close(struct cgroup_slot *slot)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (slot->tasks[i] >= 0) {
            (void)close(slot->tasks[i]);
        }
    }
    if (slot->peak >= 0) {
        (void)close(slot->peak);
    }
    if (slot->oom >= 0) {
        (void)close(slot->oom);
    }
    cgroup_slot_init(slot);
}

int cgroup_slot_join(const struct cgroup_slot *slot)
{
    /* "0" into tasks moves the writer and skips the kernel's global lock,
     * which can cost 10 ms on an idle machine. */
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (write(slot->tasks[i], "0", 1) != 1) {
            return -1;
        }
    }
    return 0;
}

/* -- removing --------------------------------------------------------------------- */

/* Kills the processes of a group. True if there were any. */
static bool kill_members(
    const struct cgroup_tree *tree, int controller, const char *name)
{
    char path[PATH_SIZE];
    make_path(path, tree, controller, name, "cgroup.procs");
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    char line[32];
    bool has_any = false;
    while (fgets(line, sizeof(line), file) != NULL) {
        int64_t pid = 0;
        if (span_to_int((struct span){line, strcspn(line, "\n")}, &pid) &&
            pid > 1 && pid <= INT32_MAX) {
            has_any = true;
            (void)kill((pid_t)pid, SIGKILL);
        }
    }
    (void)fclose(file);
    return has_any;
}

static bool has_members(
    const struct cgroup_tree *tree, int controller, const char *name)
{
    char text[8];
    const int fd = open_file(tree, controller, name, "cgroup.procs", O_RDONLY);
    const ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text));
    if (fd >= 0) {
        (void)close(fd);
    }
    return got > 0;
}

/* Calls fn for each group right below name. */
typedef void (*group_fn)(
    const struct cgroup_tree *tree, int controller, const char *name);

static void each_below(const struct cgroup_tree *tree, int controller,
    const char *name, group_fn fn)
{
    char path[PATH_SIZE];
    make_path(path, tree, controller, name, "");
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL;
         entry = readdir(dir)) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.') {
            continue;
        }
        struct buf below;
        buf_init(&below, PATH_SIZE);
        buf_printf(&below, "%s/%s", name, entry->d_name);
        if (!below.is_overflowed) {
            fn(tree, controller, buf_str(&below));
        }
        buf_fini(&below);
    }
    (void)closedir(dir);
}

/* A group empties a moment after its last process was killed. */
static void remove_group(
    const struct cgroup_tree *tree, int controller, const char *name)
{
    char path[PATH_SIZE];
    make_path(path, tree, controller, name, "");
    for (int i = 0; i < REMOVE_TRIES; i++) {
        if (rmdir(path) == 0 || errno != EBUSY) {
            return;
        }
        (void)kill_members(tree, controller, name);
        (void)usleep(REMOVE_WAIT_US);
    }
    LOG(WARN, "cgroup_stays", NULL, "cgroup %s cannot be removed", path);
}

static void remove_kind(
    const struct cgroup_tree *tree, int controller, const char *name)
{
    each_below(tree, controller, name, remove_group);
    remove_group(tree, controller, name);
}

static void remove_boot(
    const struct cgroup_tree *tree, int controller, const char *name)
{
    each_below(tree, controller, name, remove_kind);
    remove_group(tree, controller, name);
}

/* Its keeper is gone. Its runners died with it. */
static void remove_dead_boot(
    const struct cgroup_tree *tree, int controller, const char *name)
{
    if (strcmp(name, tree->boot) != 0 && !has_members(tree, controller, name)) {
        remove_boot(tree, controller, name);
    }
}

static int join_boot(const struct cgroup_tree *tree)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        const int fd = open_file(tree, i, tree->boot, "tasks", O_WRONLY);
        const ssize_t put = fd < 0 ? -1 : write(fd, "0", 1);
        if (fd >= 0) {
            (void)close(fd);
        }
        if (put != 1) {
            return -1;
        }
    }
    return 0;
}

int cgroup_tree_enter(struct cgroup_tree *tree, struct err *err)
{
    /* Another keeper that starts may take the empty group for a left-over
     * and remove it, or its parent, before we are in: then once more. */
    enum { TRIES = 5 };
    int rc = -1;
    for (int i = 0; i < TRIES && rc != 0; i++) {
        rc = make_group(tree, tree->boot, NULL, err);
        if (rc == 0 && join_boot(tree) != 0) {
            rc = err_set_errno(err, ERR_TRANSIENT, "CGROUP_FAILED",
                "the cgroup %s cannot be joined", tree->boot);
        }
    }
    if (rc != 0) {
        err->class = ERR_FATAL;
        return -1;
    }
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        each_below(tree, i, tree->parent, remove_dead_boot);
    }
    return 0;
}

/* Back to the top, so that the own group can be removed. */
static void leave_boot(const struct cgroup_tree *tree)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        const int fd = open_file(tree, i, ".", "tasks", O_WRONLY);
        if (fd >= 0) {
            (void)!write(fd, "0", 1); /* remove_group() will tell */
            (void)close(fd);
        }
    }
}

void cgroup_tree_remove(const struct cgroup_tree *tree)
{
    leave_boot(tree);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (!has_members(tree, i, tree->boot)) {
            remove_boot(tree, i, tree->boot);
        }
        /* Not empty while other workers of this machine use it. */
        char path[PATH_SIZE];
        make_path(path, tree, i, tree->parent, "");
        (void)rmdir(path);
    }
}
