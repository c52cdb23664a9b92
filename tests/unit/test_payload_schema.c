/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "schema/decimal.h"
#include "schema/payload_schema.h"

struct row {
    const char *schema;
    const char *value;
    const char *pointer; /* NULL: it fits */
};

static const struct row rows[] = {
    {"true", "1", NULL},
    {"false", "1", "/payload"},
    {"{}", "[{}]", NULL},
    {"{\"type\":\"object\"}", "{}", NULL},
    {"{\"type\":\"object\"}", "[]", "/payload"},
    {"{\"type\":[\"string\",\"null\"]}", "null", NULL},
    {"{\"type\":[\"string\",\"null\"]}", "false", "/payload"},
    {"{\"type\":\"boolean\"}", "false", NULL},
    {"{\"type\":\"integer\"}", "1.0", NULL},
    {"{\"type\":\"integer\"}", "12.5e1", NULL},
    {"{\"type\":\"integer\"}", "1e400", NULL},
    {"{\"type\":\"integer\"}", "0.0e-9", NULL},
    {"{\"type\":\"integer\"}", "1.5", "/payload"},
    {"{\"type\":\"integer\"}", "1e-1", "/payload"},
    {"{\"type\":\"number\"}", "1e-1", NULL},
    {"{\"type\":\"number\"}", "\"1\"", "/payload"},
    {"{\"required\":[\"a\"]}", "{\"\\u0061\":null}", NULL},
    {"{\"required\":[\"a\",\"b\"]}", "{\"a\":null}", "/payload/b"},
    {"{\"required\":[\"a\"]}", "[]", NULL},
    {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"b\":1}", NULL},
    {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":1}",
        "/payload/a"},
    {"{\"properties\":{\"a/b\":{\"properties\":{\"~\":false}}}}",
        "{\"a/b\":{\"~\":1}}", "/payload/a~1b/~0"},
    {"{\"properties\":{\"a\":true},\"additionalProperties\":false}",
        "{\"a\":1}", NULL},
    {"{\"properties\":{\"a\":true},\"additionalProperties\":false}",
        "{\"a\":1,\"b\":1}", "/payload/b"},
    {"{\"additionalProperties\":{\"type\":\"null\"},\"required\":[\"r\"]}",
        "{\"r\":1}", "/payload/r"},
    {"{\"items\":{\"type\":\"string\"}}", "[\"a\",\"b\"]", NULL},
    {"{\"items\":{\"type\":\"string\"}}", "[\"a\",0]", "/payload/1"},
    {"{\"minItems\":1,\"maxItems\":2}", "[]", "/payload"},
    {"{\"minItems\":1,\"maxItems\":2}", "[1,2]", NULL},
    {"{\"minItems\":1,\"maxItems\":2}", "[1,2,3]", "/payload"},
    {"{\"minLength\":2,\"maxLength\":2}", "\"\xC3\xA9\\ud83d\\ude80\"", NULL},
    {"{\"minLength\":2}", "\"\xF0\x9F\x9A\x80\"", "/payload"},
    {"{\"maxLength\":1}", "\"ab\"", "/payload"},
    {"{\"maxLength\":1}", "123", NULL},
    {"{\"enum\":[1,\"a\",null,[1,{\"x\":2}]]}", "1.0", NULL},
    {"{\"enum\":[1,\"a\",null,[1,{\"x\":2}]]}", "\"\\u0061\"", NULL},
    {"{\"enum\":[1,\"a\",null,[1,{\"x\":2}]]}", "[1e0,{\"\\u0078\":2}]", NULL},
    {"{\"enum\":[1,\"a\",null,[1,{\"x\":2}]]}", "[1,{\"x\":2,\"y\":3}]",
        "/payload"},
    {"{\"enum\":[1,\"a\",null,[1,{\"x\":2}]]}", "[1]", "/payload"},
    {"{\"enum\":[1,\"a\",null,[1,{\"x\":2}]]}", "false", "/payload"},
    {"{\"const\":{\"a\":1,\"b\":[]}}", "{\"b\":[],\"a\":1}", NULL},
    {"{\"const\":{\"a\":1,\"b\":[]}}", "{\"a\":1}", "/payload"},
    {"{\"const\":{}}", "{\"a\":1}", "/payload"},
    {"{\"const\":\"x\"}", "\"y\"", "/payload"},
    {"{\"minimum\":9007199254740993}", "9007199254740992", "/payload"},
    {"{\"minimum\":9007199254740993}", "9007199254740993", NULL},
    {"{\"minimum\":0.1}", "0.10000000000000000000000000000001", NULL},
    {"{\"maximum\":0.1}", "0.10000000000000000000000000000001", "/payload"},
    {"{\"maximum\":1e400}", "1e401", "/payload"},
    {"{\"maximum\":-5}", "-4.9", "/payload"},
};

static void check_row(const struct row *row)
{
    struct arena arena;
    arena_init(&arena);
    struct err err = ERR_INIT;
    struct fault fault = FAULT_INIT;
    struct json_value source;
    struct json_value value;
    assert_int_equal(json_parse(span_of(row->schema), 64, &source, &err), 0);
    assert_int_equal(json_parse(span_of(row->value), 64, &value, &err), 0);
    const struct payload_schema *schema =
        payload_schema_load(&arena, source, NULL, &fault);
    if (schema == NULL) {
        fail_msg("%s: %s %s", row->schema, fault.pointer, fault.detail);
    }
    const struct path path = path_member(NULL, "payload");
    const int result = payload_schema_check(schema, value, &path, &fault);
    const char *wanted = row->pointer == NULL ? "" : row->pointer;
    if ((result == 0) != (row->pointer == NULL) ||
        strcmp(fault.pointer, wanted) != 0) {
        fail_msg("%s with %s: %d %s %s", row->schema, row->value, result,
            fault.pointer, fault.detail);
    }
    arena_fini(&arena);
}

static void payloads_fit_or_name_what_does_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_row(&rows[i]);
    }
}

struct pair {
    const char *a;
    const char *b;
    int order;
};

static void numbers_compare_as_decimals(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"0", "-0", 0},
        {"0.00", "0e5", 0},
        {"1", "1.000", 0},
        {"100", "1e2", 0},
        {"100", "0.1E+3", 0},
        {"0.001", "1e-3", 0},
        {"10.01", "1001e-2", 0},
        {"1", "2", -1},
        {"-1", "-2", 1},
        {"-1", "0", -1},
        {"0", "0.000001", -1},
        {"9", "10", -1},
        {"0.09", "0.1", -1},
        {"1.1", "1.09", 1},
        {"123456789012345678901234567890", "123456789012345678901234567891",
            -1},
        {"1e400", "9e399", 1},
        {"1e-400", "0", 1},
        {"1e99999999999999999999", "1", 1},
        {"1e-99999999999999999999", "1", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        const struct pair *pair = &pairs[i];
        const int there = decimal_compare(span_of(pair->a), span_of(pair->b));
        const int back = decimal_compare(span_of(pair->b), span_of(pair->a));
        if (there != pair->order || back != -pair->order) {
            fail_msg("%s and %s: %d %d", pair->a, pair->b, there, back);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_fit_or_name_what_does_not),
        cmocka_unit_test(numbers_compare_as_decimals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
