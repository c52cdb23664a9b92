/* SPDX-License-Identifier: Apache-2.0 */
/* http_server on a real socket: a thread plays the client byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http_server.h"
#include "common/log.h"

enum { MAX_BODY = 1000, ANSWER_SIZE = 65536, PATIENCE_S = 60 };

/* -- the client ------------------------------------------------------------ */

struct client {
    const char *input;
    size_t input_len;
    bool half_closes; /* shuts its sending side before it reads */
    uint16_t port;
    char answer[ANSWER_SIZE];
    struct loop_wake *done;
};

static void talk(struct client *client)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const struct sockaddr_in address = {.sin_family = AF_INET,
        .sin_port = htons(client->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        (void)send(fd, client->input, client->input_len, MSG_NOSIGNAL);
        if (client->half_closes) {
            (void)shutdown(fd, SHUT_WR);
        }
        size_t len = 0;
        ssize_t got = 1;
        while (got > 0 && len + 1 < sizeof(client->answer)) {
            got = recv(
                fd, client->answer + len, sizeof(client->answer) - 1 - len, 0);
            len += got > 0 ? (size_t)got : 0;
        }
        client->answer[len] = '\0';
    }
    (void)close(fd);
}

static void *client_main(void *arg)
{
    struct client *client = arg;
    talk(client);
    loop_wake_send(client->done);
    return NULL;
}

/* -- the server ------------------------------------------------------------ */

struct fixture {
    struct loop loop;
    struct http_server *server;
    struct loop_timer *later;
    struct http_request *waiting;
    int calls;
    int gone;
    bool answers_later;
    bool drains;
    char seen[256];
    struct client client;
};

static void answer(struct fixture *fixture, struct http_request *request)
{
    const struct span body = http_body(request);
    const char *q = http_query(request, "q");
    (void)snprintf(fixture->seen, sizeof(fixture->seen), "%s %s q=%s %.*s",
        http_method(request), http_path(request), q == NULL ? "-" : q,
        body.len < 100 ? (int)body.len : 0, body.ptr == NULL ? "" : body.ptr);
    http_reply_header(request, "X-Test", "yes");
    http_reply(request, 200, "text/plain", body);
}

static void on_later(void *owner)
{
    struct fixture *fixture = owner;
    struct http_request *request = fixture->waiting;
    fixture->waiting = NULL;
    answer(fixture, request);
}

static void on_gone(void *owner)
{
    struct fixture *fixture = owner;
    fixture->gone++;
    answer(fixture, fixture->waiting);
    fixture->waiting = NULL;
}

static void on_request(void *owner, struct http_request *request)
{
    struct fixture *fixture = owner;
    fixture->calls++;
    if (strcmp(http_path(request), "/bad") == 0) {
        http_problem(request, 422, "BAD_INPUT", "/payload/a", "a is \"wrong\"");
    } else if (strcmp(http_path(request), "/wait") == 0) {
        fixture->waiting = request;
        http_on_gone(request, on_gone, fixture);
    } else if (fixture->answers_later) {
        fixture->waiting = request;
        if (fixture->drains) {
            http_server_drain(fixture->server);
        }
        loop_timer_start(fixture->later, 1, 0);
    } else {
        answer(fixture, request);
    }
}

static void on_client_done(void *owner)
{
    struct fixture *fixture = owner;
    loop_end(&fixture->loop);
}

static void open_server(struct fixture *fixture, unsigned body_timeout_s)
{
    memset(fixture, 0, sizeof(*fixture));
    loop_init(&fixture->loop, NULL, NULL);
    const struct http_options options = {
        .address = "127.0.0.1:0",
        .max_body_bytes = MAX_BODY,
        .max_connections = 100,
        .max_connections_per_address = 100,
        .idle_timeout_s = PATIENCE_S,
        .body_timeout_s = body_timeout_s,
    };
    struct err err = ERR_INIT;
    fixture->server =
        http_server_open(&fixture->loop, &options, on_request, fixture, &err);
    assert_non_null(fixture->server);
    fixture->later = loop_timer_new(&fixture->loop, on_later, fixture);
    fixture->client.done =
        loop_wake_new(&fixture->loop, on_client_done, fixture);
    const char *colon = strrchr(http_server_address(fixture->server), ':');
    fixture->client.port = (uint16_t)strtol(colon + 1, NULL, 10);
}

static void close_server(struct fixture *fixture)
{
    http_server_close(fixture->server);
    loop_timer_free(fixture->later);
    loop_wake_free(fixture->client.done);
    loop_fini(&fixture->loop);
}

/* Runs one client to its end, and the loop meanwhile. */
static const char *exchange_bytes(
    struct fixture *fixture, const char *input, size_t len)
{
    fixture->client.input = input;
    fixture->client.input_len = len;
    fixture->client.answer[0] = '\0';
    pthread_t thread;
    assert_int_equal(
        pthread_create(&thread, NULL, client_main, &fixture->client), 0);
    loop_run(&fixture->loop);
    (void)pthread_join(thread, NULL);
    return fixture->client.answer;
}

static const char *exchange(struct fixture *fixture, const char *input)
{
    return exchange_bytes(fixture, input, strlen(input));
}

static int status_of(const char *answer_text)
{
    if (strncmp(answer_text, "HTTP/1.1 ", 9) != 0) {
        return 0;
    }
    return (int)strtol(answer_text + 9, NULL, 10);
}

/* -- framing --------------------------------------------------------------- */

#define POST "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
#define GET "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"

static const struct {
    const char *name;
    const char *input;
    int status; /* 0: just closed */
    int calls;
} framings[] = {
    {"get", GET "\r\n", 200, 1},
    {"post", POST "Content-Length: 5\r\n\r\nhello", 200, 1},
    {"no length", POST "\r\n", 200, 1},
    {"chunked",
        POST "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n"
             "0\r\n\r\n",
        200, 1},
    {"chunked, in capitals", POST "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
        200, 1},
    {"minus", POST "Content-Length: -1\r\n\r\n", 400, 0},
    {"plus", POST "Content-Length: +5\r\n\r\nhello", 400, 0},
    {"list", POST "Content-Length: 5, 5\r\n\r\nhello", 400, 0},
    {"twice the same",
        POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400, 0},
    {"twice", POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400,
        0},
    {"empty", POST "Content-Length: \r\n\r\nhello", 400, 0},
    {"hexadecimal", POST "Content-Length: 0x5\r\n\r\nhello", 400, 0},
    {"two numbers", POST "Content-Length: 5 5\r\n\r\nhello", 400, 0},
    {"length and chunked",
        POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
             "0\r\n\r\n",
        400, 0},
    {"chunked and length",
        POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
             "0\r\n\r\n",
        400, 0},
    {"other encoding", POST "Transfer-Encoding: identity\r\n\r\nhello", 400, 0},
    {"encodings in a list",
        POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, 0},
    {"encodings in two lines",
        POST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
             "0\r\n\r\n",
        400, 0},
    {"disguised encoding", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        400, 0},
    {"space before the colon", POST "Content-Length : 5\r\n\r\nhello", 400, 0},
    {"two hosts", GET "Host: b\r\n\r\n", 400, 0},
    {"no host", "GET /x HTTP/1.1\r\nConnection: close\r\n\r\n", 400, 0},
    {"control character", GET "X: a\001b\r\n\r\n", 400, 0},
    {"too large", POST "Content-Length: 1001\r\n\r\n", 413, 0},
    {"expected and too large",
        POST "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n", 413, 0},
    {"other expectation",
        POST "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello", 417, 0},
    {"nul in the path",
        "GET /x%00y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400, 0},
};

static void framing_is_strict(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    for (size_t i = 0; i < ARRAY_LEN(framings); i++) {
        fixture.calls = 0;
        const char *text = exchange(&fixture, framings[i].input);
        if (status_of(text) != framings[i].status ||
            fixture.calls != framings[i].calls) {
            fail_msg("%s: status %d, %d calls: %s", framings[i].name,
                status_of(text), fixture.calls, text);
        }
    }
    close_server(&fixture);
}

/* What libmicrohttpd answers itself is 400 or 413 by its version. */
static void a_length_past_64_bits_is_no_number(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    const char *text = exchange(
        &fixture, POST "Content-Length: 18446744073709551621\r\n\r\nhello");
    assert_in_range(status_of(text), 400, 413);
    assert_int_equal(fixture.calls, 0);
    close_server(&fixture);
}

static void headers_have_a_limit(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    struct buf input;
    buf_init(&input, 200000);
    buf_put_str(&input, GET "X-Long: ");
    for (int i = 0; i < 40000; i++) {
        buf_put_char(&input, 'x');
    }
    buf_put_str(&input, "\r\n\r\n");
    const char *text = exchange_bytes(&fixture, input.data, input.len);
    assert_int_equal(status_of(text), 431);
    assert_int_equal(fixture.calls, 0);
    buf_fini(&input);
    close_server(&fixture);
}

/* -- bodies ---------------------------------------------------------------- */

static void a_refused_body_does_not_reset_the_answer(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    struct buf input;
    buf_init(&input, 3000000);
    buf_put_str(&input, POST "Content-Length: 2000000\r\n\r\n");
    memset(buf_reserve(&input, 2000000), 'x', 2000000);
    input.len += 2000000;
    const char *text = exchange_bytes(&fixture, input.data, input.len);
    assert_int_equal(status_of(text), 413);
    assert_non_null(strstr(text, "application/problem+json"));
    assert_non_null(strstr(text, "\"code\":\"TOO_LARGE\""));
    buf_fini(&input);
    close_server(&fixture);
}

static void a_chunked_body_has_the_same_limit(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    struct buf input;
    buf_init(&input, 10000);
    buf_put_str(&input, POST "Transfer-Encoding: chunked\r\n\r\n3e9\r\n");
    for (int i = 0; i < 1001; i++) {
        buf_put_char(&input, 'x');
    }
    buf_put_str(&input, "\r\n0\r\n\r\n");
    assert_int_equal(
        status_of(exchange_bytes(&fixture, input.data, input.len)), 413);
    assert_int_equal(fixture.calls, 0);
    buf_fini(&input);
    close_server(&fixture);
}

static void the_largest_body_is_taken(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    struct buf input;
    buf_init(&input, 10000);
    buf_put_str(&input, POST "Content-Length: 1000\r\n\r\n");
    for (int i = 0; i < MAX_BODY; i++) {
        buf_put_char(&input, 'x');
    }
    const char *text = exchange_bytes(&fixture, input.data, input.len);
    assert_int_equal(status_of(text), 200);
    assert_non_null(strstr(text, "Content-Length: 1000"));
    buf_fini(&input);
    close_server(&fixture);
}

static void a_slow_body_gets_408(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, 1);
    const char *text = exchange(&fixture, POST "Content-Length: 5\r\n\r\nhe");
    assert_int_equal(status_of(text), 408);
    assert_non_null(strstr(text, "\"code\":\"TIMEOUT\""));
    assert_int_equal(fixture.calls, 0);
    close_server(&fixture);
}

static void expect_gets_continue(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    const char *text = exchange(&fixture,
        POST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    assert_int_equal(fixture.calls, 1);
    assert_non_null(strstr(text, " 200 OK"));
    close_server(&fixture);
}

/* -- requests and answers -------------------------------------------------- */

static void the_handler_sees_the_request(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    const char *text = exchange(&fixture,
        "PUT /a%20b?q=c%2Bd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        "Content-Length: 2\r\n\r\nhi");
    assert_string_equal(fixture.seen, "PUT /a b q=c+d hi");
    assert_non_null(strstr(text, "X-Test: yes"));
    close_server(&fixture);
}

static void a_problem_is_rfc_9457(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    const char *text = exchange(
        &fixture, "GET /bad HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(text), 422);
    assert_non_null(strstr(text, "application/problem+json"));
    assert_non_null(strstr(text, "\"status\":422"));
    assert_non_null(strstr(text, "\"detail\":\"a is \\\"wrong\\\"\""));
    assert_non_null(strstr(text, "\"code\":\"BAD_INPUT\""));
    assert_non_null(strstr(text, "\"pointer\":\"/payload/a\""));
    close_server(&fixture);
}

static void an_answer_may_come_later(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    fixture.answers_later = true;
    const char *text = exchange(&fixture, POST "Content-Length: 2\r\n\r\nhi");
    assert_int_equal(status_of(text), 200);
    assert_int_equal(http_server_open_requests(fixture.server), 0);
    close_server(&fixture);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    fixture.answers_later = true;
    const char *text = exchange(&fixture,
        "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none"
        "GET /bad HTTP/1.1\r\nHost: a\r\n\r\n"
        "POST /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        "Content-Length: 3\r\n\r\ntwo");
    assert_int_equal(fixture.calls, 3);
    const char *one = strstr(text, "\r\n\r\none");
    const char *bad = strstr(text, " 422 ");
    const char *two = strstr(text, "\r\n\r\ntwo");
    assert_true(one != NULL && bad != NULL && two != NULL);
    assert_true(one < bad && bad < two);
    close_server(&fixture);
}

static void a_half_closed_client_gets_its_answer(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    fixture.client.half_closes = true;
    fixture.answers_later = true;
    const char *text = exchange(&fixture, POST "Content-Length: 2\r\n\r\nhi");
    assert_int_equal(status_of(text), 200);
    close_server(&fixture);
}

static void a_waiter_hears_that_its_client_closed(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    fixture.client.half_closes = true;
    const char *text = exchange(
        &fixture, "GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_int_equal(fixture.gone, 1);
    assert_int_equal(status_of(text), 200);
    close_server(&fixture);
}

static void draining_answers_what_is_open(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    fixture.answers_later = true;
    fixture.drains = true;
    const char *text = exchange(&fixture, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(status_of(text), 200);
    assert_non_null(strstr(text, "Connection: close"));
    fixture.client.answer[0] = '\0';
    assert_int_equal(status_of(exchange(&fixture, GET "\r\n")), 0);
    close_server(&fixture);
}

static void closing_leaves_the_request_to_its_handler(void **state)
{
    (void)state;
    struct fixture fixture;
    open_server(&fixture, PATIENCE_S);
    pthread_t thread;
    fixture.client.input = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n";
    fixture.client.input_len = strlen(fixture.client.input);
    assert_int_equal(
        pthread_create(&thread, NULL, client_main, &fixture.client), 0);
    while (fixture.waiting == NULL) {
        (void)uv_run(&fixture.loop.uv, UV_RUN_ONCE);
    }
    http_server_close(fixture.server);
    fixture.server = NULL;
    assert_true(http_is_gone(fixture.waiting));
    assert_string_equal(http_path(fixture.waiting), "/wait");
    assert_null(http_header(fixture.waiting, "Host"));
    answer(&fixture, fixture.waiting);
    (void)pthread_join(thread, NULL);
    assert_int_equal(status_of(fixture.client.answer), 0);
    close_server(&fixture);
}

/* -- settings -------------------------------------------------------------- */

static void addresses_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        const char *code; /* NULL: opens */
        bool is_behind_proxy;
    } cases[] = {
        {"127.0.0.1:0", NULL, false},
        {"0.0.0.0:0", "HTTP_ADDRESS", false},
        {"0.0.0.0:0", NULL, true},
        {"127.0.0.1", "HTTP_ADDRESS", false},
        {"127.0.0.1:65536", "HTTP_ADDRESS", false},
        {"localhost:80", "HTTP_ADDRESS", false},
        {":80", "HTTP_ADDRESS", false},
        {"", "HTTP_ADDRESS", false},
    };
    struct loop loop;
    loop_init(&loop, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_options options = {.address = cases[i].address,
            .is_behind_proxy = cases[i].is_behind_proxy,
            .max_connections = 10,
            .max_connections_per_address = 10,
            .idle_timeout_s = 1,
            .body_timeout_s = 1};
        struct err err = ERR_INIT;
        struct http_server *server =
            http_server_open(&loop, &options, on_request, NULL, &err);
        if ((server != NULL) != (cases[i].code == NULL) ||
            (server == NULL && strcmp(err.code, cases[i].code) != 0)) {
            fail_msg("%s: %s", cases[i].address, err.msg);
        }
        http_server_close(server);
    }
    loop_fini(&loop);
}

int main(void)
{
    log_init("test");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(framing_is_strict),
        cmocka_unit_test(a_length_past_64_bits_is_no_number),
        cmocka_unit_test(headers_have_a_limit),
        cmocka_unit_test(a_refused_body_does_not_reset_the_answer),
        cmocka_unit_test(a_chunked_body_has_the_same_limit),
        cmocka_unit_test(the_largest_body_is_taken),
        cmocka_unit_test(a_slow_body_gets_408),
        cmocka_unit_test(expect_gets_continue),
        cmocka_unit_test(the_handler_sees_the_request),
        cmocka_unit_test(a_problem_is_rfc_9457),
        cmocka_unit_test(an_answer_may_come_later),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(a_half_closed_client_gets_its_answer),
        cmocka_unit_test(a_waiter_hears_that_its_client_closed),
        cmocka_unit_test(draining_answers_what_is_open),
        cmocka_unit_test(closing_leaves_the_request_to_its_handler),
        cmocka_unit_test(addresses_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
