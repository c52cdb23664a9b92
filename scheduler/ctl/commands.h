/* SPDX-License-Identifier: Apache-2.0 */
/* commands: one symbol a subcommand; its file has the same name. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "scheduler/ctl/ctl.h"

extern const struct command COMMAND_MIGRATE;
extern const struct command COMMAND_KEY;
extern const struct command COMMAND_CONNECTOR;
extern const struct command COMMAND_WEBHOOK;
extern const struct command COMMAND_PUBLISH;
extern const struct command COMMAND_GET;
extern const struct command COMMAND_LIST;
extern const struct command COMMAND_LOGS;
extern const struct command COMMAND_LEDGER;
extern const struct command COMMAND_CANCEL;
extern const struct command COMMAND_RESOLVE;
extern const struct command COMMAND_PAUSE;
extern const struct command COMMAND_RESUME;
extern const struct command COMMAND_REPLAY;
extern const struct command COMMAND_DRAIN;
extern const struct command COMMAND_SCHEDULE;
extern const struct command COMMAND_VERIFY;
extern const struct command COMMAND_TOP;
extern const struct command COMMAND_DOCTOR;
extern const struct command COMMAND_DEV;
extern const struct command COMMAND_BENCH;
extern const struct command COMMAND_COMPLETION;
extern const struct command COMMAND_MAN;

/* All of them, in the order of --help. */
extern const struct command *const COMMANDS[];
extern const size_t COMMAND_COUNT;

#endif
