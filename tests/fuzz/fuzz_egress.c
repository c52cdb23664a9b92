/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the egress rules: a URL, or the setting egress.private_allow. A URL
 * that is taken must be canonical: built from its parts it is taken again,
 * with the same parts, and libcurl's own parser sees the same host and port.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/run/egress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

static void require_curl_agrees(
    const char *text, const struct egress_target *target)
{
    CURLU *url = curl_url();
    char *host = NULL;
    char *port = NULL;
    if (curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS) == 0) {
        require(curl_url_get(url, CURLUPART_HOST, &host, 0) == 0);
        require(curl_url_get(url, CURLUPART_PORT, &port, 0) == 0);
        require(strcmp(host, target->host) == 0);
        require(strtoul(port, NULL, 10) == target->port);
    }
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
}

static void read_url(struct span text)
{
    struct egress_target first;
    struct egress_target second;
    struct err err = {.class = ERR_NONE};
    if (egress_parse_url(text, &first, &err) != 0) {
        require(err.class == ERR_PERMANENT && err.msg[0] != '\0');
        return;
    }
    struct buf url;
    buf_init(&url, text.len + 512);
    buf_printf(&url, "%s://%s:%u", first.is_tls ? "https" : "http", first.host,
        first.port);
    if (first.rest.len == 0 || first.rest.ptr[0] != '/') {
        buf_put_char(&url, '/');
    }
    buf_put_span(&url, first.rest);
    require(egress_parse_url(buf_span(&url), &second, &err) == 0);
    require(strcmp(first.host, second.host) == 0);
    require(first.port == second.port && first.is_tls == second.is_tls &&
            first.is_literal == second.is_literal);
    require_curl_agrees(buf_str(&url), &first);
    buf_fini(&url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const struct span text = {.ptr = (const char *)data + 1, .len = size - 1};
    if (data[0] % 2 == 0) {
        read_url(text);
        return 0;
    }
    struct egress_private allow;
    struct err err = {.class = ERR_NONE};
    if (egress_parse_private(text, &allow, &err) == 0) {
        require(allow.count <= EGRESS_MAX_PRIVATE);
    } else {
        require(err.class == ERR_PERMANENT && err.msg[0] != '\0');
    }
    return 0;
}
