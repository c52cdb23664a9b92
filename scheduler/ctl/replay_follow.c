/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/json.h"
#include "common/time.h"
#include "scheduler/ctl/replay.h"

enum {
    LOOK_MS = 200,
    BAR_WIDTH = 24,
    RATE_LOOKS = 25, /* the rate is that of the last five seconds */
    MAX_DOCUMENT = 64 << 10,
    EXIT_INTERRUPTED = 130,
    LOST_LOOKS = 150 /* in a row without Postgres: half a minute */
};

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

static void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* -- words ---------------------------------------------------------------------- */

static void print_skips(FILE *out, const struct replay *replay)
{
    for (size_t i = 1; i < REPLAY_SKIP_COUNT; i++)
        if (replay->skips[i] != 0)
            fprintf(out, "  left out %lld: %s\n", (long long)replay->skips[i],
                replay_skip_text((enum replay_skip)i));
}

void replay_tell_count(const struct ctl *ctl, const struct replay *replay)
{
    if (ctl->is_json)
        return;
    const char *what =
        replay->wish.kind == REPLAY_OUTCOMES ? "outcomes" : "actions";
    fprintf(stderr, "%lld %s match, %lld %s\n", (long long)replay->matched,
        what, (long long)replay->planned,
        replay->wish.is_dry_run ? "would be replayed" : "are to be replayed");
    print_skips(stderr, replay);
    for (size_t i = 0; i < replay->sample_count; i++) {
        char id[UUID_TEXT_SIZE];
        uuid_format(replay->sample[i], id);
        fprintf(stderr, "  %s\n", id);
    }
    if (replay->planned > (int64_t)replay->sample_count)
        fprintf(stderr, "  ... and %lld more\n",
            (long long)(replay->planned - (int64_t)replay->sample_count));
}

static void print_ends(FILE *out, const struct replay *replay)
{
    const char *between = "";
    for (int status = 1; status < REPLAY_STATUS_COUNT; status++)
        if (replay->ends[status] != 0) {
            fprintf(out, "%s%s %lld", between, status_name((enum status)status),
                (long long)replay->ends[status]);
            between = ", ";
        }
}

/* -- progress --------------------------------------------------------------------- */

/* How many were done at the last looks, for the rate. */
struct trail {
    int64_t done[RATE_LOOKS];
    int64_t at_us[RATE_LOOKS];
    size_t count;
    bool is_shown;
};

static int64_t done_of(const struct replay *replay)
{
    return replay->wish.kind == REPLAY_OUTCOMES ? replay->published
                                                : replay_ended(replay);
}

static int64_t rate_of(struct trail *trail, int64_t done)
{
    const size_t slot = trail->count % RATE_LOOKS;
    const int64_t now_us = now_mono_us();
    int64_t rate = 0;
    if (trail->count > 0) {
        const size_t first = trail->count < RATE_LOOKS ? 0 : slot;
        const int64_t passed_us = now_us - trail->at_us[first];
        if (passed_us > 0)
            rate = (done - trail->done[first]) * US_PER_S / passed_us;
    }
    trail->done[slot] = done;
    trail->at_us[slot] = now_us;
    trail->count++;
    return rate;
}

static void show_bar(int64_t done, int64_t all)
{
    const int64_t filled = all > 0 ? done * BAR_WIDTH / all : 0;
    fputs("\r[", stderr);
    for (int64_t i = 0; i < BAR_WIDTH; i++)
        fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %lld/%lld", (long long)done, (long long)all);
}

/* One line that writes over itself. */
static void show_progress(const struct replay *replay, struct trail *trail)
{
    const int64_t done = done_of(replay);
    const int64_t left = replay->planned > done ? replay->planned - done : 0;
    const int64_t rate = rate_of(trail, done);
    trail->is_shown = true;
    if (replay->phase == REPLAY_COUNTING) {
        fprintf(stderr, "\r%s: %lld match so far\033[K", replay_state(replay),
            (long long)replay->matched);
        return;
    }
    show_bar(done, replay->planned);
    fprintf(stderr, "  %s  %lld/s", replay_state(replay), (long long)rate);
    if (rate > 0 && left > 0)
        fprintf(stderr, "  %lld s left", (long long)(left / rate));
    fputs("  ", stderr);
    print_ends(stderr, replay);
    if (replay_skipped(replay) > 0)
        fprintf(stderr, "  left out %lld", (long long)replay_skipped(replay));
    if (replay->trouble[0] != '\0')
        fprintf(stderr, "  %.60s", replay->trouble);
    fputs("\033[K", stderr);
}

/* -- the end ------------------------------------------------------------------------ */

static int exit_of_named(const struct replay *replay)
{
    const int64_t skipped = replay_skipped(replay);
    if (replay->published > 0 || skipped == 0)
        return CTL_DONE;
    return replay->skips[REPLAY_SKIP_UNKNOWN] == skipped ? CTL_NOT_FOUND
                                                         : CTL_CONFLICT;
}

static int exit_of(const struct replay *replay)
{
    if (replay->phase == REPLAY_CANCELLED)
        return CTL_CONFLICT;
    if (replay->wish.is_dry_run || replay->wish.kind == REPLAY_OUTCOMES)
        return CTL_DONE;
    if (replay_ended(replay) != replay->ends[STATUS_SUCCEEDED])
        return CTL_NEGATIVE;
    return replay->wish.id_count > 0 ? exit_of_named(replay) : CTL_DONE;
}

int replay_tell_end(struct ctl *ctl, const struct replay *replay)
{
    if (ctl->is_json) {
        struct buf out;
        buf_init(&out, MAX_DOCUMENT);
        replay_put(&out, replay);
        puts(buf_str(&out));
        buf_fini(&out);
        return exit_of(replay);
    }
    if (replay->wish.is_dry_run)
        return CTL_DONE; /* the count has said it all */
    printf("%s: %lld replayed", replay_state(replay),
        (long long)replay->published);
    if (replay_ended(replay) > 0) {
        fputs(", of these ", stdout);
        print_ends(stdout, replay);
    }
    putchar('\n');
    print_skips(stdout, replay);
    return exit_of(replay);
}

/* -- following ------------------------------------------------------------------------ */

static void wait_for_look(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    (void)nanosleep(&pause, NULL);
}

static int leave(const struct replay *replay)
{
    char id[UUID_TEXT_SIZE];
    uuid_format(replay->wish.id, id);
    fprintf(stderr,
        "\nactionist: the replay goes on without this command; follow it with "
        "`actionist replay watch %s`, stop it with `actionist replay cancel "
        "%s`\n",
        id, id);
    return EXIT_INTERRUPTED;
}

static bool is_there(const struct replay *replay, bool until_counted)
{
    return until_counted ? replay->phase != REPLAY_COUNTING
                         : replay->is_settled;
}

/* Postgres may restart while we look: the connection is made anew. */
static int look(PGconn *conn, struct replay *replay, int *lost)
{
    uint8_t id[UUID_SIZE];
    int code = CTL_DONE;
    memcpy(id, replay->wish.id, UUID_SIZE);
    if (*lost > 0)
        PQreset(conn);
    if (PQstatus(conn) != CONNECTION_OK) {
        ++*lost;
        return *lost < LOST_LOOKS ? CTL_DONE
                                  : ctl_fail(CTL_TRY_LATER, "Postgres is away");
    }
    if (replay_load(conn, id, NULL, replay, &code))
        *lost = 0;
    else if (code == CTL_TRY_LATER && ++*lost < LOST_LOOKS)
        code = CTL_DONE;
    return code;
}

int replay_follow(
    struct ctl *ctl, PGconn *conn, struct replay *replay, bool until_counted)
{
    const bool is_shown = !ctl->is_json && isatty(STDERR_FILENO) == 1;
    struct trail trail = {.count = 0};
    int lost = 0;
    int code = CTL_DONE;
    catch_interrupt();
    while (code == CTL_DONE && !is_there(replay, until_counted)) {
        if (is_interrupted)
            return leave(replay);
        if (is_shown)
            show_progress(replay, &trail);
        wait_for_look();
        code = look(conn, replay, &lost);
    }
    if (trail.is_shown) {
        if (code == CTL_DONE && !until_counted)
            show_progress(replay, &trail);
        fputs(until_counted ? "\r\033[K" : "\n", stderr);
    }
    if (code != CTL_DONE || until_counted)
        return code;
    return replay_tell_end(ctl, replay);
}
