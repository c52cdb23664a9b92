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
    {"list", webhook_list_run},
    {"show", webhook_show_run},
    {"tail", webhook_tail_run},
    {"replay", webhook_replay_run},
    {"retention", webhook_retention_run},
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
    return ctl_fail(CTL_USAGE,
        "webhook takes source, list, show, tail, replay or retention");
}

const struct command COMMAND_WEBHOOK = {
    .name = "webhook",
    .arguments = "source|list|show|tail|replay|retention",
    .summary = "Say who may deliver webhooks, and what becomes of them",
    .details =
        "  webhook source ...   who may deliver, how that is checked, and\n"
        "                       which action it becomes\n"
        "  webhook list         deliveries of a tenant, newest first\n"
        "  webhook show ID      one of them, with the bytes as they came\n"
        "  webhook tail         deliveries as they are read\n"
        "  webhook replay       put some on the topic again\n"
        "  webhook retention    for how long a tenant's are kept\n\n"
        "`actionist webhook VERB --help` tells more.",
    .run = run,
};
