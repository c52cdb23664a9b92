/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/conf.h"

static const struct conf_setting settings[] = {
    {.name = "batch.records_max",
        .type = CONF_INT,
        .fallback = "200",
        .min = 1,
        .max = 500,
        .help = "Records in a batch."},
    {.name = "is_careful",
        .type = CONF_BOOL,
        .fallback = "true",
        .help = "Take care."},
    {.name = "trust.path",
        .type = CONF_PATH,
        .fallback = "",
        .help = "Trust store. This text is long enough to need a second line "
                "in the help, where words are not cut in two."},
};

static char folder[] = "/tmp/actionist-test-conf-XXXXXX";

static struct conf *new_conf(void)
{
    return conf_new("test", settings, ARRAY_LEN(settings));
}

/* A file of the test's folder; path has 256 bytes. */
static void write_file(
    char *path, const char *name, const char *text, mode_t mode)
{
    (void)snprintf(path, 256, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void expect_err(
    const struct err *err, const char *code, const char *part)
{
    assert_int_equal(err->class, ERR_FATAL);
    assert_string_equal(err->code, code);
    if (strstr(err->msg, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, err->msg);
    }
}

/* conf_load() with the flags given; argv is not const there, as in main(). */
static int load(
    struct conf *conf, const char *const *flags, size_t count, struct err *err)
{
    char *argv[16] = {strdup("test")};
    assert_true(count < ARRAY_LEN(argv));
    for (size_t i = 0; i < count; i++) {
        argv[i + 1] = strdup(flags[i]);
        assert_non_null(argv[i + 1]);
    }
    const int result = conf_load(conf, (int)count + 1, argv, err);
    for (size_t i = 0; i <= count; i++) {
        free(argv[i]);
    }
    return result;
}

static void defaults_hold_until_set(void **state)
{
    (void)state;
    struct conf *conf = new_conf();
    struct err err = ERR_INIT;
    assert_int_equal(conf_int(conf, "batch.records_max"), 200);
    assert_true(conf_bool(conf, "is_careful"));
    assert_string_equal(conf_text(conf, "topics.prefix"), "actionist.");
    assert_string_equal(conf_text(conf, "trust.path"), "");
    assert_int_equal(conf_set(conf, "batch.records_max", "500", &err), 0);
    assert_int_equal(conf_set(conf, "is_careful", "false", &err), 0);
    assert_int_equal(conf_int(conf, "batch.records_max"), 500);
    assert_false(conf_bool(conf, "is_careful"));
    conf_free(conf);
    conf_free(NULL);
}

static void wrong_values_are_refused_by_name_and_rule(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *value;
        const char *code;
        const char *part;
    } rows[] = {
        {"batch.records_max", "0", "BAD_SETTING",
            "batch.records_max is 0; it must be within 1..500"},
        {"batch.records_max", "501", "BAD_SETTING", "within 1..500"},
        {"batch.records_max", "many", "BAD_SETTING", "a whole number"},
        {"batch.records_max", "", "BAD_SETTING", "a whole number"},
        {"batch.records_max", "1.5", "BAD_SETTING", "a whole number"},
        {"is_careful", "yes", "BAD_SETTING",
            "is_careful is \"yes\"; it must be true or false"},
        {"batch", "1", "UNKNOWN_SETTING", "no setting is named \"batch\""},
        {"kafka.", "1", "UNKNOWN_SETTING", "kafka."},
        {"kafka.sasl.password", "x", "BAD_SETTING",
            "give its path as kafka.sasl.password_file"},
        {"kafka.ssl.key.password", "x", "BAD_SETTING", "is a secret"},
        {"kafka.sasl.oauthbearer.client.secret", "x", "BAD_SETTING",
            "is a secret"},
        {"kafka.ssl.key.pem", "x", "BAD_SETTING", "is a secret"},
        {"kafka.sasl.password_file", "/nowhere/x", "BAD_SECRET_FILE",
            "kafka.sasl.password_file: cannot open /nowhere/x: No such file"},
    };
    struct conf *conf = new_conf();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = ERR_INIT;
        assert_int_equal(conf_set(conf, rows[i].name, rows[i].value, &err), -1);
        expect_err(&err, rows[i].code, rows[i].part);
    }
    assert_int_equal(conf_int(conf, "batch.records_max"), 200);
    conf_free(conf);
}

static void files_are_read_line_by_line(void **state)
{
    (void)state;
    char path[256];
    struct err err = ERR_INIT;
    struct conf *conf = new_conf();
    write_file(path, "good.conf",
        "# a comment\n\n  batch.records_max = 7 \r\n"
        "topics.prefix = host=/run dbname=a # b\n"
        "kafka.security.protocol=SASL_SSL\nis_careful=false",
        0644);
    assert_int_equal(conf_load_file(conf, path, &err), 0);
    assert_int_equal(conf_int(conf, "batch.records_max"), 7);
    assert_string_equal(
        conf_text(conf, "topics.prefix"), "host=/run dbname=a # b");
    assert_false(conf_bool(conf, "is_careful"));
    conf_free(conf);
}

static void wrong_lines_are_named_by_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *code;
        const char *part;
    } rows[] = {
        {"\n\nunknown = 1\n", "UNKNOWN_SETTING", "line 3: no setting"},
        {"batch.records_max = x\n", "BAD_SETTING", "line 1: batch"},
        {"# c\njust words\n", "BAD_SETTING", "line 2: expected NAME=VALUE"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char path[256];
        struct err err = ERR_INIT;
        struct conf *conf = new_conf();
        write_file(path, "bad.conf", rows[i].text, 0644);
        assert_int_equal(conf_load_file(conf, path, &err), -1);
        expect_err(&err, rows[i].code, rows[i].part);
        conf_free(conf);
    }
    struct err err = ERR_INIT;
    struct conf *conf = new_conf();
    assert_int_equal(conf_load_file(conf, "/nowhere/x.conf", &err), -1);
    expect_err(&err, "BAD_SETTING", "cannot open /nowhere/x.conf");
    conf_free(conf);
}

struct seen {
    char text[512];
};

static void note_kafka(void *arg, const char *name, const char *value)
{
    struct seen *seen = arg;
    const size_t used = strlen(seen->text);
    (void)snprintf(
        seen->text + used, sizeof(seen->text) - used, "%s=%s;", name, value);
}

static void environment_names_are_capitals_with_underscores(void **state)
{
    (void)state;
    char path[256];
    struct err err = ERR_INIT;
    struct seen seen = {.text = ""};
    struct conf *conf = new_conf();
    write_file(path, "secret", "s3cret\n", 0600);
    (void)setenv("ACTIONIST_BATCH_RECORDS_MAX", "9", 1);
    (void)setenv("ACTIONIST_KAFKA_BOOTSTRAP_SERVERS", "h:1", 1);
    (void)setenv("ACTIONIST_KAFKA_SECURITY_PROTOCOL", "SASL_SSL", 1);
    (void)setenv("ACTIONIST_KAFKA_SASL_PASSWORD_FILE", path, 1);
    (void)setenv("ACTIONIST_SOMETHING_ELSE", "ignored", 1);
    assert_int_equal(conf_load_env(conf, &err), 0);
    assert_int_equal(conf_int(conf, "batch.records_max"), 9);
    assert_string_equal(conf_text(conf, "kafka.bootstrap.servers"), "h:1");
    conf_each_kafka(conf, note_kafka, &seen);
    assert_non_null(strstr(seen.text, "security.protocol=SASL_SSL;"));
    assert_non_null(strstr(seen.text, "sasl.password=s3cret;"));
    assert_null(strstr(seen.text, "bootstrap"));
    (void)setenv("ACTIONIST_BATCH_RECORDS_MAX", "0", 1);
    assert_int_equal(conf_load_env(conf, &err), -1);
    expect_err(&err, "BAD_SETTING",
        "environment variable ACTIONIST_BATCH_RECORDS_MAX: batch");
    (void)unsetenv("ACTIONIST_BATCH_RECORDS_MAX");
    (void)setenv("ACTIONIST_KAFKA_SASL_PASSWORD", "clear", 1);
    assert_int_equal(conf_load_env(conf, &err), -1);
    expect_err(&err, "BAD_SETTING", "ACTIONIST_KAFKA_SASL_PASSWORD");
    assert_null(strstr(err.msg, "clear"));
    (void)unsetenv("ACTIONIST_KAFKA_SASL_PASSWORD");
    (void)unsetenv("ACTIONIST_KAFKA_BOOTSTRAP_SERVERS");
    (void)unsetenv("ACTIONIST_KAFKA_SECURITY_PROTOCOL");
    (void)unsetenv("ACTIONIST_KAFKA_SASL_PASSWORD_FILE");
    (void)unsetenv("ACTIONIST_SOMETHING_ELSE");
    conf_free(conf);
}

static void flags_win_over_environment_and_that_over_the_file(void **state)
{
    (void)state;
    char path[256];
    struct err err = ERR_INIT;
    struct conf *conf = new_conf();
    write_file(path, "order.conf",
        "batch.records_max = 1\nlog.level = debug\ntopics.prefix = file.\n"
        "postgres = dbname=x\nkafka.bootstrap.servers = h:1\n",
        0644);
    (void)setenv("ACTIONIST_BATCH_RECORDS_MAX", "2", 1);
    (void)setenv("ACTIONIST_TOPICS_PREFIX", "env.", 1);
    const char *const flags[] = {"--set", "batch.records_max=3", "--config",
        path, "--set=is_careful=false"};
    assert_int_equal(load(conf, flags, ARRAY_LEN(flags), &err), 0);
    assert_int_equal(conf_int(conf, "batch.records_max"), 3);
    assert_string_equal(conf_text(conf, "topics.prefix"), "env.");
    assert_string_equal(conf_text(conf, "log.level"), "debug");
    assert_false(conf_bool(conf, "is_careful"));
    (void)unsetenv("ACTIONIST_BATCH_RECORDS_MAX");
    (void)unsetenv("ACTIONIST_TOPICS_PREFIX");
    conf_free(conf);
}

static void wrong_flags_are_usage_errors(void **state)
{
    (void)state;
    static const struct {
        const char *flag;
        const char *code;
        const char *part;
    } rows[] = {
        {"--what", "USAGE", "unexpected argument --what; see test --help"},
        {"word", "USAGE", "unexpected argument word"},
        {"--config", "USAGE", "--config needs a value"},
        {"--set", "USAGE", "--set needs a value"},
        {"--set=x", "BAD_SETTING", "--set: expected NAME=VALUE"},
        {"--set=x=1", "UNKNOWN_SETTING", "--set: no setting is named \"x\""},
        {"--setting=x", "USAGE", "unexpected argument"},
        /* This program has no setting that it would be for. */
        {"--behind-proxy", "USAGE", "unexpected argument"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = ERR_INIT;
        struct conf *conf = new_conf();
        assert_int_equal(load(conf, &rows[i].flag, 1, &err), -1);
        expect_err(&err, rows[i].code, rows[i].part);
        assert_int_equal(
            conf_exit_code(&err), strcmp(rows[i].code, "USAGE") == 0 ? 2 : 1);
        conf_free(conf);
    }
}

static void the_check_finds_what_is_missing_or_open(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct conf *conf = new_conf();
    assert_int_equal(conf_check(conf, &err), -1);
    expect_err(&err, "MISSING_SETTING",
        "postgres is not set; give it with "
        "--set postgres=VALUE");
    expect_err(&err, "MISSING_SETTING", "ACTIONIST_POSTGRES");
    assert_int_equal(conf_set(conf, "kafka.bootstrap.servers", "h:1", &err), 0);
    static const struct {
        const char *conninfo;
        const char *part;
    } rows[] = {
        {"host=/x password=hidden", "postgres holds a password"},
        {"host=/x sslpassword=hidden", "postgres holds a password"},
        {"postgresql://u:hidden@h/d", "postgres holds a password"},
        {"host=/x pass hidden", "not a connection string"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(
            conf_set(conf, "postgres", rows[i].conninfo, &err), -1);
        assert_non_null(strstr(err.msg, rows[i].part));
        assert_null(strstr(err.msg, "hidden"));
    }
    assert_int_equal(conf_set(conf, "postgres", "", &err), 0);
    assert_int_equal(conf_check(conf, &err), -1);
    expect_err(&err, "MISSING_SETTING", "postgres is not set");
    assert_int_equal(
        conf_set(conf, "postgres", "host=/x passfile=/y", &err), 0);
    assert_int_equal(conf_check(conf, &err), 0);
    assert_int_equal(conf_set(conf, "trust.path", "/nowhere/x", &err), 0);
    assert_int_equal(conf_check(conf, &err), -1);
    expect_err(&err, "BAD_SETTING", "trust.path: cannot read /nowhere/x: No");
    conf_free(conf);
}

static void secrets_are_read_from_private_files_only(void **state)
{
    (void)state;
    char path[256];
    char *text = NULL;
    struct err err = ERR_INIT;
    static char large[65536 + 2];
    memset(large, 'x', sizeof(large) - 1);
    const struct {
        const char *content;
        mode_t mode;
        const char *part; /* NULL: is read */
    } rows[] = {
        {"s3cret", 0600, NULL},
        {"s3cret\n", 0400, NULL},
        {"s3cret\r\n", 0600, NULL},
        {"s3cret", 0604, "may be read by others (mode 0604)"},
        {"s3cret", 0660, "may be read by others"},
        {"\n", 0600, "is empty"},
        {"", 0600, "is empty"},
        {large, 0600, "larger than 65536 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        write_file(path, "pw", rows[i].content, rows[i].mode);
        const int result = conf_read_secret(path, &text, &err);
        if (rows[i].part == NULL) {
            assert_int_equal(result, 0);
            assert_string_equal(text, "s3cret");
            free(text);
        } else {
            assert_int_equal(result, -1);
            expect_err(&err, "BAD_SECRET_FILE", rows[i].part);
        }
        (void)unlink(path);
    }
    /* A group may read what belongs to root. */
    write_file(path, "pw", "s3cret", 0640);
    const int result = conf_read_secret(path, &text, &err);
    assert_int_equal(result, getuid() == 0 ? 0 : -1);
    if (result == 0) {
        free(text);
    }
    assert_int_equal(conf_read_secret(folder, &text, &err), -1);
    expect_err(&err, "BAD_SECRET_FILE", "is not a regular file");
}

/* What conf_load() prints for a flag that ends the process. */
static int run_flag(const char *flag, char *text, size_t size)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(fds[1], STDOUT_FILENO);
        (void)close(fds[0]);
        const char *const flags[] = {"--set", "postgres=dbname=x", "--set",
            "kafka.bootstrap.servers=h:1", "--set", "kafka.client.id=me", flag};
        struct err err = ERR_INIT;
        struct conf *conf = new_conf();
        _exit(load(conf, flags, ARRAY_LEN(flags), &err) == 0 ? 90 : 91);
    }
    (void)close(fds[1]);
    size_t len = 0;
    ssize_t got = 0;
    while (len < size - 1 &&
           (got = read(fds[0], text + len, size - 1 - len)) > 0) {
        len += (size_t)got;
    }
    text[len] = '\0';
    (void)close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void help_version_and_print_end_with_zero(void **state)
{
    (void)state;
    static char text[16384];
    assert_int_equal(run_flag("--help", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "Usage: test [--config FILE]"));
    assert_non_null(strstr(text, "batch.records_max"));
    assert_non_null(strstr(text, "number 1..500, default 200\n"));
    assert_non_null(strstr(text, "text, required\n"));
    assert_non_null(strstr(text, "path, default empty\n"));
    assert_int_equal(run_flag("--version", text, sizeof(text)), 0);
    assert_string_equal(text, "test " ACTIONIST_VERSION "\n");
    assert_int_equal(run_flag("--print-config", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "\npostgres = dbname=x\n"));
    assert_non_null(strstr(text, "\nbatch.records_max = 200\n"));
    assert_non_null(strstr(text, "\nkafka.client.id = me\n"));
}

static int make_folder(void **state)
{
    (void)state;
    /* A shell may carry settings of a running cluster. */
    (void)clearenv();
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {
        "good.conf", "bad.conf", "order.conf", "secret", "pw"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold_until_set),
        cmocka_unit_test(wrong_values_are_refused_by_name_and_rule),
        cmocka_unit_test(files_are_read_line_by_line),
        cmocka_unit_test(wrong_lines_are_named_by_number),
        cmocka_unit_test(environment_names_are_capitals_with_underscores),
        cmocka_unit_test(flags_win_over_environment_and_that_over_the_file),
        cmocka_unit_test(wrong_flags_are_usage_errors),
        cmocka_unit_test(the_check_finds_what_is_missing_or_open),
        cmocka_unit_test(secrets_are_read_from_private_files_only),
        cmocka_unit_test(help_version_and_print_end_with_zero),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
