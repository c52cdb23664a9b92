/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server: HTTP/1.1 (and TLS) on the loop, over libmicrohttpd in its
 * external epoll mode. The whole body is read (within the caps) before the
 * handler sees a request; the handler answers now or later.
 *
 * Broken framing, both Content-Length and Transfer-Encoding, a header over
 * 32 KiB, a body over max_body_bytes (413), or one that takes longer than
 * body_timeout_s (408) never reach the handler; those answers close the
 * connection. They are RFC 9457 problems, save for what libmicrohttpd cannot
 * parse at all: its own 400 has a line of HTML. Under TLS a slow body just
 * ends the connection.
 *
 * Thread rule: everything belongs to the thread that runs the loop.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/conf.h"
#include "common/err.h"
#include "common/loop.h"

struct http_server;
struct http_request;

struct http_options {
    const char *address;   /* "127.0.0.1:8080", "[::]:8443"; port 0: any free */
    const char *cert_path; /* PEM; NULL: plain HTTP */
    const char *key_path;
    bool is_behind_proxy; /* allows a public address without TLS */
    size_t max_body_bytes;
    unsigned max_connections;
    unsigned max_connections_per_address;
    unsigned idle_timeout_s;
    unsigned body_timeout_s;
};

/* Must answer with http_reply(), now or later. The request is valid until the
 * reply, also when the client has gone or the server was closed; after a close
 * its headers and arguments are gone, its method, path and body are not. */
typedef void (*http_handler_fn)(void *owner, struct http_request *request);

struct http_server *http_server_open(struct loop *loop,
    const struct http_options *options, http_handler_fn handler, void *owner,
    struct err *err) MUST_CHECK;
/* No new connections; open ones end after their answer. */
void http_server_drain(struct http_server *server);
/* Ends all connections. Not from inside the handler. Requests that wait for
 * their handler still want its reply, which goes nowhere. NULL ok. */
void http_server_close(struct http_server *server);
/* "127.0.0.1:41235" as bound; owned by the server. */
const char *http_server_address(const struct http_server *server);
size_t http_server_open_requests(const struct http_server *server);

/* -- the request ----------------------------------------------------------- */

const char *http_method(const struct http_request *request);
const char *http_path(
    const struct http_request *request); /* decoded, no query */
/* The value of a query argument, decoded; NULL if absent. */
const char *http_query(const struct http_request *request, const char *name);
/* A header's value (the first); NULL if absent. Names in any case. */
const char *http_header(const struct http_request *request, const char *name);
/* How often the header was sent. */
unsigned http_header_count(
    const struct http_request *request, const char *name);
typedef void (*http_each_fn)(void *arg, const char *name, const char *value);
void http_each_header(
    const struct http_request *request, http_each_fn fn, void *arg);
struct span http_body(const struct http_request *request);
/* True once the client is known to have closed. A late answer is still tried:
 * the client may have closed only its sending side. */
bool http_is_gone(const struct http_request *request);
/* Runs when the client closes before the reply. Only requests that ask for it
 * are watched. */
void http_on_gone(struct http_request *request, loop_fn fn, void *owner);

/* -- the answer ------------------------------------------------------------ */

/* Adds a header to the answer to come; both strings are copied. */
void http_reply_header(
    struct http_request *request, const char *name, const char *value);
/* Ends the request. body is copied. */
void http_reply(struct http_request *request, unsigned status,
    const char *content_type, struct span body);
/*
 * RFC 9457: {"type":"about:blank","title","status","detail","code","pointer"}
 * as application/problem+json. code: static, a name of schema/codes.h. pointer
 * may be NULL.
 */
void http_problem(struct http_request *request, unsigned status,
    const char *code, const char *pointer, const char *detail);

#endif
