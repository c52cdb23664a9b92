/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/egress.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int deny(struct err *err, const char *rule)
{
    return err_set(err, ERR_PERMANENT, "EGRESS_DENIED", "%s", rule);
}

/* Digits only, 1 to 65535; an empty text is the fallback. */
static bool parse_port(struct span text, uint16_t fallback, uint16_t *port)
{
    if (text.len == 0) {
        *port = fallback;
        return fallback != 0;
    }
    unsigned value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.ptr[i]) || value > UINT16_MAX) {
            return false;
        }
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    *port = (uint16_t)value;
    return value > 0 && value <= UINT16_MAX;
}

/* -- names ------------------------------------------------------------------ */

/*
 * Would some parser take this name for an IPv4 address? As WHATWG's URL
 * standard has it: the last label is a number, decimal or hexadecimal.
 */
static bool ends_in_number(const char *host)
{
    const char *dot = strrchr(host, '.');
    const char *label = dot == NULL ? host : dot + 1;
    if (label[0] == '0' && label[1] == 'x') {
        return strspn(label + 2, "0123456789abcdef") == strlen(label + 2);
    }
    return strspn(label, "0123456789") == strlen(label);
}

static bool is_host_name(const char *host)
{
    size_t label = 0;
    for (; *host != '\0'; host++) {
        const char c = *host;
        if (c == '.') {
            if (label == 0) {
                return false;
            }
            label = 0;
            continue;
        }
        if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != '_') {
            return false;
        }
        label++;
        if (label > 63) {
            return false;
        }
    }
    return label > 0;
}

/* The A-label form of a name with bytes above ASCII; freed by the caller with
 * curl_free(), NULL if there is none. */
static char *to_ascii(const char *host)
{
    char *ascii = NULL;
    CURLU *url = curl_url();
    if (url != NULL && curl_url_set(url, CURLUPART_SCHEME, "https", 0) == 0 &&
        curl_url_set(url, CURLUPART_HOST, host, 0) == 0) {
        (void)curl_url_get(url, CURLUPART_HOST, &ascii, CURLU_PUNYCODE);
    }
    curl_url_cleanup(url);
    return ascii;
}

/* Copies text into host: A-labels, lower case, without the final dot. */
static int copy_name(struct span text, struct egress_target *target)
{
    if (text.len == 0 || text.len > EGRESS_MAX_HOST + 1 ||
        memchr(text.ptr, '\0', text.len) != NULL) {
        return -1;
    }
    char raw[EGRESS_MAX_HOST + 2] = "";
    bool is_ascii = true;
    for (size_t i = 0; i < text.len; i++) {
        raw[i] = lower(text.ptr[i]);
        is_ascii = is_ascii && (unsigned char)raw[i] < 0x80;
    }
    raw[text.len] = '\0';
    char *converted = is_ascii ? NULL : to_ascii(raw);
    if (!is_ascii && converted == NULL) {
        return -1;
    }
    const char *name = is_ascii ? raw : converted;
    size_t len = strlen(name);
    if (len > 0 && name[len - 1] == '.') {
        len--;
    }
    const bool fits = len > 0 && len <= EGRESS_MAX_HOST;
    for (size_t i = 0; fits && i < len; i++) {
        target->host[i] = lower(name[i]);
    }
    target->host[fits ? len : 0] = '\0';
    curl_free(converted);
    return fits && is_host_name(target->host) ? 0 : -1;
}

static int parse_name(
    struct span text, struct egress_target *target, struct err *err)
{
    if (copy_name(text, target) != 0) {
        return deny(err, "the host is not a name or an address");
    }
    if (!ends_in_number(target->host)) {
        return 0;
    }
    /* inet_pton takes the canonical dotted quad alone. */
    if (inet_pton(AF_INET, target->host, target->address.bytes) != 1) {
        return deny(err, "an IPv4 address must be written as four decimal "
                         "numbers");
    }
    target->address.family = AF_INET;
    target->is_literal = true;
    return 0;
}

static int parse_ipv6(
    struct span text, struct egress_target *target, struct err *err)
{
    char raw[INET6_ADDRSTRLEN];
    if (text.len < sizeof(raw) && text.len > 0) {
        memcpy(raw, text.ptr, text.len);
        raw[text.len] = '\0';
        /* Refuses zones, and a NUL inside makes it too short to be one. */
        if (strlen(raw) == text.len &&
            inet_pton(AF_INET6, raw, target->address.bytes) == 1) {
            target->address.family = AF_INET6;
            target->is_literal = true;
            char shown[INET6_ADDRSTRLEN] = "";
            (void)inet_ntop(
                AF_INET6, target->address.bytes, shown, sizeof(shown));
            (void)snprintf(target->host, sizeof(target->host), "[%s]", shown);
            return 0;
        }
    }
    return deny(err, "the host is not an IPv6 address");
}

/* -- URLs ------------------------------------------------------------------- */

static bool take_scheme(struct span *url, bool *is_tls)
{
    static const struct {
        const char *text;
        bool is_tls;
    } schemes[] = {{"https://", true}, {"http://", false}};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        const size_t len = strlen(schemes[i].text);
        const struct span head = {.ptr = url->ptr, .len = len};
        if (url->len >= len && span_is_nocase(head, schemes[i].text)) {
            url->ptr += len;
            url->len -= len;
            *is_tls = schemes[i].is_tls;
            return true;
        }
    }
    return false;
}

static bool has_unsafe_byte(struct span url)
{
    for (size_t i = 0; i < url.len; i++) {
        const unsigned char c = (unsigned char)url.ptr[i];
        if (c <= 0x20 || c == 0x7f || c == '\\') {
            return true;
        }
    }
    return false;
}

/* Splits "host:port" or "[v6]:port" at the last colon outside brackets. */
static int split_port(
    struct span authority, struct span *host, struct span *port, bool *is_ipv6)
{
    *is_ipv6 = authority.len > 0 && authority.ptr[0] == '[';
    const char *first = authority.ptr;
    const char *end = authority.ptr + authority.len;
    const char *colon = NULL;
    if (*is_ipv6) {
        const char *bracket = memchr(first, ']', authority.len);
        if (bracket == NULL || (bracket + 1 != end && bracket[1] != ':')) {
            return -1;
        }
        *host = (struct span){first + 1, (size_t)(bracket - first - 1)};
        colon = bracket + 1 == end ? end : bracket + 1;
    } else {
        colon = authority.len == 0 ? NULL : memchr(first, ':', authority.len);
        colon = colon == NULL ? end : colon;
        *host = (struct span){first, (size_t)(colon - first)};
    }
    const char *digits = colon == end ? end : colon + 1;
    *port = (struct span){digits, (size_t)(end - digits)};
    return 0;
}

int egress_parse_url(
    struct span url, struct egress_target *target, struct err *err)
{
    *target = (struct egress_target){.is_tls = false};
    if (has_unsafe_byte(url)) {
        return deny(err, "the URL has a space, a control byte or a backslash");
    }
    struct span rest = url;
    if (!take_scheme(&rest, &target->is_tls)) {
        return deny(err, "the URL does not begin with http:// or https://");
    }
    size_t len = 0;
    while (len < rest.len && strchr("/?#", rest.ptr[len]) == NULL) {
        len++;
    }
    const struct span authority = {.ptr = rest.ptr, .len = len};
    target->rest = (struct span){rest.ptr + len, rest.len - len};
    if (len == 0) {
        return deny(err, "the URL has no host");
    }
    if (memchr(authority.ptr, '@', len) != NULL) {
        return deny(err, "the URL has user information");
    }
    struct span host;
    struct span port;
    bool is_ipv6 = false;
    if (split_port(authority, &host, &port, &is_ipv6) != 0) {
        return deny(err, "the host is not an IPv6 address");
    }
    if (!parse_port(port, target->is_tls ? 443 : 80, &target->port)) {
        return deny(err, "the port is not a number from 1 to 65535");
    }
    return is_ipv6 ? parse_ipv6(host, target, err)
                   : parse_name(host, target, err);
}

bool egress_is_listed(
    struct span host, uint16_t port, const struct egress_target *target)
{
    if (port != target->port) {
        return false;
    }
    if (host.len < 2 || host.ptr[0] != '*' || host.ptr[1] != '.') {
        return span_is(host, target->host);
    }
    /* "*." stands for exactly one label of a name, never for an address. */
    const char *dot = strchr(target->host, '.');
    const struct span parent = {.ptr = host.ptr + 2, .len = host.len - 2};
    return !target->is_literal && dot != NULL && span_is(parent, dot + 1);
}
