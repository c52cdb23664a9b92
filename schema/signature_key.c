/* SPDX-License-Identifier: Apache-2.0 */
/* What a source is configured with: secrets and parameters, judged once. */
#include <string.h>
#include <strings.h>

#include "common/signing.h"
#include "schema/signature.h"

enum { MIN_KEY = 24, MAX_KEY = 64 };

static int refuse(struct err *err, const char *rule)
{
    return err_set(
        err, ERR_PERMANENT, "BAD_SECRET", "the secret must %s", rule);
}

/* Without the prefix, if it has it. */
static struct span strip(struct span text, const char *prefix)
{
    const size_t len = strlen(prefix);
    if (text.len >= len && memcmp(text.ptr, prefix, len) == 0) {
        text.ptr += len;
        text.len -= len;
    }
    return text;
}

static int put_base64(struct span text, size_t min, size_t max,
    const char *rule, struct buf *key, struct err *err)
{
    struct buf bytes;
    buf_init(&bytes, SIGNATURE_MAX_SECRET);
    const bool is_right =
        base64_decode(text, &bytes) && bytes.len >= min && bytes.len <= max;
    if (is_right) {
        buf_put_span(key, buf_span(&bytes));
    }
    buf_fini(&bytes);
    return is_right ? 0 : refuse(err, rule);
}

static int put_hex(struct span text, struct buf *key, struct err *err)
{
    struct buf bytes;
    buf_init(&bytes, SIGNATURE_MAX_SECRET);
    const bool is_right =
        hex_decode(text, &bytes) && bytes.len == ED25519_KEY_SIZE;
    if (is_right) {
        buf_put_span(key, buf_span(&bytes));
    }
    buf_fini(&bytes);
    return is_right ? 0
                    : refuse(err, "be the public key as 64 hexadecimal digits");
}

int signature_key_parse(const struct signature_scheme *scheme,
    struct span secret, struct buf *key, struct err *err)
{
    if (secret.len == 0 || secret.len > SIGNATURE_MAX_SECRET) {
        return refuse(err, "have 1 to 16384 bytes");
    }
    switch (scheme->secret) {
    case SIGNATURE_SECRET_TEXT:
        buf_put_span(key, secret);
        return 0;
    case SIGNATURE_SECRET_WHSEC:
        return put_base64(strip(secret, "whsec_"), MIN_KEY, MAX_KEY,
            "be base64 of 24 to 64 bytes, whsec_ in front or not", key, err);
    case SIGNATURE_SECRET_WHPK:
        return put_base64(strip(secret, "whpk_"), ED25519_KEY_SIZE,
            ED25519_KEY_SIZE,
            "be base64 of a public key of 32 bytes, whpk_ in front or not", key,
            err);
    case SIGNATURE_SECRET_HEX32:
        return put_hex(secret, key, err);
    case SIGNATURE_SECRET_PUBLIC:
        break;
    }
    if (scheme->algorithm == SIGNATURE_RSA) {
        return signing_key_parse(secret, SIGNING_RSA, key)
                   ? 0
                   : refuse(err, "be an RSA public key or certificate of "
                                 "2048 bits at least, PEM or base64 of DER");
    }
    return signing_key_parse(secret, SIGNING_EC_P256, key)
               ? 0
               : refuse(err, "be a public key on P-256, PEM or base64 of DER");
}

static bool is_printable(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~') {
            return false;
        }
    }
    return text.len > 0 && text.len <= SIGNATURE_MAX_PARAMETER;
}

static bool is_url(struct span text)
{
    return is_printable(text) &&
           ((text.len > 8 && strncasecmp(text.ptr, "https://", 8) == 0) ||
               (text.len > 7 && strncasecmp(text.ptr, "http://", 7) == 0)) &&
           memchr(text.ptr, '#', text.len) == NULL;
}

int signature_parameter_check(const struct signature_scheme *scheme,
    struct span parameter, struct err *err)
{
    switch (scheme->parameter) {
    case SIGNATURE_PARAMETER_NONE:
        return parameter.len == 0
                   ? 0
                   : err_set(err, ERR_PERMANENT, "BAD_PARAMETER",
                         "%s signs neither a URL nor a webhook id",
                         scheme->name);
    case SIGNATURE_PARAMETER_URL:
        return is_url(parameter)
                   ? 0
                   : err_set(err, ERR_PERMANENT, "BAD_PARAMETER",
                         "%s signs the URL: it must be given as the sender "
                         "knows it, http:// or https://, at most 2048 bytes",
                         scheme->name);
    case SIGNATURE_PARAMETER_WEBHOOK_ID:
        break;
    }
    return is_printable(parameter) &&
                   memchr(parameter.ptr, '|', parameter.len) == NULL
               ? 0
               : err_set(err, ERR_PERMANENT, "BAD_PARAMETER",
                     "%s signs the webhook's id: it must be given",
                     scheme->name);
}
