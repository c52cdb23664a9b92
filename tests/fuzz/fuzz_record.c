/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes record_parse() through both doors. What the HTTP door takes must,
 * with its additions, be the same request at the Kafka door.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

static void check_verdict(enum record_verdict verdict,
    const struct record *record, const struct fault *fault)
{
    require((verdict == RECORD_OK) == (fault->code == CODE_NONE));
    require(verdict == RECORD_OK || fault->detail[0] != '\0');
    if (verdict != RECORD_UNREADABLE) {
        require(name_is_valid(span_of(record->tenant)));
        require(name_is_valid(span_of(record->connector)));
        require(name_is_valid(span_of(record->action)));
        require(record->fingerprint[0] == 1);
    }
    if (verdict == RECORD_OK) {
        require(record->priority >= 0 && record->priority <= 9);
        require(record->max_attempts >= 0 && record->max_attempts <= 100);
    }
}

static void check_same_at_kafka(
    const struct record *record, const struct span text)
{
    const struct record_source kafka = {.door = RECORD_DOOR_KAFKA,
        .tenant = SPAN_LIT("acme"),
        .has_tenant = true,
        .topic = "t"};
    struct buf produced;
    struct record again;
    struct fault fault = FAULT_INIT;
    buf_init(&produced, RECORD_MAX_KAFKA_BYTES);
    record_put_kafka(&produced, record, text);
    require(!produced.is_overflowed);
    require(
        record_parse(buf_span(&produced), &kafka, &again, &fault) == RECORD_OK);
    require(memcmp(again.id, record->id, UUID_SIZE) == 0);
    require(
        memcmp(again.fingerprint, record->fingerprint, FINGERPRINT_SIZE) == 0);
    buf_fini(&produced);
}

/* The first byte is the length of a key header, 0 for none. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const char *bytes = (const char *)data + 1;
    size_t key_len = data[0];
    key_len = key_len > size - 1 ? size - 1 : key_len;
    const struct span text = {
        .ptr = bytes + key_len, .len = size - 1 - key_len};
    const struct record_source http = {.door = RECORD_DOOR_HTTP,
        .tenant = SPAN_LIT("acme"),
        .key = {.ptr = bytes, .len = key_len},
        .has_key = key_len > 0};
    const struct record_source kafka = {.door = RECORD_DOOR_KAFKA,
        .tenant = SPAN_LIT("acme"),
        .has_tenant = true,
        .topic = "t"};
    struct record record;
    struct fault fault = FAULT_INIT;
    enum record_verdict verdict = record_parse(text, &kafka, &record, &fault);
    check_verdict(verdict, &record, &fault);
    fault = (struct fault)FAULT_INIT;
    verdict = record_parse(text, &http, &record, &fault);
    check_verdict(verdict, &record, &fault);
    if (verdict == RECORD_OK) {
        check_same_at_kafka(&record, text);
    }
    return 0;
}
