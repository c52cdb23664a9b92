/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/log.h"
#include "common/time.h"

/* What went to standard error while it was a file of our own. */
struct capture {
    FILE *file;
    int saved_fd;
    struct buf text;
};

static void capture_begin(struct capture *capture)
{
    capture->file = tmpfile();
    assert_non_null(capture->file);
    capture->saved_fd = dup(STDERR_FILENO);
    assert_true(capture->saved_fd >= 0);
    assert_true(dup2(fileno(capture->file), STDERR_FILENO) >= 0);
    buf_init(&capture->text, SIZE_MAX);
}

static void capture_end(struct capture *capture)
{
    assert_true(dup2(capture->saved_fd, STDERR_FILENO) >= 0);
    (void)close(capture->saved_fd);
    rewind(capture->file);
    char part[4096];
    size_t len = 0;
    while ((len = fread(part, 1, sizeof(part), capture->file)) > 0) {
        buf_put(&capture->text, part, len);
    }
    (void)fclose(capture->file);
}

/* Cuts the next line off; false at the end. */
static bool next_line(struct span *rest, struct json_value *line)
{
    if (rest->len == 0) {
        return false;
    }
    const char *end = memchr(rest->ptr, '\n', rest->len);
    assert_non_null(end);
    const struct span text = {
        .ptr = rest->ptr, .len = (size_t)(end - rest->ptr)};
    struct err err = ERR_INIT;
    if (json_parse(text, 2, line, &err) != 0) {
        fail_msg("%.*s: %s", (int)text.len, text.ptr, err.msg);
    }
    rest->ptr += text.len + 1;
    rest->len -= text.len + 1;
    return true;
}

static void assert_member(
    struct json_value line, const char *name, const char *expected)
{
    struct json_value value = {.type = JSON_NULL};
    if (!json_find(line, name, &value)) {
        fail_msg("no member %s", name);
    }
    if (!json_string_is(value, expected)) {
        fail_msg("%s is %.*s", name, (int)value.raw.len, value.raw.ptr);
    }
}

static void a_line_is_one_object_in_fixed_order(void **state)
{
    (void)state;
    struct capture capture;
    struct err err = ERR_INIT;
    (void)err_set(&err, ERR_TRANSIENT, "BUSY", "try \"later\"");
    const struct log_fields fields = {.action_id = "id1",
        .tenant = "acme",
        .err = &err,
        .name1 = "topic",
        .value1 = "a\nb",
        .number_name = "partition",
        .number = -7};
    capture_begin(&capture);
    LOG(WARN, "claim_failed", &fields, "batch of %d", 3);
    capture_end(&capture);
    struct span rest = buf_span(&capture.text);
    struct json_value line = {.type = JSON_NULL};
    assert_true(next_line(&rest, &line));
    static const char *const names[] = {"ts", "level", "prog", "pid", "event",
        "action_id", "tenant", "err_code", "err_class", "err", "topic",
        "partition", "text"};
    struct json_cursor cursor = json_enter(line);
    struct json_member member;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_true(json_next(&cursor, &member));
        assert_true(span_is(member.name, names[i]));
    }
    assert_false(json_next(&cursor, &member));
    assert_member(line, "level", "warn");
    assert_member(line, "prog", "test");
    assert_member(line, "event", "claim_failed");
    assert_member(line, "err", "try \"later\"");
    assert_member(line, "err_class", "transient");
    assert_member(line, "topic", "a\nb");
    assert_member(line, "text", "batch of 3");
    assert_false(next_line(&rest, &line));
    buf_fini(&capture.text);
}

static void levels_below_the_threshold_are_silent(void **state)
{
    (void)state;
    struct capture capture;
    struct err err = ERR_INIT;
    capture_begin(&capture);
    LOG(DEBUG, "hidden", NULL, "x");
    assert_int_equal(log_set_level("error", &err), 0);
    LOG(WARN, "hidden_too", NULL, "x");
    LOG(ERROR, "shown", NULL, "x");
    assert_int_equal(log_set_level("debug", &err), 0);
    LOG(DEBUG, "shown_too", NULL, "%s", "");
    assert_int_equal(log_set_level("info", &err), 0);
    capture_end(&capture);
    struct span rest = buf_span(&capture.text);
    struct json_value line = {.type = JSON_NULL};
    struct json_value text;
    assert_true(next_line(&rest, &line));
    assert_member(line, "event", "shown");
    assert_true(next_line(&rest, &line));
    assert_member(line, "event", "shown_too");
    assert_false(json_find(line, "text", &text));
    assert_false(next_line(&rest, &line));
    buf_fini(&capture.text);
}

static void unknown_levels_are_refused(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_int_equal(log_set_level("loud", &err), -1);
    assert_int_equal(err.class, ERR_FATAL);
    assert_non_null(strstr(err.msg, "log.level is \"loud\""));
}

static void broken_and_long_texts_stay_json(void **state)
{
    (void)state;
    struct capture capture;
    char text[5000];
    memset(text, 0x01, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    const struct log_fields fields = {.action_id = text,
        .tenant = text,
        .connector = text,
        .name1 = "bad",
        .value1 = "\xFF\xC3"};
    capture_begin(&capture);
    LOG(ERROR, "long", &fields, "%s", text);
    capture_end(&capture);
    struct span rest = buf_span(&capture.text);
    struct json_value line = {.type = JSON_NULL};
    assert_true(next_line(&rest, &line));
    assert_member(line, "bad", "\xEF\xBF\xBD\xEF\xBF\xBD");
    buf_fini(&capture.text);
}

static void repeats_are_cut_off_and_counted(void **state)
{
    (void)state;
    enum { LINES = 2000 };
    struct capture capture;
    const int64_t start_us = now_mono_us();
    capture_begin(&capture);
    for (int i = 0; i < LINES; i++) {
        LOG(INFO, "again", NULL, "%d", i);
    }
    LOG(INFO, "another", NULL, "is not held back");
    capture_end(&capture);
    /* A slow machine may see more than one second, each with its 20 lines. */
    const int64_t seconds = (now_mono_us() - start_us) / US_PER_S + 1;
    int64_t again = 0;
    int64_t another = 0;
    struct span rest = buf_span(&capture.text);
    struct json_value line = {.type = JSON_NULL};
    while (next_line(&rest, &line)) {
        struct json_value event = {.type = JSON_NULL};
        assert_true(json_find(line, "event", &event));
        again += json_string_is(event, "again");
        another += json_string_is(event, "another");
    }
    assert_true(again >= 20);
    assert_true(again <= 20 * seconds);
    assert_int_equal(another, 1);
    buf_fini(&capture.text);
}

static void what_was_cut_off_is_told_after_the_second(void **state)
{
    (void)state;
    struct capture capture;
    bool is_told = false;
    capture_begin(&capture);
    /* So many that even a machine that stalls has to cut some off. */
    for (int i = 0; i < 2000; i++) {
        LOG(INFO, "flood", NULL, "x");
    }
    const int64_t over_us = now_mono_us() + US_PER_S;
    while (now_mono_us() <= over_us) {
        (void)usleep(10000);
    }
    /* One count is told a line, and other tests may have left theirs. */
    for (int i = 0; i < 5; i++) {
        LOG(INFO, "calm", NULL, "x");
    }
    capture_end(&capture);
    struct span rest = buf_span(&capture.text);
    struct json_value line = {.type = JSON_NULL};
    while (next_line(&rest, &line)) {
        struct json_value event = {.type = JSON_NULL};
        struct json_value of = {.type = JSON_NULL};
        assert_true(json_find(line, "event", &event));
        if (json_string_is(event, "suppressed") && json_find(line, "of", &of) &&
            json_string_is(of, "flood")) {
            is_told = true;
        }
    }
    assert_true(is_told);
    buf_fini(&capture.text);
}

static void errno_survives_a_line(void **state)
{
    (void)state;
    struct capture capture;
    capture_begin(&capture);
    errno = EPIPE;
    LOG(INFO, "errno_kept", NULL, "x");
    const int after = errno;
    capture_end(&capture);
    assert_int_equal(after, EPIPE);
    buf_fini(&capture.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_one_object_in_fixed_order),
        cmocka_unit_test(levels_below_the_threshold_are_silent),
        cmocka_unit_test(unknown_levels_are_refused),
        cmocka_unit_test(broken_and_long_texts_stay_json),
        cmocka_unit_test(repeats_are_cut_off_and_counted),
        cmocka_unit_test(what_was_cut_off_is_told_after_the_second),
        cmocka_unit_test(errno_survives_a_line),
    };
    log_init("test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
