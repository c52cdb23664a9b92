/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/control.h"

#include <stdlib.h>
#include <string.h>

#include "common/kafka.h"
#include "worker/admit.h"
#include "worker/connectors.h"
#include "worker/deliveries.h"
#include "worker/drain.h"
#include "worker/pauses.h"
#include "worker/worker.h"

/* Signals are rare; half a second more or less does not matter. */
enum { POLL_MS = 250, MAX_A_POLL = 100, PARTITION = 0 };

struct control {
    struct worker *worker;
    rd_kafka_t *consumer;
    struct loop_timer *poll;
};

/* "cancel:<id>" speaks of one action; true if it was that. */
static bool take_cancel(
    struct control *control, const rd_kafka_message_t *message)
{
    static const char PREFIX[] = "cancel:";
    const size_t prefix_len = sizeof(PREFIX) - 1;
    uint8_t id[UUID_SIZE];
    struct span key = {message->key, message->key_len};
    if (key.len <= prefix_len || memcmp(key.ptr, PREFIX, prefix_len) != 0) {
        return false;
    }
    key.ptr += prefix_len;
    key.len -= prefix_len;
    if (uuid_parse(key, id)) {
        admit_cancel(control->worker->admit, id);
    }
    return true;
}

static void on_poll(void *owner)
{
    struct control *control = owner;
    bool has_changed = false;
    for (int i = 0; i < MAX_A_POLL; i++) {
        rd_kafka_message_t *message =
            rd_kafka_consumer_poll(control->consumer, 0);
        if (message == NULL) {
            break;
        }
        /* Errors pass: the client connects again by itself. */
        has_changed |= message->err == RD_KAFKA_RESP_ERR_NO_ERROR &&
                       !take_cancel(control, message);
        rd_kafka_message_destroy(message);
    }
    if (has_changed) {
        connectors_refresh(control->worker->connectors);
        deliveries_refresh(control->worker->deliveries);
        pauses_refresh(control->worker->pauses);
        drain_refresh(control->worker->drain);
    }
}

static int configure(rd_kafka_conf_t *rk, struct err *err)
{
    /* A name is required; nothing is ever committed under it. */
    if (kafka_conf_set(rk, "group.id", "actionist-control", err) != 0 ||
        kafka_conf_set(rk, "enable.auto.commit", "false", err) != 0 ||
        kafka_conf_set(rk, "auto.offset.reset", "latest", err) != 0) {
        return -1;
    }
    return 0;
}

static rd_kafka_t *open_consumer(struct worker *worker, struct err *err)
{
    char reason[256];
    rd_kafka_conf_t *rk = kafka_base_conf(worker->conf, err);
    if (rk == NULL) {
        return NULL;
    }
    if (configure(rk, err) != 0) {
        rd_kafka_conf_destroy(rk);
        return NULL;
    }
    rd_kafka_t *consumer =
        rd_kafka_new(RD_KAFKA_CONSUMER, rk, reason, sizeof(reason));
    if (consumer == NULL) {
        rd_kafka_conf_destroy(rk);
        (void)err_set(err, ERR_FATAL, "KAFKA_CONFIG", "%s", reason);
        return NULL;
    }
    (void)rd_kafka_poll_set_consumer(consumer);
    return consumer;
}

static int assign(struct control *control, struct err *err)
{
    char topic[256];
    kafka_topic_name(control->worker->conf, "control", topic);
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, PARTITION)->offset =
        RD_KAFKA_OFFSET_END;
    const rd_kafka_resp_err_t result = rd_kafka_assign(control->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return err_set(err, ERR_FATAL, "KAFKA_ASSIGN", "control topic: %s",
            rd_kafka_err2str(result));
    }
    return 0;
}

struct control *control_open(struct worker *worker, struct err *err)
{
    struct control *control = mem_zalloc(1, sizeof(*control));
    control->worker = worker;
    control->consumer = open_consumer(worker, err);
    if (control->consumer == NULL) {
        free(control);
        return NULL;
    }
    control->poll = loop_timer_new(worker->loop, on_poll, control);
    if (assign(control, err) != 0) {
        control_close(control);
        return NULL;
    }
    loop_timer_start(control->poll, POLL_MS, POLL_MS);
    return control;
}

void control_close(struct control *control)
{
    if (control == NULL) {
        return;
    }
    loop_timer_free(control->poll);
    rd_kafka_destroy_flags(
        control->consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    free(control);
}
