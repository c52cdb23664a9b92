/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/http_judge.h"

#include "common/err.h"

/* The codes of a failure before and after the first byte. */
struct meaning {
    CURLcode curl;
    enum code unsent;
    enum code sent;
};

static const struct meaning MEANINGS[] = {
    {CURLE_COULDNT_RESOLVE_HOST, CODE_DNS_FAILED, CODE_CONNECTION_LOST},
    {CURLE_COULDNT_CONNECT, CODE_CONNECTION_FAILED, CODE_CONNECTION_LOST},
    {CURLE_SSL_CONNECT_ERROR, CODE_TLS_FAILED, CODE_CONNECTION_LOST},
    {CURLE_PEER_FAILED_VERIFICATION, CODE_TLS_FAILED, CODE_CONNECTION_LOST},
    {CURLE_SSL_CERTPROBLEM, CODE_TLS_FAILED, CODE_CONNECTION_LOST},
    {CURLE_SSL_CIPHER, CODE_TLS_FAILED, CODE_CONNECTION_LOST},
    {CURLE_SSL_CACERT_BADFILE, CODE_TLS_FAILED, CODE_CONNECTION_LOST},
    {CURLE_SSL_ISSUER_ERROR, CODE_TLS_FAILED, CODE_CONNECTION_LOST},
    {CURLE_SSL_INVALIDCERTSTATUS, CODE_TLS_FAILED, CODE_CONNECTION_LOST},
    {CURLE_OPERATION_TIMEDOUT, CODE_CONNECTION_FAILED, CODE_EXECUTION_TIMEOUT},
    {CURLE_SEND_ERROR, CODE_CONNECTION_FAILED, CODE_CONNECTION_LOST},
    {CURLE_RECV_ERROR, CODE_CONNECTION_FAILED, CODE_CONNECTION_LOST},
    {CURLE_GOT_NOTHING, CODE_CONNECTION_FAILED, CODE_CONNECTION_LOST},
    /* Our refusal to let libcurl send the request a second time. */
    {CURLE_ABORTED_BY_CALLBACK, CODE_CONNECTION_FAILED, CODE_CONNECTION_LOST},
    {CURLE_URL_MALFORMAT, CODE_TEMPLATE_INVALID, CODE_BAD_ANSWER},
};

static const struct meaning OTHER = {
    CURLE_OK, CODE_CONNECTION_FAILED, CODE_BAD_ANSWER};

static const struct meaning *find(CURLcode curl)
{
    for (size_t i = 0; i < ARRAY_LEN(MEANINGS); i++) {
        if (MEANINGS[i].curl == curl) {
            return &MEANINGS[i];
        }
    }
    return &OTHER;
}

static struct http_end judge_unsent(const struct http_facts *facts)
{
    if (facts->is_refused) {
        return (struct http_end){CALL_DENIED, CODE_EGRESS_DENIED};
    }
    if (facts->curl == CURLE_OPERATION_TIMEDOUT && facts->is_whole_time) {
        return (struct http_end){CALL_TIMED_OUT_EARLY, CODE_EXECUTION_TIMEOUT};
    }
    const enum code code = find(facts->curl)->unsent;
    return (struct http_end){
        code == CODE_TEMPLATE_INVALID ? CALL_DENIED : CALL_NOT_SENT, code};
}

bool http_judge_is_final(long http_status)
{
    return http_status >= 200 && http_status <= 599;
}

struct http_end http_judge(const struct http_facts *facts)
{
    const bool is_final = http_judge_is_final(facts->http_status);
    if (is_final && (facts->curl == CURLE_OK || facts->is_body_cut)) {
        return (struct http_end){CALL_ANSWERED, CODE_NONE};
    }
    if (!facts->may_be_sent) {
        return judge_unsent(facts);
    }
    if (facts->curl == CURLE_OPERATION_TIMEDOUT) {
        return (struct http_end){CALL_TIMED_OUT, CODE_EXECUTION_TIMEOUT};
    }
    return (struct http_end){CALL_BROKEN, find(facts->curl)->sent};
}
