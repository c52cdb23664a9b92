/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/topic_facts.h"

enum { TIMEOUT_MS = 10000 };

static int read_partitions(rd_kafka_t *rk, const char *topic,
    struct topic_facts *facts, struct err *err)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    if (handle == NULL) {
        return err_set(err, ERR_FATAL, "TOPIC_NAME",
            "%s is not the name of a topic", topic);
    }
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code =
        rd_kafka_metadata(rk, 0, handle, &metadata, TIMEOUT_MS);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        code = metadata->topic_cnt == 1 ? metadata->topics[0].err
                                        : RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
        facts->partitions =
            metadata->topic_cnt == 1 ? metadata->topics[0].partition_cnt : 0;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(handle);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR || facts->partitions < 1) {
        return err_set(err, ERR_TRANSIENT, "TOPIC_UNAVAILABLE", "topic %s: %s",
            topic, rd_kafka_err2str(code));
    }
    return 0;
}

static void read_entries(
    const rd_kafka_ConfigResource_t *resource, struct topic_facts *facts)
{
    size_t count = 0;
    const rd_kafka_ConfigEntry_t **entries =
        rd_kafka_ConfigResource_configs(resource, &count);
    for (size_t i = 0; i < count; i++) {
        const struct span name = span_of(rd_kafka_ConfigEntry_name(entries[i]));
        const struct span value =
            span_of(rd_kafka_ConfigEntry_value(entries[i]));
        if (span_is(name, "cleanup.policy")) {
            facts->is_delete_only = span_is(value, "delete");
        } else if (span_is(name, "max.message.bytes")) {
            (void)span_to_int(value, &facts->max_message_bytes);
        }
    }
}

static int read_answer(rd_kafka_event_t *event, const char *topic,
    struct topic_facts *facts, struct err *err)
{
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    const rd_kafka_DescribeConfigs_result_t *result =
        rd_kafka_event_DescribeConfigs_result(event);
    size_t count = 0;
    const rd_kafka_ConfigResource_t **resources = NULL;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && result != NULL) {
        resources = rd_kafka_DescribeConfigs_result_resources(result, &count);
    }
    if (count == 1) {
        code = rd_kafka_ConfigResource_error(resources[0]);
    }
    if (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
        return err_set(err, ERR_FATAL, "TOPIC_UNREADABLE",
            "topic %s: its settings may not be read; allow DescribeConfigs",
            topic);
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR || count != 1) {
        return err_set(err, ERR_TRANSIENT, "TOPIC_UNAVAILABLE",
            "settings of topic %s: %s", topic, rd_kafka_err2str(code));
    }
    read_entries(resources[0], facts);
    return 0;
}

static int read_config(rd_kafka_t *rk, const char *topic,
    struct topic_facts *facts, struct err *err)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_DescribeConfigs(rk, &resource, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    int result = 0;
    if (event == NULL) {
        result = err_set(err, ERR_TRANSIENT, "TOPIC_UNAVAILABLE",
            "settings of topic %s: no answer", topic);
    } else {
        result = read_answer(event, topic, facts, err);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_ConfigResource_destroy(resource);
    rd_kafka_queue_destroy(queue);
    return result;
}

int topic_facts_read(rd_kafka_t *rk, const char *topic,
    struct topic_facts *facts, struct err *err)
{
    *facts = (struct topic_facts){.partitions = 0};
    if (read_partitions(rk, topic, facts, err) != 0) {
        return -1;
    }
    return read_config(rk, topic, facts, err);
}
