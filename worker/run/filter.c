/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>

/* Refused whatever the arguments. */
static const int DENIED[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(kcmp),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(move_mount),
    SCMP_SYS(open_tree),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsmount),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(keyctl),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(memfd_create),
    SCMP_SYS(name_to_handle_at),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(personality),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(inotify_init),
    SCMP_SYS(inotify_init1),
    SCMP_SYS(fanotify_init),
    SCMP_SYS(shmget),
    SCMP_SYS(shmat),
    SCMP_SYS(msgget),
    SCMP_SYS(semget),
    SCMP_SYS(mq_open),
    SCMP_SYS(creat),
    SCMP_SYS(truncate),
    SCMP_SYS(mknod),
    SCMP_SYS(mknodat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(link),
    SCMP_SYS(linkat),
    SCMP_SYS(symlink),
    SCMP_SYS(symlinkat),
    SCMP_SYS(chmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(listen),
};

/* "Not there", so that libraries take their older way, which we can see. */
static const int ABSENT[] = {
    SCMP_SYS(clone3), /* its flags are not in registers */
    SCMP_SYS(openat2),
};

/* A value of one argument for which a call is refused. */
struct rule {
    int call;
    unsigned argument;
    scmp_datum_t mask;
    scmp_datum_t value;
};

static const struct rule RULES[] = {
    {SCMP_SYS(open), 1, O_ACCMODE, O_WRONLY},
    {SCMP_SYS(open), 1, O_ACCMODE, O_RDWR},
    {SCMP_SYS(open), 1, O_CREAT, O_CREAT},
    {SCMP_SYS(openat), 2, O_ACCMODE, O_WRONLY},
    {SCMP_SYS(openat), 2, O_ACCMODE, O_RDWR},
    {SCMP_SYS(openat), 2, O_CREAT, O_CREAT},
    {SCMP_SYS(clone), 0, CLONE_THREAD, 0}, /* threads only */
};

/* What is left is IP, and netlink, which getaddrinfo() asks. */
static const int DENIED_FAMILIES[] = {AF_UNIX, AF_PACKET, AF_VSOCK, AF_ALG,
    AF_XDP, AF_BLUETOOTH, AF_CAN, AF_TIPC, AF_KEY, AF_RDS, AF_KCM};

static int add_rules(scmp_filter_ctx filter)
{
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(DENIED) && rc == 0; i++) {
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), DENIED[i], 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(ABSENT) && rc == 0; i++) {
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), ABSENT[i], 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(RULES) && rc == 0; i++) {
        const struct rule *rule = &RULES[i];
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), rule->call, 1,
            SCMP_CMP(
                rule->argument, SCMP_CMP_MASKED_EQ, rule->mask, rule->value));
    }
    for (size_t i = 0; i < ARRAY_LEN(DENIED_FAMILIES) && rc == 0; i++) {
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT),
            SCMP_SYS(socket), 1,
            SCMP_CMP(0, SCMP_CMP_MASKED_EQ, UINT32_MAX,
                (scmp_datum_t)DENIED_FAMILIES[i]));
    }
    return rc;
}

int filter_load(struct err *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL) {
        return err_set(err, ERR_FATAL, "SECCOMP_FAILED",
            "no memory for the system call filter");
    }
    int rc = add_rules(filter);
    if (rc == 0) {
        rc = seccomp_load(filter);
    }
    seccomp_release(filter);
    if (rc != 0) {
        errno = -rc;
        return err_set_errno(err, ERR_FATAL, "SECCOMP_FAILED",
            "the system call filter cannot be loaded");
    }
    return 0;
}
