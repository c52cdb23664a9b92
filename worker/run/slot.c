/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/slot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/time.h"
#include "worker/run/spawn.h"

enum {
    READ_BYTES = 256 << 10,
    /* A runner reports a time-out itself; later than this it hangs. */
    OVERDUE_MS = 5000,
    START_MS = 30000,
    FIRST_BACKOFF_MS = 100,
    MAX_BACKOFF_MS = 10000
};
#define OUT_MAX ((size_t)64 << 20)

void slot_init(struct slot *slot, struct slot_common *common, uint32_t number)
{
    *slot = (struct slot){.common = common, .number = number, .socket = -1};
    buf_init(&slot->in, FRAME_MAX + READ_BYTES);
    buf_init(&slot->out, OUT_MAX);
}

static void close_socket(struct slot *slot)
{
    loop_fd_free(slot->watch);
    slot->watch = NULL;
    if (slot->socket >= 0) {
        (void)close(slot->socket);
        slot->socket = -1;
    }
}

void slot_fini(struct slot *slot)
{
    close_socket(slot);
    buf_fini(&slot->in);
    buf_fini(&slot->out);
    free(slot->jobs.table);
    free(slot->dead.table);
}

bool slot_is_idle(const struct slot *slot)
{
    return slot->jobs.active == 0 && slot->dead.active == 0 &&
           slot->state != SLOT_STARTING &&
           (slot->state != SLOT_ENDING || slot->is_expected);
}

/* -- to the keeper ------------------------------------------------------------------ */

/* socket -1: none to pass. A keeper that takes no message is dead or as good
 * as; its own end is what is acted on. */
static int tell_keeper(
    const struct slot *slot, enum keeper_kind kind, int socket)
{
    struct keeper_message message = {.kind = kind, .slot = slot->number};
    struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    if (socket >= 0) {
        head.msg_control = control.bytes;
        head.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *passed = CMSG_FIRSTHDR(&head);
        passed->cmsg_level = SOL_SOCKET;
        passed->cmsg_type = SCM_RIGHTS;
        passed->cmsg_len = CMSG_LEN(sizeof(socket));
        memcpy(CMSG_DATA(passed), &socket, sizeof(socket));
    }
    return sendmsg(slot->common->keeper_socket, &head,
               MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(message)
               ? 0
               : -1;
}

void slot_kill(struct slot *slot, bool is_expected)
{
    if (slot->state != SLOT_STARTING && slot->state != SLOT_UP) {
        return;
    }
    slot->is_expected = is_expected;
    (void)tell_keeper(slot, KEEPER_KILL, -1);
}

/* -- jobs --------------------------------------------------------------------------- */

static void make_table(struct slot *slot)
{
    const uint32_t count = slot->common->max_calls;
    slot->jobs.table = mem_zalloc(count, sizeof(*slot->jobs.table));
    for (uint32_t i = 0; i < count; i++) {
        slot->jobs.table[i].next_free = i + 1;
    }
    slot->jobs.first_free = 0;
}

static void release_job(struct slot_jobs *jobs, uint32_t index)
{
    jobs->table[index].is_used = false;
    jobs->table[index].next_free = jobs->first_free;
    jobs->first_free = index;
    jobs->active--;
}

static void start_clock(struct slot_job *job)
{
    job->due_us = now_mono_us() + (job->timeout_ms + OVERDUE_MS) * US_PER_MS;
}

int slot_add(struct slot *slot, const struct run_job *job, struct err *err)
{
    if (slot->jobs.table == NULL) {
        make_table(slot);
    }
    const uint32_t index = slot->jobs.first_free;
    if (index == slot->common->max_calls) {
        return err_set(err, ERR_TRANSIENT, "RUNNER_BUSY",
            "the tenant has %zu running calls", slot->jobs.active);
    }
    const size_t before = slot->out.len;
    if (frame_put_job(&slot->out, index, job) != 0) {
        return before > 0 ? err_set(err, ERR_TRANSIENT, "RUNNER_BUSY",
                                "the runner's queue is full")
                          : err_set(err, ERR_PERMANENT, "TOO_LARGE",
                                "the request is too large for a call");
    }
    struct slot_job *entry = &slot->jobs.table[index];
    slot->jobs.first_free = entry->next_free;
    slot->jobs.active++;
    *entry = (struct slot_job){
        .id = job->id,
        .timeout_ms = job->timeout_ms,
        .frame_end = slot->jobs.written + (slot->out.len - slot->out_at),
        .is_used = true,
    };
    if (slot->state == SLOT_UP) {
        start_clock(entry);
    }
    return 0;
}

/* Reports what a runner did not answer. A frame that was not written whole
 * cannot have been carried out. */
static void report_dead(struct slot *slot)
{
    struct slot_jobs dead = slot->dead;
    slot->dead = (struct slot_jobs){.table = NULL};
    for (uint32_t i = 0; dead.active > 0; i++) {
        const struct slot_job *job = &dead.table[i];
        if (!job->is_used) {
            continue;
        }
        dead.active--;
        struct run_result result = {.id = job->id};
        if (job->frame_end > dead.written) {
            result.end = CALL_NOT_SENT;
            result.code = CODE_RUNNER_UNAVAILABLE;
        } else if (job->is_overdue) {
            result.end = CALL_TIMED_OUT;
            result.code = CODE_EXECUTION_TIMEOUT;
        } else {
            result.end = CALL_LOST;
            result.code = CODE_RUNNER_DIED;
        }
        (void)snprintf(result.message, sizeof(result.message), "%s", slot->why);
        slot->common->done(slot->common->owner, &result);
    }
    free(dead.table);
}

/* -- the end of a life -------------------------------------------------------------- */

static void back_off(struct slot *slot)
{
    if (slot->is_expected) {
        slot->failures = 0;
        slot->not_before_us = 0;
        return;
    }
    int64_t wait_ms = FIRST_BACKOFF_MS;
    for (unsigned i = 0; i < slot->failures && wait_ms < MAX_BACKOFF_MS; i++) {
        wait_ms *= 2;
    }
    wait_ms = wait_ms < MAX_BACKOFF_MS ? wait_ms : MAX_BACKOFF_MS;
    slot->failures++;
    slot->not_before_us = now_mono_us() + wait_ms * US_PER_MS;
    const struct log_fields fields = {.tenant = slot->tenant,
        .number_name = "restart_in_ms",
        .number = wait_ms};
    LOG(WARN, "runner_died", &fields, "%s", slot->why);
}

static void end_life(struct slot *slot)
{
    if (slot->state != SLOT_ENDING || !slot->has_exited || slot->socket >= 0) {
        return;
    }
    back_off(slot);
    slot->state =
        slot->jobs.active == 0 && slot->failures == 0 ? SLOT_EMPTY : SLOT_DOWN;
    slot->since_us = now_mono_us();
    report_dead(slot);
    slot->common->on_work(slot->common->work_owner);
}

/* Nothing more comes from the runner. What was queued for it goes down with
 * it, unless it was ended while idle: then the queue is for the next one. */
static void end_socket(struct slot *slot)
{
    close_socket(slot);
    buf_clear(&slot->in);
    slot->is_blocked = false;
    slot->state = SLOT_ENDING;
    if (!slot->is_expected) {
        slot->dead = slot->jobs;
        slot->jobs = (struct slot_jobs){.table = NULL};
        buf_clear(&slot->out);
        slot->out_at = 0;
    }
    end_life(slot);
}

/* Ends a runner that has nothing to do. Its socket is closed at once, so that
 * jobs which come from now on wait for the next one. */
static void end_idle(struct slot *slot)
{
    slot_kill(slot, true);
    slot->jobs.written = 0;
    buf_clear(&slot->out);
    slot->out_at = 0;
    end_socket(slot);
}

void slot_assign(struct slot *slot, const char *tenant)
{
    if (slot->state == SLOT_UP) {
        end_idle(slot);
    } else if (slot->state != SLOT_ENDING) {
        slot->state = SLOT_DOWN;
        slot->failures = 0;
        slot->not_before_us = 0;
    }
    (void)snprintf(slot->tenant, sizeof(slot->tenant), "%s", tenant);
    slot->since_us = now_mono_us();
}

static void describe_exit(
    struct slot *slot, const struct keeper_message *message)
{
    const char *step = spawn_step_name(message->exit_code);
    if (message->kind == KEEPER_FAILED) {
        (void)snprintf(slot->why, sizeof(slot->why), "%.*s",
            (int)sizeof(message->text) - 1, message->text);
    } else if (message->is_oom) {
        (void)snprintf(slot->why, sizeof(slot->why),
            "the runner was killed at its memory limit");
    } else if (step != NULL) {
        (void)snprintf(slot->why, sizeof(slot->why),
            "the runner could not be started: %s failed", step);
    } else if (message->exit_code >= 0) {
        (void)snprintf(slot->why, sizeof(slot->why),
            "the runner exited with code %d", message->exit_code);
    } else {
        (void)snprintf(slot->why, sizeof(slot->why),
            "the runner was ended by signal %d", message->signal);
    }
}

/* -- frames in ---------------------------------------------------------------------- */

static void on_ready(struct slot *slot)
{
    slot->state = SLOT_UP;
    slot->since_us = now_mono_us();
    for (uint32_t i = 0;
         slot->jobs.table != NULL && i < slot->common->max_calls; i++) {
        if (slot->jobs.table[i].is_used) {
            start_clock(&slot->jobs.table[i]);
        }
    }
    slot->common->on_work(slot->common->work_owner);
}

static bool on_result(struct slot *slot, struct span content)
{
    struct run_result result;
    uint32_t index = 0;
    if (frame_get_result(content, &index, &result) != 0 ||
        slot->jobs.table == NULL || index >= slot->common->max_calls ||
        !slot->jobs.table[index].is_used ||
        slot->jobs.table[index].id != result.id) {
        return false;
    }
    slot->failures = 0;
    slot->since_us = now_mono_us();
    release_job(&slot->jobs, index);
    slot->common->done(slot->common->owner, &result);
    return true;
}

static bool take_frame(struct slot *slot, const struct frame *frame)
{
    if (frame->type == FRAME_READY && slot->state == SLOT_STARTING) {
        on_ready(slot);
        return true;
    }
    return frame->type == FRAME_RESULT && slot->state == SLOT_UP &&
           on_result(slot, frame->content);
}

/* False when what came is not what a runner says. */
static bool take_frames(struct slot *slot)
{
    size_t at = 0;
    int found = 1;
    bool is_fine = true;
    while (found > 0 && is_fine) {
        const struct span rest = {
            .ptr = slot->in.data + at, .len = slot->in.len - at};
        struct frame frame;
        size_t used = 0;
        found = frame_next(rest, &frame, &used);
        if (found > 0) {
            is_fine = take_frame(slot, &frame);
            at += used;
        }
        if (slot->socket < 0) {
            return true; /* a callback gave the slot to another tenant */
        }
    }
    buf_drop_front(&slot->in, at);
    return is_fine && found == 0;
}

/* True while there may be more. */
static bool read_some(struct slot *slot)
{
    char *room = buf_reserve(&slot->in, READ_BYTES);
    if (room == NULL) {
        abort(); /* a frame is at most FRAME_MAX */
    }
    const ssize_t got = recv(slot->socket, room, READ_BYTES, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (got <= 0) {
        end_socket(slot);
        return false;
    }
    slot->in.len += (size_t)got;
    if (!take_frames(slot)) {
        LOG(ERROR, "runner_protocol", NULL, "a runner sent a wrong frame");
        slot_kill(slot, false);
        end_socket(slot);
        return false;
    }
    return got == READ_BYTES && slot->socket >= 0;
}

/* -- frames out --------------------------------------------------------------------- */

static void want_events(struct slot *slot)
{
    loop_fd_want(slot->watch,
        slot->is_blocked ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

static void write_queue(struct slot *slot)
{
    while (slot->out_at < slot->out.len && !slot->is_blocked) {
        const ssize_t sent = send(slot->socket, slot->out.data + slot->out_at,
            slot->out.len - slot->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            slot->is_blocked = true;
            want_events(slot);
            buf_drop_front(&slot->out, slot->out_at);
            slot->out_at = 0;
            return;
        }
        if (sent < 0) {
            return; /* its end is read next */
        }
        slot->out_at += (size_t)sent;
        slot->jobs.written += (uint64_t)sent;
    }
    if (slot->out_at == slot->out.len) {
        buf_clear(&slot->out);
        slot->out_at = 0;
    }
}

static void on_socket(void *owner, int events)
{
    struct slot *slot = owner;
    if ((events & UV_WRITABLE) != 0 && slot->is_blocked) {
        slot->is_blocked = false;
        want_events(slot);
        write_queue(slot);
    }
    if ((events & ~UV_WRITABLE) != 0) {
        (void)read_some(slot);
    }
}

/* -- life --------------------------------------------------------------------------- */

static void start_runner(struct slot *slot)
{
    int pair[2];
    const struct span setup = buf_span(&slot->common->setup);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        slot->not_before_us = now_mono_us() + FIRST_BACKOFF_MS * US_PER_MS;
        return;
    }
    /* A new socket takes the whole setup at once; the keeper, any message. */
    const bool is_sent =
        send(pair[0], setup.ptr, setup.len, MSG_NOSIGNAL | MSG_DONTWAIT) ==
            (ssize_t)setup.len &&
        tell_keeper(slot, KEEPER_START, pair[1]) == 0;
    (void)close(pair[1]);
    if (!is_sent) {
        (void)close(pair[0]);
        slot->not_before_us = now_mono_us() + FIRST_BACKOFF_MS * US_PER_MS;
        return;
    }
    slot->socket = pair[0];
    slot->watch =
        loop_fd_new(slot->common->loop, slot->socket, on_socket, slot);
    slot->state = SLOT_STARTING;
    slot->has_exited = false;
    slot->is_expected = false;
    slot->since_us = now_mono_us();
    slot->why[0] = '\0';
    want_events(slot);
}

void slot_work(struct slot *slot)
{
    if (slot->state == SLOT_DOWN && slot->jobs.active > 0 &&
        slot->not_before_us <= now_mono_us()) {
        start_runner(slot);
    }
    if (slot->state == SLOT_UP) {
        write_queue(slot);
    }
}

/* Marks the jobs whose time is long over. True if there are any. */
static bool mark_overdue(struct slot *slot, int64_t now_us)
{
    bool has_any = false;
    size_t left = slot->jobs.active;
    for (uint32_t i = 0; left > 0; i++) {
        struct slot_job *job = &slot->jobs.table[i];
        if (!job->is_used) {
            continue;
        }
        left--;
        job->is_overdue = job->due_us != 0 && job->due_us <= now_us;
        has_any = has_any || job->is_overdue;
    }
    return has_any;
}

/* It may be this process that was held up: what was answered is read before
 * the runner is blamed. */
static void check_overdue(struct slot *slot, int64_t now_us)
{
    if (!mark_overdue(slot, now_us)) {
        return;
    }
    while (slot->socket >= 0 && read_some(slot)) {
    }
    if (slot->state == SLOT_UP && mark_overdue(slot, now_us)) {
        slot_kill(slot, false);
    }
}

void slot_tick(struct slot *slot, int64_t idle_us)
{
    const int64_t now_us = now_mono_us();
    slot_work(slot);
    if (slot->state == SLOT_STARTING &&
        now_us - slot->since_us > START_MS * US_PER_MS) {
        slot_kill(slot, false);
    } else if (slot->state == SLOT_UP && slot->jobs.active > 0) {
        check_overdue(slot, now_us);
    } else if (slot->state == SLOT_UP && now_us - slot->since_us > idle_us) {
        end_idle(slot);
    } else if (slot->state == SLOT_DOWN && slot->jobs.active == 0 &&
               now_us - slot->since_us > idle_us) {
        slot->state = SLOT_EMPTY;
        slot->failures = 0;
    }
}

void slot_on_exit(struct slot *slot, const struct keeper_message *message)
{
    if (slot->state == SLOT_EMPTY || slot->state == SLOT_DOWN) {
        return; /* not a life of ours */
    }
    if (!slot->is_expected) {
        describe_exit(slot, message);
    }
    slot->has_exited = true;
    /* The answers it had written are read first, up to the end. */
    while (slot->socket >= 0 && read_some(slot)) {
    }
    end_life(slot);
}

void slot_on_keeper_death(struct slot *slot)
{
    while (slot->socket >= 0 && read_some(slot)) {
    }
    (void)snprintf(
        slot->why, sizeof(slot->why), "the keeper of the runners died");
    if (slot->state == SLOT_EMPTY) {
        return;
    }
    /* Reported from dead: both lives, if one was ending already. */
    report_dead(slot);
    slot->dead = slot->jobs;
    slot->jobs = (struct slot_jobs){.table = NULL};
    close_socket(slot);
    slot->state = SLOT_ENDING;
    report_dead(slot);
}
