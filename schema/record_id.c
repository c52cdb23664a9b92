/* SPDX-License-Identifier: Apache-2.0 */
/* Names, keys, ids and fingerprints: the identity half of record.h. */
#include <assert.h>
#include <string.h>

#include "schema/record.h"

#define FINGERPRINT_VERSION 1

/* Separate the two families of ids; changing one changes every id. */
#define DOMAIN_KEY SPAN_LIT("actionist id of key 1")
#define DOMAIN_SOURCE SPAN_LIT("actionist id of source 1")

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool name_is_valid(struct span name)
{
    if (name.len == 0 || name.len > RECORD_MAX_NAME ||
        !is_lower_or_digit(name.ptr[0])) {
        return false;
    }
    for (size_t i = 1; i < name.len; i++) {
        const char c = name.ptr[i];
        if (!is_lower_or_digit(c) && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return true;
}

bool key_is_valid(struct span key)
{
    if (key.len == 0 || key.len > RECORD_MAX_KEY) {
        return false;
    }
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] < 0x21 || key.ptr[i] > 0x7E) {
            return false;
        }
    }
    return true;
}

void record_id_of_key(struct span tenant, struct span connector,
    struct span key, uint8_t id[UUID_SIZE])
{
    const struct span parts[] = {DOMAIN_KEY, tenant, connector, key};
    uint8_t digest[SHA256_SIZE];
    sha256_parts(parts, ARRAY_LEN(parts), digest);
    uuid_from_digest(digest, id);
}

void record_id_of_source(
    const char *topic, int32_t partition, int64_t offset, uint8_t id[UUID_SIZE])
{
    struct buf position;
    buf_init(&position, 64);
    buf_put_int(&position, partition);
    buf_put_char(&position, ':');
    buf_put_int(&position, offset);
    const struct span parts[] = {
        DOMAIN_SOURCE, span_of(topic), buf_span(&position)};
    uint8_t digest[SHA256_SIZE];
    sha256_parts(parts, ARRAY_LEN(parts), digest);
    uuid_from_digest(digest, id);
    buf_fini(&position);
}

void record_make_replay(struct record *record,
    const uint8_t replay_of[UUID_SIZE], const uint8_t effect_id[UUID_SIZE],
    bool has_own_key)
{
    record->is_replay = true;
    record->priority = 0;
    memcpy(record->replay_of, replay_of, UUID_SIZE);
    memcpy(record->effect_id, effect_id, UUID_SIZE);
    if (has_own_key) {
        uuid_format(effect_id, record->key);
    }
}

const uint8_t *record_effect_id(const struct record *record)
{
    return record->is_replay ? record->effect_id : record->id;
}

void record_fingerprint(struct span action, struct json_value payload,
    uint8_t fingerprint[FINGERPRINT_SIZE])
{
    struct buf canonical;
    /* Decoding and encoding again grows a string less than sixfold. */
    buf_init(&canonical, payload.raw.len * 6 + 64);
    json_canonical(payload, &canonical);
    assert(!canonical.is_overflowed);
    const struct span parts[] = {action, buf_span(&canonical)};
    fingerprint[0] = FINGERPRINT_VERSION;
    sha256_parts(parts, ARRAY_LEN(parts), fingerprint + 1);
    buf_fini(&canonical);
}
