/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/trace.h"

#include <string.h>

#include "common/crypt.h"

/* "00-<32 hex>-<16 hex>-<2 hex>" */
enum {
    TRACE_AT = 3,
    TRACE_LEN = 32,
    SPAN_AT = 36,
    SPAN_LEN = 16,
    FLAGS_AT = 53,
    FLAGS_LEN = 2
};

static bool is_lower_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return true;
}

static bool is_zero(const char *text, size_t len)
{
    return strspn(text, "0") >= len;
}

static bool is_valid(const char *header)
{
    const size_t len = strlen(header);
    if (len < TRACEPARENT_LEN || !is_lower_hex(header, 2) ||
        strncmp(header, "ff", 2) == 0 || header[2] != '-' ||
        header[SPAN_AT - 1] != '-' || header[FLAGS_AT - 1] != '-') {
        return false;
    }
    /* Version 00 ends here; a later one may go on behind a dash. */
    if (len > TRACEPARENT_LEN &&
        (strncmp(header, "00", 2) == 0 || header[TRACEPARENT_LEN] != '-')) {
        return false;
    }
    return is_lower_hex(header + TRACE_AT, TRACE_LEN) &&
           is_lower_hex(header + SPAN_AT, SPAN_LEN) &&
           is_lower_hex(header + FLAGS_AT, FLAGS_LEN) &&
           !is_zero(header + TRACE_AT, TRACE_LEN) &&
           !is_zero(header + SPAN_AT, SPAN_LEN);
}

static void put_random_hex(char *out, size_t bytes)
{
    uint8_t random[TRACE_LEN / 2];
    struct buf hex;
    buf_init(&hex, sizeof(random) * 2);
    random_bytes(random, bytes);
    random[0] |= 1; /* never all zero */
    hex_put(&hex, (struct span){.ptr = (const char *)random, .len = bytes});
    memcpy(out, hex.data, hex.len);
    buf_fini(&hex);
}

bool trace_parent(const char *header, char out[TRACEPARENT_LEN + 1])
{
    memcpy(out, "00-", 3);
    if (header != NULL && is_valid(header)) {
        memcpy(out + TRACE_AT, header + TRACE_AT, TRACEPARENT_LEN - TRACE_AT);
        out[TRACEPARENT_LEN] = '\0';
        return true;
    }
    put_random_hex(out + TRACE_AT, TRACE_LEN / 2);
    out[SPAN_AT - 1] = '-';
    put_random_hex(out + SPAN_AT, SPAN_LEN / 2);
    memcpy(out + FLAGS_AT - 1, "-01", 4);
    return false;
}
