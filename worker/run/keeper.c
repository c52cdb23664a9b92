/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "common/time.h"
#include "worker/run/spawn.h"

struct child {
    struct cgroup_slot group;
    pid_t pid; /* 0: none */
    int pidfd;
};

struct keeper_state {
    struct keeper_options options;
    struct cgroup_tree tree;
    struct child children[KEEPER_MAX_SLOTS];
    size_t running;
    unsigned uid_base; /* of the block that is ours */
    int uid_lock;
    int64_t renewed_us;
    bool is_stale; /* not renewed in time: all runners were killed */
    bool is_over;
};

/* -- talking ---------------------------------------------------------------------- */

/* The worker answers each message before the slot is used again, so that the
 * socket never fills; if it does, the worker is not one any more. */
static void say(
    struct keeper_state *keeper, const struct keeper_message *message)
{
    if (send(keeper->options.socket, message, sizeof(*message),
            MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(*message)) {
        keeper->is_over = true;
    }
}

static void say_text(struct keeper_state *keeper, enum keeper_kind kind,
    uint32_t slot, const char *text)
{
    struct keeper_message message = {.kind = kind, .slot = slot};
    (void)snprintf(message.text, sizeof(message.text), "%s", text);
    say(keeper, &message);
}

/* -- children --------------------------------------------------------------------- */

static void kill_child(const struct child *child)
{
    if (child->pid != 0) {
        /* By pidfd: never a process that got the number later. */
        (void)syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
    }
}

static void kill_all(const struct keeper_state *keeper)
{
    for (size_t i = 0; i < KEEPER_MAX_SLOTS; i++) {
        kill_child(&keeper->children[i]);
    }
}

static int start_child(
    struct keeper_state *keeper, uint32_t slot, int socket, struct err *err)
{
    struct child *child = &keeper->children[slot];
    if (now_mono_us() - keeper->renewed_us > KEEPER_LEASE_US) {
        return err_set(err, ERR_TRANSIENT, "LEASE_STALE",
            "the worker's lease was not renewed for 8 s");
    }
    if (cgroup_slot_open(&child->group, &keeper->tree, slot,
            &keeper->options.limits, err) != 0) {
        return -1;
    }
    const struct spawn spawn = {
        .slot = &child->group,
        .program = keeper->options.program,
        .socket = socket,
        .uid = keeper->uid_base + slot,
        .max_files = keeper->options.max_files,
    };
    if (spawn_runner(&spawn, &child->pid, &child->pidfd, err) != 0) {
        child->pid = 0;
        return -1;
    }
    keeper->running++;
    return 0;
}

static void on_start(struct keeper_state *keeper, uint32_t slot, int socket)
{
    if (socket < 0 || keeper->children[slot].pid != 0) {
        keeper->is_over = true; /* not what our worker says */
        return;
    }
    struct err err = ERR_INIT;
    if (start_child(keeper, slot, socket, &err) != 0) {
        say_text(keeper, KEEPER_FAILED, slot, err.msg);
    }
}

/* The child of a slot ended: what is left of it goes, the worker hears. */
static void reap(struct keeper_state *keeper, uint32_t slot)
{
    struct child *child = &keeper->children[slot];
    int status = 0;
    if (waitpid(child->pid, &status, 0) != child->pid) {
        return;
    }
    (void)close(child->pidfd);
    child->pid = 0;
    keeper->running--;
    const bool is_exit = WIFEXITED(status);
    const struct keeper_message message = {
        .kind = KEEPER_EXITED,
        .slot = slot,
        .exit_code = is_exit ? WEXITSTATUS(status) : -1,
        .signal = is_exit ? 0 : WTERMSIG(status),
        .is_oom = cgroup_slot_take_oom(&child->group),
    };
    say(keeper, &message);
}

/* -- hearing ---------------------------------------------------------------------- */

static void obey(struct keeper_state *keeper,
    const struct keeper_message *message, int socket)
{
    const bool is_slot = message->slot < KEEPER_MAX_SLOTS;
    if (message->kind == KEEPER_START && is_slot) {
        on_start(keeper, message->slot, socket);
    } else if (message->kind == KEEPER_KILL && is_slot) {
        kill_child(&keeper->children[message->slot]);
    } else if (message->kind == KEEPER_KILL_ALL) {
        kill_all(keeper);
    } else if (message->kind == KEEPER_RENEWED) {
        keeper->renewed_us = now_mono_us();
        keeper->is_stale = false;
    } else {
        keeper->is_over = true;
    }
}

/* The one descriptor of a message; -1: none. */
static int passed_file(struct msghdr *head)
{
    const struct cmsghdr *control = CMSG_FIRSTHDR(head);
    int file = -1;
    if (control != NULL && control->cmsg_level == SOL_SOCKET &&
        control->cmsg_type == SCM_RIGHTS &&
        control->cmsg_len == CMSG_LEN(sizeof(file))) {
        memcpy(&file, CMSG_DATA(control), sizeof(file));
    }
    return file;
}

static void hear(struct keeper_state *keeper)
{
    struct keeper_message message = {.kind = 0};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr head = {.msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes)};
    const ssize_t got =
        recvmsg(keeper->options.socket, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    const int file = got > 0 ? passed_file(&head) : -1;
    if (got == (ssize_t)sizeof(message)) {
        obey(keeper, &message, file);
    } else {
        keeper->is_over = true; /* the worker is gone */
    }
    if (file >= 0) {
        (void)close(file);
    }
}

/* -- start and end ---------------------------------------------------------------- */

/*
 * Each worker of a machine has a block of user ids of its own, so that runners
 * of different tenants never share one. Blocks begin at multiples of their
 * size, so that those of workers with another run.uid_base never overlap in
 * part. An abstract socket is the lock: it goes with its process.
 */
static int claim_uids(struct keeper_state *keeper, struct err *err)
{
    enum { BLOCKS = 64 };
    const unsigned first =
        (keeper->options.uid_base + KEEPER_MAX_SLOTS - 1) / KEEPER_MAX_SLOTS;
    const int lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; i < BLOCKS && lock >= 0; i++) {
        const unsigned base = (first + i) * KEEPER_MAX_SLOTS;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        const int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
            "actionist-uids-%u", base);
        const socklen_t size =
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                        (size_t)len);
        if (bind(lock, (const struct sockaddr *)&name, size) == 0) {
            keeper->uid_base = base;
            keeper->uid_lock = lock;
            return 0;
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    return err_set_errno(err, ERR_FATAL, "UIDS_TAKEN",
        "no block of user ids from run.uid_base %u on is free",
        keeper->options.uid_base);
}

static int set_up(struct keeper_state *keeper, struct err *err)
{
    /* DAC_OVERRIDE: the top folder of a hierarchy has mode 0555, and our group
     * below it is to go at the end. */
    static const int needed[] = {
        CAP_SETUID, CAP_SETGID, CAP_SETPCAP, CAP_KILL, CAP_DAC_OVERRIDE};
    for (size_t i = 0; i < KEEPER_MAX_SLOTS; i++) {
        cgroup_slot_init(&keeper->children[i].group);
    }
    if (cgroup_tree_open(&keeper->tree, keeper->options.parent,
            keeper->options.boot, err) != 0 ||
        claim_uids(keeper, err) != 0) {
        return -1;
    }
    if (cgroup_tree_enter(&keeper->tree, err) != 0) {
        cgroup_tree_remove(&keeper->tree);
        return -1;
    }
    /* The first group is made now, so that limits that cannot be set are
     * known at the start and not at the first call. */
    if (cgroup_slot_open(&keeper->children[0].group, &keeper->tree, 0,
            &keeper->options.limits, err) != 0 ||
        (keeper_keep_capabilities(needed, ARRAY_LEN(needed)) != 0 &&
            err_set_errno(err, ERR_FATAL, "CAPABILITIES",
                "the keeper cannot drop its capabilities") != 0)) {
        cgroup_tree_remove(&keeper->tree);
        return -1;
    }
    return 0;
}

static void clean_up(struct keeper_state *keeper)
{
    kill_all(keeper);
    for (size_t i = 0; i < KEEPER_MAX_SLOTS; i++) {
        struct child *child = &keeper->children[i];
        if (child->pid != 0) {
            (void)waitpid(child->pid, NULL, 0);
            (void)close(child->pidfd);
        }
        cgroup_slot_close(&child->group);
    }
    cgroup_tree_remove(&keeper->tree);
    (void)close(keeper->uid_lock);
}

/* -- the loop --------------------------------------------------------------------- */

static int wait_ms(const struct keeper_state *keeper)
{
    if (keeper->running == 0 || keeper->is_stale) {
        return -1; /* runners that were killed wake the loop by their pidfds */
    }
    const int64_t left_us =
        keeper->renewed_us + KEEPER_LEASE_US - now_mono_us();
    return left_us <= 0 ? 0 : (int)(left_us / US_PER_MS) + 1;
}

static void check_lease(struct keeper_state *keeper)
{
    if (keeper->running > 0 && !keeper->is_stale &&
        now_mono_us() - keeper->renewed_us > KEEPER_LEASE_US) {
        keeper->is_stale = true;
        LOG(ERROR, "lease_stale", NULL,
            "the worker's lease was not renewed for 8 s: killing all runners");
        kill_all(keeper);
    }
}

static void serve(struct keeper_state *keeper)
{
    struct pollfd watched[KEEPER_MAX_SLOTS + 1];
    uint32_t slots[KEEPER_MAX_SLOTS + 1];
    nfds_t count = 1;
    watched[0] = (struct pollfd){keeper->options.socket, POLLIN, 0};
    for (uint32_t i = 0; i < KEEPER_MAX_SLOTS; i++) {
        if (keeper->children[i].pid != 0) {
            slots[count] = i;
            watched[count] =
                (struct pollfd){keeper->children[i].pidfd, POLLIN, 0};
            count++;
        }
    }
    if (poll(watched, count, wait_ms(keeper)) < 0) {
        return; /* a signal */
    }
    for (nfds_t i = 1; i < count; i++) {
        if (watched[i].revents != 0) {
            reap(keeper, slots[i]);
        }
    }
    if (watched[0].revents != 0) {
        hear(keeper);
    }
    check_lease(keeper);
}

/* Signals of a terminal or an init system go to all processes; the worker
 * decides when the end is, and drains first. */
static void become_keeper(struct keeper_state *keeper)
{
    enum { SOCKET = 3, PROGRAM };
    (void)prctl(PR_SET_NAME, "keeper");
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    /* Above the two numbers first, in case they sit on each other's. */
    const int socket =
        fcntl(keeper->options.socket, F_DUPFD_CLOEXEC, PROGRAM + 1);
    const int program =
        fcntl(keeper->options.program, F_DUPFD_CLOEXEC, PROGRAM + 1);
    if (socket < 0 || program < 0 || dup3(socket, SOCKET, O_CLOEXEC) < 0 ||
        dup3(program, PROGRAM, O_CLOEXEC) < 0 ||
        close_range(PROGRAM + 1, ~0U, 0) != 0) {
        _exit(EXIT_FAILURE);
    }
    keeper->options.socket = SOCKET;
    keeper->options.program = PROGRAM;
}

_Noreturn void keeper_main(const struct keeper_options *options)
{
    static struct keeper_state keeper;
    keeper = (struct keeper_state){.options = *options, .uid_lock = -1};
    log_init("actionist-keeper");
    become_keeper(&keeper);
    struct err err = ERR_INIT;
    if (set_up(&keeper, &err) != 0) {
        say_text(&keeper, KEEPER_FATAL, 0, err.msg);
        _exit(EXIT_FAILURE);
    }
    keeper.renewed_us = now_mono_us();
    say_text(&keeper, KEEPER_READY, 0, "");
    while (!keeper.is_over) {
        serve(&keeper);
    }
    clean_up(&keeper);
    _exit(EXIT_SUCCESS);
}
