/* SPDX-License-Identifier: Apache-2.0 */
/* conf_internal: what the conf*.c files share. conf.h is the interface. */
#ifndef CONF_INTERNAL_H
#define CONF_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf.h"

/* A setting of the table and its value. */
struct conf_entry {
    const struct conf_setting *setting;
    char *text;     /* owned; NULL while not given */
    int64_t number; /* of CONF_INT and CONF_BOOL */
};

/* A name that goes through to librdkafka. */
struct conf_through {
    char *name;  /* owned; without "kafka." */
    char *value; /* owned */
    bool is_secret;
};

struct conf {
    const char *prog;
    struct conf_entry *entries; /* owned; shared ones first */
    size_t count;
    struct conf_through *throughs; /* owned */
    size_t through_count;
};

/* A flag of its own for a setting that is true or false, in programs that have
 * the setting. */
struct conf_switch {
    const char *flag;
    const char *setting;
};
extern const struct conf_switch CONF_SWITCHES[];
extern const size_t CONF_SWITCH_COUNT;

/* The entry of that name; NULL if there is none. */
struct conf_entry *conf_find(const struct conf *conf, const char *name);
/* Checks the value against the setting's type and range. */
int conf_check_value(const struct conf_setting *setting, const char *value,
    int64_t *number, struct err *err) MUST_CHECK;

/* Takes a "kafka.*" name; replaces an earlier value. */
int conf_set_through(struct conf *conf, const char *name, const char *value,
    struct err *err) MUST_CHECK;
void conf_free_throughs(struct conf *conf);

/* "ACTIONIST_TOPICS_PREFIX" of "topics.prefix", freed by the caller. */
char *conf_env_name(const char *name);
/* The settings with their values, in the form of a file; secrets hidden. Only
 * after conf_check(). */
void conf_print_values(const struct conf *conf, FILE *out);

#endif
