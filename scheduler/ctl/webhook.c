/* SPDX-License-Identifier: Apache-2.0 */
/* webhook: sources of webhooks, and what they delivered. */
#include <string.h>

#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/webhook_verbs.h"

static const struct {
    const char *name;
    int (*run)(struct ctl *ctl, int argc, char **argv);
} VERBS[] = {
    {"source", webhook_source_run},
};

static int run(struct ctl *ctl, int argc, char **argv)
{
    int code = CTL_DONE;
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(VERBS); i++)
        if (strcmp(argv[1], VERBS[i].name) == 0)
            return VERBS[i].run(ctl, argc, argv);
    if (ctl_options(
            ctl, &COMMAND_WEBHOOK, NULL, 0, argc, argv, NULL, 0, &code) < 0)
        return code;
    return ctl_fail(CTL_USAGE, "webhook takes source; see `actionist webhook "
                               "--help`");
}

const struct command COMMAND_WEBHOOK = {
    .name = "webhook",
    .arguments = "source",
    .summary = "Say who may deliver webhooks, and what becomes of them",
    .details =
        "  webhook source ...   who may deliver, how that is checked, and\n"
        "                       which action it becomes\n\n"
        "`actionist webhook source --help` tells more.",
    .run = run,
};
