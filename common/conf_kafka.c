/* SPDX-License-Identifier: Apache-2.0 */
/* The names that go through to librdkafka, and secrets from files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf.h"
#include "common/conf_internal.h"

enum { SECRET_MAX_BYTES = 65536, NAME_MAX_BYTES = 128 };

#define FILE_SUFFIX "_file"

static bool ends_in(const char *text, const char *suffix)
{
    const size_t len = strlen(text);
    const size_t suffix_len = strlen(suffix);
    return len >= suffix_len && strcmp(text + len - suffix_len, suffix) == 0;
}

/* Names whose values librdkafka treats as secrets. */
static bool is_secret_name(const char *name)
{
    return ends_in(name, "password") || ends_in(name, "secret") ||
           ends_in(name, ".key.pem");
}

/* Takes ownership of value. */
static void store(
    struct conf *conf, const char *name, char *value, bool is_secret)
{
    for (size_t i = 0; i < conf->through_count; i++) {
        struct conf_through *through = &conf->throughs[i];
        if (strcmp(through->name, name) == 0) {
            free(through->value);
            through->value = value;
            return;
        }
    }
    conf->throughs = mem_resize(
        conf->throughs, conf->through_count + 1, sizeof(*conf->throughs));
    conf->throughs[conf->through_count++] = (struct conf_through){
        .name = mem_strdup(name), .value = value, .is_secret = is_secret};
}

/* bare is name without its suffix; path names the secret's file. */
static int store_secret(struct conf *conf, const char *name, const char *bare,
    const char *path, struct err *err)
{
    char *secret = NULL;
    if (conf_read_secret(path, &secret, err) != 0) {
        return err_wrap(err, "kafka.%s", name);
    }
    store(conf, bare, secret, true);
    return 0;
}

int conf_set_through(
    struct conf *conf, const char *name, const char *value, struct err *err)
{
    if (strlen(name) > NAME_MAX_BYTES) {
        return err_set(err, ERR_FATAL, "UNKNOWN_SETTING",
            "a kafka.* name has more than %d characters", NAME_MAX_BYTES);
    }
    if (is_secret_name(name)) {
        return err_set(err, ERR_FATAL, "BAD_SETTING",
            "kafka.%s is a secret; put it into a file and give its path as "
            "kafka.%s" FILE_SUFFIX,
            name, name);
    }
    if (ends_in(name, FILE_SUFFIX)) {
        char *bare = span_dup((struct span){
            .ptr = name, .len = strlen(name) - strlen(FILE_SUFFIX)});
        const bool is_secret = is_secret_name(bare);
        const int result =
            is_secret ? store_secret(conf, name, bare, value, err) : 0;
        free(bare);
        if (is_secret) {
            return result;
        }
    }
    store(conf, name, mem_strdup(value), false);
    return 0;
}

void conf_free_throughs(struct conf *conf)
{
    for (size_t i = 0; i < conf->through_count; i++) {
        struct conf_through *through = &conf->throughs[i];
        if (through->is_secret) {
            explicit_bzero(through->value, strlen(through->value));
        }
        free(through->name);
        free(through->value);
    }
    free(conf->throughs);
}

void conf_each_kafka(const struct conf *conf, conf_each_fn fn, void *arg)
{
    for (size_t i = 0; i < conf->through_count; i++) {
        fn(arg, conf->throughs[i].name, conf->throughs[i].value);
    }
}

/* -- secrets --------------------------------------------------------------- */

static int check_secret_file(int fd, const char *path, struct err *err)
{
    struct stat stat = {.st_mode = 0};
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        return err_set(err, ERR_FATAL, "BAD_SECRET_FILE",
            "%s is not a regular file", path);
    }
    const unsigned open_to = (unsigned)stat.st_mode & 077U;
    const bool is_roots_group = stat.st_uid == 0 && open_to == 040U;
    if (open_to != 0 && !is_roots_group) {
        return err_set(err, ERR_FATAL, "BAD_SECRET_FILE",
            "%s may be read by others (mode %04o); run chmod 600 on it", path,
            (unsigned)stat.st_mode & 07777U);
    }
    return 0;
}

/* Reads until the end; the number of bytes, or -1 with errno. */
static ssize_t read_all(int fd, char *bytes, size_t size)
{
    size_t len = 0;
    while (len < size) {
        const ssize_t got = read(fd, bytes + len, size - len);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        len += (size_t)got;
    }
    return (ssize_t)len;
}

static int check_secret(
    char *bytes, ssize_t got, const char *path, struct err *err)
{
    if (got < 0) {
        return err_set_errno(
            err, ERR_FATAL, "BAD_SECRET_FILE", "cannot read %s", path);
    }
    size_t len = (size_t)got;
    if (len > SECRET_MAX_BYTES) {
        return err_set(err, ERR_FATAL, "BAD_SECRET_FILE",
            "%s is larger than %d bytes", path, SECRET_MAX_BYTES);
    }
    if (len > 0 && bytes[len - 1] == '\n') {
        len--;
    }
    if (len > 0 && bytes[len - 1] == '\r') {
        len--;
    }
    bytes[len] = '\0';
    if (len == 0 || strlen(bytes) != len) {
        return err_set(err, ERR_FATAL, "BAD_SECRET_FILE",
            "%s is empty or holds a NUL byte", path);
    }
    return 0;
}

int conf_read_secret(const char *path, char **text, struct err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return err_set_errno(
            err, ERR_FATAL, "BAD_SECRET_FILE", "cannot open %s", path);
    }
    char *bytes = NULL;
    int result = check_secret_file(fd, path, err);
    if (result == 0) {
        /* One byte more shows that it is too large, one is for the end. */
        bytes = mem_zalloc(1, SECRET_MAX_BYTES + 2);
        const ssize_t got = read_all(fd, bytes, SECRET_MAX_BYTES + 1);
        result = check_secret(bytes, got, path, err);
    }
    (void)close(fd);
    if (result != 0) {
        free(bytes);
        return -1;
    }
    *text = mem_strdup(bytes);
    explicit_bzero(bytes, SECRET_MAX_BYTES + 2);
    free(bytes);
    return 0;
}
