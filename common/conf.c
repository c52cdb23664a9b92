/* SPDX-License-Identifier: Apache-2.0 */
/* The table, its values and the getters. */
#include "common/conf.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf_internal.h"

const struct conf_setting CONF_SHARED[] = {
    {.name = "postgres",
        .type = CONF_CONNINFO,
        .help = "Postgres, as a libpq connection string or URI; its password "
                "comes from the file that passfile= names."},
    {.name = "kafka.bootstrap.servers",
        .type = CONF_TEXT,
        .help = "Kafka brokers, host:port,... Any other librdkafka setting "
                "is given the same way: kafka.security.protocol, "
                "kafka.ssl.ca.location, kafka.sasl.password_file."},
    {.name = "topics.prefix",
        .type = CONF_TEXT,
        .fallback = "actionist.",
        .help = "What the names of all topics begin with."},
    {.name = "log.level",
        .type = CONF_TEXT,
        .fallback = "info",
        .help = "error, warn, info or debug."},
};
const size_t CONF_SHARED_COUNT = ARRAY_LEN(CONF_SHARED);

/* A wrong table or name in our own code. */
static void require(bool is_right, const char *what, const char *name)
{
    if (!is_right) {
        (void)fprintf(stderr, "setting %s: %s\n", name, what);
        abort();
    }
}

static void add_settings(
    struct conf *conf, const struct conf_setting *settings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct conf_entry *entry = &conf->entries[conf->count];
        require(conf_find(conf, settings[i].name) == NULL, "listed twice",
            settings[i].name);
        conf->count++;
        entry->setting = &settings[i];
        if (settings[i].fallback == NULL) {
            continue;
        }
        entry->text = mem_strdup(settings[i].fallback);
        struct err err = ERR_INIT;
        require(conf_check_value(
                    &settings[i], entry->text, &entry->number, &err) == 0,
            "wrong default", settings[i].name);
    }
}

struct conf *conf_new(
    const char *prog, const struct conf_setting *settings, size_t count)
{
    struct conf *conf = mem_zalloc(1, sizeof(*conf));
    conf->prog = prog;
    conf->entries =
        mem_zalloc(CONF_SHARED_COUNT + count, sizeof(*conf->entries));
    add_settings(conf, CONF_SHARED, CONF_SHARED_COUNT);
    add_settings(conf, settings, count);
    return conf;
}

void conf_free(struct conf *conf)
{
    if (conf == NULL) {
        return;
    }
    for (size_t i = 0; i < conf->count; i++) {
        free(conf->entries[i].text);
    }
    free(conf->entries);
    conf_free_throughs(conf);
    free(conf);
}

struct conf_entry *conf_find(const struct conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->count; i++) {
        if (strcmp(conf->entries[i].setting->name, name) == 0) {
            return &conf->entries[i];
        }
    }
    return NULL;
}

static int check_int(const struct conf_setting *setting, const char *value,
    int64_t *number, struct err *err)
{
    if (!span_to_int(span_of(value), number)) {
        return err_set(err, ERR_FATAL, "BAD_SETTING",
            "%s is \"%s\"; it must be a whole number", setting->name, value);
    }
    if (*number < setting->min || *number > setting->max) {
        return err_set(err, ERR_FATAL, "BAD_SETTING",
            "%s is %s; it must be within %lld..%lld", setting->name, value,
            (long long)setting->min, (long long)setting->max);
    }
    return 0;
}

static bool has_password(const PQconninfoOption *options)
{
    for (; options->keyword != NULL; options++) {
        if ((strcmp(options->keyword, "password") == 0 ||
                strcmp(options->keyword, "sslpassword") == 0) &&
            options->val != NULL) {
            return true;
        }
    }
    return false;
}

static int check_conninfo(
    const struct conf_setting *setting, const char *value, struct err *err)
{
    char *reason = NULL;
    PQconninfoOption *options = PQconninfoParse(value, &reason);
    if (options == NULL) {
        /* libpq's reason ends in a newline, and may quote the string. */
        PQfreemem(reason);
        return err_set(err, ERR_FATAL, "BAD_SETTING",
            "%s is not a connection string or URI as libpq takes it",
            setting->name);
    }
    const bool is_open = has_password(options);
    PQconninfoFree(options);
    if (is_open) {
        return err_set(err, ERR_FATAL, "BAD_SETTING",
            "%s holds a password; put it into a password file and name that "
            "with passfile=PATH",
            setting->name);
    }
    return 0;
}

int conf_check_value(const struct conf_setting *setting, const char *value,
    int64_t *number, struct err *err)
{
    *number = 0;
    switch (setting->type) {
    case CONF_INT:
        return check_int(setting, value, number, err);
    case CONF_BOOL:
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
            return err_set(err, ERR_FATAL, "BAD_SETTING",
                "%s is \"%s\"; it must be true or false", setting->name, value);
        }
        *number = strcmp(value, "true") == 0;
        return 0;
    case CONF_CONNINFO:
        return check_conninfo(setting, value, err);
    case CONF_TEXT:
    case CONF_PATH:
    case CONF_TYPE_COUNT:
        break;
    }
    return 0;
}

int conf_set(
    struct conf *conf, const char *name, const char *value, struct err *err)
{
    struct conf_entry *entry = conf_find(conf, name);
    if (entry == NULL) {
        if (strncmp(name, "kafka.", 6) == 0 && name[6] != '\0') {
            return conf_set_through(conf, name + 6, value, err);
        }
        return err_set(err, ERR_FATAL, "UNKNOWN_SETTING",
            "no setting is named \"%s\"; see %s --help", name, conf->prog);
    }
    int64_t number = 0;
    if (conf_check_value(entry->setting, value, &number, err) != 0) {
        return -1;
    }
    free(entry->text);
    entry->text = mem_strdup(value);
    entry->number = number;
    return 0;
}

static int check_entry(const struct conf_entry *entry, struct err *err)
{
    const struct conf_setting *setting = entry->setting;
    if (entry->text == NULL ||
        (setting->fallback == NULL && entry->text[0] == '\0')) {
        char *env_name = conf_env_name(setting->name);
        (void)err_set(err, ERR_FATAL, "MISSING_SETTING",
            "%s is not set; give it with --set %s=VALUE, in the file of "
            "--config, or as %s",
            setting->name, setting->name, env_name);
        free(env_name);
        return -1;
    }
    if (setting->type == CONF_PATH && entry->text[0] != '\0' &&
        access(entry->text, R_OK) != 0) {
        return err_set_errno(err, ERR_FATAL, "BAD_SETTING",
            "%s: cannot read %s", setting->name, entry->text);
    }
    return 0;
}

int conf_check(const struct conf *conf, struct err *err)
{
    for (size_t i = 0; i < conf->count; i++) {
        if (check_entry(&conf->entries[i], err) != 0) {
            return -1;
        }
    }
    return 0;
}

static const struct conf_entry *get(
    const struct conf *conf, const char *name, const char *what)
{
    const struct conf_entry *entry = conf_find(conf, name);
    require(entry != NULL, what, name);
    return entry;
}

const char *conf_text(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = get(conf, name, "is in no table");
    const enum conf_type type = entry->setting->type;
    require(type == CONF_TEXT || type == CONF_PATH || type == CONF_CONNINFO,
        "is not a text", name);
    return entry->text == NULL ? "" : entry->text;
}

int64_t conf_int(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = get(conf, name, "is in no table");
    require(entry->setting->type == CONF_INT, "is not a number", name);
    return entry->number;
}

bool conf_bool(const struct conf *conf, const char *name)
{
    const struct conf_entry *entry = get(conf, name, "is in no table");
    require(entry->setting->type == CONF_BOOL, "is not a bool", name);
    return entry->number != 0;
}
