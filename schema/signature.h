/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signature: how senders of webhooks sign them, one row of a table a sender,
 * and the one function that checks any of them over the raw bytes. Pure: no
 * I/O, the time comes from the caller.
 *
 * Sources: Standard Webhooks 1.0.0 and the senders' public documentation.
 */
#ifndef SIGNATURE_H
#define SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/crypt.h"
#include "common/err.h"

#define SIGNATURE_MAX_KEYS 2 /* during a rotation */
#define SIGNATURE_MAX_SECRET ((size_t)16 << 10)
#define SIGNATURE_MAX_KEY ((size_t)16 << 10)
#define SIGNATURE_MAX_ID 255
#define SIGNATURE_MAX_PARAMETER 2048

enum signature_algorithm {
    SIGNATURE_HMAC_SHA256,
    SIGNATURE_HMAC_SHA1,
    SIGNATURE_ED25519,
    SIGNATURE_ECDSA_P256, /* over SHA-256, DER */
    SIGNATURE_RSA         /* PKCS #1 v1.5 over SHA-256 */
};

/* How the text of a secret becomes a key. */
enum signature_secret {
    SIGNATURE_SECRET_TEXT,  /* the bytes as they are */
    SIGNATURE_SECRET_WHSEC, /* base64 of 24..64 bytes, "whsec_" optional */
    SIGNATURE_SECRET_WHPK,  /* base64 of 32 bytes, "whpk_" optional */
    SIGNATURE_SECRET_HEX32, /* 64 hexadecimal digits */
    SIGNATURE_SECRET_PUBLIC /* PEM or base64 of DER, for the algorithm */
};

enum signature_encoding { SIGNATURE_HEX, SIGNATURE_BASE64 };

enum signature_time {
    SIGNATURE_TIME_NONE,
    SIGNATURE_TIME_S,
    SIGNATURE_TIME_MS,
    SIGNATURE_TIME_RFC3339,
    SIGNATURE_TIME_BODY_MS /* a number in the signed body, by JSON pointer */
};

/* What a source has to say beside the secret. */
enum signature_parameter {
    SIGNATURE_PARAMETER_NONE,
    SIGNATURE_PARAMETER_URL,       /* the public URL, as the sender knows it */
    SIGNATURE_PARAMETER_WEBHOOK_ID /* the sender's name of the subscription */
};

/* Requests that ask for an answer instead of bringing an event. */
enum signature_challenge {
    SIGNATURE_CHALLENGE_NONE,
    SIGNATURE_CHALLENGE_SLACK,
    SIGNATURE_CHALLENGE_ZOOM,
    SIGNATURE_CHALLENGE_TWITCH,
    SIGNATURE_CHALLENGE_DISCORD,
    SIGNATURE_CHALLENGE_META
};

struct signature_scheme {
    const char *name;
    enum signature_algorithm algorithm;
    enum signature_secret secret;
    const char *header;
    char separator;     /* between the entries of the header; 0: one entry */
    const char *prefix; /* of the entries that are signatures */
    enum signature_encoding encoding;
    /* What is signed: {id} {time} {body} {method} {url} {parameter}, {crc32}
     * of the body in decimal, {form} as Twilio adds it; the rest as it is. */
    const char *message;
    enum signature_time time;
    const char *time_at;   /* header, prefix of an entry, or JSON pointer */
    bool is_time_entry;    /* time_at is the prefix of an entry of the header */
    int tolerance_s;       /* both ways, the edge included */
    const char *id_header; /* the sender's id of the delivery; or NULL */
    const char *id_pointer; /* the same inside the body; or NULL */
    bool is_id_signed;
    const char *type_header;  /* what happened, for filters; or NULL */
    const char *type_pointer; /* the same inside the body; or NULL */
    enum signature_parameter parameter;
    enum signature_challenge challenge;
};

extern const struct signature_scheme SIGNATURE_SCHEMES[];
extern const size_t SIGNATURE_SCHEME_COUNT;

/* NULL if there is none of that name. */
const struct signature_scheme *signature_find(struct span name);

/* Appends the key that a secret stands for. PERMANENT with the rule it breaks,
 * never with the secret. */
int signature_key_parse(const struct signature_scheme *scheme,
    struct span secret, struct buf *key, struct err *err) MUST_CHECK;
/* Checks the parameter of a source ("" for none). */
int signature_parameter_check(const struct signature_scheme *scheme,
    struct span parameter, struct err *err) MUST_CHECK;

struct signature_input {
    const char *method;
    struct span parameter;
    struct span body;
    /* NULL if the header is absent or there more than once. */
    const char *(*header)(void *arg, const char *name);
    void *arg;
};

enum signature_verdict {
    SIGNATURE_RIGHT,
    SIGNATURE_MISSING,   /* a header it needs is absent, or there twice */
    SIGNATURE_MALFORMED, /* a header is not in its form */
    SIGNATURE_STALE,     /* rightly signed, but too long ago or ahead */
    SIGNATURE_WRONG,
    SIGNATURE_VERDICT_COUNT
};

struct signature_result {
    enum signature_verdict verdict;
    size_t key;                   /* RIGHT and STALE: which one matched */
    uint8_t message[SHA256_SIZE]; /* RIGHT and STALE: of what was signed */
};

/* keys: as signature_key_parse() made them. */
void signature_check(const struct signature_scheme *scheme,
    const struct signature_input *input, const struct span *keys,
    size_t key_count, int64_t now_wall_us, struct signature_result *result);
/* "", "signature_missing", ... Static. */
const char *signature_verdict_name(enum signature_verdict verdict);

/*
 * Appends the sender's id of the delivery: 1 to SIGNATURE_MAX_ID bytes of
 * UTF-8 without control characters. False, and nothing, if there is no such
 * id. Only for what was rightly signed.
 */
bool signature_sender_id(const struct signature_scheme *scheme,
    const struct signature_input *input, struct buf *out);

#endif
