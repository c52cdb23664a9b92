/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with the machine that the command runs on. */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/zone.h"
#include "scheduler/ctl/doctor.h"

enum { ENOUGH_FILES = 4096, USERS_A_WORKER = 64, LINE = 1024 };

/* Where a version 1 hierarchy with a controller is mounted; false: nowhere. */
static bool find_mount(const char *controller, char *path, size_t size)
{
    char line[LINE];
    bool is_found = false;
    FILE *mounts = fopen("/proc/self/mounts", "r");
    while (mounts != NULL && !is_found &&
           fgets(line, sizeof line, mounts) != NULL) {
        char where[LINE];
        char type[64];
        char options[LINE];
        if (sscanf(line, "%*s %1023s %63s %1023s", where, type, options) != 3 ||
            strcmp(type, "cgroup") != 0)
            continue;
        for (char *rest = options, *one = strsep(&rest, ","); one != NULL;
             one = strsep(&rest, ","))
            is_found = is_found || strcmp(one, controller) == 0;
        if (is_found)
            snprintf(path, size, "%.500s", where);
    }
    if (mounts != NULL)
        fclose(mounts);
    return is_found;
}

static void check_cgroups(struct doctor *doctor)
{
    static const char *const controllers[] = {"memory", "cpu", "pids"};
    char path[512];
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        if (!find_mount(controllers[i], path, sizeof path))
            doctor_find(doctor, "machine-cgroups",
                "no cgroup hierarchy of version 1 has the controller %s",
                controllers[i]);
        else if (access(path, W_OK) != 0)
            doctor_find(doctor, "machine-cgroups",
                "groups cannot be made in %s by this user", path);
    }
}

static void check_files(struct doctor *doctor)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < ENOUGH_FILES)
        doctor_find(doctor, "machine-files",
            "a process may have %llu files open",
            (unsigned long long)limit.rlim_max);
}

static int64_t number_of(const struct doctor *doctor, const char *name)
{
    int64_t number = -1;
    const char *text = doctor_setting(doctor, DOCTOR_WORKER, name);
    return text != NULL && span_to_int(span_of(text), &number) ? number : -1;
}

static void check_users(struct doctor *doctor)
{
    const int64_t base = number_of(doctor, "run.uid_base");
    for (int64_t uid = base; base >= 0 && uid < base + USERS_A_WORKER; uid++) {
        const struct passwd *user = getpwuid((uid_t)uid);
        if (user != NULL) {
            doctor_find(doctor, "machine-users",
                "run.uid_base is %lld, and %lld is the user %s",
                (long long)base, (long long)uid, user->pw_name);
            return;
        }
    }
}

static void check_memory(struct doctor *doctor)
{
    struct sysinfo info;
    const int64_t each = number_of(doctor, "run.memory_mb");
    const int64_t runners = number_of(doctor, "run.max_runners");
    if (each < 0 || runners < 0 || sysinfo(&info) != 0)
        return;
    const int64_t total =
        (int64_t)(info.totalram / 1048576U * (uint64_t)info.mem_unit);
    /* Runners seldom take what they may; one alone must fit, and all of them
     * not many times over. */
    if (each > total / 2 || each * runners > 16 * total)
        doctor_find(doctor, "machine-memory",
            "%lld runners of %lld MiB on a machine of %lld MiB",
            (long long)runners, (long long)each, (long long)total);
}

void doctor_machine(struct doctor *doctor)
{
    struct err err = ERR_INIT;
    struct zone *zone = zone_open("Europe/Berlin", &err);
    if (zone == NULL)
        doctor_find(doctor, "machine-zones", "%s", err.msg);
    zone_free(zone);
    check_cgroups(doctor);
    check_files(doctor);
    check_users(doctor);
    check_memory(doctor);
}
