/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_tls: which certificates a provider may show.
 *
 * libcurl takes the common name where a certificate has no alternative names;
 * nobody should (RFC 9110, 4.3.4). So OpenSSL itself is told the
 * name, and to look at the alternative names alone.
 */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include <curl/curl.h>

#include "worker/run/egress.h"

/* Once for each handle. target is borrowed, and read at each handshake. */
void http_tls_set(CURL *easy, const struct egress_target *target);

#endif
