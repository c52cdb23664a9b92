/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dev: a whole private fleet in one folder: Kafka and Postgres by
 * deploy/dev/cluster, then provider double, scheduler, worker and producer,
 * each a session of its own. `up` starts what does not run, so it also brings
 * back a program that was killed.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/dev_fleet.h"
#include "scheduler/ctl/dev_process.h"
#include "scheduler/ctl/dev_report.h"

#define STOP_WAIT_MS 15000
#define MAX_TEXT_BYTES ((size_t)64 << 10)

/* Who gets an API key. */
static const char *const TENANTS[] = {"acme", "globex"};

/* -- other programs ----------------------------------------------------------- */

static int run_cluster(const struct dev_fleet *fleet, const char *verb,
    bool is_json, struct buf *out)
{
    struct err err = ERR_INIT;
    char verb_text[16];
    char option_dir[] = "--dir";
    char option_json[] = "--json";
    snprintf(verb_text, sizeof verb_text, "%s", verb);
    char *const argv[] = {fleet->cluster, verb_text, option_dir, fleet->dir,
        is_json ? option_json : NULL, NULL};
    int code = dev_run(argv, out, &err);
    if (code < 0)
        ctl_fail(CTL_FAILED, "%s", err.msg);
    return code;
}

/* Runs this command with the fleet's settings; exit code, or -1. */
static int run_self(const struct dev_fleet *fleet, const char *const *words,
    size_t count, struct buf *out)
{
    struct err err = ERR_INIT;
    char *argv[10] = {NULL};
    size_t used = 0;
    argv[used++] = mem_strdup("/proc/self/exe");
    for (size_t i = 0; i < count; i++)
        argv[used++] = mem_strdup(words[i]);
    argv[used++] = mem_strdup("--config");
    argv[used++] = dev_file(fleet, "actionist.conf");
    int code = dev_run(argv, out, &err);
    if (code < 0)
        ctl_fail(CTL_FAILED, "%s", err.msg);
    for (size_t i = 0; i < used; i++)
        free(argv[i]);
    return code;
}

/* -- the steps of up -------------------------------------------------------------- */

static bool cluster_runs(const struct dev_fleet *fleet)
{
    struct buf text;
    char *state = dev_file(fleet, "cluster.json");
    bool is_there = access(state, F_OK) == 0;
    free(state);
    buf_init(&text, MAX_TEXT_BYTES);
    bool is_up = is_there && run_cluster(fleet, "status", true, &text) == 0;
    buf_fini(&text);
    return is_up;
}

/* Makes the cluster's settings ours: the environment first, then conf. */
static int adopt_cluster(struct ctl *ctl, const struct dev_fleet *fleet)
{
    struct err err = ERR_INIT;
    struct buf text;
    struct buf name;
    struct buf value;
    struct json_value root;
    struct json_member member;
    buf_init(&text, MAX_TEXT_BYTES);
    buf_init(&name, MAX_TEXT_BYTES);
    buf_init(&value, MAX_TEXT_BYTES);
    int code =
        run_cluster(fleet, "env", true, &text) == 0 ? CTL_DONE : CTL_FAILED;
    if (code == CTL_DONE && json_parse(buf_span(&text), 2, &root, &err) != 0)
        code = ctl_fail(CTL_FAILED, "cluster env: %s", err.msg);
    if (code == CTL_DONE) {
        struct json_cursor cursor = json_enter(root);
        while (json_next(&cursor, &member)) {
            buf_clear(&name);
            buf_clear(&value);
            json_decode_name(member.name, &name);
            json_decode(member.value, &value);
            (void)setenv(buf_str(&name), buf_str(&value), 1);
        }
        if (conf_load_env(ctl->conf, &err) != 0)
            code = ctl_fail(CTL_FAILED, "%s", err.msg);
    }
    buf_fini(&text);
    buf_fini(&name);
    buf_fini(&value);
    return code;
}

static int migrate(const struct dev_fleet *fleet)
{
    struct buf text;
    buf_init(&text, MAX_TEXT_BYTES);
    int code = run_self(fleet, (const char *const[]){"migrate"}, 1, &text);
    buf_fini(&text);
    return code == 0 ? CTL_DONE : CTL_FAILED;
}

static int start_parts(const struct dev_fleet *fleet)
{
    struct err err = ERR_INIT;
    int rc = 0;
    for (size_t i = 0; i < DEV_PART_COUNT && rc == 0; i++) {
        char *pid_file = dev_part_file(fleet, (enum dev_part)i, "", ".pid");
        if (dev_pid(pid_file) == 0)
            rc = dev_start_part(fleet, (enum dev_part)i, &err);
        free(pid_file);
    }
    for (size_t i = 0; i < DEV_PART_COUNT && rc == 0; i++)
        rc = dev_wait_part(fleet, (enum dev_part)i, &err);
    return rc == 0 ? CTL_DONE : ctl_fail(CTL_FAILED, "%s", err.msg);
}

/* Appends the new key of a tenant. */
static int add_key(
    const struct dev_fleet *fleet, const char *tenant, struct buf *key)
{
    struct err err = ERR_INIT;
    struct buf text;
    struct json_value root;
    struct json_value value;
    int code = CTL_FAILED;
    buf_init(&text, MAX_TEXT_BYTES);
    if (run_self(fleet,
            (const char *const[]){"key", "add", "--tenant", tenant, "--json"},
            5, &text) == 0 &&
        json_parse(buf_span(&text), 2, &root, &err) == 0 &&
        json_find(root, "key", &value)) {
        json_decode(value, key);
        code = CTL_DONE;
    }
    buf_fini(&text);
    return code;
}

static int write_keys(const char *path, const struct buf *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_written =
        fd >= 0 && write(fd, buf_str(text), text->len) == (ssize_t)text->len;
    if (fd >= 0)
        close(fd);
    if (is_written)
        return CTL_DONE;
    return ctl_fail(CTL_FAILED, "%s cannot be written", path);
}

/* One key a tenant, kept as text: this is a toy fleet, for this user alone. */
static int ensure_keys(const struct dev_fleet *fleet)
{
    struct buf text;
    struct buf key;
    int code = CTL_DONE;
    char *path = dev_file(fleet, "keys.json");
    buf_init(&text, MAX_TEXT_BYTES);
    buf_init(&key, MAX_TEXT_BYTES);
    bool is_there = access(path, F_OK) == 0;
    buf_put_char(&text, '{');
    for (size_t i = 0; !is_there && i < ARRAY_LEN(TENANTS); i++) {
        buf_clear(&key);
        if (code == CTL_DONE)
            code = add_key(fleet, TENANTS[i], &key);
        json_put_name(&text, TENANTS[i]);
        json_put_cstring(&text, buf_str(&key));
    }
    buf_put_str(&text, "}\n");
    if (!is_there && code == CTL_DONE)
        code = write_keys(path, &text);
    buf_fini(&text);
    buf_fini(&key);
    free(path);
    return code;
}

/* -- the verbs ------------------------------------------------------------------------- */

static int down(const struct dev_fleet *fleet)
{
    struct buf text;
    /* The other way round: what takes work in ends first. */
    for (size_t i = DEV_PART_COUNT; i > 0; i--) {
        char *pid_file =
            dev_part_file(fleet, (enum dev_part)(i - 1), "", ".pid");
        dev_stop(pid_file, STOP_WAIT_MS);
        free(pid_file);
    }
    buf_init(&text, MAX_TEXT_BYTES);
    int code = run_cluster(fleet, "down", false, &text);
    buf_fini(&text);
    return code == 0 ? CTL_DONE : CTL_FAILED;
}

static int start_all(struct ctl *ctl, struct dev_fleet *fleet)
{
    struct err err = ERR_INIT;
    int code = adopt_cluster(ctl, fleet);
    if (code == CTL_DONE &&
        (dev_load_ports(fleet, &err) != 0 || dev_pick_ports(fleet, &err) != 0 ||
            dev_write_settings(fleet, ctl->conf, &err) != 0))
        code = ctl_fail(CTL_FAILED, "%s", err.msg);
    if (code == CTL_DONE)
        code = migrate(fleet);
    if (code == CTL_DONE)
        code = start_parts(fleet);
    if (code == CTL_DONE)
        code = ensure_keys(fleet);
    return code;
}

/* Others, told to end, end without a word. */
static int end_interrupted(int code)
{
    return dev_is_interrupted() ? ctl_fail(CTL_FAILED, "interrupted") : code;
}

static int up(struct ctl *ctl, struct dev_fleet *fleet)
{
    struct buf text;
    int code = CTL_DONE;
    dev_catch_interrupts();
    bool was_up = cluster_runs(fleet);
    if (!was_up) {
        if (!ctl->is_json)
            fprintf(
                stderr, "Starting Kafka and Postgres in %s ...\n", fleet->dir);
        buf_init(&text, MAX_TEXT_BYTES);
        /* It says itself what went wrong, and undoes what it began. */
        code =
            run_cluster(fleet, "up", false, &text) == 0 ? CTL_DONE : CTL_FAILED;
        buf_fini(&text);
        if (code != CTL_DONE)
            return end_interrupted(code);
    }
    if (!ctl->is_json)
        fputs("Starting the fleet ...\n", stderr);
    code = start_all(ctl, fleet);
    if (code == CTL_DONE && dev_is_interrupted())
        code = CTL_FAILED;
    if (code == CTL_DONE)
        return dev_report(ctl, fleet, cluster_runs(fleet));
    if (!was_up)
        (void)down(fleet); /* what failed has been said */
    return end_interrupted(code);
}

static int status(struct ctl *ctl, struct dev_fleet *fleet)
{
    struct err err = ERR_INIT;
    if (dev_load_ports(fleet, &err) != 0)
        return ctl_fail(CTL_FAILED, "%s", err.msg);
    int code = adopt_cluster(ctl, fleet);
    if (code != CTL_DONE)
        return code;
    return dev_report(ctl, fleet, cluster_runs(fleet));
}

static bool is_fleet(const struct dev_fleet *fleet)
{
    char *state = dev_file(fleet, "cluster.json");
    bool is_there = access(state, F_OK) == 0;
    free(state);
    return is_there;
}

static int run_verb(struct ctl *ctl, struct dev_fleet *fleet, const char *verb)
{
    if (strcmp(verb, "up") == 0)
        return up(ctl, fleet);
    if (!is_fleet(fleet))
        return ctl_fail(CTL_NOT_FOUND, "no fleet in %s", fleet->dir);
    if (strcmp(verb, "down") == 0)
        return down(fleet);
    return status(ctl, fleet);
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct dev_fleet fleet = {.dir = NULL};
    struct err err = ERR_INIT;
    const char *dir = NULL;
    const struct ctl_option options[] = {
        {"dir", "D", "the fleet's folder; required", &dir, NULL},
    };
    const char *rest[1] = {NULL};
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_DEV, options, ARRAY_LEN(options), argc, argv,
            rest, ARRAY_LEN(rest), &code) < 0)
        return code;
    const char *verb = rest[0] != NULL ? rest[0] : "";
    if (strcmp(verb, "up") != 0 && strcmp(verb, "down") != 0 &&
        strcmp(verb, "status") != 0)
        return ctl_fail(CTL_USAGE, "dev takes up, down or status");
    if (dir == NULL)
        return ctl_fail(CTL_USAGE, "--dir is required");
    if (dev_fleet_init(&fleet, dir, &err) == 0)
        code = run_verb(ctl, &fleet, verb);
    else
        code = ctl_fail(CTL_USAGE, "%s", err.msg);
    dev_fleet_fini(&fleet);
    return code;
}

const struct command COMMAND_DEV = {
    .name = "dev",
    .arguments = "up|down|status --dir D",
    .summary = "Run a private fleet in one folder",
    .details =
        "  dev up      Kafka, Postgres, provider double, scheduler, worker,\n"
        "              producer; starts what does not run; prints every\n"
        "              endpoint and an API key of two tenants\n"
        "  dev status  what runs; exit code 4 unless all of it does\n"
        "  dev down    ends all and removes the folder",
    .run = run,
};
