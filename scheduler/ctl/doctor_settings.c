/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with the settings of the programs. Each program beside this
 * command tells its own, so that it judges them as at its start. */
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/ctl/doctor.h"

enum { WIDE_BITS_V4 = 16, WIDE_BITS_V6 = 48 };

/* -- what a program says ----------------------------------------------------- */

static bool find_program(enum doctor_program program, char *path, size_t size)
{
    char self[PATH_MAX];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return false;
    self[len] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return (size_t)snprintf(path, size, "%s/actionist-%s", self,
               doctor_program_name(program)) < size &&
           access(path, X_OK) == 0;
}

/* Both outputs of a program to its end; its exit code, or -1. */
static int run_program(char *const argv[], struct buf *out)
{
    int ends[2];
    pid_t pid = -1;
    int status = 0;
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    const int rc = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char block[4096];
    ssize_t got = rc == 0 ? read(ends[0], block, sizeof block) : 0;
    while (got > 0) {
        buf_put(out, block, (size_t)got);
        got = read(ends[0], block, sizeof block);
    }
    close(ends[0]);
    if (rc != 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

/* "NAME=VALUE" of a setting of this command; the caller frees it. */
static char *setting_word(const struct doctor *doctor, const char *name)
{
    struct buf word;
    size_t len = 0;
    const char *value = conf_text(doctor->ctl->conf, name);
    buf_init(&word, PATH_MAX);
    buf_printf(&word, "%s=%s", name, value != NULL ? value : "");
    return buf_take(&word, &len);
}

static void read_settings(struct doctor *doctor, enum doctor_program program)
{
    char path[PATH_MAX + 64];
    struct buf *out = &doctor->settings[program];
    const char *file = doctor->files[program];
    if (!find_program(program, path, sizeof path))
        return; /* not installed on this machine */
    /* Without a file they know what this command was told. */
    char *postgres = setting_word(doctor, "postgres");
    char *brokers = setting_word(doctor, "kafka.bootstrap.servers");
    char *name = mem_strdup(file != NULL ? file : "");
    char config[] = "--config";
    char set[] = "--set";
    char print[] = "--print-config";
    char *const with_file[] = {path, config, name, print, NULL};
    char *const without[] = {path, set, postgres, set, brokers, print, NULL};
    const int code = run_program(file != NULL ? with_file : without, out);
    free(name);
    free(brokers);
    free(postgres);
    if (code != 0) {
        while (out->len > 0 && out->data[out->len - 1] == '\n')
            out->data[--out->len] = '\0';
        doctor_find(doctor, "settings", "%s", buf_str(out));
        buf_clear(out);
        return;
    }
    for (size_t i = 0; i < out->len; i++)
        if (out->data[i] == '\n')
            out->data[i] = '\0';
}

/* -- judging them ------------------------------------------------------------- */

static void check_acks(struct doctor *doctor, enum doctor_program program)
{
    static const struct {
        const char *name;
        const char *wrong[4];
    } settings[] = {
        {"kafka.acks", {"0", "1", NULL, NULL}},
        {"kafka.request.required.acks", {"0", "1", NULL, NULL}},
        {"kafka.enable.idempotence", {"false", NULL, NULL, NULL}},
        {"kafka.retries", {"0", NULL, NULL, NULL}},
        {"kafka.message.send.max.retries", {"0", NULL, NULL, NULL}},
    };
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        const char *value = doctor_setting(doctor, program, settings[i].name);
        for (size_t n = 0; value != NULL && settings[i].wrong[n] != NULL; n++)
            if (strcmp(value, settings[i].wrong[n]) == 0)
                doctor_find(doctor, "settings-acks", "%s: %s is %s",
                    doctor_program_name(program), settings[i].name, value);
    }
}

/* Files that hold secrets are for their reader alone. */
static void check_secret(struct doctor *doctor, const char *program,
    const char *name, const char *path)
{
    struct stat status;
    if (path[0] == '\0' || stat(path, &status) != 0)
        return;
    if ((status.st_mode & 077U) != 0 &&
        !(status.st_uid == 0 && (status.st_mode & 037U) == 0))
        doctor_find(doctor, "settings-secrets",
            "%s: %s may be used by others (%s, mode %03o)", program, name, path,
            (unsigned)status.st_mode & 0777U);
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    const size_t end_len = strlen(end);
    return len >= end_len && strncmp(text + len - end_len, end, end_len) == 0;
}

static void check_secrets(struct doctor *doctor, enum doctor_program program)
{
    static const char *const ends[] = {
        "password_file", "http.key", "master_key_file", "key.location"};
    const struct buf *text = &doctor->settings[program];
    for (size_t at = 0; at < text->len;) {
        const char *line = text->data + at;
        const char *equals = strstr(line, " = ");
        at += strlen(line) + 1;
        for (size_t i = 0; equals != NULL && i < ARRAY_LEN(ends); i++) {
            const size_t len = (size_t)(equals - line);
            char name[128];
            if (len >= sizeof name || !ends_with(line, len, ends[i]))
                continue;
            memcpy(name, line, len);
            name[len] = '\0';
            check_secret(
                doctor, doctor_program_name(program), name, equals + 3);
        }
    }
}

static bool is_public(const char *address)
{
    return address[0] != '\0' && strncmp(address, "127.", 4) != 0 &&
           strncmp(address, "[::1]", 5) != 0 &&
           strncmp(address, "localhost:", 10) != 0;
}

static void check_listener(struct doctor *doctor, enum doctor_program program)
{
    const char *address = doctor_setting(doctor, program, "http.listen");
    const char *cert = doctor_setting(doctor, program, "http.cert");
    const char *key = doctor_setting(doctor, program, "http.key");
    const bool has_cert = cert != NULL && cert[0] != '\0';
    if (has_cert && key != NULL && key[0] != '\0')
        doctor_certificate(doctor, doctor_program_name(program), cert, key);
    if (address != NULL && is_public(address) && !has_cert)
        doctor_find(doctor, "settings-listen",
            "%s: listens on %s without a certificate",
            doctor_program_name(program), address);
}

/* "10.0.0.0/8", "[fd00::1]:443", "127.0.0.1:8080": wider than a site. */
static bool is_wide(const char *block, size_t len)
{
    const char *slash = memchr(block, '/', len);
    const bool is_v6 =
        memchr(block, '[', len) != NULL ||
        (slash != NULL && memchr(block, ':', (size_t)(slash - block)) != NULL);
    int64_t bits = 0;
    size_t digits = 0;
    if (slash == NULL)
        return false;
    while (slash + 1 + digits < block + len && slash[1 + digits] >= '0' &&
           slash[1 + digits] <= '9')
        digits++;
    return span_to_int((struct span){slash + 1, digits}, &bits) &&
           bits < (is_v6 ? WIDE_BITS_V6 : WIDE_BITS_V4);
}

static void check_egress(struct doctor *doctor)
{
    const char *at =
        doctor_setting(doctor, DOCTOR_WORKER, "egress.private_allow");
    while (at != NULL && *at != '\0') {
        at += strspn(at, ", ");
        const size_t len = strcspn(at, ", ");
        if (is_wide(at, len))
            doctor_find(doctor, "settings-egress",
                "egress.private_allow has %.*s", (int)len, at);
        at += len;
    }
}

/* -- what all programs share ---------------------------------------------------- */

static bool is_local(const char *text)
{
    return strstr(text, "127.0.0.1") != NULL ||
           strstr(text, "localhost") != NULL || strstr(text, "[::1]") != NULL;
}

static void check_plain(struct doctor *doctor)
{
    const char *conninfo = conf_text(doctor->ctl->conf, "postgres");
    const char *brokers =
        conf_text(doctor->ctl->conf, "kafka.bootstrap.servers");
    const char *security =
        doctor_setting(doctor, DOCTOR_PRODUCER, "kafka.security.protocol");
    if (conninfo != NULL && strstr(conninfo, "host=") != NULL &&
        strstr(conninfo, "host=/") == NULL && !is_local(conninfo) &&
        strstr(conninfo, "sslmode=verify") == NULL)
        doctor_find(doctor, "settings-plain",
            "postgres is on another machine, without sslmode=verify-full");
    if (brokers != NULL && brokers[0] != '\0' && !is_local(brokers) &&
        (security == NULL || strstr(security, "SSL") == NULL ||
            strcmp(security, "SASL_PLAINTEXT") == 0))
        doctor_find(doctor, "settings-plain",
            "kafka is on other machines, without TLS");
}

void doctor_settings(struct doctor *doctor)
{
    for (int i = 0; i < DOCTOR_PROGRAM_COUNT; i++) {
        const enum doctor_program program = (enum doctor_program)i;
        read_settings(doctor, program);
        check_acks(doctor, program);
        check_secrets(doctor, program);
        check_listener(doctor, program);
    }
    check_egress(doctor);
    check_plain(doctor);
}
