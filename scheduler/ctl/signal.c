/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/signal.h"

#include "common/kafka.h"

#define SIGNAL_WAIT_MS 3000

static void on_delivered(void *arg, enum kafka_delivery delivery,
    int32_t partition, int64_t offset, const struct err *err)
{
    (void)partition;
    (void)offset;
    (void)err;
    if (delivery == KAFKA_DELIVERED)
        ++*(size_t *)arg;
}

static int produce_all(struct kafka_producer *producer, const char *topic,
    const char *kind, const char *const *names, size_t count, size_t *delivered,
    struct err *err)
{
    int rc = 0;
    struct buf key;
    buf_init(&key, 256);
    for (size_t i = 0; i < count && rc == 0; i++) {
        buf_clear(&key);
        buf_printf(&key, "%s:%s", kind, names[i]);
        rc = kafka_produce(producer, topic, -1, buf_span(&key), SPAN_LIT("{}"),
            NULL, 0, on_delivered, delivered, err);
    }
    buf_fini(&key);
    return rc;
}

static int send_signals(const struct ctl *ctl, const char *kind,
    const char *const *names, size_t count, struct err *err)
{
    struct loop loop;
    char topic[256];
    size_t delivered = 0;
    loop_init(&loop, NULL, NULL);
    kafka_topic_name(ctl->conf, "control", topic);
    struct kafka_producer *producer =
        kafka_producer_open(&loop, ctl->conf, 0, err);
    int rc = producer != NULL ? 0 : -1;
    if (rc == 0)
        rc = produce_all(producer, topic, kind, names, count, &delivered, err);
    kafka_producer_close(producer, SIGNAL_WAIT_MS);
    if (rc == 0 && delivered < count)
        rc = err_set(err, ERR_TRANSIENT, "KAFKA_UNREACHABLE",
            "the control topic did not take it within %d ms", SIGNAL_WAIT_MS);
    loop_fini(&loop);
    return rc;
}

void ctl_signal_all(const struct ctl *ctl, const char *kind,
    const char *const *names, size_t count)
{
    struct err err = ERR_INIT;
    const char *servers = conf_text(ctl->conf, "kafka.bootstrap.servers");
    if (servers == NULL || servers[0] == '\0' || count == 0)
        return;
    if (send_signals(ctl, kind, names, count, &err) != 0)
        fprintf(stderr,
            "actionist: the fleet was not told (%s); it sees the change "
            "within 30 s\n",
            err.msg);
}

void ctl_signal(const struct ctl *ctl, const char *kind, const char *name)
{
    ctl_signal_all(ctl, kind, &name, 1);
}
