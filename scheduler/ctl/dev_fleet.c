/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/dev_fleet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/crypt.h"
#include "common/json.h"
#include "scheduler/ctl/dev_process.h"
#include "scheduler/ctl/file.h"

/* Below the kernel's range for outgoing connections, so that no client's own
 * port can take one between our look and the program's bind. */
#define FIRST_PORT 20000
#define PORT_COUNT 12000
#define PORT_TRIES 1000
#define READY_WAIT_MS 60000
#define MAX_FILE_BYTES ((size_t)64 << 10)
#define MASTER_KEY "master.key"
#define MASTER_KEY_BYTES 32

static const struct {
    const char *name;
    const char *program;
    const char *ready_path;
} PARTS[DEV_PART_COUNT] = {
    [DEV_DOUBLE] = {"provider-double", "provider-double", "/_control/stats"},
    [DEV_SCHEDULER] = {"scheduler", "actionist-scheduler", "/readyz"},
    [DEV_WORKER] = {"worker", "actionist-worker", "/readyz"},
    [DEV_PRODUCER] = {"producer", "actionist-producer", "/readyz"},
};

const char *dev_part_name(enum dev_part part)
{
    return PARTS[part].name;
}

/* -- paths -------------------------------------------------------------------- */

static char *join(const char *const *parts, size_t count)
{
    struct buf out;
    buf_init(&out, (size_t)4 * PATH_MAX);
    for (size_t i = 0; i < count; i++)
        buf_put_str(&out, parts[i]);
    return buf_take(&out, NULL);
}

char *dev_file(const struct dev_fleet *fleet, const char *name)
{
    return join((const char *const[]){fleet->dir, "/", name}, 3);
}

char *dev_part_file(const struct dev_fleet *fleet, enum dev_part part,
    const char *before, const char *after)
{
    return join(
        (const char *const[]){fleet->dir, "/", before, PARTS[part].name, after},
        5);
}

static char *url_of(
    const struct dev_fleet *fleet, enum dev_part part, const char *path)
{
    char text[64];
    snprintf(
        text, sizeof text, "http://127.0.0.1:%u", (unsigned)fleet->ports[part]);
    return join((const char *const[]){text, path}, 2);
}

char *dev_ready_url(const struct dev_fleet *fleet, enum dev_part part)
{
    return url_of(fleet, part, PARTS[part].ready_path);
}

char *dev_url(const struct dev_fleet *fleet, enum dev_part part)
{
    return url_of(fleet, part, "");
}

static int find_programs(struct dev_fleet *fleet, struct err *err)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return err_set_errno(err, ERR_PERMANENT, "FILE", "/proc/self/exe");
    self[len] = '\0';
    char *slash = strrchr(self, '/');
    if (slash != NULL)
        *slash = '\0';
    fleet->bin = mem_strdup(self);
    const char *deploy = getenv("ACTIONIST_DEPLOY");
    if (deploy != NULL && deploy[0] != '\0')
        fleet->cluster = join((const char *const[]){deploy, "/cluster"}, 2);
    else
        fleet->cluster = join(
            (const char *const[]){self, "/../../../deploy/dev/cluster"}, 2);
    if (access(fleet->cluster, X_OK) == 0)
        return 0;
    return err_set_errno(err, ERR_PERMANENT, "FILE",
        "dev needs deploy/dev of the source tree; name it in "
        "ACTIONIST_DEPLOY: %s",
        fleet->cluster);
}

int dev_fleet_init(struct dev_fleet *fleet, const char *dir, struct err *err)
{
    char cwd[PATH_MAX];
    *fleet = (struct dev_fleet){.dir = NULL};
    /* The folder stands in connection strings and settings files as it is. */
    if (dir[0] == '\0' || strpbrk(dir, " \t\r\n'\"\\#") != NULL)
        return err_set(err, ERR_PERMANENT, "BAD_DIR",
            "--dir: '%s' must not be empty or hold white space, quotes, "
            "backslashes or #",
            dir);
    if (dir[0] == '/')
        fleet->dir = mem_strdup(dir);
    else if (getcwd(cwd, sizeof cwd) != NULL)
        fleet->dir = join((const char *const[]){cwd, "/", dir}, 3);
    else
        return err_set_errno(err, ERR_PERMANENT, "FILE", "working directory");
    size_t len = strlen(fleet->dir);
    while (len > 1 && fleet->dir[len - 1] == '/')
        fleet->dir[--len] = '\0';
    return find_programs(fleet, err);
}

void dev_fleet_fini(struct dev_fleet *fleet)
{
    free(fleet->dir);
    free(fleet->bin);
    free(fleet->cluster);
    *fleet = (struct dev_fleet){.dir = NULL};
}

/* -- ports ---------------------------------------------------------------------- */

static bool is_free(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    int rc = bind(fd, (const struct sockaddr *)&address, sizeof address);
    close(fd);
    return rc == 0;
}

static bool is_taken(const struct dev_fleet *fleet, uint16_t port)
{
    for (size_t i = 0; i < DEV_PART_COUNT; i++)
        if (fleet->ports[i] == port)
            return true;
    return false;
}

static int pick_port(
    const struct dev_fleet *fleet, uint16_t *port, struct err *err)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        uint16_t try = (uint16_t)(FIRST_PORT + random_u64() % PORT_COUNT);
        if (!is_taken(fleet, try) && is_free(try)) {
            *port = try;
            return 0;
        }
    }
    return err_set(err, ERR_TRANSIENT, "NO_PORT",
        "no free port on 127.0.0.1 between %d and %d", FIRST_PORT,
        FIRST_PORT + PORT_COUNT);
}

int dev_load_ports(struct dev_fleet *fleet, struct err *err)
{
    struct json_value root;
    struct buf text;
    int rc = 0;
    char *path = dev_file(fleet, "fleet.json");
    buf_init(&text, MAX_FILE_BYTES);
    if (access(path, F_OK) == 0) {
        rc = file_read(path, &text, err);
        if (rc == 0)
            rc = json_parse(buf_span(&text), 2, &root, err);
        for (size_t i = 0; rc == 0 && i < DEV_PART_COUNT; i++) {
            struct json_value port;
            int64_t number;
            if (json_find(root, PARTS[i].name, &port) &&
                port.type == JSON_NUMBER && json_to_int(port, &number) &&
                number > 0 && number <= UINT16_MAX)
                fleet->ports[i] = (uint16_t)number;
        }
    }
    buf_fini(&text);
    free(path);
    return rc;
}

/* -- files ------------------------------------------------------------------------ */

static int write_file(const struct dev_fleet *fleet, const char *name,
    const struct buf *text, struct err *err)
{
    int rc = 0;
    char *path = dev_file(fleet, name);
    FILE *file = fopen(path, "we");
    if (file == NULL || fwrite(buf_str(text), 1, text->len, file) != text->len)
        rc = err_set_errno(err, ERR_PERMANENT, "FILE", "%s", path);
    if (file != NULL && fclose(file) != 0 && rc == 0)
        rc = err_set_errno(err, ERR_PERMANENT, "FILE", "%s", path);
    free(path);
    return rc;
}

int dev_pick_ports(struct dev_fleet *fleet, struct err *err)
{
    struct buf text;
    for (size_t i = 0; i < DEV_PART_COUNT; i++)
        if (fleet->ports[i] == 0 &&
            pick_port(fleet, &fleet->ports[i], err) != 0)
            return -1;
    buf_init(&text, MAX_FILE_BYTES);
    buf_put_char(&text, '{');
    for (size_t i = 0; i < DEV_PART_COUNT; i++) {
        json_put_name(&text, PARTS[i].name);
        buf_put_int(&text, fleet->ports[i]);
    }
    buf_put_str(&text, "}\n");
    int rc = write_file(fleet, "fleet.json", &text, err);
    buf_fini(&text);
    return rc;
}

static void put_kafka(void *arg, const char *name, const char *value)
{
    buf_printf(arg, "kafka.%s = %s\n", name, value);
}

static void put_shared(struct buf *out, const struct conf *conf)
{
    buf_printf(out, "postgres = %s\n", conf_text(conf, "postgres"));
    buf_printf(out, "kafka.bootstrap.servers = %s\n",
        conf_text(conf, "kafka.bootstrap.servers"));
    conf_each_kafka(conf, put_kafka, out);
    buf_printf(out, "topics.prefix = %s\n", conf_text(conf, "topics.prefix"));
}

static void put_master_key(struct buf *out, const struct dev_fleet *fleet)
{
    buf_printf(
        out, "webhooks.master_key_file = %s/%s\n", fleet->dir, MASTER_KEY);
}

/* Made once: what was sealed with it must stay readable. */
static int write_master_key(const struct dev_fleet *fleet, struct err *err)
{
    uint8_t bytes[MASTER_KEY_BYTES];
    struct buf line;
    int rc = 0;
    char *path = dev_file(fleet, MASTER_KEY);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        if (errno != EEXIST)
            rc = err_set_errno(err, ERR_PERMANENT, "FILE", "%s", path);
        free(path);
        return rc;
    }
    random_bytes(bytes, sizeof bytes);
    buf_init(&line, 128);
    buf_put_str(&line, "1:");
    base64_put(&line, (struct span){(const char *)bytes, sizeof bytes});
    buf_put_char(&line, '\n');
    if (write(fd, line.data, line.len) != (ssize_t)line.len)
        rc = err_set_errno(err, ERR_PERMANENT, "FILE", "%s", path);
    close(fd);
    buf_fini(&line);
    free(path);
    return rc;
}

static void put_part(struct buf *out, const struct dev_fleet *fleet,
    enum dev_part part, const struct conf *conf)
{
    const char *cgroup = getenv("ACTIONIST_RUN_CGROUP");
    put_shared(out, conf);
    buf_printf(
        out, "http.listen = 127.0.0.1:%u\n", (unsigned)fleet->ports[part]);
    if (part == DEV_PRODUCER)
        put_master_key(out, fleet);
    if (part != DEV_WORKER)
        return;
    buf_printf(out, "egress.private_allow = 127.0.0.1:%u\n",
        (unsigned)fleet->ports[DEV_DOUBLE]);
    if (cgroup != NULL)
        buf_printf(out, "run.cgroup = %s\n", cgroup);
}

static int write_part_settings(const struct dev_fleet *fleet,
    enum dev_part part, const struct conf *conf, struct err *err)
{
    struct buf text;
    char *name = join((const char *const[]){PARTS[part].name, ".conf"}, 2);
    buf_init(&text, MAX_FILE_BYTES);
    buf_printf(&text, "# Settings of this fleet's %s.\n", PARTS[part].name);
    put_part(&text, fleet, part, conf);
    int rc = write_file(fleet, name, &text, err);
    buf_fini(&text);
    free(name);
    return rc;
}

int dev_write_settings(
    const struct dev_fleet *fleet, const struct conf *conf, struct err *err)
{
    struct buf text;
    char *logs = dev_file(fleet, "log");
    int rc = 0;
    if (mkdir(logs, 0755) != 0 && errno != EEXIST)
        rc = err_set_errno(err, ERR_PERMANENT, "FILE", "%s", logs);
    free(logs);
    buf_init(&text, MAX_FILE_BYTES);
    buf_printf(&text, "# Settings of this fleet, for the command:\n");
    buf_printf(&text, "#   actionist list --tenant acme --config %s/%s\n",
        fleet->dir, "actionist.conf");
    put_shared(&text, conf);
    buf_printf(
        &text, "postgres.owner = %s\n", conf_text(conf, "postgres.owner"));
    buf_put_str(&text, "connector.allow_unsigned = true\n");
    put_master_key(&text, fleet);
    if (rc == 0)
        rc = write_master_key(fleet, err);
    if (rc == 0)
        rc = write_file(fleet, "actionist.conf", &text, err);
    for (size_t i = DEV_SCHEDULER; i < DEV_PART_COUNT && rc == 0; i++)
        rc = write_part_settings(fleet, (enum dev_part)i, conf, err);
    buf_fini(&text);
    return rc;
}

/* -- programs ----------------------------------------------------------------------- */

int dev_start_part(
    const struct dev_fleet *fleet, enum dev_part part, struct err *err)
{
    char port[16];
    snprintf(port, sizeof port, "%u", (unsigned)fleet->ports[part]);
    char *program =
        join((const char *const[]){fleet->bin, "/", PARTS[part].program}, 3);
    char *conf = dev_part_file(fleet, part, "", ".conf");
    char *log = dev_part_file(fleet, part, "log/", ".log");
    char *pid_file = dev_part_file(fleet, part, "", ".pid");
    char option_port[] = "--port";
    char option_config[] = "--config";
    bool is_double = part == DEV_DOUBLE;
    char *const argv[] = {program, is_double ? option_port : option_config,
        is_double ? port : conf, NULL};
    int rc = dev_spawn(argv, fleet->dir, log, pid_file, err);
    free(program);
    free(conf);
    free(log);
    free(pid_file);
    return rc;
}

int dev_wait_part(
    const struct dev_fleet *fleet, enum dev_part part, struct err *err)
{
    char *url = dev_ready_url(fleet, part);
    char *log = dev_part_file(fleet, part, "log/", ".log");
    char *pid_file = dev_part_file(fleet, part, "", ".pid");
    int rc = dev_wait_ready(url, pid_file, log, READY_WAIT_MS, err);
    free(url);
    free(log);
    free(pid_file);
    return rc == 0 ? 0 : err_wrap(err, "%s", PARTS[part].name);
}
