/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress: which addresses a call may reach. Pure decisions, no I/O; resolving
 * is names.h, and http_call.h asks again for each socket it opens.
 *
 * The rules (policy P10, IANA special-purpose registries, RFC 6890):
 * - http and https only; no user info; a host is letters, digits, '-', '_',
 *   '.', or a canonical dotted quad, or a bracketed IPv6 address without zone;
 *   an international name (UTF-8; needs LC_CTYPE to be C.UTF-8, is refused
 *   otherwise) is turned into its A-label form first.
 * - the host and port must be on the connector's list; "*.x" is one label.
 * - of IPv4 everything that is not public is refused; of IPv6 only 2000::/3
 *   without its special blocks is allowed, so that every transition form of an
 *   IPv4 address falls out.
 * - egress.private_allow (addresses, blocks, each with an optional port) is
 *   what an operator allows besides.
 */
#ifndef EGRESS_H
#define EGRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/buf.h"

#define EGRESS_MAX_HOST 253
#define EGRESS_MAX_PRIVATE 64

/* An IPv4 address in the first 4 bytes, or an IPv6 address. */
struct egress_address {
    int family; /* AF_INET or AF_INET6 */
    uint8_t bytes[16];
};

/* False for a family that is neither. */
bool egress_address_of(
    const struct sockaddr *socket, struct egress_address *address);

struct egress_private {
    struct {
        struct egress_address address;
        unsigned prefix;
        uint16_t port; /* 0: any */
    } entries[EGRESS_MAX_PRIVATE];
    size_t count;
};

/* Parses "127.0.0.1:8080, 10.0.0.0/8, [::1]:80, fd00::/8" (commas or spaces).
 * PERMANENT with the entry that is wrong. */
int egress_parse_private(
    struct span text, struct egress_private *allow, struct err *err) MUST_CHECK;

/* May this address be connected to? */
bool egress_is_allowed(const struct egress_private *allow,
    const struct egress_address *address, uint16_t port);

/* A URL taken apart and made canonical. */
struct egress_target {
    bool is_tls;
    bool is_literal;                /* address is set, nothing to resolve */
    struct egress_address address;  /* of a literal */
    char host[EGRESS_MAX_HOST + 3]; /* lower case, no final dot, "[...]" */
    uint16_t port;
    struct span rest; /* path and query, borrowed from url; may be empty */
};

/* PERMANENT with code EGRESS_DENIED and the rule that url breaks. */
int egress_parse_url(
    struct span url, struct egress_target *target, struct err *err) MUST_CHECK;

/* Does an entry of the allow-list (host in lower case) name this target? */
bool egress_is_listed(
    struct span host, uint16_t port, const struct egress_target *target);

#endif
