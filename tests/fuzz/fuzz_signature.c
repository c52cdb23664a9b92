/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the check of webhooks: first byte the scheme, then lines: signature
 * header, time, id, content type; the rest is the body. Nothing that was not
 * signed with the key may be right.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "schema/signature.h"

enum { LINES = 4 };

struct request {
    const struct signature_scheme *scheme;
    char *lines[LINES];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

static const char *header_of(void *arg, const char *name)
{
    const struct request *request = arg;
    const struct signature_scheme *scheme = request->scheme;
    if (strcasecmp(name, scheme->header) == 0) {
        return request->lines[0];
    }
    if (scheme->time_at != NULL && strcasecmp(name, scheme->time_at) == 0) {
        return request->lines[1];
    }
    if (scheme->id_header != NULL && strcasecmp(name, scheme->id_header) == 0) {
        return request->lines[2];
    }
    return strcasecmp(name, "Content-Type") == 0 ? request->lines[3] : NULL;
}

static char *take_line(struct span *rest)
{
    const char *feed =
        rest->len == 0 ? NULL : memchr(rest->ptr, '\n', rest->len);
    const size_t len = feed == NULL ? rest->len : (size_t)(feed - rest->ptr);
    char *line = span_dup((struct span){rest->ptr, len});
    rest->ptr += feed == NULL ? len : len + 1;
    rest->len -= feed == NULL ? len : len + 1;
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A key that no input knows. */
    static const char KEY[32] = "\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae";
    if (size == 0) {
        return 0;
    }
    struct span rest = {(const char *)data + 1, size - 1};
    struct request request = {
        .scheme = &SIGNATURE_SCHEMES[data[0] % SIGNATURE_SCHEME_COUNT]};
    for (size_t i = 0; i < LINES; i++) {
        request.lines[i] = take_line(&rest);
    }
    const struct signature_input input = {.method = "POST",
        .parameter = SPAN_LIT("https://hooks.example.com/in"),
        .body = rest,
        .header = header_of,
        .arg = &request};
    const struct span keys[] = {{KEY, sizeof(KEY)}, {KEY, 16}};
    struct signature_result result;
    struct buf out;
    signature_check(request.scheme, &input, keys, ARRAY_LEN(keys),
        INT64_C(1796000000000000), &result);
    require(
        result.verdict != SIGNATURE_RIGHT && result.verdict != SIGNATURE_STALE);
    buf_init(&out, SIGNATURE_MAX_KEY);
    if (signature_sender_id(request.scheme, &input, &out)) {
        require(out.len > 0 && out.len <= SIGNATURE_MAX_ID);
    }
    buf_clear(&out);
    struct err err = ERR_INIT;
    const int rc = signature_key_parse(request.scheme, input.body, &out, &err);
    require((rc == 0) == (out.len > 0) || out.is_overflowed);
    buf_fini(&out);
    for (size_t i = 0; i < LINES; i++) {
        free(request.lines[i]);
    }
    return 0;
}
