/* SPDX-License-Identifier: Apache-2.0 */
/* pg without a server: the encoding of parameters, the class of each
 * SQLSTATE, and what batches get while there is no connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "common/log.h"
#include "common/pg.h"
#include "common/time.h"

static void expect_param(
    const struct pg_params *params, int index, const char *bytes, size_t size)
{
    assert_int_equal(params->size[index], size);
    assert_false(params->is_null[index]);
    assert_memory_equal(
        buf_str(&params->bytes) + params->start[index], bytes, size);
}

static void scalars_are_big_endian(void **state)
{
    (void)state;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_bool(&params, true);
    pg_param_int2(&params, -2);
    pg_param_int4(&params, 0x01020304);
    pg_param_int8(&params, INT64_MIN);
    pg_param_text(&params, SPAN_LIT("tenant"));
    pg_param_bytea(&params, SPAN_LIT("a\0b"));
    const uint8_t uuid[16] = {0x01, 0x9f, [15] = 0xff};
    pg_param_uuid(&params, uuid);
    pg_param_time(&params, INT64_C(946684800000001));
    assert_int_equal(params.count, 8);
    expect_param(&params, 0, "\1", 1);
    expect_param(&params, 1, "\xff\xfe", 2);
    expect_param(&params, 2, "\1\2\3\4", 4);
    expect_param(&params, 3, "\x80\0\0\0\0\0\0\0", 8);
    expect_param(&params, 4, "tenant", 6);
    expect_param(&params, 5, "a\0b", 3);
    expect_param(&params, 6, (const char *)uuid, 16);
    expect_param(&params, 7, "\0\0\0\0\0\0\0\1", 8);
    pg_params_fini(&params);
}

static void null_has_no_bytes(void **state)
{
    (void)state;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_null(&params);
    pg_param_text(&params, SPAN_LIT(""));
    assert_true(params.is_null[0]);
    assert_int_equal(params.size[0], 0);
    assert_false(params.is_null[1]);
    assert_int_equal(params.size[1], 0);
    pg_params_clear(&params);
    assert_int_equal(params.count, 0);
    pg_params_fini(&params);
}

static void arrays_have_a_header(void **state)
{
    (void)state;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_int2(&params, 7); /* so that the array does not start at 0 */
    pg_array_begin(&params, PG_TEXT);
    pg_array_bytes(&params, SPAN_LIT("ab"));
    pg_array_null(&params);
    pg_array_bytes(&params, SPAN_LIT(""));
    pg_array_end(&params);
    expect_param(&params, 1,
        "\0\0\0\1"         /* dimensions */
        "\0\0\0\1"         /* has nulls */
        "\0\0\0\x19"       /* text */
        "\0\0\0\3\0\0\0\1" /* length, lower bound */
        "\0\0\0\2ab"
        "\xff\xff\xff\xff"
        "\0\0\0\0",
        20 + 6 + 4 + 4);
    pg_params_fini(&params);
}

static void arrays_of_numbers(void **state)
{
    (void)state;
    struct pg_params params;
    pg_params_init(&params);
    pg_array_begin(&params, PG_INT4);
    pg_array_int4(&params, 5);
    pg_array_int4(&params, -1);
    pg_array_end(&params);
    expect_param(&params, 0,
        "\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\2\0\0\0\1"
        "\0\0\0\4\0\0\0\5\0\0\0\4\xff\xff\xff\xff",
        36);
    pg_array_begin(&params, PG_BOOL);
    pg_array_bool(&params, true);
    pg_array_end(&params);
    expect_param(
        &params, 1, "\0\0\0\1\0\0\0\0\0\0\0\x10\0\0\0\1\0\0\0\1\0\0\0\1\1", 25);
    pg_params_fini(&params);
}

static void an_empty_array_has_no_dimension(void **state)
{
    (void)state;
    struct pg_params params;
    pg_params_init(&params);
    pg_array_begin(&params, PG_UUID);
    pg_array_end(&params);
    pg_param_int2(&params, 1);
    expect_param(&params, 0, "\0\0\0\0\0\0\0\0\0\0\x0b\x86", 12);
    expect_param(&params, 1, "\0\1", 2);
    pg_params_fini(&params);
}

static void classes_of_sqlstates(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        enum err_class class;
    } cases[] = {
        {"40001", ERR_TRANSIENT}, /* serialization failure */
        {"40P01", ERR_TRANSIENT}, /* deadlock */
        {"55P03", ERR_TRANSIENT}, /* lock timeout */
        {"57P01", ERR_TRANSIENT}, /* shut down */
        {"57P02", ERR_TRANSIENT}, /* crash */
        {"57P03", ERR_TRANSIENT}, /* starting up */
        {"57014", ERR_TRANSIENT}, /* statement timeout */
        {"08006", ERR_TRANSIENT},
        {"53300", ERR_TRANSIENT}, /* too many connections */
        {"53100", ERR_TRANSIENT}, /* disk full */
        {"25006", ERR_TRANSIENT}, /* read only */
        {"25P02", ERR_TRANSIENT},
        {"26000", ERR_TRANSIENT},
        {"0A000", ERR_TRANSIENT},
        {"XX000", ERR_TRANSIENT},
        {"", ERR_TRANSIENT},
        {"28P01", ERR_FATAL},
        {"3D000", ERR_FATAL},
        {"42P01", ERR_FATAL},
        {"42501", ERR_FATAL},
        {"42601", ERR_PERMANENT}, /* syntax */
        {"23505", ERR_PERMANENT}, /* unique violation */
        {"22021", ERR_PERMANENT}, /* bad byte sequence */
        {"25001", ERR_PERMANENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (pg_class_of(cases[i].sqlstate) != cases[i].class) {
            fail_msg("%s is %s", cases[i].sqlstate,
                err_class_name(pg_class_of(cases[i].sqlstate)));
        }
    }
    assert_int_equal(pg_class_of(NULL), ERR_TRANSIENT);
}

/* -- without a server ------------------------------------------------------ */

static const struct pg_statement statements[] = {
    {.name = "one", .sql = "SELECT 1"},
};

struct seen {
    struct loop loop;
    struct pg *pg;
    int ends;
    int wanted;
    enum pg_end end;
    enum err_class class;
    char code[32];
    bool closes;
};

static void on_done(void *arg, const struct pg_outcome *outcome)
{
    struct seen *seen = arg;
    seen->ends++;
    seen->end = outcome->end;
    seen->class = outcome->err->class;
    (void)snprintf(seen->code, sizeof(seen->code), "%s", outcome->err->code);
    if (seen->closes) {
        pg_close(seen->pg);
        seen->pg = NULL;
    }
    if (seen->ends == seen->wanted) {
        loop_end(&seen->loop);
    }
}

static void open_nowhere(struct seen *seen)
{
    *seen = (struct seen){.wanted = 1};
    loop_init(&seen->loop, NULL, NULL);
    const struct pg_options options = {
        .conninfo = "host=/nonexistent dbname=none",
        .name = "test",
        .statements = statements,
        .statement_count = 1,
    };
    seen->pg = pg_open(&seen->loop, &options);
}

static void a_batch_fails_later_while_down(void **state)
{
    (void)state;
    struct seen seen;
    open_nowhere(&seen);
    pg_run(seen.pg, 0, NULL, on_done, &seen);
    assert_int_equal(seen.ends, 0);
    assert_int_equal(pg_queued(seen.pg), 1);
    assert_false(pg_is_up(seen.pg));
    assert_int_equal(pg_backend_pid(seen.pg), 0);
    loop_run(&seen.loop);
    assert_int_equal(seen.ends, 1);
    assert_int_equal(seen.end, PG_FAILED);
    assert_int_equal(seen.class, ERR_TRANSIENT);
    assert_string_equal(seen.code, "PG_DOWN");
    assert_int_equal(pg_queued(seen.pg), 0);
    pg_close(seen.pg);
    loop_fini(&seen.loop);
}

static void close_ends_what_waits(void **state)
{
    (void)state;
    struct seen seen;
    open_nowhere(&seen);
    pg_run(seen.pg, 0, NULL, on_done, &seen);
    pg_run(seen.pg, 0, NULL, on_done, &seen);
    pg_begin(seen.pg); /* and never committed */
    pg_step(seen.pg, 0, NULL);
    pg_close(seen.pg);
    assert_int_equal(seen.ends, 2);
    assert_int_equal(seen.end, PG_FAILED);
    loop_fini(&seen.loop);
}

static void a_callback_may_close(void **state)
{
    (void)state;
    struct seen seen;
    open_nowhere(&seen);
    seen.closes = true;
    seen.wanted = 3;
    pg_run(seen.pg, 0, NULL, on_done, &seen);
    pg_run(seen.pg, 0, NULL, on_done, &seen);
    pg_run(seen.pg, 0, NULL, on_done, &seen);
    loop_run(&seen.loop);
    assert_int_equal(seen.ends, 3);
    loop_fini(&seen.loop);
}

static void a_bad_connection_string_is_not_quoted(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_null(pg_connect_blocking("password=hunter2 hunter3", "test", &err));
    assert_int_equal(err.class, ERR_FATAL);
    assert_null(strstr(err.msg, "hunter"));
}

static void a_missing_server_is_fatal_at_start(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_int_equal(
        pg_check_start("host=/nonexistent dbname=none", 1, &err), -1);
    assert_int_equal(err.class, ERR_FATAL);
    assert_non_null(strstr(err.msg, "postgres is not reachable"));
}

int main(void)
{
    log_init("test");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_big_endian),
        cmocka_unit_test(null_has_no_bytes),
        cmocka_unit_test(arrays_have_a_header),
        cmocka_unit_test(arrays_of_numbers),
        cmocka_unit_test(an_empty_array_has_no_dimension),
        cmocka_unit_test(classes_of_sqlstates),
        cmocka_unit_test(a_batch_fails_later_while_down),
        cmocka_unit_test(close_ends_what_waits),
        cmocka_unit_test(a_callback_may_close),
        cmocka_unit_test(a_bad_connection_string_is_not_quoted),
        cmocka_unit_test(a_missing_server_is_fatal_at_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
