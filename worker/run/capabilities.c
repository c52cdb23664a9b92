/* SPDX-License-Identifier: Apache-2.0 */
/* Dropping capabilities, for keeper and worker. The system call is used as it
 * is, since libcap would be one more library for one call. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/run/keeper.h"

static bool is_kept(int capability, const int *capabilities, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (capabilities[i] == capability) {
            return true;
        }
    }
    return false;
}

/* A process that never had CAP_SETPCAP cannot shrink its bounding set; it
 * gains nothing from it either, as no_new_privs is set. */
static int shrink_bounding_set(const int *capabilities, size_t count)
{
    for (int i = 0; i <= CAP_LAST_CAP; i++) {
        if (!is_kept(i, capabilities, count) &&
            prctl(PR_CAPBSET_READ, i) == 1 && prctl(PR_CAPBSET_DROP, i) != 0 &&
            errno != EPERM) {
            return -1;
        }
    }
    return 0;
}

int keeper_keep_capabilities(const int *capabilities, size_t count)
{
    struct __user_cap_header_struct head = {
        .version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3] = {{0}};
    struct __user_cap_data_struct keep[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
        shrink_bounding_set(capabilities, count) != 0 ||
        syscall(SYS_capget, &head, have) != 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t word = (size_t)capabilities[i] / 32;
        const uint32_t bit = UINT32_C(1) << ((unsigned)capabilities[i] % 32);
        keep[word].permitted |= have[word].permitted & bit;
        keep[word].effective = keep[word].permitted;
    }
    return (int)syscall(SYS_capset, &head, keep);
}
