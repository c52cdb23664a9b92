/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record: an action request (CONTRACTS, "Action request") as it comes through
 * the Kafka or the HTTP door: parsing, identity and fingerprint. No I/O.
 */
#ifndef RECORD_H
#define RECORD_H

#include <stdint.h>

#include "common/crypt.h"
#include "common/json.h"
#include "schema/codes.h"

#define RECORD_MAX_BYTES ((size_t)1 << 20)
/* On Kafka: room for what record_put_kafka() adds to the largest body. */
#define RECORD_MAX_KAFKA_BYTES (RECORD_MAX_BYTES + 1024)
#define RECORD_MAX_NAME 63
#define RECORD_MAX_KEY 255
#define RECORD_PAYLOAD_DEPTH 64
#define FINGERPRINT_SIZE 33 /* version byte 1, then SHA-256 */

/* Why something is refused: code, where, and words for people. */
struct fault {
    enum code code;
    char pointer[256]; /* JSON pointer, "" when there is none */
    char detail[256];
};
#define FAULT_INIT                                                             \
    {                                                                          \
        .code = CODE_NONE                                                      \
    }
/* Fills fault and returns -1. detail NULL: the code's text. */
int fault_set(struct fault *fault, enum code code, const char *pointer,
    const char *fmt, ...) PRINTF_LIKE(4, 5);

enum record_door { RECORD_DOOR_KAFKA, RECORD_DOOR_HTTP };

struct record_source {
    enum record_door door;
    struct span tenant; /* HTTP: of the API key; Kafka: the record's key */
    bool has_tenant;    /* Kafka: false for a null key */
    struct span key;    /* HTTP: Idempotency-Key header */
    bool has_key;
    const char *topic; /* Kafka only: position, for an id without key */
    int32_t partition;
    int64_t offset;
};

struct record {
    char tenant[RECORD_MAX_NAME + 1];
    char connector[RECORD_MAX_NAME + 1];
    char action[RECORD_MAX_NAME + 1];
    char key[RECORD_MAX_KEY + 1]; /* "" when there is none */
    struct json_value root;       /* borrows from the text parsed */
    struct json_value payload;    /* `null` when absent */
    int64_t not_before_us;        /* wall; 0: none */
    int64_t deadline_us;          /* wall; 0: none */
    int priority;                 /* 0..9 */
    int max_attempts;             /* 0: the manifest's */
    bool is_dry_run;
    uint8_t id[UUID_SIZE];
    uint8_t fingerprint[FINGERPRINT_SIZE];
    bool is_replay; /* then the next two hold; see record_make_replay() */
    uint8_t replay_of[UUID_SIZE];
    uint8_t effect_id[UUID_SIZE]; /* as whom the provider knows it */
};

enum record_verdict {
    RECORD_OK,
    RECORD_UNREADABLE, /* Kafka: to `rejects`, no outcome. HTTP: 400/413/403 */
    RECORD_REJECTED    /* Kafka: one `rejected` outcome. HTTP: 4xx.
                          tenant, connector, action, id and fingerprint are
                          set as far as they could be read */
};

/*
 * Parses and judges everything that needs no manifest. A key that is absent,
 * invalid or (Kafka) not given makes the id come from the source position.
 * text must stay valid while the record is used.
 */
enum record_verdict record_parse(struct span text,
    const struct record_source *source, struct record *record,
    struct fault *fault);

/* [a-z0-9][a-z0-9._-]{0,62} */
bool name_is_valid(struct span name);
/* 1 to 255 bytes of 0x21 to 0x7E (P4). */
bool key_is_valid(struct span key);

/* The id of (tenant, connector, key), and of a source position. */
void record_id_of_key(struct span tenant, struct span connector,
    struct span key, uint8_t id[UUID_SIZE]);
void record_id_of_source(const char *topic, int32_t partition, int64_t offset,
    uint8_t id[UUID_SIZE]);
void record_fingerprint(struct span action, struct json_value payload,
    uint8_t fingerprint[FINGERPRINT_SIZE]);

/*
 * Makes the record of an action that of a replay of it, which the provider
 * knows as effect_id: by the key of the request, or by one of its own, that is
 * the text of this id. It yields to what is new: priority 0.
 */
void record_make_replay(struct record *record,
    const uint8_t replay_of[UUID_SIZE], const uint8_t effect_id[UUID_SIZE],
    bool has_own_key);
/* What a provider gets to dedupe by: the same for an action's replays. */
const uint8_t *record_effect_id(const struct record *record);

/*
 * The record the HTTP door puts on Kafka: the caller's object with spec,
 * tenant and idempotency_key added where they are absent, everything else
 * byte for byte.
 */
void record_put_kafka(
    struct buf *out, const struct record *record, struct span text);

#endif
