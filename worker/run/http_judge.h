/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_judge: what libcurl's verdict means for an action. Pure; the question
 * that matters is whether the provider may have seen the request.
 */
#ifndef HTTP_JUDGE_H
#define HTTP_JUDGE_H

#include <curl/curl.h>

#include "schema/state.h"

struct http_facts {
    CURLcode curl;
    bool may_be_sent;   /* a byte of the request may have left */
    bool is_refused;    /* the egress rules refused the address */
    bool is_body_cut;   /* we stopped reading at the cap */
    bool is_whole_time; /* the call's whole time is over */
    long http_status;   /* of the last answer, 0 if none */
};

struct http_end {
    enum call_end end;
    enum code code; /* CODE_NONE when answered */
};

/* Whether a status can end a call. 101 and what HTTP has no class for cannot:
 * nobody knows what such an answer means. */
bool http_judge_is_final(long http_status);

struct http_end http_judge(const struct http_facts *facts);

#endif
