/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/intake_cloudevents.h"

#include <string.h>
#include <strings.h>

#include "common/json.h"

#define STRUCTURED "application/cloudevents"

enum { ENVELOPE_DEPTH = 4 };

/* application/cloudevents, application/cloudevents+json, with parameters. */
static bool is_structured(struct span content_type)
{
    const size_t len = strlen(STRUCTURED);
    if (content_type.len < len ||
        strncasecmp(content_type.ptr, STRUCTURED, len) != 0) {
        return false;
    }
    return content_type.len == len || content_type.ptr[len] == '+' ||
           content_type.ptr[len] == ';' || content_type.ptr[len] == ' ';
}

static int fault_of_parse(const struct err *err, struct fault *fault)
{
    enum code code = CODE_MALFORMED_JSON;
    if (!code_parse(span_of(err->code), &code)) {
        code = CODE_MALFORMED_JSON;
    }
    return fault_set(fault, code, "", "the event: %s", err->msg);
}

int cloudevents_unwrap(struct span content_type, struct span value,
    struct span *request, struct fault *fault)
{
    struct json_value event;
    struct json_value member;
    struct err err = ERR_INIT;

    if (!is_structured(content_type)) {
        *request = value;
        return 0;
    }
    if (json_parse(
            value, RECORD_PAYLOAD_DEPTH + ENVELOPE_DEPTH, &event, &err) != 0) {
        return fault_of_parse(&err, fault);
    }
    if (!json_find(event, "specversion", &member) ||
        !json_string_is(member, "1.0")) {
        return fault_set(fault, CODE_UNSUPPORTED_SPEC, "/specversion",
            "a CloudEvent must have specversion \"1.0\"");
    }
    if (!json_find(event, "data", &member) || member.type != JSON_OBJECT) {
        return fault_set(fault, CODE_INVALID_MEMBER, "/data",
            "the data of the event must be the action request, an object");
    }
    *request = member.raw;
    return 0;
}
