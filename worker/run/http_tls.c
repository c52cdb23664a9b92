/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/http_tls.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

/* Runs before each handshake; context is that connection's own. */
static CURLcode on_context(CURL *easy, void *context, void *arg)
{
    const struct egress_target *target = arg;
    (void)easy;
    X509_VERIFY_PARAM *param = SSL_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_hostflags(
        param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                   X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const int is_set =
        target->is_literal
            ? X509_VERIFY_PARAM_set1_ip(param, target->address.bytes,
                  target->address.family == AF_INET6 ? 16 : 4)
            : X509_VERIFY_PARAM_set1_host(param, target->host, 0);
    return is_set == 1 ? CURLE_OK : CURLE_SSL_CERTPROBLEM;
}

void http_tls_set(CURL *easy, const struct egress_target *target)
{
    (void)curl_easy_setopt(
        easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_context);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, target);
}
