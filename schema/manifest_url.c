/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_url and egress. Only plain forms are accepted: what could be read in
 * two ways (user info, escapes, odd numbers as addresses) does not load.
 */
#include <arpa/inet.h>
#include <string.h>

#include "schema/manifest_internal.h"

enum { MAX_URL = 1024, MAX_HOST = 253, MAX_LABEL = 63 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* A label of a lower-case host name. */
static bool label_is_valid(struct span label)
{
    if (label.len == 0 || label.len > MAX_LABEL || !is_alnum(label.ptr[0]) ||
        !is_alnum(label.ptr[label.len - 1])) {
        return false;
    }
    for (size_t i = 0; i < label.len; i++) {
        const char c = label.ptr[i];
        if (!is_alnum(c) && c != '-' && c != '_') {
            return false;
        }
    }
    return true;
}

/* A host name, or an IPv4 address with four decimal parts: a name whose last
 * label starts with a digit would be taken for an address by some. */
static bool host_is_valid(const char *host)
{
    const char *start = host;
    if (strlen(host) > MAX_HOST) {
        return false;
    }
    for (const char *at = host;; at++) {
        if (*at != '.' && *at != '\0') {
            continue;
        }
        const struct span label = {.ptr = start, .len = (size_t)(at - start)};
        if (!label_is_valid(label)) {
            return false;
        }
        if (*at == '\0') {
            break;
        }
        start = at + 1;
    }
    struct in_addr address;
    return *start < '0' || *start > '9' ||
           inet_pton(AF_INET, host, &address) == 1;
}

/* Takes "[v6]" or a name up to the port or the end. NULL: not valid. */
static const char *take_host(
    const struct load *load, const char **at, bool may_be_pattern)
{
    const bool is_v6 = **at == '[';
    const char *from = is_v6 ? *at + 1 : *at;
    const size_t len = strcspn(from, is_v6 ? "]/" : ":/");
    if (is_v6 && from[len] != ']') {
        return NULL;
    }
    char *host = arena_copy(
        &load->manifest->arena, (struct span){.ptr = from, .len = len});
    for (char *c = host; *c != '\0'; c++) {
        *c = lower(*c);
    }
    *at = from + len + (is_v6 ? 1 : 0);
    if (is_v6) {
        struct in6_addr address;
        return inet_pton(AF_INET6, host, &address) == 1 ? host : NULL;
    }
    const bool is_pattern = may_be_pattern && strncmp(host, "*.", 2) == 0;
    return host_is_valid(is_pattern ? host + 2 : host) ? host : NULL;
}

/* Takes ":port" if there is one. */
static bool take_port(const char **at, uint16_t *port)
{
    if (**at != ':') {
        return true;
    }
    const char *from = *at + 1;
    const size_t len = strspn(from, "0123456789");
    int64_t number = 0;
    if (len == 0 || len > 5 ||
        !span_to_int((struct span){.ptr = from, .len = len}, &number) ||
        number < 1 || number > 65535) {
        return false;
    }
    *port = (uint16_t)number;
    *at = from + len;
    return true;
}

/* A path in front of all paths: "/v1", "/a/b". */
static bool prefix_is_valid(const char *prefix)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._~!$&'()*+,;=:@/";
    return prefix[strspn(prefix, allowed)] == '\0' &&
           strstr(prefix, "//") == NULL && strstr(prefix, "/./") == NULL &&
           strstr(prefix, "/../") == NULL;
}

static const char *take_scheme(const char *url, struct base_url *base)
{
    if (strncasecmp(url, "https://", 8) == 0) {
        base->default_port = 443;
        return url + 8;
    }
    if (strncasecmp(url, "http://", 7) == 0) {
        base->default_port = 80;
        return url + 7;
    }
    return NULL;
}

/* Puts it together again, so that no other form ever reaches a call. */
static const char *join_url(
    const struct load *load, const struct base_url *base, const char *prefix)
{
    struct buf text;
    buf_init(&text, (size_t)2 * MAX_URL);
    buf_put_str(&text, base->default_port == 443 ? "https://" : "http://");
    const bool is_v6 = strchr(base->host, ':') != NULL;
    buf_put_str(&text, is_v6 ? "[" : "");
    buf_put_str(&text, base->host);
    buf_put_str(&text, is_v6 ? "]" : "");
    if (base->port != base->default_port) {
        buf_printf(&text, ":%u", (unsigned)base->port);
    }
    buf_put_str(&text, prefix);
    while (text.len > 0 && text.data[text.len - 1] == '/') {
        text.len--;
    }
    const char *copy = arena_copy(&load->manifest->arena, buf_span(&text));
    buf_fini(&text);
    return copy;
}

int load_base_url(const struct load *load, void *target,
    struct json_value value, const struct path *path)
{
    struct base_url *base = &((struct manifest *)target)->base;
    const char *url = load_text(load, value, MAX_URL, path);
    if (url == NULL) {
        return -1;
    }
    const char *at = take_scheme(url, base);
    if (at == NULL) {
        return load_refuse(load, path, "must start with https:// or http://");
    }
    if (strpbrk(at, "@?#\\%") != NULL) {
        return load_refuse(load, path,
            "must not have user info, a query, a fragment, escapes or "
            "backslashes");
    }
    base->host = take_host(load, &at, false);
    if (base->host == NULL) {
        return load_refuse(
            load, path, "the host is not a plain name or address");
    }
    base->port = base->default_port;
    if (!take_port(&at, &base->port) || (*at != '\0' && *at != '/')) {
        return load_refuse(load, path, "the port must be 1 to 65535");
    }
    struct buf prefix; /* with a slash at the end, so that "/.." is seen */
    buf_init(&prefix, MAX_URL + 1);
    buf_put_str(&prefix, at);
    if (prefix.len > 0 && prefix.data[prefix.len - 1] != '/') {
        buf_put_char(&prefix, '/');
    }
    int result = 0;
    if (prefix_is_valid(buf_str(&prefix))) {
        base->text = join_url(load, base, at);
    } else {
        result = load_refuse(load, path,
            "the path may have only plain characters and no empty, . or "
            ".. segment");
    }
    buf_fini(&prefix);
    return result;
}

/* -- egress -------------------------------------------------------------------- */

static int load_rule(const struct load *load, struct egress_rule *rule,
    struct json_value value, const struct path *path)
{
    const char *at = load_text(load, value, MAX_HOST + 8, path);
    if (at == NULL) {
        return -1;
    }
    rule->port = 0; /* the scheme's, once base_url is known */
    rule->host = take_host(load, &at, true);
    if (rule->host == NULL || !take_port(&at, &rule->port) || *at != '\0') {
        return load_refuse(load, path,
            "must be host, host:port or *.host:port with a plain host");
    }
    return 0;
}

int load_egress(const struct load *load, void *target, struct json_value value,
    const struct path *path)
{
    struct manifest *manifest = target;
    const size_t count = value.type == JSON_ARRAY ? load_count(value) : 0;
    if (count == 0 || count > MANIFEST_MAX_EGRESS) {
        return load_refuse(load, path, "must be an array of 1 to 64 hosts");
    }
    manifest->egress =
        arena_alloc(&manifest->arena, count, sizeof(*manifest->egress));
    struct json_cursor cursor = json_enter(value);
    struct json_member item;
    while (json_next(&cursor, &item)) {
        const struct path at = path_index(path, manifest->egress_count);
        if (load_rule(load, &manifest->egress[manifest->egress_count],
                item.value, &at) != 0) {
            return -1;
        }
        manifest->egress_count++;
    }
    return 0;
}

static bool rule_covers(
    const struct egress_rule *rule, const struct base_url *base)
{
    if (rule->port != base->port) {
        return false;
    }
    if (strncmp(rule->host, "*.", 2) == 0) {
        const char *dot = strchr(base->host, '.');
        return dot != NULL && strcmp(dot, rule->host + 1) == 0;
    }
    return strcmp(rule->host, base->host) == 0;
}

int egress_finish(const struct load *load)
{
    struct manifest *manifest = load->manifest;
    const struct base_url *base = &manifest->base;
    if (manifest->egress == NULL) {
        manifest->egress =
            arena_alloc(&manifest->arena, 1, sizeof(*manifest->egress));
        manifest->egress[0] =
            (struct egress_rule){.host = base->host, .port = base->port};
        manifest->egress_count = 1;
        return 0;
    }
    bool is_covered = false;
    for (size_t i = 0; i < manifest->egress_count; i++) {
        struct egress_rule *rule = &manifest->egress[i];
        rule->port = rule->port == 0 ? base->default_port : rule->port;
        is_covered = is_covered || rule_covers(rule, base);
    }
    if (!is_covered) {
        const struct path at = path_member(NULL, "egress");
        return load_refuse(load, &at, "does not allow base_url's own host");
    }
    return 0;
}
