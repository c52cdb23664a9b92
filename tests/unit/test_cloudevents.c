/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/intake_cloudevents.h"

#define EVENT "application/cloudevents+json"

static void the_request_is_found_or_the_fault_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *content_type;
        const char *value;
        const char *request; /* NULL: refused with code */
        enum code code;
    } cases[] = {
        {"plain", "", "{\"a\":1}", "{\"a\":1}", CODE_NONE},
        {"binary mode", "application/json", "{\"a\":1}", "{\"a\":1}",
            CODE_NONE},
        {"not even JSON is not our concern", "text/plain", "{", "{", CODE_NONE},
        {"structured", EVENT, "{\"specversion\":\"1.0\",\"data\": {\"a\": 1} }",
            "{\"a\": 1}", CODE_NONE},
        {"with a charset", "Application/CloudEvents+JSON; charset=utf-8",
            "{\"specversion\":\"1.0\",\"data\":{}}", "{}", CODE_NONE},
        {"another type that begins alike", "application/cloudeventsx", "x", "x",
            CODE_NONE},
        {"broken", EVENT, "{", NULL, CODE_MALFORMED_JSON},
        {"twice", EVENT, "{\"data\":{},\"data\":{}}", NULL,
            CODE_DUPLICATE_MEMBER},
        {"no version", EVENT, "{\"data\":{}}", NULL, CODE_UNSUPPORTED_SPEC},
        {"other version", EVENT, "{\"specversion\":\"0.3\",\"data\":{}}", NULL,
            CODE_UNSUPPORTED_SPEC},
        {"no data", EVENT, "{\"specversion\":\"1.0\"}", NULL,
            CODE_INVALID_MEMBER},
        {"data is no object", EVENT, "{\"specversion\":\"1.0\",\"data\":[]}",
            NULL, CODE_INVALID_MEMBER},
        {"a batch", EVENT, "[]", NULL, CODE_UNSUPPORTED_SPEC},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fault fault = FAULT_INIT;
        struct span request = {0};
        const int result = cloudevents_unwrap(span_of(cases[i].content_type),
            span_of(cases[i].value), &request, &fault);
        const bool is_right =
            cases[i].request != NULL
                ? result == 0 && span_is(request, cases[i].request)
                : result == -1 && fault.code == cases[i].code;
        if (!is_right) {
            fail_msg("%s", cases[i].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_request_is_found_or_the_fault_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
