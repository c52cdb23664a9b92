/* SPDX-License-Identifier: Apache-2.0 */
/* topic_facts: number of partitions and configuration of a topic. Blocks. */
#ifndef TOPIC_FACTS_H
#define TOPIC_FACTS_H

#include "common/kafka.h"

struct topic_facts {
    int32_t partitions;
    bool is_delete_only; /* cleanup.policy is delete */
    int64_t max_message_bytes;
};

/* TRANSIENT: unreachable or missing; FATAL: may not be described. */
int topic_facts_read(rd_kafka_t *rk, const char *topic,
    struct topic_facts *facts, struct err *err) MUST_CHECK;

#endif
