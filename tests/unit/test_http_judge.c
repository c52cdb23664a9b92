/* SPDX-License-Identifier: Apache-2.0 */
/* What each verdict of libcurl means, before and after the first byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "worker/run/http_judge.h"

struct row {
    const char *name;
    struct http_facts facts;
    enum call_end end;
    enum code code;
};

static const struct row ROWS[] = {
    {"answer", {.curl = CURLE_OK, .may_be_sent = true, .http_status = 200},
        CALL_ANSWERED, CODE_NONE},
    {"answer of an error",
        {.curl = CURLE_OK, .may_be_sent = true, .http_status = 503},
        CALL_ANSWERED, CODE_NONE},
    {"cut by us",
        {.curl = CURLE_WRITE_ERROR,
            .may_be_sent = true,
            .is_body_cut = true,
            .http_status = 201},
        CALL_ANSWERED, CODE_NONE},
    {"switching protocols",
        {.curl = CURLE_OK, .may_be_sent = true, .http_status = 101},
        CALL_BROKEN, CODE_BAD_ANSWER},
    {"a status above the classes",
        {.curl = CURLE_OK, .may_be_sent = true, .http_status = 600},
        CALL_BROKEN, CODE_BAD_ANSWER},
    {"a status above the classes, cut by us",
        {.curl = CURLE_WRITE_ERROR,
            .may_be_sent = true,
            .is_body_cut = true,
            .http_status = 999},
        CALL_BROKEN, CODE_BAD_ANSWER},
    {"the last status of the classes",
        {.curl = CURLE_OK, .may_be_sent = true, .http_status = 599},
        CALL_ANSWERED, CODE_NONE},
    {"headers over the cap",
        {.curl = CURLE_WRITE_ERROR, .may_be_sent = true, .http_status = 200},
        CALL_BROKEN, CODE_BAD_ANSWER},
    {"cut by the peer",
        {.curl = CURLE_PARTIAL_FILE, .may_be_sent = true, .http_status = 200},
        CALL_BROKEN, CODE_BAD_ANSWER},
    {"time-out in the body",
        {.curl = CURLE_OPERATION_TIMEDOUT,
            .may_be_sent = true,
            .is_whole_time = true,
            .http_status = 200},
        CALL_TIMED_OUT, CODE_EXECUTION_TIMEOUT},
    {"no answer", {.curl = CURLE_GOT_NOTHING, .may_be_sent = true}, CALL_BROKEN,
        CODE_CONNECTION_LOST},
    {"reset", {.curl = CURLE_RECV_ERROR, .may_be_sent = true}, CALL_BROKEN,
        CODE_CONNECTION_LOST},
    {"second send refused",
        {.curl = CURLE_ABORTED_BY_CALLBACK, .may_be_sent = true}, CALL_BROKEN,
        CODE_CONNECTION_LOST},
    {"second send refused, first had no byte",
        {.curl = CURLE_ABORTED_BY_CALLBACK}, CALL_NOT_SENT,
        CODE_CONNECTION_FAILED},
    {"refused by the peer", {.curl = CURLE_COULDNT_CONNECT}, CALL_NOT_SENT,
        CODE_CONNECTION_FAILED},
    {"refused by us", {.curl = CURLE_COULDNT_CONNECT, .is_refused = true},
        CALL_DENIED, CODE_EGRESS_DENIED},
    {"no name", {.curl = CURLE_COULDNT_RESOLVE_HOST}, CALL_NOT_SENT,
        CODE_DNS_FAILED},
    {"handshake", {.curl = CURLE_SSL_CONNECT_ERROR}, CALL_NOT_SENT,
        CODE_TLS_FAILED},
    {"certificate", {.curl = CURLE_PEER_FAILED_VERIFICATION}, CALL_NOT_SENT,
        CODE_TLS_FAILED},
    {"connection took too long", {.curl = CURLE_OPERATION_TIMEDOUT},
        CALL_NOT_SENT, CODE_CONNECTION_FAILED},
    {"whole time over before the first byte",
        {.curl = CURLE_OPERATION_TIMEDOUT, .is_whole_time = true},
        CALL_TIMED_OUT_EARLY, CODE_EXECUTION_TIMEOUT},
    {"URL libcurl does not take", {.curl = CURLE_URL_MALFORMAT}, CALL_DENIED,
        CODE_TEMPLATE_INVALID},
    {"anything else before", {.curl = CURLE_OUT_OF_MEMORY}, CALL_NOT_SENT,
        CODE_CONNECTION_FAILED},
    {"anything else after",
        {.curl = CURLE_WEIRD_SERVER_REPLY, .may_be_sent = true}, CALL_BROKEN,
        CODE_BAD_ANSWER},
};

static void each_verdict_has_its_meaning(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        const struct http_end end = http_judge(&ROWS[i].facts);
        if (end.end != ROWS[i].end || end.code != ROWS[i].code) {
            fail_msg("%s: end %d, code %s", ROWS[i].name, (int)end.end,
                code_name(end.code));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_verdict_has_its_meaning),
    };
    return cmocka_run_group_tests_name("http_judge", tests, NULL, NULL);
}
