/* SPDX-License-Identifier: Apache-2.0 */
/* man: the manual page actionist(1), from the tables of --help. */
#include <string.h>

#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/tree.h"

/* groff_man(7): a line must not begin with a control character, "-" is a
 * minus only when escaped, and a backslash is "\e". */
static void put_text(const char *text)
{
    bool is_line_start = true;
    for (; *text != '\0'; text++) {
        if (is_line_start && (*text == '.' || *text == '\'')) {
            fputs("\\&", stdout);
        }
        if (*text == '\\') {
            fputs("\\e", stdout);
        } else if (*text == '-') {
            fputs("\\-", stdout);
        } else {
            putchar(*text);
        }
        is_line_start = *text == '\n';
    }
    putchar('\n');
}

static void put_options(const struct ctl_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *argument = options[i].argument;
        printf(".TP\n\\fB\\-\\-");
        for (const char *at = options[i].name; *at != '\0'; at++) {
            fputs(*at == '-' ? "\\-" : (char[]){*at, '\0'}, stdout);
        }
        printf("\\fR%s%s%s\n", argument != NULL ? " \\fI" : "",
            argument != NULL ? argument : "", argument != NULL ? "\\fR" : "");
        put_text(options[i].help);
    }
}

static void put_command(const struct tree_node *node)
{
    const struct command *command = node->command;
    printf(".SS \"actionist %s\"\n", command->name);
    if (command->arguments[0] != '\0') {
        printf(".PP\n\\fBactionist %s\\fR ", command->name);
        put_text(command->arguments);
        puts(".PP");
    }
    printf("%s.\n", command->summary);
    if (command->details != NULL) {
        puts(".PP\n.nf");
        put_text(command->details);
        puts(".fi");
    }
    put_options(node->options, node->option_count);
}

static void put_page(const struct tree *tree)
{
    puts(".TH ACTIONIST 1 \"\" \"actionist 1\" \"Actionist\"\n"
         ".SH NAME\n"
         "actionist \\- operate an effectively-once action fleet\n"
         ".SH SYNOPSIS\n"
         ".B actionist\n"
         ".I COMMAND\n"
         "[options]\n"
         ".SH DESCRIPTION\n"
         "What operators of a fleet do by hand: set it up, look at what "
         "happened, and have it run again. It talks to the Postgres and the "
         "Kafka that the settings name.\n"
         ".SH OPTIONS OF EVERY COMMAND");
    put_options(CTL_GLOBAL_OPTIONS, CTL_GLOBAL_OPTION_COUNT);
    puts(".SH COMMANDS");
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->nodes[i].command != NULL && !tree_is_verb(&tree->nodes[i])) {
            put_command(&tree->nodes[i]);
        }
    }
    puts(".SH EXIT STATUS");
    for (size_t i = 0; i < CTL_EXIT_COUNT; i++) {
        printf(".TP\n.B %d\n%s\n", (int)CTL_EXITS[i].code, CTL_EXITS[i].text);
    }
    puts(".SH ENVIRONMENT\n"
         "A setting NAME may also stand in ACTIONIST_NAME, in capitals and "
         "with _ for a dot.");
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_MAN, NULL, 0, argc, argv, NULL, 0, &code) <
        0) {
        return code;
    }
    struct tree tree;
    tree_init(&tree, ctl);
    put_page(&tree);
    tree_fini(&tree);
    return CTL_DONE;
}

const struct command COMMAND_MAN = {
    .name = "man",
    .arguments = "",
    .summary = "Print the manual page of this command",
    .details = "  actionist man | man -l -",
    .run = run,
};
