/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/run.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "common/time.h"
#include "worker/run/egress.h"
#include "worker/run/slot.h"

enum { TICK_MS = 100, KEEPER_END_MS = 15000 };

struct run {
    struct loop *loop;
    struct keeper keeper;
    struct loop_fd *watch;
    struct loop_timer *timer;
    uv_prepare_t *prepare; /* writes queues before the loop waits */
    struct slot_common common;
    struct slot slots[KEEPER_MAX_SLOTS];
    uint32_t slot_count;
    int64_t idle_us;
    run_dead_fn dead;
    bool is_dead;
    bool has_work;
};

/* -- the keeper --------------------------------------------------------------------- */

static void on_keeper_death(struct run *run)
{
    if (run->is_dead) {
        return;
    }
    run->is_dead = true;
    loop_fd_want(run->watch, 0);
    LOG(ERROR, "keeper_died", NULL, "the keeper of the runners died");
    for (uint32_t i = 0; i < run->slot_count; i++) {
        slot_on_keeper_death(&run->slots[i]);
    }
    run->dead(run->common.owner);
}

static void on_keeper(void *owner, int events)
{
    struct run *run = owner;
    struct keeper_message message;
    (void)events;
    const ssize_t got =
        recv(run->keeper.socket, &message, sizeof(message), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got != (ssize_t)sizeof(message) ||
        (message.kind != KEEPER_FAILED && message.kind != KEEPER_EXITED) ||
        message.slot >= run->slot_count) {
        on_keeper_death(run);
        return;
    }
    slot_on_exit(&run->slots[message.slot], &message);
}

static void tell_keeper(struct run *run, enum keeper_kind kind)
{
    const struct keeper_message message = {.kind = kind};
    /* One that takes nothing is dead or hangs; its end, or the lease, is what
     * is acted on. */
    (void)send(run->keeper.socket, &message, sizeof(message),
        MSG_NOSIGNAL | MSG_DONTWAIT);
}

void run_renewed(struct run *run)
{
    tell_keeper(run, KEEPER_RENEWED);
}

void run_kill_all(struct run *run)
{
    tell_keeper(run, KEEPER_KILL_ALL);
}

/* -- phases of the loop ------------------------------------------------------------- */

static void on_work(void *owner)
{
    struct run *run = owner;
    run->has_work = true;
}

static void on_prepare(uv_prepare_t *handle)
{
    struct run *run = handle->data;
    if (!run->has_work || run->is_dead) {
        return;
    }
    run->has_work = false;
    for (uint32_t i = 0; i < run->slot_count; i++) {
        slot_work(&run->slots[i]);
    }
}

static void on_tick(void *owner)
{
    struct run *run = owner;
    for (uint32_t i = 0; i < run->slot_count && !run->is_dead; i++) {
        slot_tick(&run->slots[i], run->idle_us);
    }
}

/* -- open and close ----------------------------------------------------------------- */

static int fill_setup(struct run *run, const struct conf *conf, struct err *err)
{
    const struct frame_setup setup = {
        .private_allow = span_of(conf_text(conf, "egress.private_allow")),
        .ca_file = span_of(conf_text(conf, "run.ca_file")),
        .max_calls = (uint32_t)conf_int(conf, "run.max_calls_per_tenant"),
        .connect_timeout_ms = conf_int(conf, "run.connect_timeout_ms"),
    };
    struct egress_private allow;
    if (egress_parse_private(setup.private_allow, &allow, err) != 0) {
        err->class = ERR_FATAL;
        return -1;
    }
    buf_init(&run->common.setup, (size_t)16 << 10);
    if (frame_put_setup(&run->common.setup, &setup) != 0) {
        return err_set(err, ERR_FATAL, "BAD_SETTING",
            "egress.private_allow is longer than 16 KiB");
    }
    return 0;
}

static void start_prepare(struct run *run)
{
    run->prepare = mem_zalloc(1, sizeof(*run->prepare));
    run->prepare->data = run;
    if (uv_prepare_init(&run->loop->uv, run->prepare) != 0 ||
        uv_prepare_start(run->prepare, on_prepare) != 0) {
        abort();
    }
}

struct run *run_open(struct loop *loop, const struct conf *conf,
    const struct keeper *keeper, run_done_fn done, run_dead_fn dead,
    void *owner, struct err *err)
{
    struct run *run = mem_zalloc(1, sizeof(*run));
    run->loop = loop;
    run->keeper = *keeper;
    run->dead = dead;
    run->idle_us = conf_int(conf, "run.idle_s") * US_PER_S;
    run->slot_count = (uint32_t)conf_int(conf, "run.max_runners");
    run->common = (struct slot_common){
        .loop = loop,
        .keeper_socket = keeper->socket,
        .max_calls = (uint32_t)conf_int(conf, "run.max_calls_per_tenant"),
        .done = done,
        .owner = owner,
        .on_work = on_work,
        .work_owner = run,
    };
    for (uint32_t i = 0; i < KEEPER_MAX_SLOTS; i++) {
        slot_init(&run->slots[i], &run->common, i);
    }
    if (fill_setup(run, conf, err) != 0) {
        buf_fini(&run->common.setup);
        free(run);
        return NULL;
    }
    start_prepare(run);
    run->watch = loop_fd_new(loop, keeper->socket, on_keeper, run);
    loop_fd_want(run->watch, UV_READABLE);
    run->timer = loop_timer_new(loop, on_tick, run);
    loop_timer_start(run->timer, TICK_MS, TICK_MS);
    return run;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

/* The keeper kills its children and removes the cgroups first. */
static void await_keeper(const struct keeper *keeper)
{
    const int pidfd = (int)syscall(SYS_pidfd_open, keeper->pid, 0);
    if (pidfd >= 0) {
        struct pollfd watched = {.fd = pidfd, .events = POLLIN};
        (void)poll(&watched, 1, KEEPER_END_MS);
        (void)close(pidfd);
    }
    (void)waitpid(keeper->pid, NULL, WNOHANG);
}

void run_close(struct run *run)
{
    if (run == NULL) {
        return;
    }
    loop_timer_free(run->timer);
    loop_fd_free(run->watch);
    (void)uv_prepare_stop(run->prepare);
    uv_close((uv_handle_t *)run->prepare, free_handle);
    for (uint32_t i = 0; i < KEEPER_MAX_SLOTS; i++) {
        slot_fini(&run->slots[i]);
    }
    (void)close(run->keeper.socket);
    await_keeper(&run->keeper);
    buf_fini(&run->common.setup);
    free(run);
}

/* -- calls -------------------------------------------------------------------------- */

/* The tenant's slot, else an empty one, else the one idle for longest. */
static struct slot *find_slot(struct run *run, const char *tenant)
{
    struct slot *best = NULL;
    for (uint32_t i = 0; i < run->slot_count; i++) {
        struct slot *slot = &run->slots[i];
        if (slot->state != SLOT_EMPTY && strcmp(slot->tenant, tenant) == 0) {
            return slot;
        }
        if (!slot_is_idle(slot)) {
            continue;
        }
        const bool is_empty = slot->state == SLOT_EMPTY;
        if (best == NULL ||
            (best->state != SLOT_EMPTY &&
                (is_empty || slot->since_us < best->since_us))) {
            best = slot;
        }
    }
    if (best != NULL) {
        slot_assign(best, tenant);
    }
    return best;
}

int run_start(struct run *run, const struct run_job *job, struct err *err)
{
    if (run->is_dead) {
        return err_set(err, ERR_TRANSIENT, "RUNNER_UNAVAILABLE",
            "the keeper of the runners died");
    }
    struct slot *slot = find_slot(run, job->tenant);
    if (slot == NULL) {
        return err_set(err, ERR_TRANSIENT, "RUNNER_BUSY",
            "all %u runners are busy with other tenants", run->slot_count);
    }
    if (slot_add(slot, job, err) != 0) {
        return -1;
    }
    run->has_work = true;
    return 0;
}

size_t run_active(const struct run *run)
{
    size_t active = 0;
    for (uint32_t i = 0; i < run->slot_count; i++) {
        active += run->slots[i].jobs.active + run->slots[i].dead.active;
    }
    return active;
}
