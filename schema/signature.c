/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/signature.h"

#include <string.h>

#include "common/json.h"
#include "common/signing.h"
#include "common/time.h"
#include "schema/signature_internal.h"

enum { MAX_ENTRIES = 32, MAX_SIGNATURE = 4096, BODY_DEPTH = 64 };
#define MAX_MESSAGE ((size_t)16 << 20)

static const char *const VERDICT_NAMES[SIGNATURE_VERDICT_COUNT] = {
    [SIGNATURE_RIGHT] = "",
    [SIGNATURE_MISSING] = "signature_missing",
    [SIGNATURE_MALFORMED] = "signature_malformed",
    [SIGNATURE_STALE] = "signature_stale",
    [SIGNATURE_WRONG] = "signature_wrong",
};

const char *signature_verdict_name(enum signature_verdict verdict)
{
    return VERDICT_NAMES[verdict];
}

/* -- the headers ----------------------------------------------------------- */

/* What the headers of one request say. */
struct claim {
    struct span entries[MAX_ENTRIES]; /* signatures, still encoded */
    size_t count;
    struct span time;
    struct span id;
};

static bool starts_with(struct span text, const char *prefix)
{
    const size_t len = strlen(prefix);
    return text.len >= len && memcmp(text.ptr, prefix, len) == 0;
}

static struct span behind(struct span text, const char *prefix)
{
    const size_t len = strlen(prefix);
    return (struct span){text.ptr + len, text.len - len};
}

static enum signature_verdict take_entry(const struct signature_scheme *scheme,
    struct span entry, struct claim *claim)
{
    if (scheme->is_time_entry && starts_with(entry, scheme->time_at)) {
        if (claim->time.ptr != NULL) {
            return SIGNATURE_MALFORMED;
        }
        claim->time = behind(entry, scheme->time_at);
    } else if (starts_with(entry, scheme->prefix)) {
        if (claim->count == MAX_ENTRIES) {
            return SIGNATURE_MALFORMED;
        }
        claim->entries[claim->count++] = behind(entry, scheme->prefix);
    }
    return SIGNATURE_RIGHT; /* others are versions we do not know */
}

static enum signature_verdict take_signatures(
    const struct signature_scheme *scheme, struct span header,
    struct claim *claim)
{
    while (header.len > 0) {
        const char *end =
            scheme->separator == '\0'
                ? NULL
                : memchr(header.ptr, scheme->separator, header.len);
        const size_t len =
            end == NULL ? header.len : (size_t)(end - header.ptr);
        const enum signature_verdict verdict =
            take_entry(scheme, (struct span){header.ptr, len}, claim);
        if (verdict != SIGNATURE_RIGHT) {
            return verdict;
        }
        header.ptr += end == NULL ? len : len + 1;
        header.len -= end == NULL ? len : len + 1;
    }
    return claim->count == 0 ? SIGNATURE_MALFORMED : SIGNATURE_RIGHT;
}

/* An id that is signed between others must not reach over into them. */
static bool is_plain_id(struct span id)
{
    for (size_t i = 0; i < id.len; i++) {
        if (id.ptr[i] <= ' ' || id.ptr[i] > '~' || id.ptr[i] == '.' ||
            id.ptr[i] == '|') {
            return false;
        }
    }
    return id.len > 0 && id.len <= SIGNATURE_MAX_ID;
}

static enum signature_verdict read_claim(const struct signature_scheme *scheme,
    const struct signature_input *input, struct claim *claim)
{
    const char *header = input->header(input->arg, scheme->header);
    if (header == NULL) {
        return SIGNATURE_MISSING;
    }
    const enum signature_verdict verdict =
        take_signatures(scheme, span_of(header), claim);
    if (verdict != SIGNATURE_RIGHT) {
        return verdict;
    }
    const bool is_time_header = scheme->time != SIGNATURE_TIME_NONE &&
                                scheme->time != SIGNATURE_TIME_BODY_MS &&
                                !scheme->is_time_entry;
    if (is_time_header) {
        claim->time = span_of(input->header(input->arg, scheme->time_at));
    }
    if ((is_time_header || scheme->is_time_entry) && claim->time.ptr == NULL) {
        return SIGNATURE_MISSING;
    }
    if (strstr(scheme->message, "{id}") != NULL) {
        claim->id = span_of(input->header(input->arg, scheme->id_header));
        if (claim->id.ptr == NULL) {
            return SIGNATURE_MISSING;
        }
        if (!is_plain_id(claim->id)) {
            return SIGNATURE_MALFORMED;
        }
    }
    return SIGNATURE_RIGHT;
}

/* -- the time -------------------------------------------------------------- */

/* 1 to 15 digits and nothing else. */
static bool read_number(struct span text, int64_t *value)
{
    return text.len > 0 && text.len <= 15 && text.ptr[0] != '-' &&
           span_to_int(text, value);
}

static bool read_body_time(const struct signature_scheme *scheme,
    const struct signature_input *input, int64_t *value)
{
    struct json_value root;
    struct json_value found;
    return json_parse(input->body, BODY_DEPTH, &root, NULL) == 0 &&
           json_pointer(root, span_of(scheme->time_at), &found) &&
           found.type == JSON_NUMBER && read_number(found.raw, value);
}

static bool read_time_s(const struct signature_scheme *scheme,
    const struct signature_input *input, struct span text, int64_t *seconds)
{
    int64_t value = 0;
    switch (scheme->time) {
    case SIGNATURE_TIME_NONE:
        break;
    case SIGNATURE_TIME_S:
        *seconds = 0;
        return read_number(text, seconds);
    case SIGNATURE_TIME_MS:
        if (!read_number(text, &value)) {
            return false;
        }
        *seconds = value / 1000;
        return true;
    case SIGNATURE_TIME_RFC3339:
        if (!time_parse_rfc3339(text, &value)) {
            return false;
        }
        *seconds = value / US_PER_S;
        return true;
    case SIGNATURE_TIME_BODY_MS:
        if (!read_body_time(scheme, input, &value)) {
            return false;
        }
        *seconds = value / 1000;
        return true;
    }
    return false;
}

static enum signature_verdict judge_time(const struct signature_scheme *scheme,
    const struct signature_input *input, struct span text, int64_t now_wall_us)
{
    int64_t seconds = 0;
    if (scheme->time == SIGNATURE_TIME_NONE) {
        return SIGNATURE_RIGHT;
    }
    if (!read_time_s(scheme, input, text, &seconds)) {
        return SIGNATURE_MALFORMED;
    }
    const int64_t age_s = now_wall_us / US_PER_S - seconds;
    return age_s > scheme->tolerance_s || age_s < -scheme->tolerance_s
               ? SIGNATURE_STALE
               : SIGNATURE_RIGHT;
}

/* -- the check ------------------------------------------------------------- */

static bool decode_entry(
    const struct signature_scheme *scheme, struct span entry, struct buf *out)
{
    buf_clear(out);
    return entry.len > 0 && entry.len <= MAX_SIGNATURE &&
           (scheme->encoding == SIGNATURE_HEX ? hex_decode(entry, out)
                                              : base64_decode(entry, out));
}

static bool is_match(const struct signature_scheme *scheme, struct span key,
    struct span message, struct span digest, struct span signature)
{
    switch (scheme->algorithm) {
    case SIGNATURE_HMAC_SHA256:
    case SIGNATURE_HMAC_SHA1:
        return equal_in_constant_time(digest, signature);
    case SIGNATURE_ED25519:
        return ed25519_is_signed(key, message, signature);
    case SIGNATURE_ECDSA_P256:
    case SIGNATURE_RSA:
        break;
    }
    return sha256_is_signed(key, message, signature);
}

/* The HMAC of the message, or nothing for the other algorithms. */
static struct span make_digest(const struct signature_scheme *scheme,
    struct span key, struct span message, uint8_t bytes[SHA256_SIZE])
{
    if (scheme->algorithm == SIGNATURE_HMAC_SHA256) {
        hmac_sha256(key, message, bytes);
        return (struct span){(const char *)bytes, SHA256_SIZE};
    }
    if (scheme->algorithm == SIGNATURE_HMAC_SHA1) {
        hmac_sha1(key, message, bytes);
        return (struct span){(const char *)bytes, SHA1_SIZE};
    }
    return (struct span){0};
}

/* True if any entry was made with any key; *which is that key. */
static bool is_any_match(const struct signature_scheme *scheme,
    const struct claim *claim, const struct span *keys, size_t key_count,
    struct span message, size_t *which)
{
    struct buf signature;
    bool is_found = false;
    buf_init(&signature, MAX_SIGNATURE);
    for (size_t k = 0; k < key_count && !is_found; k++) {
        uint8_t bytes[SHA256_SIZE];
        const struct span digest = make_digest(scheme, keys[k], message, bytes);
        for (size_t i = 0; i < claim->count && !is_found; i++) {
            is_found = decode_entry(scheme, claim->entries[i], &signature) &&
                       is_match(scheme, keys[k], message, digest,
                           buf_span(&signature));
        }
        *which = k;
    }
    buf_fini(&signature);
    return is_found;
}

/* Builds what was signed with the URL in one form, and compares. */
static bool is_signed_for(const struct signature_scheme *scheme,
    const struct signature_input *input, const struct claim *claim,
    struct span url, const struct span *keys, size_t key_count,
    struct signature_result *result)
{
    const struct signature_parts parts = {
        .id = claim->id, .time = claim->time, .url = url};
    struct buf message;
    buf_init(&message, MAX_MESSAGE);
    const bool is_right =
        signature_put_message(scheme, input, &parts, &message) &&
        is_any_match(
            scheme, claim, keys, key_count, buf_span(&message), &result->key);
    if (is_right) {
        sha256(buf_span(&message), result->message);
    }
    buf_fini(&message);
    return is_right;
}

/* Twilio alone signs the URL with or without its default port, as it likes. */
static bool is_signed_for_other(const struct signature_scheme *scheme,
    const struct signature_input *input, const struct claim *claim,
    const struct span *keys, size_t key_count, struct signature_result *result)
{
    struct buf url;
    buf_init(&url, (size_t)2 * SIGNATURE_MAX_PARAMETER);
    const bool is_right = scheme->algorithm == SIGNATURE_HMAC_SHA1 &&
                          signature_put_other_url(input->parameter, &url) &&
                          is_signed_for(scheme, input, claim, buf_span(&url),
                              keys, key_count, result);
    buf_fini(&url);
    return is_right;
}

void signature_check(const struct signature_scheme *scheme,
    const struct signature_input *input, const struct span *keys,
    size_t key_count, int64_t now_wall_us, struct signature_result *result)
{
    struct claim claim = {.count = 0};
    *result = (struct signature_result){.verdict = SIGNATURE_WRONG};
    const enum signature_verdict verdict = read_claim(scheme, input, &claim);
    if (verdict != SIGNATURE_RIGHT) {
        result->verdict = verdict;
        return;
    }
    if (is_signed_for(
            scheme, input, &claim, input->parameter, keys, key_count, result) ||
        is_signed_for_other(scheme, input, &claim, keys, key_count, result)) {
        result->verdict = judge_time(scheme, input, claim.time, now_wall_us);
    }
}

/* -- the sender's id ------------------------------------------------------- */

static bool is_id(struct span id)
{
    for (size_t i = 0; i < id.len; i++) {
        if ((unsigned char)id.ptr[i] < ' ' || id.ptr[i] == 0x7F) {
            return false;
        }
    }
    return id.len > 0 && id.len <= SIGNATURE_MAX_ID && utf8_is_valid(id);
}

static bool put_body_id(const char *pointer, struct span body, struct buf *out)
{
    struct json_value root;
    struct json_value found;
    if (json_parse(body, BODY_DEPTH, &root, NULL) != 0 ||
        !json_pointer(root, span_of(pointer), &found)) {
        return false;
    }
    if (found.type == JSON_NUMBER) {
        buf_put_span(out, found.raw);
        return true;
    }
    if (found.type == JSON_STRING) {
        json_decode(found, out);
        return true;
    }
    return false;
}

bool signature_sender_id(const struct signature_scheme *scheme,
    const struct signature_input *input, struct buf *out)
{
    struct buf id;
    buf_init(&id, SIGNATURE_MAX_ID + 1);
    bool is_there = false;
    const char *header = scheme->id_header == NULL
                             ? NULL
                             : input->header(input->arg, scheme->id_header);
    if (header != NULL) {
        buf_put_str(&id, header);
        is_there = true;
    } else if (scheme->id_pointer != NULL) {
        is_there = put_body_id(scheme->id_pointer, input->body, &id);
    }
    is_there = is_there && !id.is_overflowed && is_id(buf_span(&id));
    if (is_there) {
        buf_put_span(out, buf_span(&id));
    }
    buf_fini(&id);
    return is_there;
}
