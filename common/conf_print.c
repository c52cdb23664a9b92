/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of the settings: --help and --print-config. */
#include <inttypes.h>
#include <string.h>

#include "common/conf.h"
#include "common/conf_internal.h"

enum { NAME_COLUMN = 30, TEXT_WIDTH = 72 };

/* Prints words with the indent, at most TEXT_WIDTH characters a line. */
static void print_wrapped(FILE *out, const char *indent, const char *text)
{
    while (*text != '\0') {
        size_t len = strlen(text);
        if (len > TEXT_WIDTH) {
            len = TEXT_WIDTH;
            while (len > 1 && text[len] != ' ') {
                len--;
            }
        }
        (void)fprintf(out, "%s%.*s\n", indent, (int)len, text);
        text += len;
        while (*text == ' ') {
            text++;
        }
    }
}

static void print_kind(FILE *out, const struct conf_setting *setting)
{
    switch (setting->type) {
    case CONF_INT:
        (void)fprintf(
            out, "number %" PRId64 "..%" PRId64, setting->min, setting->max);
        break;
    case CONF_BOOL:
        (void)fputs("true or false", out);
        break;
    case CONF_PATH:
        (void)fputs("path", out);
        break;
    case CONF_CONNINFO:
        (void)fputs("connection string", out);
        break;
    case CONF_TEXT:
    case CONF_TYPE_COUNT:
        (void)fputs("text", out);
        break;
    }
    if (setting->fallback == NULL) {
        (void)fputs(", required", out);
    } else if (setting->fallback[0] == '\0') {
        (void)fputs(", default empty", out);
    } else {
        (void)fprintf(out, ", default %s", setting->fallback);
    }
}

static void print_flags(const struct conf *conf, FILE *out)
{
    (void)fprintf(out,
        "Usage: %s [--config FILE] [--set NAME=VALUE]...\n"
        "\n"
        "  --config FILE      read settings from FILE (NAME = VALUE lines, # "
        "comments)\n"
        "  --set NAME=VALUE   set one, over file and environment\n",
        conf->prog);
    for (size_t i = 0; i < CONF_SWITCH_COUNT; i++) {
        if (conf_find(conf, CONF_SWITCHES[i].setting) != NULL) {
            (void)fprintf(out, "  %-18s set %s to true\n",
                CONF_SWITCHES[i].flag, CONF_SWITCHES[i].setting);
        }
    }
    (void)fputs("  --print-config     print the settings in effect and exit\n"
                "  --version          print the version and exit\n"
                "  --help             print this and exit\n",
        out);
}

void conf_print_help(const struct conf *conf, FILE *out)
{
    print_flags(conf, out);
    (void)fputs("\nSettings. Each may also come from the environment: "
                "ACTIONIST_ and the name in\n"
                "capitals, with _ for each dot (ACTIONIST_TOPICS_PREFIX).\n\n",
        out);
    for (size_t i = 0; i < conf->count; i++) {
        const struct conf_setting *setting = conf->entries[i].setting;
        (void)fprintf(out, "  %-*s ", NAME_COLUMN, setting->name);
        print_kind(out, setting);
        (void)fputc('\n', out);
        print_wrapped(out, "      ", setting->help);
    }
}

void conf_print_values(const struct conf *conf, FILE *out)
{
    for (size_t i = 0; i < conf->count; i++) {
        const struct conf_entry *entry = &conf->entries[i];
        print_wrapped(out, "# ", entry->setting->help);
        (void)fprintf(out, "%s = %s\n", entry->setting->name, entry->text);
    }
    for (size_t i = 0; i < conf->through_count; i++) {
        const struct conf_through *through = &conf->throughs[i];
        (void)fprintf(out, "%skafka.%s = %s\n", through->is_secret ? "# " : "",
            through->name, through->is_secret ? "(secret)" : through->value);
    }
}
