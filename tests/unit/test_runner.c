/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls through a real keeper and real runners to a small server, which does
 * to them what providers do: how each ends, and what was sent.
 */
#include "run_driver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "worker/run/runner.h"

enum { BIG_BYTES = 1 << 20, HEAD_BYTES = 16 << 10 };

static struct driver driver;
static uint16_t server_port;
static pid_t server_pid;
static unsigned *request_count; /* shared with the server's processes */

/* -- the server: one process a connection ------------------------------------- */

static void send_text(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void send_answer(
    int fd, const char *status, const char *headers, struct span body)
{
    struct buf answer;
    buf_init(&answer, 4 << 20);
    buf_printf(&answer, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", status,
        body.len, headers);
    buf_put_span(&answer, body);
    size_t at = 0;
    while (at < answer.len) {
        const ssize_t sent =
            send(fd, answer.data + at, answer.len - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            break;
        }
        at += (size_t)sent;
    }
    buf_fini(&answer);
}

/* Reads one request without pipelining; false at the end. */
static bool read_request(int fd, struct buf *request)
{
    buf_clear(request);
    for (;;) {
        const char *end = strstr(buf_str(request), "\r\n\r\n");
        const char *length = strstr(buf_str(request), "Content-Length: ");
        if (end != NULL) {
            const size_t head = (size_t)(end + 4 - request->data);
            const size_t body = length != NULL && length < end
                                    ? strtoul(length + 16, NULL, 10)
                                    : 0;
            if (request->len >= head + body) {
                return true;
            }
        }
        char *room = buf_reserve(request, 4096);
        const ssize_t got = room == NULL ? 0 : recv(fd, room, 4095, 0);
        if (got <= 0) {
            return false;
        }
        request->len += (size_t)got;
        request->data[request->len] = '\0';
    }
}

static void reset(int fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    _exit(0);
}

static void answer_request(int fd, const struct buf *request)
{
    const char *text = buf_str(request);
    if (strstr(text, " /echo") != NULL) {
        send_answer(
            fd, "200 OK", "X-Mixed-Case:  kept \r\n", buf_span(request));
    } else if (strstr(text, " /slow") != NULL) {
        (void)pause();
    } else if (strstr(text, " /reset") != NULL) {
        reset(fd);
    } else if (strstr(text, " /cut") != NULL) {
        send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        _exit(0);
    } else if (strstr(text, " /garbage") != NULL) {
        send_text(fd, "this is not HTTP\r\n\r\n");
        _exit(0);
    } else if (strstr(text, " /headers") != NULL) {
        struct buf lines;
        buf_init(&lines, 1 << 20);
        for (int i = 0; i < 2000; i++) {
            buf_printf(&lines, "X-Many-%d: some value that takes room\r\n", i);
        }
        send_answer(fd, "200 OK", buf_str(&lines), SPAN_LIT("x"));
        _exit(0);
    } else if (strstr(text, " /big") != NULL) {
        char *big = mem_zalloc(BIG_BYTES, 1);
        send_answer(fd, "200 OK", "",
            (struct span){
                .ptr = memset(big, 'b', BIG_BYTES), .len = BIG_BYTES});
        _exit(0);
    } else if (strstr(text, " /redirect") != NULL) {
        send_answer(fd, "302 Found", "Location: /echo\r\n", SPAN_LIT(""));
    } else if (strstr(text, " /busy") != NULL) {
        send_answer(fd, "503 Busy", "Retry-After: 3\r\n", SPAN_LIT("later"));
    } else {
        send_answer(fd, "200 OK", "", SPAN_LIT("ok"));
    }
}

static void serve_connection(int fd)
{
    struct buf request;
    buf_init(&request, 4 << 20);
    bool was_once = false;
    while (read_request(fd, &request)) {
        (void)__atomic_add_fetch(request_count, 1, __ATOMIC_SEQ_CST);
        if (was_once) {
            reset(fd); /* a kept connection that dies with a request on it */
        }
        was_once = strstr(buf_str(&request), " /once") != NULL;
        answer_request(fd, &request);
    }
    _exit(0);
}

static void serve(int listener)
{
    (void)signal(SIGCHLD, SIG_IGN);
    for (;;) {
        const int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && fork() == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve_connection(fd);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
}

static int bind_local(uint16_t *port)
{
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(name);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    *port = ntohs(name.sin_port);
    return fd;
}

static void start_server(void)
{
    request_count = mmap(NULL, sizeof(*request_count), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(request_count != MAP_FAILED);
    const int listener = bind_local(&server_port);
    assert_int_equal(listen(listener, 512), 0);
    server_pid = fork();
    assert_true(server_pid >= 0);
    if (server_pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener);
    }
    (void)close(listener);
}

/* -- calls -------------------------------------------------------------------- */

struct request {
    const char *tenant; /* NULL: acme */
    const char *method; /* NULL: GET */
    const char *scheme; /* NULL: http */
    const char *host;   /* NULL: 127.0.0.1 */
    const char *path;
    uint16_t port; /* 0: the server's */
    const char *header;
    const char *value;
    const char *body;        /* NULL: none */
    int64_t timeout_ms;      /* 0: long */
    size_t max_result_bytes; /* 0: 1 MiB */
    bool is_unlisted;
};

static void start(uint64_t id, const struct request *request)
{
    const uint16_t port = request->port != 0 ? request->port : server_port;
    const char *host = request->host != NULL ? request->host : "127.0.0.1";
    char url[256];
    (void)snprintf(url, sizeof(url), "%s://%s:%u%s",
        request->scheme != NULL ? request->scheme : "http", host, port,
        request->path);
    struct call call = {
        .method = request->method != NULL ? request->method : "GET",
        .url = span_of(url),
        .body = span_of(request->body),
        .header_count = request->header != NULL ? 1 : 0,
    };
    call.headers[0].name = span_of(request->header);
    call.headers[0].value = span_of(request->value);
    const struct egress_rule rule = {.host = host, .port = port};
    const struct run_job job = {
        .id = id,
        .tenant = request->tenant != NULL ? request->tenant : "acme",
        .call = &call,
        .timeout_ms = request->timeout_ms != 0 ? request->timeout_ms : 60000,
        .egress = &rule,
        .egress_count = request->is_unlisted ? 0 : 1,
        .max_result_bytes = request->max_result_bytes != 0
                                ? request->max_result_bytes
                                : 1 << 20,
    };
    struct err err = ERR_INIT;
    if (run_start(driver.run, &job, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static const struct answer *call_once(const struct request *request)
{
    driver_expect(&driver, 1);
    start(0, request);
    driver_await(&driver);
    return &driver.answers[0];
}

static void an_answer_arrives_whole(void **state)
{
    (void)state;
    const struct answer *answer = call_once(&(struct request){.path = "/busy"});
    assert_int_equal(answer->result.end, CALL_ANSWERED);
    assert_int_equal(answer->result.code, CODE_NONE);
    assert_int_equal(answer->result.http_status, 503);
    assert_string_equal(buf_str(&answer->body), "later");
    assert_string_equal(
        buf_str(&answer->headers), "content-length: 5\nretry-after: 3\n");
    assert_false(answer->result.is_body_cut);
    assert_int_equal(answer->result.body_bytes, 5);
    assert_true(answer->result.egress_bytes > 40);
    assert_true(answer->result.memory_peak_bytes > 100000);
}

static void the_request_is_sent_as_declared(void **state)
{
    (void)state;
    const struct answer *answer = call_once(&(struct request){
        .method = "POST",
        .path = "/echo/../a%2fb?x=%20",
        .header = "Idempotency-Key",
        .value = "k-1",
        .body = "{\"a\": 1}",
    });
    const char *text = buf_str(&answer->body);
    assert_non_null(strstr(text, "POST /echo/../a%2fb?x=%20 HTTP/1.1\r\n"));
    assert_non_null(strstr(text, "\r\nIdempotency-Key: k-1\r\n"));
    assert_non_null(strstr(text, "\r\nContent-Length: 8\r\n"));
    assert_non_null(strstr(text, "\r\n\r\n{\"a\": 1}"));
    assert_null(strstr(text, "Expect:"));
    assert_null(strstr(text, "Content-Type:"));
    assert_null(strstr(text, "Accept-Encoding:"));
    assert_non_null(strstr(buf_str(&answer->headers), "x-mixed-case: kept\n"));
    answer = call_once(&(struct request){.method = "DELETE", .path = "/echo"});
    assert_non_null(strstr(buf_str(&answer->body), "DELETE /echo HTTP/1.1"));
    assert_null(strstr(buf_str(&answer->body), "Content-Length"));
    answer = call_once(&(struct request){.method = "PUT", .path = "/echo"});
    assert_non_null(strstr(buf_str(&answer->body), "Content-Length: 0\r\n"));
    answer = call_once(&(struct request){.method = "HEAD", .path = "/echo"});
    assert_int_equal(answer->result.http_status, 200);
    assert_int_equal(answer->body.len, 0);
}

static void a_name_is_resolved_and_pinned(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) { /* asked, then kept */
        const struct answer *answer =
            call_once(&(struct request){.host = "localhost", .path = "/echo"});
        assert_int_equal(answer->result.end, CALL_ANSWERED);
        assert_non_null(strstr(buf_str(&answer->body), "Host: localhost:"));
    }
}

struct end_row {
    const char *name;
    struct request request;
    enum call_end end;
    enum code code;
    const char *message; /* part of it; NULL: any */
};

static void check_row(const struct end_row *row)
{
    const struct answer *answer = call_once(&row->request);
    const struct run_result *result = &answer->result;
    if (result->end != row->end || result->code != row->code ||
        (row->message != NULL &&
            strstr(result->message, row->message) == NULL)) {
        fail_msg("%s: end %d, code %s, \"%s\"", row->name, (int)result->end,
            code_name(result->code), result->message);
    }
}

static void each_end_has_its_name(void **state)
{
    (void)state;
    uint16_t closed_port = 0;
    const int closed = bind_local(&closed_port); /* nobody listens */
    const struct end_row rows[] = {
        {"silent", {.path = "/slow", .timeout_ms = 3000}, CALL_TIMED_OUT,
            CODE_EXECUTION_TIMEOUT, NULL},
        {"silent in the handshake",
            {.scheme = "https", .path = "/", .timeout_ms = 300},
            CALL_TIMED_OUT_EARLY, CODE_EXECUTION_TIMEOUT, NULL},
        {"reset", {.path = "/reset"}, CALL_BROKEN, CODE_CONNECTION_LOST, NULL},
        {"cut short", {.path = "/cut"}, CALL_BROKEN, CODE_BAD_ANSWER, NULL},
        {"not HTTP", {.path = "/garbage"}, CALL_BROKEN, CODE_BAD_ANSWER, NULL},
        {"endless headers", {.path = "/headers"}, CALL_BROKEN, CODE_BAD_ANSWER,
            NULL},
        {"refused", {.path = "/", .port = closed_port}, CALL_NOT_SENT,
            CODE_CONNECTION_FAILED, NULL},
        {"private", {.host = "127.0.0.2", .path = "/"}, CALL_DENIED,
            CODE_EGRESS_DENIED, "127.0.0.2"},
        {"not listed", {.path = "/", .is_unlisted = true}, CALL_DENIED,
            CODE_EGRESS_DENIED, "egress list"},
        {"odd address", {.host = "0x7f.1", .path = "/"}, CALL_DENIED,
            CODE_EGRESS_DENIED, "four decimal"},
        {"line break", {.path = "/", .header = "X-A", .value = "a\r\nB: c"},
            CALL_DENIED, CODE_TEMPLATE_INVALID, "CR, LF"},
        {"reserved header", {.path = "/", .header = "hOst", .value = "x"},
            CALL_DENIED, CODE_TEMPLATE_INVALID, "name"},
        {"method", {.path = "/", .method = "CONNECT"}, CALL_DENIED,
            CODE_TEMPLATE_INVALID, "method"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_row(&rows[i]);
    }
    (void)close(closed);
}

static void a_large_body_is_cut_and_still_an_answer(void **state)
{
    (void)state;
    const struct answer *answer =
        call_once(&(struct request){.path = "/big", .max_result_bytes = 1000});
    assert_int_equal(answer->result.end, CALL_ANSWERED);
    assert_int_equal(answer->result.http_status, 200);
    assert_true(answer->result.is_body_cut);
    assert_int_equal(answer->body.len, 1000);
    assert_int_equal(answer->result.body_bytes, BIG_BYTES);
}

static void a_redirect_is_not_followed(void **state)
{
    (void)state;
    const unsigned before = *request_count;
    const struct answer *answer =
        call_once(&(struct request){.path = "/redirect"});
    assert_int_equal(answer->result.end, CALL_ANSWERED);
    assert_int_equal(answer->result.http_status, 302);
    assert_int_equal(*request_count, before + 1);
}

/* libcurl would repeat the second request on a new connection. */
static void a_request_on_a_dead_connection_is_not_repeated(void **state)
{
    (void)state;
    const unsigned before = *request_count;
    const struct request once = {
        .tenant = "once", .method = "POST", .path = "/once", .body = "x"};
    assert_int_equal(call_once(&once)->result.end, CALL_ANSWERED);
    const struct answer *answer = call_once(&once);
    /* On a slow machine the kept connection may be too old to be used. */
    if (answer->result.end != CALL_ANSWERED) {
        assert_int_equal(answer->result.end, CALL_BROKEN);
        assert_int_equal(answer->result.code, CODE_CONNECTION_LOST);
    }
    assert_int_equal(*request_count, before + 2);
}

static void an_echo_comes_back_and_reaches_nobody(void **state)
{
    (void)state;
    const unsigned before = *request_count;
    const struct call call = {
        .is_echo = true, .method = "", .body = SPAN_LIT("{\"a\":[1,2]}")};
    const struct run_job job = {.id = 0,
        .tenant = "echo",
        .call = &call,
        .timeout_ms = 60000,
        .max_result_bytes = 1 << 20};
    struct err err = ERR_INIT;
    driver_expect(&driver, 1);
    assert_int_equal(run_start(driver.run, &job, &err), 0);
    driver_await(&driver);
    assert_int_equal(driver.answers[0].result.end, CALL_ANSWERED);
    assert_int_equal(driver.answers[0].result.http_status, 200);
    assert_string_equal(buf_str(&driver.answers[0].body), "{\"a\":[1,2]}");
    assert_int_equal(*request_count, before);
}

static void many_calls_of_several_tenants_all_end(void **state)
{
    (void)state;
    enum { COUNT = 600 };
    static const char *const tenants[] = {"acme", "beta", "gamma"};
    driver_expect(&driver, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        start(i, &(struct request){
                     .tenant = tenants[i % ARRAY_LEN(tenants)], .path = "/"});
    }
    assert_int_equal(run_active(driver.run), COUNT);
    driver_await(&driver);
    for (size_t i = 0; i < COUNT; i++) {
        if (driver.answers[i].result.end != CALL_ANSWERED) {
            fail_msg("%zu: %s", i, driver.answers[i].result.message);
        }
    }
    assert_int_equal(run_active(driver.run), 0);
}

static void await_requests(unsigned count)
{
    const int64_t end_us = now_mono_us() + DRIVER_DEADLINE_US;
    while (*request_count < count) {
        assert_true(now_mono_us() < end_us);
        driver_turn(&driver);
    }
}

static void calls_of_a_killed_runner_are_lost_and_it_comes_back(void **state)
{
    (void)state;
    driver_expect(&driver, 1);
    const unsigned before = *request_count;
    start(0, &(struct request){.tenant = "killed", .path = "/slow"});
    await_requests(before + 1);
    run_kill_all(driver.run);
    driver_await(&driver);
    assert_int_equal(driver.answers[0].result.end, CALL_LOST);
    assert_int_equal(driver.answers[0].result.code, CODE_RUNNER_DIED);
    assert_non_null(strstr(driver.answers[0].result.message, "signal 9"));
    const struct answer *answer =
        call_once(&(struct request){.tenant = "killed", .path = "/"});
    assert_int_equal(answer->result.end, CALL_ANSWERED);
}

/* No call runs after it. */
static void the_keepers_death_loses_what_runs(void **state)
{
    (void)state;
    driver_expect(&driver, 1);
    const unsigned before = *request_count;
    start(0, &(struct request){.path = "/slow"});
    await_requests(before + 1);
    assert_int_equal(kill(driver.keeper.pid, SIGKILL), 0);
    driver_await(&driver);
    assert_int_equal(driver.answers[0].result.end, CALL_LOST);
    assert_true(driver.is_dead);
    assert_int_equal(run_active(driver.run), 0);
}

static const char *const SETTINGS[] = {
    "egress.private_allow", "127.0.0.1 ::1", NULL};

static pid_t successor_pid;
static int successor_pipe;

/* A second worker, forked while privileges are still whole: it starts and ends
 * once it is told to. Exits with 0 if no cgroup is left then. */
static void start_successor(const char *cgroup)
{
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    successor_pid = fork();
    assert_true(successor_pid >= 0);
    if (successor_pid == 0) {
        char byte = 0;
        (void)close(pair[1]);
        if (read(pair[0], &byte, 1) != 1) {
            _exit(0); /* skipped */
        }
        driver_open(&driver, cgroup, "second", SETTINGS);
        driver_close(&driver);
        _exit(driver_has_cgroup(&driver) ? 1 : 0);
    }
    (void)close(pair[0]);
    successor_pipe = pair[1];
}

static void the_next_keeper_removes_what_a_dead_one_left(void **state)
{
    (void)state;
    int status = 0;
    if (driver.run == NULL) {
        skip();
    }
    driver_close(&driver);
    assert_true(driver_has_cgroup(&driver));
    assert_int_equal(write(successor_pipe, "x", 1), 1);
    assert_int_equal(waitpid(successor_pid, &status, 0), successor_pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* -- life --------------------------------------------------------------------- */

static int open_all(void **state)
{
    (void)state;
    /* None of these may reach a runner. */
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1);
    (void)setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    start_server();
    start_successor(driver_cgroup_name());
    driver_open(&driver, driver_cgroup_name(), "first", SETTINGS);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    driver_close(&driver);
    (void)close(successor_pipe);
    (void)kill(server_pid, SIGKILL);
    (void)waitpid(server_pid, NULL, 0);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "actionist-runner") == 0) {
        _exit(runner_main());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_arrives_whole),
        cmocka_unit_test(the_request_is_sent_as_declared),
        cmocka_unit_test(a_name_is_resolved_and_pinned),
        cmocka_unit_test(each_end_has_its_name),
        cmocka_unit_test(a_large_body_is_cut_and_still_an_answer),
        cmocka_unit_test(a_redirect_is_not_followed),
        cmocka_unit_test(a_request_on_a_dead_connection_is_not_repeated),
        cmocka_unit_test(an_echo_comes_back_and_reaches_nobody),
        cmocka_unit_test(many_calls_of_several_tenants_all_end),
        cmocka_unit_test(calls_of_a_killed_runner_are_lost_and_it_comes_back),
        cmocka_unit_test(the_keepers_death_loses_what_runs),
        cmocka_unit_test(the_next_keeper_removes_what_a_dead_one_left),
    };
    return cmocka_run_group_tests_name("runner", tests, open_all, close_all);
}
