/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf: settings. Each is described once, in a table; the parser, --help and
 * the example file come from that table.
 *
 * Order: default < file (--config F: `name = value` lines, # comments) <
 * environment (ACTIONIST_ + upper-case name, dots as underscores) < flag
 * (--set name=value, repeatable). An unknown name is an error with its line
 * number; other environment variables are ignored. Names beginning with
 * "kafka." that the table does not list go through to librdkafka
 * (kafka.security.protocol=SASL_SSL, or ACTIONIST_KAFKA_SECURITY_PROTOCOL).
 * Secrets are given as paths of files only: kafka.sasl.password_file=PATH
 * gives librdkafka sasl.password.
 */
#ifndef CONF_H
#define CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/err.h"

#define ACTIONIST_VERSION "0.1.0"

enum conf_type {
    CONF_TEXT,
    CONF_INT,      /* decimal, within min..max */
    CONF_BOOL,     /* true or false */
    CONF_PATH,     /* a file that must be readable at start, unless empty */
    CONF_CONNINFO, /* as libpq takes it, without a password; may be empty */
    CONF_TYPE_COUNT
};

struct conf_setting {
    const char *name; /* units in the name: timeout_ms, size_bytes */
    enum conf_type type;
    const char *fallback; /* NULL: must be given */
    int64_t min;
    int64_t max;
    const char *help;
};

struct conf;

/* Settings every program has (postgres, kafka.*, topics.prefix, log.level). */
extern const struct conf_setting CONF_SHARED[];
extern const size_t CONF_SHARED_COUNT;

/* The table is borrowed for the life of conf; CONF_SHARED is added to it. */
struct conf *conf_new(
    const char *prog, const struct conf_setting *settings, size_t count);
void conf_free(struct conf *conf);

/*
 * Reads defaults, file, environment and the flags --config F, --set N=V,
 * --help, --version, --print-config (which print and exit 0), --behind-proxy
 * (http.behind_proxy, where there is that setting). Anything else on the
 * command line is a usage error.
 */
int conf_load(
    struct conf *conf, int argc, char **argv, struct err *err) MUST_CHECK;
/* Of a program that could not start: 2 after a usage error, else 1. */
int conf_exit_code(const struct err *err);
/* For programs with a command line of their own. */
int conf_load_file(
    struct conf *conf, const char *path, struct err *err) MUST_CHECK;
int conf_load_env(struct conf *conf, struct err *err) MUST_CHECK;
int conf_set(struct conf *conf, const char *name, const char *value,
    struct err *err) MUST_CHECK;
/* Checks that all required ones are there and paths are readable. */
int conf_check(const struct conf *conf, struct err *err) MUST_CHECK;

/* Getters; an unknown name or another type is our bug and aborts. */
const char *conf_text(const struct conf *conf, const char *name);
int64_t conf_int(const struct conf *conf, const char *name);
bool conf_bool(const struct conf *conf, const char *name);

typedef void (*conf_each_fn)(void *arg, const char *name, const char *value);
/* Calls fn for each "kafka.*" pass-through name, without the "kafka.". */
void conf_each_kafka(const struct conf *conf, conf_each_fn fn, void *arg);

void conf_print_help(const struct conf *conf, FILE *out);

/* Reads a secret file: at most 64 KiB, trailing newline removed; refuses one
 * that others may read (mode & 077, unless owned by root and group-read).
 * The caller frees text. */
int conf_read_secret(const char *path, char **text, struct err *err) MUST_CHECK;

#endif
