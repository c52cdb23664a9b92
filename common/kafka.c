/* SPDX-License-Identifier: Apache-2.0 */
#include "common/kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/kafka_private.h"
#include "common/log.h"
#include "common/time.h"

enum {
    CHECK_WAIT_MS = 10000,
    REASON_SIZE = 120,
    /* Of syslog.h, whose names are those of our levels. */
    SEVERITY_WARNING = 4,
    SEVERITY_NOTICE = 5
};

static const struct kafka_pair base[] = {
    {"client.id", "actionist"},
    {"socket.keepalive.enable", "true"},
    {"socket.timeout.ms", "15000"},
    {"socket.nagle.disable", "true"},
    {"reconnect.backoff.ms", "100"},
    {"reconnect.backoff.max.ms", "5000"},
    {"topic.metadata.refresh.interval.ms", "60000"},
    {"allow.auto.create.topics", "false"},
    {"log.connection.close", "false"},
    {NULL, NULL},
};

/* -- configuration --------------------------------------------------------- */

/* Runs on librdkafka's threads: the logger may be called from any. */
static void on_log(
    const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk;
    enum log_level to = LOG_DEBUG;
    if (level <= SEVERITY_WARNING) {
        to = LOG_WARN;
    } else if (level == SEVERITY_NOTICE) {
        to = LOG_INFO;
    }
    log_write(to, "kafka_client",
        &(struct log_fields){.name1 = "facility", .value1 = facility}, "%s",
        text);
}

int kafka_conf_set(
    rd_kafka_conf_t *rk, const char *name, const char *value, struct err *err)
{
    char text[160];
    switch (rd_kafka_conf_set(rk, name, value, text, sizeof(text))) {
    case RD_KAFKA_CONF_OK:
        return 0;
    case RD_KAFKA_CONF_UNKNOWN:
        return err_set(err, ERR_FATAL, "KAFKA_SETTING",
            "kafka.%s is not a setting of librdkafka", name);
    case RD_KAFKA_CONF_INVALID:
    default:
        /* librdkafka's text may quote the value, which may be a secret. */
        return err_set(err, ERR_FATAL, "KAFKA_SETTING",
            "kafka.%s has a value that librdkafka refuses", name);
    }
}

static int set_pairs(
    rd_kafka_conf_t *rk, const struct kafka_pair *pairs, struct err *err)
{
    for (; pairs->name != NULL; pairs++) {
        if (kafka_conf_set(rk, pairs->name, pairs->value, err) != 0) {
            return -1;
        }
    }
    return 0;
}

struct through {
    rd_kafka_conf_t *rk;
    struct err *err;
    int rc;
};

static void set_through(void *arg, const char *name, const char *value)
{
    struct through *through = arg;
    if (through->rc == 0) {
        through->rc = kafka_conf_set(through->rk, name, value, through->err);
    }
}

rd_kafka_conf_t *kafka_role_conf(const struct conf *conf,
    const struct kafka_pair *tunable, const struct kafka_pair *fixed,
    struct err *err)
{
    rd_kafka_conf_t *rk = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(rk, on_log);
    struct through through = {.rk = rk, .err = err, .rc = 0};
    if (set_pairs(rk, base, err) != 0 || set_pairs(rk, tunable, err) != 0) {
        rd_kafka_conf_destroy(rk);
        return NULL;
    }
    conf_each_kafka(conf, set_through, &through);
    if (through.rc != 0 || set_pairs(rk, fixed, err) != 0 ||
        kafka_conf_set(rk, "bootstrap.servers",
            conf_text(conf, "kafka.bootstrap.servers"), err) != 0) {
        rd_kafka_conf_destroy(rk);
        return NULL;
    }
    return rk;
}

rd_kafka_conf_t *kafka_base_conf(const struct conf *conf, struct err *err)
{
    static const struct kafka_pair none[] = {{NULL, NULL}};
    return kafka_role_conf(conf, none, none, err);
}

rd_kafka_t *kafka_client_new(
    rd_kafka_type_t type, rd_kafka_conf_t *rk, struct err *err)
{
    char text[200];
    rd_kafka_t *client = rd_kafka_new(type, rk, text, sizeof(text));
    if (client == NULL) {
        (void)err_set(err, ERR_FATAL, "KAFKA_SETTING",
            "the kafka client cannot start: %s", text);
        rd_kafka_conf_destroy(rk);
    }
    return client;
}

/* -- event descriptors ----------------------------------------------------- */

int kafka_queue_fd(rd_kafka_queue_t *queue)
{
    static const uint64_t one = 1;
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        perror("eventfd");
        abort();
    }
    rd_kafka_queue_io_event_enable(queue, fd, &one, sizeof(one));
    return fd;
}

void kafka_fd_signal(int fd)
{
    static const uint64_t one = 1;
    /* Full means that it is signalled. */
    (void)!write(fd, &one, sizeof(one));
}

void kafka_fd_clear(int fd)
{
    uint64_t count = 0;
    (void)!read(fd, &count, sizeof(count));
}

/* -- errors, names, headers ------------------------------------------------ */

int kafka_error(struct err *err, rd_kafka_resp_err_t code, const char *what)
{
    return err_set(err, ERR_TRANSIENT, "KAFKA_ERROR", "%s (%s)", what,
        rd_kafka_err2name(code));
}

void kafka_topic_name(const struct conf *conf, const char *name, char *out)
{
    (void)snprintf(
        out, KAFKA_TOPIC_SIZE, "%s%s", conf_text(conf, "topics.prefix"), name);
}

bool kafka_header_find(
    const rd_kafka_message_t *message, const char *name, struct span *value)
{
    rd_kafka_headers_t *headers = NULL;
    if (rd_kafka_message_headers(message, &headers) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
        return false;
    }
    const void *bytes = NULL;
    size_t size = 0;
    if (rd_kafka_header_get_last(headers, name, &bytes, &size) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
        return false;
    }
    *value = (struct span){.ptr = bytes, .len = size};
    return true;
}

/* -- the check at start ---------------------------------------------------- */

/* Keeps the last reason for which a broker was not reached. */
static void on_check_error(
    rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk;
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        (void)snprintf(opaque, REASON_SIZE, "%s", reason);
        char *detail = strstr(opaque, " (after "); /* of its state machine */
        if (detail != NULL) {
            *detail = '\0';
        }
    }
}

static int unreachable(
    rd_kafka_t *rk, rd_kafka_resp_err_t code, struct err *err)
{
    (void)rd_kafka_poll(rk, 0); /* runs on_check_error */
    const char *reason = rd_kafka_opaque(rk);
    return err_set(err, ERR_FATAL, "KAFKA_UNREACHABLE",
        "kafka does not answer within %d s (%s): check"
        " kafka.bootstrap.servers and the kafka.security.* settings",
        CHECK_WAIT_MS / 1000,
        reason[0] != '\0' ? reason : rd_kafka_err2name(code));
}

static int check_topic(rd_kafka_t *rk, const char *topic, int wait_ms,
    int *partitions, struct err *err)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    if (handle == NULL) {
        return err_set(err, ERR_FATAL, "KAFKA_TOPIC",
            "topic %.100s: not a name that Kafka takes: set topics.prefix",
            topic);
    }
    const struct rd_kafka_metadata *metadata = NULL;
    const rd_kafka_resp_err_t code =
        rd_kafka_metadata(rk, 0, handle, &metadata, wait_ms);
    rd_kafka_topic_destroy(handle);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return unreachable(rk, code, err);
    }
    int rc = 0;
    if (metadata->topic_cnt != 1 ||
        metadata->topics[0].err != RD_KAFKA_RESP_ERR_NO_ERROR ||
        metadata->topics[0].partition_cnt == 0) {
        rc = err_set(err, ERR_FATAL, "KAFKA_TOPIC",
            "topic %.100s does not exist or may not be read: create it, or set"
            " topics.prefix",
            topic);
    } else if (partitions != NULL) {
        *partitions = metadata->topics[0].partition_cnt;
    }
    rd_kafka_metadata_destroy(metadata);
    return rc;
}

int kafka_check_topics(const struct conf *conf, const char *const *topics,
    size_t count, int *partitions, struct err *err)
{
    rd_kafka_conf_t *settings = kafka_base_conf(conf, err);
    if (settings == NULL) {
        return -1;
    }
    char reason[REASON_SIZE] = "";
    rd_kafka_conf_set_opaque(settings, reason);
    rd_kafka_conf_set_error_cb(settings, on_check_error);
    /* What it would log is in the one line that the check ends with. */
    if (kafka_conf_set(settings, "log_level", "0", err) != 0) {
        rd_kafka_conf_destroy(settings);
        return -1;
    }
    rd_kafka_t *rk = kafka_client_new(RD_KAFKA_PRODUCER, settings, err);
    if (rk == NULL) {
        return -1;
    }
    const int64_t until_us = now_mono_us() + CHECK_WAIT_MS * US_PER_MS;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const int64_t rest_ms = (until_us - now_mono_us()) / US_PER_MS;
        rc = check_topic(rk, topics[i], rest_ms < 1 ? 1 : (int)rest_ms,
            partitions == NULL ? NULL : &partitions[i], err);
    }
    rd_kafka_destroy(rk);
    return rc;
}
