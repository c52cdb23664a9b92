/* SPDX-License-Identifier: Apache-2.0 */
/* options: command lines from tables, and the help made of the same tables. */
#include <stdarg.h>
#include <string.h>

#include "scheduler/ctl/ctl.h"

const struct ctl_option CTL_GLOBAL_OPTIONS[] = {
    {"json", NULL, "output for machines", NULL, NULL},
    {"config", "F", "read settings from a file", NULL, NULL},
    {"set", "N=V", "set one setting (see README, Running it)", NULL, NULL},
    {"help", NULL, "this text", NULL, NULL},
};
const size_t CTL_GLOBAL_OPTION_COUNT = ARRAY_LEN(CTL_GLOBAL_OPTIONS);

const struct ctl_exit_text CTL_EXITS[] = {
    {CTL_DONE, "done"},
    {CTL_FAILED, "failed"},
    {CTL_USAGE, "usage"},
    {CTL_NOT_FOUND, "not found"},
    {CTL_NEGATIVE, "check negative"},
    {CTL_CONFLICT, "conflict or refused"},
    {CTL_TRY_LATER, "try later"},
};
const size_t CTL_EXIT_COUNT = ARRAY_LEN(CTL_EXITS);

static void print_options(const struct ctl_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", options[i].name,
            options[i].argument != NULL ? " " : "",
            options[i].argument != NULL ? options[i].argument : "");
        printf("  %-22s %s\n", left, options[i].help);
    }
}

static void print_help(const struct command *command,
    const struct ctl_option *options, size_t option_count)
{
    printf("usage: actionist %s%s%s%s\n\n%s.\n", command->name,
        command->arguments[0] != '\0' ? " " : "", command->arguments,
        option_count > 0 ? " [options]" : "", command->summary);
    if (command->details != NULL)
        printf("\n%s\n", command->details);
    puts("\noptions:");
    print_options(options, option_count);
    print_options(CTL_GLOBAL_OPTIONS, CTL_GLOBAL_OPTION_COUNT);
}

static void give_help(const struct ctl *ctl, const struct command *command,
    const struct ctl_option *options, size_t option_count)
{
    if (ctl->on_help != NULL)
        ctl->on_help(ctl->help_owner, command, options, option_count);
    else
        print_help(command, options, option_count);
}

int ctl_fail(enum ctl_exit code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fflush(stdout);
    fputs("actionist: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return (int)code;
}

int ctl_fail_err(const struct err *err)
{
    bool is_passing = err->class == ERR_TRANSIENT || err->class == ERR_UNKNOWN;
    return ctl_fail(is_passing ? CTL_TRY_LATER : CTL_FAILED, "%s", err->msg);
}

static int set_setting(struct ctl *ctl, const char *text)
{
    const char *equals = strchr(text, '=');
    struct err err = ERR_INIT;
    char name[128];
    if (equals == NULL || (size_t)(equals - text) >= sizeof name)
        return ctl_fail(CTL_USAGE, "--set takes NAME=VALUE, not '%s'", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    if (conf_set(ctl->conf, name, equals + 1, &err) != 0)
        return ctl_fail(CTL_USAGE, "%s", err.msg);
    return CTL_DONE;
}

/* The global options that take a value. -1: not one of them. */
static int apply_global(struct ctl *ctl, const char *name, const char *value)
{
    struct err err = ERR_INIT;
    if (strcmp(name, "set") == 0)
        return set_setting(ctl, value);
    if (strcmp(name, "config") != 0)
        return -1;
    if (conf_load_file(ctl->conf, value, &err) != 0)
        return ctl_fail(CTL_USAGE, "%s", err.msg);
    return CTL_DONE;
}

static const struct ctl_option *find_option(
    const struct ctl_option *options, size_t option_count, const char *name)
{
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

/* argv[*at] is "--name", "--name=value" or "--name value". */
static int read_option(struct ctl *ctl, const struct command *command,
    const struct ctl_option *options, size_t option_count, int argc,
    char **argv, int *at)
{
    char name[64];
    const char *text = argv[*at] + 2;
    const char *equals = strchr(text, '=');
    size_t len = equals != NULL ? (size_t)(equals - text) : strlen(text);
    if (len >= sizeof name)
        return ctl_fail(CTL_USAGE, "unknown option %s", argv[*at]);
    memcpy(name, text, len);
    name[len] = '\0';

    if (strcmp(name, "json") == 0 && equals == NULL) {
        ctl->is_json = true;
        return CTL_DONE;
    }
    const struct ctl_option *option = find_option(options, option_count, name);
    if (option != NULL && option->flag != NULL && equals == NULL) {
        *option->flag = true;
        return CTL_DONE;
    }
    bool takes_value = strcmp(name, "set") == 0 ||
                       strcmp(name, "config") == 0 ||
                       (option != NULL && option->text != NULL);
    if (!takes_value)
        return ctl_fail(CTL_USAGE,
            "%s has no option --%s; `actionist %s --help` lists them",
            command->name, name, command->name);
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (value == NULL && *at + 1 < argc)
        value = argv[++*at];
    if (value == NULL)
        return ctl_fail(CTL_USAGE, "--%s needs a value", name);
    if (option == NULL)
        return apply_global(ctl, name, value);
    *option->text = value;
    return CTL_DONE;
}

/* NOLINTNEXTLINE(readability-function-size): a command line has those parts */
int ctl_options(struct ctl *ctl, const struct command *command,
    const struct ctl_option *options, size_t option_count, int argc,
    char **argv, const char **rest, size_t rest_max, int *exit_code)
{
    size_t count = 0;
    bool is_only_rest = false;
    for (int at = 1; at < argc; at++) {
        if (!is_only_rest && strcmp(argv[at], "--help") == 0) {
            give_help(ctl, command, options, option_count);
            *exit_code = CTL_DONE;
            return -1;
        }
        if (!is_only_rest && strcmp(argv[at], "--") == 0) {
            is_only_rest = true;
            continue;
        }
        if (!is_only_rest && strncmp(argv[at], "--", 2) == 0) {
            *exit_code = read_option(
                ctl, command, options, option_count, argc, argv, &at);
            if (*exit_code != CTL_DONE)
                return -1;
            continue;
        }
        if (count == rest_max) {
            *exit_code = ctl_fail(CTL_USAGE,
                "too many arguments: '%s'; see `actionist %s --help`", argv[at],
                command->name);
            return -1;
        }
        rest[count++] = argv[at];
    }
    return (int)count;
}
