/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with Kafka: its topics and the brokers' own settings. */
#include <stdlib.h>
#include <string.h>

#include "common/kafka.h"
#include "common/time.h"
#include "scheduler/ctl/doctor.h"

enum { WAIT_MS = 5000, NEED_BYTES = 2097152, TOPIC_SIZE = 256 };

static const struct {
    const char *name;
    bool is_spread;     /* wants more than one partition */
    bool has_documents; /* of up to 2 MiB */
} TOPICS[] = {
    {"actions", true, true},
    {"outcomes", true, true},
    {"webhooks", true, true},
    {"dispatch", true, false},
    {"control", false, false},
    {"rejects", false, true},
};

/* -- settings of a topic or broker ------------------------------------------- */

struct entries {
    const rd_kafka_ConfigEntry_t **entries;
    size_t count;
};

static const char *find_entry(struct entries entries, const char *name)
{
    for (size_t i = 0; i < entries.count; i++) {
        const char *value = rd_kafka_ConfigEntry_value(entries.entries[i]);
        if (strcmp(rd_kafka_ConfigEntry_name(entries.entries[i]), name) == 0)
            return value != NULL ? value : "";
    }
    return "";
}

static int64_t find_number(
    struct entries entries, const char *name, int64_t fallback)
{
    int64_t number = 0;
    return span_to_int(span_of(find_entry(entries, name)), &number) ? number
                                                                    : fallback;
}

static void check_retention(
    struct doctor *doctor, const char *topic, struct entries entries)
{
    int64_t keys_s = 0;
    const char *text =
        doctor_setting(doctor, DOCTOR_SCHEDULER, "scheduler.retention_s");
    const int64_t kept_ms = find_number(entries, "retention.ms", -1);
    if (text == NULL || !span_to_int(span_of(text), &keys_s))
        return; /* no scheduler here to ask */
    if (kept_ms < 0 || kept_ms / 1000 > keys_s)
        doctor_find(doctor, "kafka-retention",
            "%s keeps records for %lld s, keys are kept for %lld s", topic,
            kept_ms < 0 ? -1LL : (long long)(kept_ms / 1000),
            (long long)keys_s);
}

static void judge_topic(struct doctor *doctor, const char *topic,
    bool has_documents, struct entries entries)
{
    const char *cleanup = find_entry(entries, "cleanup.policy");
    if (strstr(cleanup, "compact") != NULL)
        doctor_find(doctor, "kafka-cleanup", "%s has cleanup.policy=%s", topic,
            cleanup);
    if (has_documents &&
        find_number(entries, "max.message.bytes", NEED_BYTES) < NEED_BYTES)
        doctor_find(doctor, "kafka-size", "%s takes %lld bytes a record", topic,
            (long long)find_number(entries, "max.message.bytes", 0));
    if (strcmp(find_entry(entries, "unclean.leader.election.enable"), "true") ==
        0)
        doctor_find(doctor, "kafka-unclean",
            "%s may be led by a replica that lags behind", topic);
}

static void judge_broker(
    struct doctor *doctor, const char *id, struct entries entries)
{
    if (strcmp(find_entry(entries, "auto.create.topics.enable"), "true") == 0)
        doctor_find(doctor, "kafka-auto-create",
            "broker %s makes topics that do not exist", id);
}

/* -- asking --------------------------------------------------------------------- */

/* The settings of one resource; NULL: no answer. The caller destroys it. */
static rd_kafka_event_t *describe(
    rd_kafka_t *rk, rd_kafka_ResourceType_t type, const char *name)
{
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(type, name);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_DescribeConfigs(rk, &resource, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, WAIT_MS);
    rd_kafka_ConfigResource_destroy(resource);
    rd_kafka_queue_destroy(queue);
    return event;
}

/* False: the broker did not tell. */
static bool take_entries(rd_kafka_event_t *event, struct entries *entries)
{
    size_t count = 0;
    const rd_kafka_DescribeConfigs_result_t *result =
        event == NULL ? NULL : rd_kafka_event_DescribeConfigs_result(event);
    if (result == NULL || rd_kafka_event_error(event) != 0)
        return false;
    const rd_kafka_ConfigResource_t **resources =
        rd_kafka_DescribeConfigs_result_resources(result, &count);
    if (count != 1 || rd_kafka_ConfigResource_error(resources[0]) != 0)
        return false;
    entries->entries =
        rd_kafka_ConfigResource_configs(resources[0], &entries->count);
    return true;
}

static void check_replicas(struct doctor *doctor,
    const rd_kafka_metadata_topic_t *topic, struct entries entries)
{
    const int replicas =
        topic->partition_cnt > 0 ? topic->partitions[0].replica_cnt : 0;
    const int64_t least = find_number(entries, "min.insync.replicas", 1);
    if (replicas < 2 || least < 2)
        doctor_find(doctor, "kafka-replicas",
            "%s has %d replicas, min.insync.replicas=%lld", topic->topic,
            replicas, (long long)least);
    else if (least >= replicas)
        doctor_find(doctor, "kafka-replicas",
            "%s cannot be written once one of its %d replicas is away",
            topic->topic, replicas);
}

static void check_topic(struct doctor *doctor, rd_kafka_t *rk, size_t number,
    const rd_kafka_metadata_t *metadata)
{
    char name[TOPIC_SIZE];
    const rd_kafka_metadata_topic_t *topic = NULL;
    struct entries entries = {NULL, 0};
    kafka_topic_name(doctor->ctl->conf, TOPICS[number].name, name);
    for (int i = 0; i < metadata->topic_cnt; i++)
        if (strcmp(metadata->topics[i].topic, name) == 0 &&
            metadata->topics[i].err == 0)
            topic = &metadata->topics[i];
    if (topic == NULL) {
        doctor_find(doctor, "kafka-topic", "there is no topic %s", name);
        return;
    }
    if (TOPICS[number].is_spread && topic->partition_cnt < 2)
        doctor_find(doctor, "kafka-partitions", "%s has one partition", name);
    rd_kafka_event_t *event = describe(rk, RD_KAFKA_RESOURCE_TOPIC, name);
    if (take_entries(event, &entries)) {
        judge_topic(doctor, name, TOPICS[number].has_documents, entries);
        check_replicas(doctor, topic, entries);
        if (strcmp(TOPICS[number].name, "actions") == 0)
            check_retention(doctor, name, entries);
    } else {
        doctor_find(doctor, "kafka-topic",
            "the settings of %s cannot be seen by this user", name);
    }
    if (event != NULL)
        rd_kafka_event_destroy(event);
}

static void check_brokers(
    struct doctor *doctor, rd_kafka_t *rk, const rd_kafka_metadata_t *metadata)
{
    for (int i = 0; i < metadata->broker_cnt; i++) {
        char id[16];
        struct entries entries = {NULL, 0};
        snprintf(id, sizeof id, "%d", (int)metadata->brokers[i].id);
        rd_kafka_event_t *event = describe(rk, RD_KAFKA_RESOURCE_BROKER, id);
        if (take_entries(event, &entries))
            judge_broker(doctor, id, entries);
        if (event != NULL)
            rd_kafka_event_destroy(event);
    }
}

static rd_kafka_t *open_client(struct doctor *doctor, struct err *err)
{
    char text[256];
    rd_kafka_conf_t *conf = kafka_base_conf(doctor->ctl->conf, err);
    if (conf == NULL)
        return NULL;
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (rk == NULL) {
        rd_kafka_conf_destroy(conf);
        (void)err_set(err, ERR_PERMANENT, "KAFKA", "%s", text);
    }
    return rk;
}

void doctor_kafka(struct doctor *doctor)
{
    struct err err = ERR_INIT;
    const struct rd_kafka_metadata *metadata = NULL;
    const char *servers =
        conf_text(doctor->ctl->conf, "kafka.bootstrap.servers");
    if (servers == NULL || servers[0] == '\0') {
        doctor_find(doctor, "kafka-reachable",
            "the setting kafka.bootstrap.servers is empty");
        return;
    }
    rd_kafka_t *rk = open_client(doctor, &err);
    if (rk == NULL) {
        doctor_find(doctor, "kafka-reachable", "%s", err.msg);
        return;
    }
    const rd_kafka_resp_err_t code =
        rd_kafka_metadata(rk, 1, NULL, &metadata, WAIT_MS);
    if (code != 0) {
        doctor_find(doctor, "kafka-reachable", "%s does not answer: %s",
            servers, rd_kafka_err2str(code));
    } else {
        for (size_t i = 0; i < ARRAY_LEN(TOPICS); i++)
            check_topic(doctor, rk, i, metadata);
        check_brokers(doctor, rk, metadata);
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_destroy(rk);
}
