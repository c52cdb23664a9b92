/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of settings: file, environment, flags. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf.h"
#include "common/conf_internal.h"

enum { FILE_MAX_BYTES = 1 << 20, ENV_NAME_MAX_BYTES = 256 };

#define ENV_PREFIX "ACTIONIST_"
#define ENV_KAFKA ENV_PREFIX "KAFKA_"
#define ENV_FILE "_FILE"

extern char **environ;

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* -- environment ----------------------------------------------------------- */

char *conf_env_name(const char *name)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    buf_put_str(&text, ENV_PREFIX);
    for (; *name != '\0'; name++) {
        buf_put_char(&text, *name == '.' ? '_' : upper(*name));
    }
    return buf_take(&text, NULL);
}

static int load_entry(
    struct conf *conf, const struct conf_entry *entry, struct err *err)
{
    char *env_name = conf_env_name(entry->setting->name);
    const char *value = getenv(env_name);
    int result = 0;
    if (value != NULL &&
        conf_set(conf, entry->setting->name, value, err) != 0) {
        result = err_wrap(err, "environment variable %s", env_name);
    }
    free(env_name);
    return result;
}

/* "kafka.sasl.password_file" of "SASL_PASSWORD_FILE", which is terminated by
 * a '='. librdkafka's names have dots where environment variables have
 * underscores; only our own suffix keeps its underscore. */
static char *through_name(struct span rest)
{
    struct buf name;
    const size_t suffix_len = strlen(ENV_FILE);
    buf_init(&name, SIZE_MAX);
    buf_put_str(&name, "kafka.");
    for (size_t i = 0; i < rest.len; i++) {
        buf_put_char(&name, rest.ptr[i] == '_' ? '.' : lower(rest.ptr[i]));
    }
    if (rest.len > suffix_len &&
        memcmp(rest.ptr + rest.len - suffix_len, ENV_FILE, suffix_len) == 0) {
        name.data[name.len - suffix_len] = '_';
    }
    return buf_take(&name, NULL);
}

/* One "NAME=VALUE" of the environment, if it is for librdkafka. */
static int load_through(struct conf *conf, const char *text, struct err *err)
{
    const char *equals = strchr(text, '=');
    const size_t prefix_len = strlen(ENV_KAFKA);
    if (equals == NULL || strncmp(text, ENV_KAFKA, prefix_len) != 0 ||
        (size_t)(equals - text) <= prefix_len) {
        return 0;
    }
    const struct span rest = {
        .ptr = text + prefix_len, .len = (size_t)(equals - text) - prefix_len};
    char *name = through_name(rest);
    int result = 0;
    /* Those of the table are read by load_entry(). */
    if (conf_find(conf, name) == NULL &&
        conf_set(conf, name, equals + 1, err) != 0) {
        result = err_wrap(err, "environment variable %.*s",
            (int)(equals - text < ENV_NAME_MAX_BYTES ? equals - text
                                                     : ENV_NAME_MAX_BYTES),
            text);
    }
    free(name);
    return result;
}

int conf_load_env(struct conf *conf, struct err *err)
{
    for (size_t i = 0; i < conf->count; i++) {
        if (load_entry(conf, &conf->entries[i], err) != 0) {
            return -1;
        }
    }
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        if (load_through(conf, *at, err) != 0) {
            return -1;
        }
    }
    return 0;
}

/* -- file ------------------------------------------------------------------ */

static char *trim(char *text)
{
    while (*text == ' ' || *text == '\t') {
        text++;
    }
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]) != NULL) {
        len--;
    }
    text[len] = '\0';
    return text;
}

/* "name = value"; cuts the text in two. */
static int set_pair(struct conf *conf, char *text, struct err *err)
{
    char *equals = strchr(text, '=');
    if (equals == NULL) {
        return err_set(err, ERR_FATAL, "BAD_SETTING", "expected NAME=VALUE");
    }
    *equals = '\0';
    return conf_set(conf, trim(text), trim(equals + 1), err);
}

static int load_lines(
    struct conf *conf, char *text, const char *path, struct err *err)
{
    unsigned number = 0;
    char *rest = text;
    char *line = NULL;
    while ((line = strsep(&rest, "\n")) != NULL) {
        number++;
        line = trim(line);
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        if (set_pair(conf, line, err) != 0) {
            return err_wrap(err, "%s line %u", path, number);
        }
    }
    return 0;
}

int conf_load_file(struct conf *conf, const char *path, struct err *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return err_set_errno(
            err, ERR_FATAL, "BAD_SETTING", "cannot open %s", path);
    }
    char *text = mem_zalloc(1, FILE_MAX_BYTES + 2);
    const size_t len = fread(text, 1, FILE_MAX_BYTES + 1, file);
    int result = 0;
    if (ferror(file) != 0) {
        result = err_set_errno(
            err, ERR_FATAL, "BAD_SETTING", "cannot read %s", path);
    } else if (len > FILE_MAX_BYTES || strlen(text) != len) {
        result = err_set(err, ERR_FATAL, "BAD_SETTING",
            "%s is larger than 1 MiB or holds a NUL byte", path);
    } else {
        result = load_lines(conf, text, path, err);
    }
    (void)fclose(file);
    free(text);
    return result;
}

/* -- flags ----------------------------------------------------------------- */

const struct conf_switch CONF_SWITCHES[] = {
    {"--behind-proxy", "http.behind_proxy"},
};
const size_t CONF_SWITCH_COUNT = ARRAY_LEN(CONF_SWITCHES);

#define USAGE "USAGE"

enum pass { PASS_FILE, PASS_SET };

static int usage_error(
    const struct conf *conf, const char *flag, struct err *err)
{
    return err_set(err, ERR_FATAL, USAGE,
        "unexpected argument %s; see %s --help", flag, conf->prog);
}

/* The value of "--flag VALUE" or "--flag=VALUE"; NULL if it is another flag.
 * *at moves to the last argument used. */
static const char *flag_value(
    const char *flag, int argc, char **argv, int *at, struct err *err)
{
    const char *arg = argv[*at];
    const size_t len = strlen(flag);
    if (arg == NULL || strncmp(arg, flag, len) != 0) {
        return NULL;
    }
    if (arg[len] == '=') {
        return arg + len + 1;
    }
    if (arg[len] != '\0') {
        return NULL;
    }
    if (*at + 1 >= argc) {
        (void)err_set(err, ERR_FATAL, USAGE, "%s needs a value", flag);
        return NULL;
    }
    (*at)++;
    return argv[*at];
}

static int apply_set(struct conf *conf, const char *pair, struct err *err)
{
    char *copy = mem_strdup(pair);
    const int result = set_pair(conf, copy, err);
    free(copy);
    return result == 0 ? 0 : err_wrap(err, "--set");
}

/* The setting that the flag makes true; NULL if it is another flag. */
static const char *switched_on(const struct conf *conf, const char *flag)
{
    for (size_t i = 0; i < CONF_SWITCH_COUNT; i++) {
        if (strcmp(CONF_SWITCHES[i].flag, flag) == 0 &&
            conf_find(conf, CONF_SWITCHES[i].setting) != NULL) {
            return CONF_SWITCHES[i].setting;
        }
    }
    return NULL;
}

/* The file comes before the environment and that before the flags, so the
 * command line is walked twice. */
static int walk_flags(struct conf *conf, int argc, char **argv, enum pass pass,
    bool *is_print, struct err *err)
{
    for (int at = 1; at < argc; at++) {
        struct err missing = ERR_INIT;
        const char *arg = argv[at];
        const char *path = flag_value("--config", argc, argv, &at, &missing);
        const char *pair = path != NULL
                               ? NULL
                               : flag_value("--set", argc, argv, &at, &missing);
        if (missing.class != ERR_NONE) {
            *err = missing;
            return -1;
        }
        const char *setting = switched_on(conf, arg);
        int result = 0;
        if (path != NULL) {
            result = pass == PASS_FILE ? conf_load_file(conf, path, err) : 0;
        } else if (pair != NULL) {
            result = pass == PASS_SET ? apply_set(conf, pair, err) : 0;
        } else if (setting != NULL) {
            result =
                pass == PASS_SET ? conf_set(conf, setting, "true", err) : 0;
        } else if (strcmp(arg, "--print-config") == 0) {
            *is_print = true;
        } else {
            result = usage_error(conf, arg, err);
        }
        if (result != 0) {
            return -1;
        }
    }
    return 0;
}

/* --help and --version win over everything else, wrong settings included. */
static void answer_at_once(const struct conf *conf, int argc, char **argv)
{
    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            conf_print_help(conf, stdout);
        } else if (strcmp(argv[at], "--version") == 0) {
            (void)printf("%s %s\n", conf->prog, ACTIONIST_VERSION);
        } else {
            continue;
        }
        exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
}

int conf_exit_code(const struct err *err)
{
    return strcmp(err->code, USAGE) == 0 ? 2 : 1;
}

int conf_load(struct conf *conf, int argc, char **argv, struct err *err)
{
    bool is_print = false;
    answer_at_once(conf, argc, argv);
    if (walk_flags(conf, argc, argv, PASS_FILE, &is_print, err) != 0 ||
        conf_load_env(conf, err) != 0 ||
        walk_flags(conf, argc, argv, PASS_SET, &is_print, err) != 0 ||
        conf_check(conf, err) != 0) {
        return -1;
    }
    if (is_print) {
        conf_print_values(conf, stdout);
        exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    return 0;
}
