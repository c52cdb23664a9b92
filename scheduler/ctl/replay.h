/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay: what the files of `actionist replay` share. The work is done by the
 * scheduler that leads: this command asks for it, watches it, and may go away
 * at any time.
 *
 * replay.c         the command line
 * replay_start.c   asking for one: ids, the transaction, the confirmation
 * replay_follow.c  watching one to its end, and what that comes to
 * replay_show.c    list, show, pause, resume, cancel
 */
#ifndef CTL_REPLAY_H
#define CTL_REPLAY_H

#include "scheduler/ctl/ctl.h"
#include "schema/replay.h"

/* What the command line says, unread. */
struct replay_words {
    const char *tenant;
    const char *file;
    const char *connector;
    const char *action;
    const char *status;
    const char *error_code;
    const char *since;
    const char *until;
    const char *source;
    const char *rate;
    const char *limit;
    const char *to;
    const char *reason;
    bool is_dry_run;
    bool has_new_key;
    bool is_forced;
    bool is_outcomes;
    bool is_confirmed; /* --yes */
    bool is_detached;
    const char *const *ids;
    size_t id_count;
};

/* Asks for a replay and follows it. Returns the exit code. */
int replay_start(struct ctl *ctl, const struct replay_words *words);

/* Reads one; false after an error was printed. tenant NULL: any. */
bool replay_load(PGconn *conn, const uint8_t id[UUID_SIZE], const char *tenant,
    struct replay *replay, int *exit_code);
/* Pauses, resumes or cancels; prints why not. */
int replay_do_act(PGconn *conn, const uint8_t id[UUID_SIZE], const char *tenant,
    enum replay_act act);

/* Shows how it goes until it is over, or (until_counted) until it has counted.
 * The exit code tells the end; CTL_DONE with until_counted. */
int replay_follow(
    struct ctl *ctl, PGconn *conn, struct replay *replay, bool until_counted);
/* What it comes to, on standard output, and the exit code of that. */
int replay_tell_end(struct ctl *ctl, const struct replay *replay);
/* What the count found, on standard error. */
void replay_tell_count(const struct ctl *ctl, const struct replay *replay);

int replay_list(struct ctl *ctl, const char *tenant, const char *limit);
int replay_show(struct ctl *ctl, const struct replay *replay);

#endif
