/* SPDX-License-Identifier: Apache-2.0 */
/* Frames survive the way there; whatever does not add up is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "worker/run/frame.h"

static void assert_span(struct span span, const char *text)
{
    assert_int_equal(span.len, strlen(text));
    assert_memory_equal(span.ptr, text, span.len);
}

static struct span whole_content(const struct buf *buf, enum frame_type type)
{
    struct frame frame = {.type = FRAME_TYPE_COUNT};
    size_t used = 0;
    assert_int_equal(frame_next(buf_span(buf), &frame, &used), 1);
    assert_int_equal(used, buf->len);
    assert_int_equal(frame.type, type);
    return frame.content;
}

static void put_sample_job(struct buf *buf)
{
    struct call call = {
        .method = "POST",
        .url = SPAN_LIT("https://api.example.com/v1"),
        .header_count = 2,
        .body = SPAN_LIT("{\"a\":1}"),
    };
    call.headers[0].name = SPAN_LIT("Idempotency-Key");
    call.headers[0].value = SPAN_LIT("k-1");
    call.headers[1].name = SPAN_LIT("X-Empty");
    call.headers[1].value = (struct span){.ptr = NULL};
    const struct egress_rule rules[] = {
        {"api.example.com", 443}, {"*.example.net", 8443}};
    const struct run_job job = {
        .id = UINT64_C(0xfedcba9876543210),
        .tenant = "acme",
        .call = &call,
        .timeout_ms = 30000,
        .egress = rules,
        .egress_count = 2,
        .max_result_bytes = 1 << 20,
    };
    assert_int_equal(frame_put_job(buf, 7, &job), 0);
}

static void job_survives_the_way(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, FRAME_MAX);
    put_sample_job(&buf);
    struct frame_job job;
    assert_int_equal(frame_get_job(whole_content(&buf, FRAME_JOB), &job), 0);
    assert_int_equal(job.index, 7);
    assert_true(job.id == UINT64_C(0xfedcba9876543210));
    assert_int_equal(job.timeout_ms, 30000);
    assert_int_equal(job.max_result_bytes, 1 << 20);
    assert_span(job.method, "POST");
    assert_span(job.url, "https://api.example.com/v1");
    assert_span(job.body, "{\"a\":1}");
    assert_int_equal(job.header_count, 2);
    assert_span(job.headers[0].name, "Idempotency-Key");
    assert_span(job.headers[0].value, "k-1");
    assert_int_equal(job.headers[1].value.len, 0);
    assert_int_equal(job.egress_count, 2);
    assert_span(job.egress[1].host, "*.example.net");
    assert_int_equal(job.egress[1].port, 8443);
    buf_fini(&buf);
}

static void echo_survives_the_way(void **state)
{
    (void)state;
    const struct call call = {
        .is_echo = true, .method = "", .body = SPAN_LIT("[1]")};
    struct run_job job = {
        .id = 5, .call = &call, .timeout_ms = 1, .max_result_bytes = 3};
    struct buf buf;
    struct frame_echo echo;
    buf_init(&buf, FRAME_MAX);
    assert_int_equal(frame_put_job(&buf, 7, &job), 0);
    const struct span content = whole_content(&buf, FRAME_ECHO);
    assert_int_equal(frame_get_echo(content, &echo), 0);
    assert_int_equal(echo.index, 7);
    assert_int_equal(echo.id, 5);
    assert_span(echo.body, "[1]");
    for (size_t len = 0; len < content.len; len++) {
        const struct span cut = {.ptr = content.ptr, .len = len};
        assert_int_equal(frame_get_echo(cut, &echo), -1);
    }
    job.max_result_bytes = 2;
    assert_int_equal(frame_put_job(&buf, 7, &job), -1);
    buf_fini(&buf);
}

static void result_survives_the_way(void **state)
{
    (void)state;
    const struct run_result sent = {
        .id = 9,
        .end = CALL_BROKEN,
        .code = CODE_CONNECTION_LOST,
        .message = "reset by peer",
        .http_status = 502,
        .headers = SPAN_LIT("retry-after: 3\n"),
        .body = SPAN_LIT("half"),
        .is_body_cut = true,
        .body_bytes = 4096,
        .egress_bytes = 512,
        .wall_ms = 12,
        .cpu_ms = 1,
        .memory_peak_bytes = 4 << 20,
    };
    struct buf buf;
    buf_init(&buf, FRAME_MAX);
    assert_int_equal(frame_put_result(&buf, 3, &sent), 0);
    struct run_result got;
    uint32_t index = 0;
    assert_int_equal(
        frame_get_result(whole_content(&buf, FRAME_RESULT), &index, &got), 0);
    assert_int_equal(index, 3);
    assert_int_equal(got.id, 9);
    assert_int_equal(got.end, CALL_BROKEN);
    assert_int_equal(got.code, CODE_CONNECTION_LOST);
    assert_string_equal(got.message, "reset by peer");
    assert_int_equal(got.http_status, 502);
    assert_span(got.headers, "retry-after: 3\n");
    assert_span(got.body, "half");
    assert_true(got.is_body_cut);
    assert_int_equal(got.body_bytes, 4096);
    assert_int_equal(got.egress_bytes, 512);
    assert_int_equal(got.wall_ms, 12);
    assert_int_equal(got.cpu_ms, 1);
    assert_int_equal(got.memory_peak_bytes, 4 << 20);
    buf_fini(&buf);
}

static void a_time_that_cannot_be_is_refused(void **state)
{
    (void)state;
    static const int64_t times[] = {-1, FRAME_MAX_WALL_MS + 1, INT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        const struct run_result sent = {.end = CALL_LOST, .wall_ms = times[i]};
        struct run_result got;
        uint32_t index = 0;
        struct buf buf;
        buf_init(&buf, FRAME_MAX);
        assert_int_equal(frame_put_result(&buf, 0, &sent), 0);
        assert_int_equal(
            frame_get_result(whole_content(&buf, FRAME_RESULT), &index, &got),
            -1);
        buf_fini(&buf);
    }
}

static void setup_and_ready_survive_the_way(void **state)
{
    (void)state;
    const struct frame_setup sent = {
        .private_allow = SPAN_LIT("127.0.0.1"),
        .max_calls = 1000,
        .connect_timeout_ms = 10000,
    };
    struct buf buf;
    buf_init(&buf, FRAME_MAX);
    assert_int_equal(frame_put_setup(&buf, &sent), 0);
    struct frame_setup got;
    assert_int_equal(
        frame_get_setup(whole_content(&buf, FRAME_SETUP), &got), 0);
    assert_span(got.private_allow, "127.0.0.1");
    assert_int_equal(got.ca_file.len, 0);
    assert_int_equal(got.max_calls, 1000);
    assert_int_equal(got.connect_timeout_ms, 10000);
    buf_clear(&buf);
    assert_int_equal(frame_put_ready(&buf), 0);
    assert_int_equal(whole_content(&buf, FRAME_READY).len, 0);
    buf_fini(&buf);
}

static void frames_are_taken_one_by_one(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, FRAME_MAX);
    assert_int_equal(frame_put_ready(&buf), 0);
    const size_t first = buf.len;
    put_sample_job(&buf);
    struct frame frame;
    size_t used = 0;
    for (size_t len = 0; len < first; len++) {
        const struct span part = {.ptr = buf.data, .len = len};
        assert_int_equal(frame_next(part, &frame, &used), 0);
        assert_int_equal(used, len < FRAME_HEAD ? 0 : first);
    }
    assert_int_equal(frame_next(buf_span(&buf), &frame, &used), 1);
    assert_int_equal(used, first);
    buf_fini(&buf);
}

static void a_cut_or_padded_job_is_refused(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, FRAME_MAX);
    put_sample_job(&buf);
    buf_put_char(&buf, '\0');
    struct frame_job job;
    for (size_t len = 0; len < buf.len - FRAME_HEAD; len++) {
        const struct span part = {.ptr = buf.data + FRAME_HEAD, .len = len};
        const bool is_whole = len == buf.len - FRAME_HEAD - 1;
        assert_int_equal(frame_get_job(part, &job), is_whole ? 0 : -1);
    }
    const struct span padded = {
        .ptr = buf.data + FRAME_HEAD, .len = buf.len - FRAME_HEAD};
    assert_int_equal(frame_get_job(padded, &job), -1);
    buf_fini(&buf);
}

static void heads_that_are_no_frame_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t len;
        uint8_t type;
    } rows[] = {
        {0, FRAME_JOB},
        {FRAME_HEAD - 1, FRAME_JOB},
        {FRAME_MAX + 1, FRAME_JOB},
        {UINT32_MAX, FRAME_JOB},
        {FRAME_HEAD, 0},
        {FRAME_HEAD, FRAME_TYPE_COUNT},
        {FRAME_HEAD, 255},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char head[FRAME_HEAD];
        memcpy(head, &rows[i].len, sizeof(rows[i].len));
        head[4] = (char)rows[i].type;
        struct frame frame;
        size_t used = 0;
        const struct span bytes = {.ptr = head, .len = sizeof(head)};
        assert_int_equal(frame_next(bytes, &frame, &used), -1);
    }
}

static void a_frame_that_does_not_fit_leaves_nothing(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 40);
    assert_int_equal(frame_put_ready(&buf), 0);
    const size_t before = buf.len;
    const struct run_result result = {.id = 1, .end = CALL_LOST};
    assert_int_equal(frame_put_result(&buf, 0, &result), -1);
    assert_int_equal(buf.len, before);
    assert_false(buf.is_overflowed);
    buf_fini(&buf);
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, FRAME_MAX);
    const struct run_result result = {.id = 1, .end = CALL_LOST};
    assert_int_equal(frame_put_result(&buf, 0, &result), 0);
    struct run_result got;
    uint32_t index = 0;
    const size_t end_at = FRAME_HEAD + 4 + 8;
    buf.data[end_at] = (char)CALL_END_COUNT;
    assert_int_equal(
        frame_get_result(whole_content(&buf, FRAME_RESULT), &index, &got), -1);
    buf.data[end_at] = (char)CALL_LOST;
    buf.data[end_at + 2] = (char)0xff; /* the code's upper byte */
    assert_int_equal(
        frame_get_result(whole_content(&buf, FRAME_RESULT), &index, &got), -1);
    buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_survives_the_way),
        cmocka_unit_test(echo_survives_the_way),
        cmocka_unit_test(result_survives_the_way),
        cmocka_unit_test(a_time_that_cannot_be_is_refused),
        cmocka_unit_test(setup_and_ready_survive_the_way),
        cmocka_unit_test(frames_are_taken_one_by_one),
        cmocka_unit_test(a_cut_or_padded_job_is_refused),
        cmocka_unit_test(heads_that_are_no_frame_are_refused),
        cmocka_unit_test(a_frame_that_does_not_fit_leaves_nothing),
        cmocka_unit_test(numbers_out_of_range_are_refused),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
