/* SPDX-License-Identifier: Apache-2.0 */
/* The identifier half of crypt.h. */
#include <pthread.h>
#include <string.h>

#include "common/crypt.h"
#include "common/time.h"

enum { COUNTER_MAX = 0xFFF, COUNTER_START_MASK = 0x7FF };

/* What makes the identifiers of a process ascend (RFC 9562 6.2, method 1). */
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t last_ms;
static unsigned last_counter;

static void put_version(uint8_t uuid[UUID_SIZE], unsigned version)
{
    uuid[6] = (uint8_t)((uuid[6] & 0x0FU) | version << 4);
    uuid[8] = (uint8_t)((uuid[8] & 0x3FU) | 0x80U);
}

void uuid_v7(uint8_t uuid[UUID_SIZE])
{
    random_bytes(uuid, UUID_SIZE);
    int64_t ms = now_wall_us() / US_PER_MS;
    unsigned counter = ((unsigned)uuid[6] << 8 | uuid[7]) & COUNTER_START_MASK;
    (void)pthread_mutex_lock(&last_lock);
    if (ms <= last_ms) {
        ms = last_ms;
        counter = last_counter + 1;
        if (counter > COUNTER_MAX) {
            /* Borrow from the next millisecond. */
            ms++;
            counter = 0;
        }
    }
    last_ms = ms;
    last_counter = counter;
    (void)pthread_mutex_unlock(&last_lock);
    for (size_t i = 0; i < 6; i++) {
        uuid[i] = (uint8_t)((uint64_t)ms >> (40 - 8 * i));
    }
    uuid[6] = (uint8_t)(counter >> 8);
    uuid[7] = (uint8_t)(counter & 0xFFU);
    put_version(uuid, 7);
}

void uuid_from_digest(
    const uint8_t digest[SHA256_SIZE], uint8_t uuid[UUID_SIZE])
{
    memcpy(uuid, digest, UUID_SIZE);
    put_version(uuid, 8);
}

/* True where the text form has a dash in front of this byte. */
static bool has_dash(size_t byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void uuid_format(const uint8_t uuid[UUID_SIZE], char text[UUID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    for (size_t i = 0; i < UUID_SIZE; i++) {
        if (has_dash(i)) {
            text[at++] = '-';
        }
        text[at++] = digits[uuid[i] >> 4];
        text[at++] = digits[uuid[i] & 15U];
    }
    text[at] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool uuid_parse(struct span text, uint8_t uuid[UUID_SIZE])
{
    uint8_t bytes[UUID_SIZE];
    size_t at = 0;
    if (text.len != UUID_TEXT_SIZE - 1) {
        return false;
    }
    for (size_t i = 0; i < UUID_SIZE; i++) {
        if (has_dash(i) && text.ptr[at++] != '-') {
            return false;
        }
        const int high = hex_digit(text.ptr[at++]);
        const int low = hex_digit(text.ptr[at++]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(uuid, bytes, sizeof(bytes));
    return true;
}

void hex_put(struct buf *out, struct span bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.len; i++) {
        const unsigned char byte = (unsigned char)bytes.ptr[i];
        const char pair[2] = {digits[byte >> 4], digits[byte & 15U]};
        buf_put(out, pair, sizeof(pair));
    }
}

bool hex_decode(struct span text, struct buf *out)
{
    if (text.len % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (hex_digit(text.ptr[i]) < 0) {
            return false;
        }
    }
    for (size_t i = 0; i < text.len; i += 2) {
        const int high = hex_digit(text.ptr[i]);
        const int low = hex_digit(text.ptr[i + 1]);
        buf_put_char(out, (char)(high << 4 | low));
    }
    return true;
}
