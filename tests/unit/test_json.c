/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"

/* Parses from a heap copy of exact size, so that ASan sees a step too far. */
static int parse_copy(
    struct span text, unsigned max_depth, enum json_type *type, struct err *err)
{
    char *copy = malloc(text.len == 0 ? 1 : text.len);
    assert_non_null(copy);
    if (text.len > 0) {
        memcpy(copy, text.ptr, text.len);
    }
    struct json_value root;
    const int result = json_parse(
        (struct span){.ptr = copy, .len = text.len}, max_depth, &root, err);
    if (result == 0) {
        *type = root.type;
    }
    free(copy);
    return result;
}

static struct json_value parse(const char *text)
{
    struct json_value root = {.type = JSON_NULL};
    struct err err = ERR_INIT;
    if (json_parse(span_of(text), 64, &root, &err) != 0) {
        fail_msg("%s: %s", text, err.msg);
    }
    return root;
}

static void well_formed_texts_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum json_type type;
    } rows[] = {
        {"{}", JSON_OBJECT},
        {" \t\r\n[ ] \n", JSON_ARRAY},
        {"\"\"", JSON_STRING},
        {"0", JSON_NUMBER},
        {"-0", JSON_NUMBER},
        {"-12.50e+10", JSON_NUMBER},
        {"1E400", JSON_NUMBER},
        {"true", JSON_TRUE},
        {"false", JSON_FALSE},
        {"null", JSON_NULL},
        {"{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]},\"b\":null}", JSON_OBJECT},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uD83d\\uDE80\"", JSON_STRING},
        {"{ \"a\" : 1 , \"A\" : [ 1 , 2 ] }", JSON_OBJECT},
        {"\"\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\x7f\"", JSON_STRING},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum json_type type = JSON_TYPE_COUNT;
        struct err err = ERR_INIT;
        if (parse_copy(span_of(rows[i].text), 64, &type, &err) != 0) {
            fail_msg("%s: %s", rows[i].text, err.msg);
        }
        assert_int_equal(type, rows[i].type);
        assert_int_equal(err.class, ERR_NONE);
    }
}

static void malformed_texts_name_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *msg;
    } rows[] = {
        {"", "expected a value at byte 0"},
        {"  ", "expected a value at byte 2"},
        {"{\"a\":1,", "expected a member name in quotes at byte 7"},
        {"{\"a\":1,}", "expected a member name in quotes at byte 7"},
        {"[1,]", "expected a value at byte 3"},
        {"[1 2]", "expected , or ] in an array at byte 3"},
        {"{\"a\" 1}", "expected a colon at byte 5"},
        {"{\"a\":1]", "expected , or } in an object at byte 6"},
        {"{}x", "something follows the value at byte 2"},
        {"{} {}", "something follows the value at byte 3"},
        {"\"abc", "string without an end at byte 4"},
        {"\"\\", "wrong escape in a string at byte 1"},
        {"\"\\x41\"", "wrong escape in a string at byte 1"},
        {"\"\\u12\"", "wrong escape in a string at byte 1"},
        {"\"\\u12G4\"", "wrong escape in a string at byte 1"},
        {"\"\\ud83d\"", "wrong escape in a string at byte 7"},
        {"\"\\ud83d\\u0041\"", "wrong escape in a string at byte 7"},
        {"\"\\ude80\"", "wrong escape in a string at byte 1"},
        {"\"\\uD800\\u", "wrong escape in a string at byte 7"},
        {"\"a\nb\"", "raw control character in a string at byte 2"},
        {"\"\xED\xA0\x80\"", "broken UTF-8 in a string at byte 1"},
        {"\"\xC3", "broken UTF-8 in a string at byte 1"},
        {"-", "wrong number at byte 1"},
        {"01", "wrong number at byte 2"},
        {"1.", "no digits after the point of a number at byte 2"},
        {"1.e1", "no digits after the point of a number at byte 2"},
        {"1e+", "no digits in the exponent of a number at byte 3"},
        {"tru", "expected a value at byte 0"},
        {"nul1", "expected a value at byte 0"},
        {"NaN", "expected a value at byte 0"},
        {"[", "expected a value at byte 1"},
        {"[1", "expected , or ] in an array at byte 2"},
        {"{", "expected a member name in quotes at byte 1"},
        {"}", "expected a value at byte 0"},
        {"\xEF\xBB\xBF{}", "expected a value at byte 0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum json_type type = JSON_TYPE_COUNT;
        struct err err = ERR_INIT;
        assert_int_equal(
            parse_copy(span_of(rows[i].text), 64, &type, &err), -1);
        assert_string_equal(err.code, "MALFORMED_JSON");
        assert_int_equal(err.class, ERR_PERMANENT);
        assert_string_equal(err.msg, rows[i].msg);
    }
}

static void a_nul_byte_is_no_end(void **state)
{
    (void)state;
    static const struct span rows[] = {
        {"{}\0", 3}, {"{\0}", 3}, {"\"\0\"", 3}, {"\0", 1}, {"1\0", 2}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum json_type type = JSON_TYPE_COUNT;
        struct err err = ERR_INIT;
        assert_int_equal(parse_copy(rows[i], 64, &type, &err), -1);
    }
}

static void every_cut_of_a_document_is_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1.5e3,true,null,\"x\\u00e9\\ud83d"
                               "\\ude80\xF0\x9F\x9A\x80\"],\"b\":{\"c\":-1}}";
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        enum json_type type = JSON_TYPE_COUNT;
        struct err err = ERR_INIT;
        assert_int_equal(
            parse_copy((struct span){.ptr = text, .len = len}, 64, &type, &err),
            -1);
    }
    assert_int_equal(parse(text).type, JSON_OBJECT);
}

static void equal_member_names_are_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}", "{\"\":1,\"\":2}",
        "[{\"x\":{\"y\":1,\"z\":{},\"y\":2}}]", "{\"a\":{\"b\":1},\"a\":1}",
        "{\"\\ud83d\\ude80\":1,\"\xF0\x9F\x9A\x80\":1}",
        "{\"\\u002f\":1,\"\\/\":2}"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum json_type type = JSON_TYPE_COUNT;
        struct err err = ERR_INIT;
        assert_int_equal(parse_copy(span_of(rows[i]), 64, &type, &err), -1);
        assert_string_equal(err.code, "DUPLICATE_MEMBER");
    }
    struct err err = ERR_INIT;
    enum json_type type = JSON_TYPE_COUNT;
    (void)parse_copy(SPAN_LIT("{\"a\":1,\"a\":2}"), 64, &type, &err);
    assert_string_equal(err.msg, "member name used twice at byte 8");
}

/* n members, of which the last repeats the name of the first if asked. */
static void put_members(struct buf *out, int n, bool is_repeating)
{
    buf_clear(out);
    buf_put_char(out, '{');
    for (int i = 0; i < n; i++) {
        const int name = is_repeating && i == n - 1 ? 0 : i;
        buf_printf(out, "%s\"n%d\":{\"n0\":%d}", i == 0 ? "" : ",", name, i);
    }
    buf_put_char(out, '}');
}

static void repeats_are_found_among_any_number_of_names(void **state)
{
    (void)state;
    static const int counts[] = {2, 15, 16, 17, 18, 47, 48, 49, 100, 5000};
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        struct json_value root;
        struct err err = ERR_INIT;
        put_members(&text, counts[i], false);
        assert_int_equal(json_parse(buf_span(&text), 64, &root, &err), 0);
        put_members(&text, counts[i], true);
        assert_int_equal(json_parse(buf_span(&text), 64, &root, &err), -1);
        assert_string_equal(err.code, "DUPLICATE_MEMBER");
    }
    buf_fini(&text);
}

static void put_nested(struct buf *out, int depth, const char *open,
    const char *inner, const char *close)
{
    buf_clear(out);
    for (int i = 0; i < depth; i++) {
        buf_put_str(out, open);
    }
    buf_put_str(out, inner);
    for (int i = 0; i < depth; i++) {
        buf_put_str(out, close);
    }
}

static void nesting_is_limited(void **state)
{
    (void)state;
    static const struct {
        int depth;
        unsigned max_depth;
        const char *inner;
        int expected;
    } rows[] = {
        {0, 1, "1", 0},
        {1, 1, "", 0},
        {1, 1, "1", 0},
        {2, 1, "", -1},
        {64, 64, "", 0},
        {65, 64, "", -1},
        {1024, 1024, "1", 0},
        {1025, 1024, "1", -1},
        {1025, 99999, "1", -1},
        {100000, 64, "1", -1},
    };
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json_value root;
        struct err err = ERR_INIT;
        put_nested(&text, rows[i].depth, "[", rows[i].inner, "]");
        assert_int_equal(
            json_parse(buf_span(&text), rows[i].max_depth, &root, &err),
            rows[i].expected);
        assert_string_equal(
            rows[i].expected == 0 ? "TOO_DEEP" : err.code, "TOO_DEEP");
        put_nested(&text, rows[i].depth, "{\"a\":", "1", "}");
        assert_int_equal(
            json_parse(buf_span(&text), rows[i].max_depth, &root, &err),
            rows[i].expected);
    }
    buf_fini(&text);
}

static void root_is_without_the_space_around(void **state)
{
    (void)state;
    assert_true(span_is(parse(" { \"a\" : 1 } ").raw, "{ \"a\" : 1 }"));
    assert_true(span_is(parse("\n12 ").raw, "12"));
}

static void cursors_walk_objects_and_arrays(void **state)
{
    (void)state;
    struct json_cursor cursor = json_enter(parse(
        "{ \"a\" : [1, {\"]\":\"}\"}] ,\"b\\n\":-1.5e3, \"c\":\"\\\"\" }"));
    static const char *const expected[][2] = {
        {"a", "[1, {\"]\":\"}\"}]"}, {"b\\n", "-1.5e3"}, {"c", "\"\\\"\""}};
    struct json_member member;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        assert_true(json_next(&cursor, &member));
        assert_true(span_is(member.name, expected[i][0]));
        assert_true(span_is(member.value.raw, expected[i][1]));
    }
    assert_false(json_next(&cursor, &member));
    assert_false(json_next(&cursor, &member));
    cursor = json_enter(parse("[ ]"));
    assert_false(json_next(&cursor, &member));
    cursor = json_enter(parse("[true ,null]"));
    assert_true(json_next(&cursor, &member));
    assert_int_equal(member.value.type, JSON_TRUE);
    assert_int_equal(member.name.len, 0);
    assert_true(json_next(&cursor, &member));
    assert_true(span_is(member.value.raw, "null"));
    assert_false(json_next(&cursor, &member));
}

static void members_are_found_by_decoded_name(void **state)
{
    (void)state;
    const struct json_value root =
        parse("{\"ab\":1,\"\\u0061\":2,\"\":3,\"a\\u0000\":4}");
    struct json_value value;
    assert_true(json_find(root, "a", &value));
    assert_true(span_is(value.raw, "2"));
    assert_true(json_find(root, "ab", &value));
    assert_true(span_is(value.raw, "1"));
    assert_true(json_find(root, "", &value));
    assert_true(json_find_span(root, (struct span){"a\0", 2}, &value));
    assert_true(span_is(value.raw, "4"));
    assert_false(json_find(root, "b", &value));
    assert_false(json_find(parse("[1]"), "a", &value));
}

/* RFC 6901 section 5, and what it leaves out. */
static void pointers_find_values(void **state)
{
    (void)state;
    const struct json_value root =
        parse("{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,"
              "\"g|h\":4,\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8,"
              "\"d\":{\"e\":[{\"f\":9}]}}");
    static const struct {
        const char *pointer;
        const char *raw; /* NULL: nothing there */
    } rows[] = {
        {"/foo", "[\"bar\",\"baz\"]"},
        {"/foo/0", "\"bar\""},
        {"/foo/1", "\"baz\""},
        {"/", "0"},
        {"/a~1b", "1"},
        {"/c%d", "2"},
        {"/i\\j", "5"},
        {"/k\"l", "6"},
        {"/ ", "7"},
        {"/m~0n", "8"},
        {"/d/e/0/f", "9"},
        {"/foo/2", NULL},
        {"/foo/-", NULL},
        {"/foo/-1", NULL},
        {"/foo/00", NULL},
        {"/foo/01", NULL},
        {"/foo/", NULL},
        {"/foo/0/x", NULL},
        {"/m~2n", NULL},
        {"/m~", NULL},
        {"foo", NULL},
        {"/nothing", NULL},
        {"/foo/99999999999999999999", NULL},
    };
    struct json_value value;
    assert_true(json_pointer(root, SPAN_LIT(""), &value));
    assert_true(span_equal(value.raw, root.raw));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const bool is_found =
            json_pointer(root, span_of(rows[i].pointer), &value);
        assert_int_equal(is_found, rows[i].raw != NULL);
        if (is_found) {
            assert_true(span_is(value.raw, rows[i].raw));
        }
    }
}

static void strings_decode(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *plain;
    } rows[] = {
        {"\"\"", ""},
        {"\"plain\"", "plain"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20ac\\ud83d\\ude80\"",
            "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x9A\x80"},
    };
    struct buf out;
    buf_init(&out, 100);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct json_value value = parse(rows[i].text);
        buf_clear(&out);
        json_decode(value, &out);
        assert_string_equal(buf_str(&out), rows[i].plain);
        assert_true(json_string_is(value, rows[i].plain));
        assert_false(json_string_is(value, "other"));
    }
    buf_clear(&out);
    json_decode(parse("\"a\\u0000b\""), &out);
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.data, "a\0b", 3);
    assert_false(json_string_is(parse("1"), "1"));
    buf_fini(&out);
}

static void only_integers_that_fit_are_integers(void **state)
{
    (void)state;
    int64_t value = 0;
    assert_true(json_to_int(parse("-9223372036854775808"), &value));
    assert_int_equal(value, INT64_MIN);
    assert_true(json_to_int(parse("-0"), &value));
    assert_int_equal(value, 0);
    assert_false(json_to_int(parse("9223372036854775808"), &value));
    assert_false(json_to_int(parse("1.0"), &value));
    assert_false(json_to_int(parse("1e2"), &value));
    assert_false(json_to_int(parse("\"1\""), &value));
}

static void canonical_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *canonical;
    } rows[] = {
        {" 1.10 ", "1.10"},
        {"-0", "-0"},
        {"{ }", "{}"},
        {"[ ]", "[]"},
        {"{\"b\":1 , \"a\" : [ 2 , {\"d\":null,\"c\":true} ]}",
            "{\"a\":[2,{\"c\":true,\"d\":null}],\"b\":1}"},
        {"{\"\\u0062\":1,\"a\":2}", "{\"a\":2,\"b\":1}"},
        {"\"\\u0041\\/\\u000a\\u001F\\\"\\\\\\u0000\"",
            "\"A/\\n\\u001f\\\"\\\\\\u0000\""},
        {"\"\\ud83d\\ude80\"", "\"\xF0\x9F\x9A\x80\""},
        {"{\"a\":{\"z\":{},\"y\":[]},\"\":0}",
            "{\"\":0,\"a\":{\"y\":[],\"z\":{}}}"},
        {"{\"ab\":1,\"a\":2,\"aa\":3}", "{\"a\":2,\"aa\":3,\"ab\":1}"},
        {"[[[1],2],{\"x\":[{}]}]", "[[[1],2],{\"x\":[{}]}]"},
    };
    struct buf out;
    buf_init(&out, 1000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        buf_clear(&out);
        json_canonical(parse(rows[i].text), &out);
        assert_string_equal(buf_str(&out), rows[i].canonical);
    }
    buf_fini(&out);
}

static void canonical_holds_for_large_and_deep_values(void **state)
{
    (void)state;
    struct buf text;
    struct buf out;
    struct json_value root;
    struct err err = ERR_INIT;
    buf_init(&text, SIZE_MAX);
    buf_init(&out, SIZE_MAX);
    put_nested(&text, 1000, "[{\"a\":", "1", "}]");
    assert_int_equal(json_parse(buf_span(&text), 64, &root, &err), -1);
    put_nested(&text, 500, "[{\"a\":", "1", "}]");
    assert_int_equal(json_parse(buf_span(&text), 1024, &root, &err), 0);
    json_canonical(root, &out);
    assert_true(span_equal(buf_span(&text), buf_span(&out)));
    buf_clear(&text);
    buf_put_char(&text, '{');
    for (int i = 999; i >= 100; i--) {
        buf_printf(&text, "%s\"n%d\":%d", i == 999 ? "" : ",", i, i);
    }
    buf_put_char(&text, '}');
    assert_int_equal(json_parse(buf_span(&text), 64, &root, &err), 0);
    buf_clear(&out);
    json_canonical(root, &out);
    assert_int_equal(out.len, text.len);
    assert_memory_equal(out.data, "{\"n100\":100,\"n101\":101,", 23);
    buf_fini(&text);
    buf_fini(&out);
}

static void written_strings_are_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *plain;
        const char *text;
    } rows[] = {
        {"", "\"\""},
        {"a\"b\\c/", "\"a\\\"b\\\\c/\""},
        {"\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\""},
        {"\xC3\xA9\xF0\x9F\x9A\x80", "\"\xC3\xA9\xF0\x9F\x9A\x80\""},
        {"a\xFF\xC3", "\"a\xEF\xBF\xBD\xEF\xBF\xBD\""},
    };
    struct buf out;
    buf_init(&out, 1000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        buf_clear(&out);
        json_put_cstring(&out, rows[i].plain);
        assert_string_equal(buf_str(&out), rows[i].text);
        assert_int_equal(parse(buf_str(&out)).type, JSON_STRING);
    }
    buf_clear(&out);
    json_put_string(&out, (struct span){"a\0b", 3});
    assert_string_equal(buf_str(&out), "\"a\\u0000b\"");
    buf_fini(&out);
}

static void names_are_separated_by_commas(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1000);
    buf_put_char(&out, '{');
    json_put_name(&out, "a");
    buf_put_str(&out, "[{");
    json_put_name(&out, "b");
    json_put_time(&out, 0);
    buf_put_str(&out, "}]");
    json_put_name(&out, "c");
    json_put_cstring(&out, "{");
    json_put_name(&out, "d");
    buf_put_str(&out, "1}");
    assert_string_equal(buf_str(&out), "{\"a\":[{\"b\":\"1970-01-01T00:00:00."
                                       "000000Z\"}],\"c\":\"{\",\"d\":1}");
    buf_fini(&out);
}

static void utf8_is_judged(void **state)
{
    (void)state;
    assert_true(utf8_is_valid(SPAN_LIT("")));
    assert_true(
        utf8_is_valid(SPAN_LIT("a\xC2\x80\xE0\xA0\x80\xF0\x90\x80\x80")));
    static const char *const wrong[] = {"\x80", "\xC0\x80", "\xC1\xBF",
        "\xE0\x80\xAF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3", "\xFF",
        "\xE2\x28\xA1"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_false(utf8_is_valid(span_of(wrong[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_texts_parse),
        cmocka_unit_test(malformed_texts_name_the_place),
        cmocka_unit_test(a_nul_byte_is_no_end),
        cmocka_unit_test(every_cut_of_a_document_is_refused),
        cmocka_unit_test(equal_member_names_are_refused),
        cmocka_unit_test(repeats_are_found_among_any_number_of_names),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(root_is_without_the_space_around),
        cmocka_unit_test(cursors_walk_objects_and_arrays),
        cmocka_unit_test(members_are_found_by_decoded_name),
        cmocka_unit_test(pointers_find_values),
        cmocka_unit_test(strings_decode),
        cmocka_unit_test(only_integers_that_fit_are_integers),
        cmocka_unit_test(canonical_forms),
        cmocka_unit_test(canonical_holds_for_large_and_deep_values),
        cmocka_unit_test(written_strings_are_escaped),
        cmocka_unit_test(names_are_separated_by_commas),
        cmocka_unit_test(utf8_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
