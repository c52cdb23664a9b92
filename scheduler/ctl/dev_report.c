/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/dev_report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "scheduler/ctl/dev_process.h"
#include "scheduler/ctl/file.h"

#define MAX_TEXT_BYTES ((size_t)64 << 10)

static void put_part(
    struct buf *out, const struct dev_fleet *fleet, enum dev_part part)
{
    char *pid_file = dev_part_file(fleet, part, "", ".pid");
    char *log = dev_part_file(fleet, part, "log/", ".log");
    char *url = dev_url(fleet, part);
    pid_t pid = dev_pid(pid_file);
    buf_put_char(out, '{');
    json_put_name(out, "name");
    json_put_cstring(out, dev_part_name(part));
    json_put_name(out, "state");
    json_put_cstring(out, pid != 0 ? "running" : "down");
    json_put_name(out, "pid");
    if (pid != 0)
        buf_put_int(out, pid);
    else
        buf_put_str(out, "null");
    json_put_name(out, "url");
    json_put_cstring(out, url);
    json_put_name(out, "log");
    json_put_cstring(out, log);
    buf_put_char(out, '}');
    free(pid_file);
    free(log);
    free(url);
}

static void put_text_member(
    struct buf *out, const char *name, const char *value)
{
    json_put_name(out, name);
    json_put_cstring(out, value);
}

static void print_json(const struct ctl *ctl, const struct dev_fleet *fleet,
    bool is_up, const struct buf *keys)
{
    struct buf out;
    char *config = dev_file(fleet, "actionist.conf");
    buf_init(&out, MAX_TEXT_BYTES);
    buf_put_char(&out, '{');
    put_text_member(&out, "dir", fleet->dir);
    json_put_name(&out, "up");
    buf_put_str(&out, is_up ? "true" : "false");
    put_text_member(&out, "config", config);
    put_text_member(
        &out, "kafka", conf_text(ctl->conf, "kafka.bootstrap.servers"));
    put_text_member(
        &out, "topics_prefix", conf_text(ctl->conf, "topics.prefix"));
    put_text_member(&out, "postgres", conf_text(ctl->conf, "postgres"));
    put_text_member(
        &out, "postgres_owner", conf_text(ctl->conf, "postgres.owner"));
    json_put_name(&out, "programs");
    buf_put_char(&out, '[');
    for (size_t i = 0; i < DEV_PART_COUNT; i++) {
        if (i > 0)
            buf_put_char(&out, ',');
        put_part(&out, fleet, (enum dev_part)i);
    }
    buf_put_char(&out, ']');
    json_put_name(&out, "keys");
    buf_put_str(&out, keys->len > 0 ? buf_str(keys) : "{}");
    buf_put_char(&out, '}');
    puts(buf_str(&out));
    buf_fini(&out);
    free(config);
}

static void add_part_row(
    struct ctl_table *table, const struct dev_fleet *fleet, enum dev_part part)
{
    char *pid_file = dev_part_file(fleet, part, "", ".pid");
    char *url = dev_url(fleet, part);
    const char *state = dev_pid(pid_file) != 0 ? "running" : "down";
    ctl_table_add(table, (const char *[]){dev_part_name(part), state, url});
    free(pid_file);
    free(url);
}

static void print_keys(const struct ctl *ctl, const struct buf *keys)
{
    static const char *const columns[] = {"tenant", "key"};
    struct err err = ERR_INIT;
    struct json_value root;
    struct json_member member;
    if (json_parse(buf_span(keys), 2, &root, &err) != 0)
        return;
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    struct json_cursor cursor = json_enter(root);
    while (json_next(&cursor, &member)) {
        struct buf tenant;
        struct buf key;
        buf_init(&tenant, MAX_TEXT_BYTES);
        buf_init(&key, MAX_TEXT_BYTES);
        json_decode_name(member.name, &tenant);
        json_decode(member.value, &key);
        ctl_table_add(table, (const char *[]){buf_str(&tenant), buf_str(&key)});
        buf_fini(&tenant);
        buf_fini(&key);
    }
    ctl_table_end(table);
}

static void print_tables(const struct ctl *ctl, const struct dev_fleet *fleet,
    bool is_cluster_up, const struct buf *keys)
{
    static const char *const columns[] = {"part", "state", "where"};
    const char *state = is_cluster_up ? "running" : "down";
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    ctl_table_add(table, (const char *[]){"kafka", state,
                             conf_text(ctl->conf, "kafka.bootstrap.servers")});
    ctl_table_add(table,
        (const char *[]){"postgres", state, conf_text(ctl->conf, "postgres")});
    for (size_t i = 0; i < DEV_PART_COUNT; i++)
        add_part_row(table, fleet, (enum dev_part)i);
    ctl_table_end(table);
    putchar('\n');
    print_keys(ctl, keys);
    printf(
        "\nSettings for the command: --config %s/actionist.conf\n", fleet->dir);
}

int dev_report(
    const struct ctl *ctl, const struct dev_fleet *fleet, bool is_cluster_up)
{
    struct err err = ERR_INIT;
    struct buf keys;
    char *path = dev_file(fleet, "keys.json");
    bool is_up = is_cluster_up;
    for (size_t i = 0; i < DEV_PART_COUNT; i++) {
        char *pid_file = dev_part_file(fleet, (enum dev_part)i, "", ".pid");
        is_up = is_up && dev_pid(pid_file) != 0;
        free(pid_file);
    }
    buf_init(&keys, MAX_TEXT_BYTES);
    /* Keys are missing after a start that broke off: report the rest. */
    if (access(path, F_OK) == 0 && file_read(path, &keys, &err) != 0)
        ctl_fail(CTL_FAILED, "%s", err.msg);
    while (keys.len > 0 && keys.data[keys.len - 1] == '\n')
        keys.data[--keys.len] = '\0';
    if (ctl->is_json)
        print_json(ctl, fleet, is_up, &keys);
    else
        print_tables(ctl, fleet, is_cluster_up, &keys);
    buf_fini(&keys);
    free(path);
    return is_up ? CTL_DONE : CTL_NEGATIVE;
}
