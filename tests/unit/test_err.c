/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"

static void set_fills_all_and_returns_minus_one(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_int_equal(
        err_set(&err, ERR_TRANSIENT, "BUSY", "try %d of %s", 3, "x"), -1);
    assert_int_equal(err.class, ERR_TRANSIENT);
    assert_string_equal(err.code, "BUSY");
    assert_string_equal(err.msg, "try 3 of x");
    assert_int_equal(err.sys_errno, 0);
}

static void set_errno_appends_the_reason(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    errno = ENOENT;
    assert_int_equal(
        err_set_errno(&err, ERR_FATAL, "OPEN", "open %s", "f"), -1);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_string_equal(err.msg, "open f: No such file or directory");
}

static void wrap_puts_text_in_front(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    (void)err_set(&err, ERR_PERMANENT, "BAD", "no %s", "good");
    assert_int_equal(err_wrap(&err, "claim %d", 7), -1);
    assert_string_equal(err.msg, "claim 7: no good");
    assert_string_equal(err.code, "BAD");
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    char text[1024];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct err err = ERR_INIT;
    errno = EIO;
    (void)err_set_errno(&err, ERR_FATAL, "LONG", "%s", text);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    (void)err_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
}

static void a_message_may_be_built_from_itself(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    (void)err_set(&err, ERR_FATAL, "A", "inner");
    (void)err_set(&err, ERR_FATAL, "B", "outer (%s)", err.msg);
    assert_string_equal(err.msg, "outer (inner)");
}

static void null_err_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_FATAL, "A", "x"), -1);
    assert_int_equal(err_set_errno(NULL, ERR_FATAL, "A", "x"), -1);
    assert_int_equal(err_wrap(NULL, "x"), -1);
}

static void every_class_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(err_class_name(ERR_TRANSIENT), "transient");
    assert_string_equal(err_class_name(ERR_FATAL), "fatal");
    for (int i = 0; i < ERR_CLASS_COUNT; i++) {
        assert_non_null(err_class_name((enum err_class)i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_all_and_returns_minus_one),
        cmocka_unit_test(set_errno_appends_the_reason),
        cmocka_unit_test(wrap_puts_text_in_front),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(a_message_may_be_built_from_itself),
        cmocka_unit_test(null_err_is_allowed),
        cmocka_unit_test(every_class_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
