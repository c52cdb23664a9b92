/* SPDX-License-Identifier: Apache-2.0 */
/* actionist: the operator's command. One file a subcommand; see ctl.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/ctl.h"

const struct command *const COMMANDS[] = {
    &COMMAND_MIGRATE,
    &COMMAND_KEY,
    &COMMAND_CONNECTOR,
    &COMMAND_WEBHOOK,
    &COMMAND_PUBLISH,
    &COMMAND_GET,
    &COMMAND_LIST,
    &COMMAND_LOGS,
    &COMMAND_LEDGER,
    &COMMAND_CANCEL,
    &COMMAND_RESOLVE,
    &COMMAND_PAUSE,
    &COMMAND_RESUME,
    &COMMAND_REPLAY,
    &COMMAND_DRAIN,
    &COMMAND_SCHEDULE,
    &COMMAND_VERIFY,
    &COMMAND_TOP,
    &COMMAND_DOCTOR,
    &COMMAND_DEV,
    &COMMAND_BENCH,
    &COMMAND_COMPLETION,
    &COMMAND_MAN,
};
const size_t COMMAND_COUNT = ARRAY_LEN(COMMANDS);

static void print_help(FILE *out)
{
    fputs("usage: actionist COMMAND [options]\n\ncommands:\n", out);
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        fprintf(out, "  %-11s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    fputs("\noptions of every command:\n"
          "  --json         output for machines\n"
          "  --config F     read settings from a file\n"
          "  --set N=V      set one setting\n"
          "  --help         explain a command\n"
          "\nexit codes:\n",
        out);
    for (size_t i = 0; i < CTL_EXIT_COUNT; i++)
        fprintf(out, "  %-11d %s\n", (int)CTL_EXITS[i].code, CTL_EXITS[i].text);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        if (strcmp(COMMANDS[i]->name, name) == 0)
            return COMMANDS[i];
    return NULL;
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    log_init("actionist");
    /* People read what the command prints; libraries' warnings are repeated
     * in its errors where they matter. */
    if (log_set_level("error", &err) != 0)
        return ctl_fail(CTL_FAILED, "%s", err.msg);
    if (argc < 2) {
        print_help(stderr);
        return CTL_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CTL_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("actionist " ACTIONIST_VERSION);
        return CTL_DONE;
    }
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        return ctl_fail(CTL_USAGE,
            "no command '%s'; `actionist --help` lists them", argv[1]);

    struct ctl ctl = {
        .conf = conf_new("actionist", CTL_SETTINGS, CTL_SETTINGS_COUNT),
        .is_terminal = isatty(STDOUT_FILENO) == 1,
    };
    int code;
    if (conf_load_env(ctl.conf, &err) != 0)
        code = ctl_fail(CTL_USAGE, "%s", err.msg);
    else
        code = command->run(&ctl, argc - 1, argv + 1);
    conf_free(ctl.conf);
    if (fflush(stdout) != 0 && code == CTL_DONE)
        code = ctl_fail(CTL_FAILED, "standard output could not be written");
    return code;
}
