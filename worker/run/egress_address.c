/* SPDX-License-Identifier: Apache-2.0 */
/* The address half of egress.h: the table of what is not public, and what an
 * operator allows of it. */
#include <arpa/inet.h>
#include <string.h>

#include "worker/run/egress.h"

struct block {
    uint8_t bytes[16];
    unsigned prefix;
};

/* IANA's special-purpose IPv4 blocks, multicast, reserved, and the one public
 * address that is a cloud's metadata service. */
static const struct block PRIVATE_IPV4[] = {
    {{0}, 8},
    {{10}, 8},
    {{100, 64}, 10},
    {{127}, 8},
    {{168, 63, 129, 16}, 32},
    {{169, 254}, 16},
    {{172, 16}, 12},
    {{192, 0, 0}, 24},
    {{192, 0, 2}, 24},
    {{192, 31, 196}, 24},
    {{192, 52, 193}, 24},
    {{192, 88, 99}, 24},
    {{192, 168}, 16},
    {{192, 175, 48}, 24},
    {{198, 18}, 15},
    {{198, 51, 100}, 24},
    {{203, 0, 113}, 24},
    {{224}, 4},
    {{240}, 4},
};

/* Global unicast; everything outside is refused. */
static const struct block PUBLIC_IPV6 = {{0x20}, 3};

/* The special blocks inside 2000::/3. */
static const struct block PRIVATE_IPV6[] = {
    {{0x20, 0x01, 0x00}, 23}, /* Teredo, benchmarking, ORCHID, ... */
    {{0x20, 0x01, 0x0d, 0xb8}, 32},
    {{0x20, 0x02}, 16}, /* 6to4 */
    {{0x26, 0x20, 0x00, 0x4f, 0x80, 0x00}, 48},
    {{0x3f, 0xff, 0x00}, 20},
};

static bool is_inside(
    const uint8_t *bytes, const uint8_t *block, unsigned prefix)
{
    const size_t whole = prefix / 8;
    const unsigned rest = prefix % 8;
    if (memcmp(bytes, block, whole) != 0) {
        return false;
    }
    if (rest == 0) {
        return true;
    }
    const unsigned mask = 0xffU << (8 - rest) & 0xffU;
    return ((bytes[whole] ^ block[whole]) & mask) == 0;
}

static bool is_inside_any(
    const uint8_t *bytes, const struct block *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_inside(bytes, blocks[i].bytes, blocks[i].prefix)) {
            return true;
        }
    }
    return false;
}

static bool is_public(const struct egress_address *address)
{
    if (address->family == AF_INET) {
        return !is_inside_any(
            address->bytes, PRIVATE_IPV4, ARRAY_LEN(PRIVATE_IPV4));
    }
    return address->family == AF_INET6 &&
           is_inside(address->bytes, PUBLIC_IPV6.bytes, PUBLIC_IPV6.prefix) &&
           !is_inside_any(
               address->bytes, PRIVATE_IPV6, ARRAY_LEN(PRIVATE_IPV6));
}

bool egress_is_allowed(const struct egress_private *allow,
    const struct egress_address *address, uint16_t port)
{
    if (is_public(address)) {
        return true;
    }
    for (size_t i = 0; i < allow->count; i++) {
        if (allow->entries[i].address.family == address->family &&
            (allow->entries[i].port == 0 || allow->entries[i].port == port) &&
            is_inside(address->bytes, allow->entries[i].address.bytes,
                allow->entries[i].prefix)) {
            return true;
        }
    }
    return false;
}

bool egress_address_of(
    const struct sockaddr *socket, struct egress_address *address)
{
    *address = (struct egress_address){.family = socket->sa_family};
    if (socket->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, socket, sizeof(in));
        memcpy(address->bytes, &in.sin_addr, sizeof(in.sin_addr));
        return true;
    }
    if (socket->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, socket, sizeof(in6));
        memcpy(address->bytes, &in6.sin6_addr, sizeof(in6.sin6_addr));
        return true;
    }
    return false;
}

/* -- egress.private_allow ----------------------------------------------------- */

/* Cuts the text after the last separator off its end; false if absent. */
static bool cut_tail(char *text, char separator, int64_t most, int64_t *value)
{
    char *at = strrchr(text, separator);
    if (at == NULL) {
        return false;
    }
    *at = '\0';
    if (!span_to_int(span_of(at + 1), value) || *value > most) {
        *value = -1;
    }
    return true;
}

/* "a.b.c.d", "a.b.c.d/n", "[v6]", "v6", "v6/n", each but bare v6 with ":port". */
static bool parse_entry(
    char *text, struct egress_address *address, int64_t *prefix, int64_t *port)
{
    *port = 0;
    char *host = text;
    const bool is_ipv6 = strchr(text, ':') != strrchr(text, ':');
    if (text[0] == '[') {
        char *bracket = strchr(text, ']');
        if (bracket == NULL) {
            return false;
        }
        if (bracket[1] != '\0' && (!cut_tail(bracket, ':', UINT16_MAX, port) ||
                                      *port < 1 || bracket[1] != '\0')) {
            return false;
        }
        *bracket = '\0';
        host = text + 1;
    } else if (!is_ipv6 && cut_tail(text, ':', UINT16_MAX, port) && *port < 1) {
        return false;
    }
    address->family = strchr(host, ':') == NULL ? AF_INET : AF_INET6;
    const int64_t bits = address->family == AF_INET ? 32 : 128;
    if (!cut_tail(host, '/', bits, prefix)) {
        *prefix = bits;
    }
    return *prefix >= 0 &&
           inet_pton(address->family, host, address->bytes) == 1;
}

static size_t entry_length(struct span text)
{
    size_t len = 0;
    while (len < text.len && strchr(", \t\n", text.ptr[len]) == NULL) {
        len++;
    }
    return len;
}

int egress_parse_private(
    struct span text, struct egress_private *allow, struct err *err)
{
    allow->count = 0;
    while (text.len > 0) {
        const size_t len = entry_length(text);
        char entry[INET6_ADDRSTRLEN + 16];
        struct egress_address address = {.family = AF_UNSPEC};
        int64_t prefix = 0;
        int64_t port = 0;
        if (len > 0) {
            const bool fits = len < sizeof(entry);
            memcpy(entry, text.ptr, fits ? len : 0);
            entry[fits ? len : 0] = '\0';
            if (!fits || strlen(entry) != len ||
                !parse_entry(entry, &address, &prefix, &port)) {
                return err_set(err, ERR_PERMANENT, "BAD_SETTING",
                    "egress.private_allow: '%.*s' is not an address or block "
                    "with an optional port",
                    (int)(len < 80 ? len : 80), text.ptr);
            }
            if (allow->count == EGRESS_MAX_PRIVATE) {
                return err_set(err, ERR_PERMANENT, "BAD_SETTING",
                    "egress.private_allow has more than %d entries",
                    EGRESS_MAX_PRIVATE);
            }
            allow->entries[allow->count].address = address;
            allow->entries[allow->count].prefix = (unsigned)prefix;
            allow->entries[allow->count].port = (uint16_t)port;
            allow->count++;
        }
        const size_t step = len < text.len ? len + 1 : len;
        text.ptr += step;
        text.len -= step;
    }
    return 0;
}
