/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/challenge.h"

#include <string.h>

#include "common/json.h"

/* No sender asks with more than this; a longer body is an event. */
#define MAX_BODY ((size_t)64 << 10)
enum { MAX_TEXT = 1024, MAX_DEPTH = 32 };

static const char TEXT_PLAIN[] = "text/plain";
static const char JSON[] = "application/json";

bool challenge_is_text(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < ' ' || text.ptr[i] > '~') {
            return false;
        }
    }
    return text.len > 0 && text.len <= MAX_TEXT;
}

static bool is_text_at(
    struct json_value root, const char *pointer, const char *text)
{
    struct json_value value;
    return json_pointer(root, span_of(pointer), &value) &&
           value.type == JSON_STRING && json_string_is(value, text);
}

/* Appends the string at pointer if it may be sent back. */
static bool put_text_at(
    struct json_value root, const char *pointer, struct buf *out)
{
    struct json_value value;
    struct buf text;
    buf_init(&text, MAX_TEXT + 1);
    bool is_there = json_pointer(root, span_of(pointer), &value) &&
                    value.type == JSON_STRING;
    if (is_there) {
        json_decode(value, &text);
    }
    is_there =
        is_there && !text.is_overflowed && challenge_is_text(buf_span(&text));
    if (is_there) {
        buf_put_span(out, buf_span(&text));
    }
    buf_fini(&text);
    return is_there;
}

static enum challenge echo(
    struct json_value root, struct challenge_reply *reply)
{
    reply->content_type = TEXT_PLAIN;
    return put_text_at(root, "/challenge", &reply->body) ? CHALLENGE_ANSWERED
                                                         : CHALLENGE_BAD;
}

static enum challenge answer_zoom(
    struct json_value root, struct span key, struct challenge_reply *reply)
{
    uint8_t digest[SHA256_SIZE];
    struct buf token;
    buf_init(&token, MAX_TEXT + 1);
    const bool is_there = put_text_at(root, "/payload/plainToken", &token);
    if (is_there) {
        hmac_sha256(key, buf_span(&token), digest);
        reply->content_type = JSON;
        buf_put_str(&reply->body, "{\"plainToken\":");
        json_put_string(&reply->body, buf_span(&token));
        buf_put_str(&reply->body, ",\"encryptedToken\":\"");
        hex_put(
            &reply->body, (struct span){(const char *)digest, sizeof(digest)});
        buf_put_str(&reply->body, "\"}");
    }
    buf_fini(&token);
    return is_there ? CHALLENGE_ANSWERED : CHALLENGE_BAD;
}

static enum challenge answer_discord(
    struct json_value root, struct challenge_reply *reply)
{
    struct json_value type;
    int64_t number = 0;
    if (!json_find(root, "type", &type) || type.type != JSON_NUMBER ||
        !json_to_int(type, &number) || number != 1) {
        return CHALLENGE_NONE;
    }
    reply->content_type = JSON;
    buf_put_str(&reply->body, "{\"type\":1}");
    return CHALLENGE_ANSWERED;
}

static bool is_twitch_challenge(const struct signature_input *input)
{
    const char *type =
        input->header(input->arg, "Twitch-Eventsub-Message-Type");
    return type != NULL && strcmp(type, "webhook_callback_verification") == 0;
}

enum challenge challenge_answer(const struct signature_scheme *scheme,
    const struct signature_input *input, struct span key,
    struct challenge_reply *reply)
{
    struct json_value root;
    if (scheme->challenge == SIGNATURE_CHALLENGE_NONE ||
        scheme->challenge == SIGNATURE_CHALLENGE_META ||
        input->body.len > MAX_BODY ||
        json_parse(input->body, MAX_DEPTH, &root, NULL) != 0) {
        return CHALLENGE_NONE;
    }
    switch (scheme->challenge) {
    case SIGNATURE_CHALLENGE_NONE:
    case SIGNATURE_CHALLENGE_META:
        break;
    case SIGNATURE_CHALLENGE_SLACK:
        return is_text_at(root, "/type", "url_verification") ? echo(root, reply)
                                                             : CHALLENGE_NONE;
    case SIGNATURE_CHALLENGE_ZOOM:
        return is_text_at(root, "/event", "endpoint.url_validation")
                   ? answer_zoom(root, key, reply)
                   : CHALLENGE_NONE;
    case SIGNATURE_CHALLENGE_TWITCH:
        return is_twitch_challenge(input) ? echo(root, reply) : CHALLENGE_NONE;
    case SIGNATURE_CHALLENGE_DISCORD:
        return answer_discord(root, reply);
    }
    return CHALLENGE_NONE;
}

bool challenge_is_subscribed(
    const char *mode, const char *sent, struct span token)
{
    return mode != NULL && strcmp(mode, "subscribe") == 0 && sent != NULL &&
           token.len > 0 && equal_in_constant_time(span_of(sent), token);
}
