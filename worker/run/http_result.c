/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/http_result.h"

#include "common/time.h"
#include "worker/run/http_judge.h"

static int64_t info_number(CURL *easy, CURLINFO info)
{
    curl_off_t value = 0;
    (void)curl_easy_getinfo(easy, info, &value);
    return value < 0 ? 0 : (int64_t)value;
}

static long info_long(CURL *easy, CURLINFO info)
{
    long value = 0;
    (void)curl_easy_getinfo(easy, info, &value);
    return value;
}

/* libcurl counts a small body with the headers and a large one apart. */
static int64_t sent_bytes(const struct http_call *call)
{
    const int64_t request = info_long(call->easy, CURLINFO_REQUEST_SIZE);
    const int64_t upload = info_number(call->easy, CURLINFO_SIZE_UPLOAD_T);
    return request < upload ? request + upload : request;
}

static void fill_common(const struct http_call *call, struct run_result *result)
{
    *result = (struct run_result){
        .id = call->id,
        .wall_ms = (now_mono_us() - call->started_us) / US_PER_MS,
    };
}

void http_result_unsent(const struct http_call *call, enum call_end end,
    enum code code, const char *message, struct run_result *result)
{
    fill_common(call, result);
    result->end = end;
    result->code = code;
    (void)snprintf(result->message, sizeof(result->message), "%s", message);
}

static void fill_answer(
    const struct http_call *call, long status, struct run_result *result)
{
    result->http_status = (int)status;
    result->headers = buf_span(&call->headers);
    result->body = buf_span(&call->body);
    result->is_body_cut = call->is_body_cut;
    result->body_bytes = call->body_bytes;
    if (call->is_body_cut) {
        const int64_t whole =
            info_number(call->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T);
        result->body_bytes =
            whole > call->body_bytes ? whole : call->body_bytes;
    }
}

static void put_broken(const struct http_call *call, CURLcode curl, long status,
    struct run_result *result)
{
    const char *text =
        call->error[0] != '\0' ? call->error : curl_easy_strerror(curl);
    if (curl == CURLE_ABORTED_BY_CALLBACK) {
        text = "the connection closed without an answer";
    }
    if (curl == CURLE_WRITE_ERROR && call->has_head_ended &&
        !http_judge_is_final(status)) {
        (void)snprintf(result->message, sizeof(result->message),
            "%ld is no status that ends a request", status);
    } else {
        (void)snprintf(
            result->message, sizeof(result->message), "%.200s", text);
    }
}

void http_result_fill(
    struct http_call *call, CURLcode curl, struct run_result *result)
{
    const long status = info_long(call->easy, CURLINFO_RESPONSE_CODE);
    if (curl == CURLE_OK && !call->has_head_ended) {
        curl = CURLE_PARTIAL_FILE; /* libcurl takes a head without its end */
    }
    /* A TLS library may have sent records of a write that it reports as
     * failed, so there the count proves nothing. */
    const bool may_be_sent =
        call->sends > 0 &&
        (call->target.is_tls ||
            info_long(call->easy, CURLINFO_REQUEST_SIZE) > 0);
    const struct http_facts facts = {
        .curl = curl,
        .may_be_sent = may_be_sent,
        .is_refused = call->is_refused,
        .is_body_cut = call->is_body_cut,
        .is_whole_time = http_call_left_ms(call) <= 1,
        .http_status = status,
    };
    const struct http_end end = http_judge(&facts);
    fill_common(call, result);
    result->end = end.end;
    result->code = end.code;
    result->egress_bytes = sent_bytes(call);
    if (end.end == CALL_ANSWERED) {
        fill_answer(call, status, result);
        return;
    }
    put_broken(call, curl, status, result);
}
